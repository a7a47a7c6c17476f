"""Agent scenes in an office: book a meeting, look up an order, query a table, compare the weather."""

from __future__ import annotations

from .trace import AGAIN, Trace
from .worlds import calendar, orders, records

ASK_EVENT = (
    "Book a meeting with {person} on {day} at {time}.",
    "Put {title} into my calendar: {day}, {time}.",
    "Am I free on {day} at {time}? If so, add {title}.",
    "Schedule {title} with {person} for {day} {time}.",
    "{person} wants to talk about {title}. {day} at {time}?",
    "Please arrange {title} on {day}, {time}, with {person}.",
)
TELL_EVENT = (
    "{title} is in your calendar: {day} at {booked}.",
    "Done. You meet {person} on {day} at {booked}.",
    "Booked for {booked} on {day}.",
    "On {day} you now have {title} at {booked}.",
    "I added {title} ({day}, {booked}) and told {person}.",
)
CLASH = (
    "At {time} there is already {other}, so I take {booked}.",
    "{time} is taken by {other}. The next free hour is {booked}.",
    "There is a conflict with {other}. I try {booked}.",
    "You have {other} then. {booked} is free.",
    "Not free: {other}. Moving to {booked}.",
)


def event(trace: Trace) -> None:
    side = trace.side
    day = f"2025-{side.rng.randint(1, 12):02d}-{side.rng.randint(1, 28):02d}"
    entries = calendar(side)
    hour = side.rng.randint(9, 15)
    busy = {entry["time"]: entry["title"] for entry in entries}
    booked = next(f"{h:02d}:00" for h in range(hour, 24) if f"{h:02d}:00" not in busy)
    context = {
        "person": side.pick("person"),
        "title": f"the {side.pick('topic_word')} talk",
        "day": day,
        "time": f"{hour:02d}:00",
        "booked": booked,
        "other": busy.get(f"{hour:02d}:00", ""),
    }
    trace.user(ASK_EVENT, context)
    trace.call("events", {"date": day}, {"date": day, "events": entries})
    clash = side.say(CLASH, context) if context["other"] else ""
    event_id = f"ev{side.rng.randint(1000, 9999)}"
    trace.call(
        "create",
        {"title": context["title"], "date": day, "time": booked, "with": [context["person"]]},
        {"id": event_id, "status": "created"},
        clash,
    )
    trace.answer(side.say(TELL_EVENT, context))


ASK_ORDER = (
    "Where is order {wrong}?",
    "{customer} asks about order {wrong}.",
    "Check the status of order {wrong} for {customer}.",
    "When will {customer} get the {item}? Order number {wrong}.",
    "Please look up order {wrong}.",
    "Customer {customer}, order {wrong}: any news?",
)
TELL_ORDER = (
    "Order {id} ({quantity} x {item}) is {status}; it should arrive on {date}.",
    "The {item} for {customer} is {status}. Expected: {date}.",
    "{customer}'s order has the number {id}. Status: {status}.",
    "Status of {id}: {status}. The total is {total} euros.",
    "It is {status} and costs {total} euros in all.",
    "{quantity} pieces of {item}, {status}, due {date}.",
)


def order(trace: Trace) -> None:
    side = trace.side
    shop = orders(side)
    chosen = side.rng.choice(shop)
    wrong = chosen["id"] if side.chance(0.5) else f"{chosen['id'][:-1]}{side.rng.randint(0, 9)}X"
    context = {**chosen, "wrong": wrong}
    trace.user(ASK_ORDER, context)
    if wrong != chosen["id"]:
        error = f"order {wrong} not found"
        trace.call("order", {"order_id": wrong}, {"error": error})
        found = [{"id": o["id"], "item": o["item"]} for o in shop if o["customer"] == chosen["customer"]]
        trace.call(
            "customer",
            {"name": chosen["customer"]},
            {"customer": chosen["customer"], "orders": found},
            side.say(AGAIN, {"error": error}),
        )
    trace.call("order", {"order_id": chosen["id"]}, chosen)
    trace.answer(side.say(TELL_ORDER, context))


ASK_TABLE = (
    "Which {row} has the most {column}?",
    "List every {row} with more than {limit} {column}.",
    "What is the total of {column}?",
    "How much {column} does {name} have?",
    "Give me the {column} figures, please.",
    "Compare {column} across all rows.",
    "I need a small report on {column}.",
    "Show {column} for {name}.",
)
TELL_TABLE = (
    "{best} has the most {column}: {top}.",
    "{column} by {row}:\n{bullets}\n\nThe total is {sum}.",
    "The highest is {best} with {top}, the lowest {worst} with {low}.",
    "| {row} | {column} |\n|---|---|\n{table}",
    "In all {sum}; {best} leads with {top}.",
    "{bullets}",
)
COLUMNS = (
    "revenue",
    "visitors",
    "hours",
    "returns",
    "stock",
    "tickets",
    "errors",
    "members",
    "deliveries",
    "downloads",
    "complaints",
    "energy",
)


def table(trace: Trace) -> None:
    side = trace.side
    row, names = records(side)
    column = side.pick(COLUMNS)
    figures = {name: side.rng.randint(3, 999) for name in names}
    ranked = sorted(figures, key=lambda n: (-figures[n], n))
    context = {
        "row": row,
        "column": column,
        "limit": sorted(figures.values())[len(figures) // 2],
        "name": side.rng.choice(names),
        "best": ranked[0],
        "top": figures[ranked[0]],
        "worst": ranked[-1],
        "low": figures[ranked[-1]],
        "sum": sum(figures.values()),
        "bullets": "\n".join(f"- {n}: {figures[n]}" for n in ranked),
        "table": "\n".join(f"| {n} | {figures[n]} |" for n in ranked),
    }
    trace.user(ASK_TABLE, context)
    query = f"SELECT {row}, {column} FROM {row}_list ORDER BY {column} DESC"
    if side.chance(0.3):
        error = f"no such table: {row}"
        trace.call("query", {"sql": query.replace(f"{row}_list", row)}, {"error": error})
        trace.call(
            "query", {"sql": query}, [{row: n, column: figures[n]} for n in ranked], side.say(AGAIN, {"error": error})
        )
    else:
        trace.call("query", {"sql": query}, [{row: n, column: figures[n]} for n in ranked])
    trace.answer(side.say(TELL_TABLE, context))


ASK_WEATHER = (
    "What is the weather in {city}?",
    "Do I need an umbrella in {city} {when}?",
    "Forecast for {city} {when}, please.",
    "Is it warm in {city}?",
    "{person} flies to {city} {when}. What should they wear?",
    "Compare {city} and {city2}: where is it warmer?",
    "Weather in {city}?",
)
TELL_WEATHER = (
    "In {city} it is {degrees} degrees with {sky}.",
    "{city}: {sky}, {degrees} degrees, wind {wind} km/h.",
    "Expect {sky} and {degrees} degrees in {city}.",
    "It will be {degrees} degrees. With {sky} I would take a {object}.",
    "{degrees} degrees and {sky}; the wind blows at {wind} km/h.",
)


def weather(trace: Trace) -> None:
    side = trace.side
    cities = side.picks("city", 2)
    when = side.rng.choice(("today", "tomorrow", "on " + str(side.pick("weekday"))))
    reports = [
        {"city": c, "degrees": side.rng.randint(-10, 36), "sky": side.pick("weather"), "wind": side.rng.randint(0, 80)}
        for c in cities
    ]
    context = {**reports[0], "city2": cities[1], "when": when}
    trace.user(ASK_WEATHER, context)
    wanted = reports if cities[1] in trace.messages[-1]["content"] else reports[:1]
    for report in wanted:
        trace.call("weather", {"city": report["city"], "when": when}, report)
    trace.answer(" ".join(side.say(TELL_WEATHER, report) for report in wanted))
