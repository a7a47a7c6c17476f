"""Errands: sums, conversions, plans, letters, recipes, and rewriting a list. One exchange each."""

from __future__ import annotations

from .facts import UNITS
from .side import Side

Exchange = tuple[str, str]


ASK_SUM = (
    "What is {a} {op} {b}?",
    "Calculate {a} {op} {b}.",
    "How much is {a} {op} {b}?",
    "{a} {op} {b} = ?",
    "Please work out {a} {op} {b} for me.",
    "Can you compute {a} {op} {b}?",
    "I need the result of {a} {op} {b}.",
)
TELL_SUM = (
    "{a} {op} {b} is {c}.",
    "The result is {c}.",
    "That makes {c}.",
    "{a} {op} {b} = {c}",
    "It is {c}, since {why}.",
    "Step by step: {why}, so the answer is {c}.",
    "Let me see: {why}. The result is {c}.",
)


def arithmetic(side: Side) -> Exchange:
    op = side.rng.choice(("+", "-", "times", "plus", "minus"))
    a, b = side.rng.randint(2, 99), side.rng.randint(2, 60)
    if op == "times":
        a, b = side.rng.randint(2, 20), side.rng.randint(2, 12)
        c, why = a * b, f"{a} times {b // 2 or 1} is {a * (b // 2 or 1)}"
    elif op in ("+", "plus"):
        c, why = a + b, f"{a} plus {b // 10 * 10} is {a + b // 10 * 10}, and {b % 10} more is {a + b}"
    else:
        a, b = max(a, b), min(a, b)
        c, why = a - b, f"{a} minus {b // 10 * 10} is {a - b // 10 * 10}, and {b % 10} less is {a - b}"
    context = {"a": a, "b": b, "op": op, "c": c, "why": why}
    return side.say(ASK_SUM, context), side.say(TELL_SUM, context)


ASK_WORD_PROBLEM = (
    "{person1} has {a} {things} and buys {b} more. How many are there now?",
    "A {job} sells {a} {things} on {weekday} and {b} on {weekday}. How many in all?",
    "There are {a} boxes with {b} {things} each. How many {things} are there?",
    "{person1} shares {a} {things} among {b} friends. How many does each get, and what is left?",
    "In {city} a shop had {a} {things}. It sold {b}. How many are left?",
    "One {object} costs {a} euros. What do {b} of them cost?",
    "{person1} walks {a} kilometres a day. How far is that in {b} days?",
    "A train leaves with {a} people. {b} get off in {city}. How many stay on the train?",
)
THINGS = (
    "apples",
    "books",
    "stamps",
    "eggs",
    "candles",
    "coins",
    "marbles",
    "tickets",
    "bricks",
    "pencils",
    "pears",
    "postcards",
    "buttons",
    "shells",
    "cups",
)
SUM_SENTENCES = {
    "+": ("Add the two numbers: {a} + {b} = {c}.", "{a} and {b} together make {c}.", "We add {b} to {a} and get {c}."),
    "-": (
        "Take {b} away from {a}: {c} remain.",
        "{a} - {b} = {c}, so {c} are left.",
        "We subtract {b} from {a} and get {c}.",
    ),
    "*": ("Multiply: {a} x {b} = {c}.", "That is {b} times {a}, which is {c}.", "{a} taken {b} times gives {c}."),
    "/": (
        "Divide {a} by {b}: each gets {c}, and {d} are left over.",
        "{a} = {b} x {c} + {d}, so {c} each and {d} over.",
        "Everyone gets {c}; what is left is {d}.",
    ),
}
ANSWER_IS = ("The answer is {c}.", "So it is {c}.", "Answer: {c}.", "In short: {c}.", "That gives {c}.")


def word_problem(side: Side) -> Exchange:
    a, b = side.rng.randint(12, 90), side.rng.randint(2, 11)
    context: dict[str, object] = {"a": a, "b": b, "things": side.pick(THINGS)}
    ask = side.say(ASK_WORD_PROBLEM, context)
    kind = "/" if "shares" in ask else "*" if any(w in ask for w in ("each", "cost", "days?")) else "+"
    kind = "-" if any(w in ask for w in ("left?", "stay on")) and kind != "/" else kind
    context |= {"c": {"+": a + b, "-": a - b, "*": a * b, "/": a // b}[kind], "d": a % b}
    return ask, f"{side.say(SUM_SENTENCES[kind], context)} {side.say(ANSWER_IS, context)}"


ASK_CONVERT = (
    "How many {to} are {x} {unit}?",
    "Convert {x} {unit} to {to}.",
    "What is {x} {unit} in {to}?",
    "I have {x} {unit}. How much is that in {to}?",
    "Please change {x} {unit} into {to}.",
    "{x} {unit} in {to}, please.",
    "Could you tell me what {x} {unit} would be in {to}?",
)
TELL_CONVERT = (
    "{x} {unit} are about {y} {to}.",
    "That is {y} {to}.",
    "To convert, multiply by {f}: {x} x {f} = {y} {to}.",
    "One of the {unit} is {f} {to}, so {x} make {y}.",
    "About {y} {to}. The factor is {f}.",
    "{x} {unit} is the same {kind} as {y} {to}.",
)


def convert(side: Side) -> Exchange:
    unit, to, factor, kind = side.pick(UNITS)
    x = side.rng.choice((side.rng.randint(2, 20), side.rng.randint(2, 50) * 5, side.rng.randint(1, 9) * 100))
    context = {"x": x, "y": f"{x * factor:.4g}", "unit": unit, "to": to, "f": f"{factor:.4g}", "kind": kind}
    return side.say(ASK_CONVERT, context), side.say(TELL_CONVERT, context)


ASK_PLAN = (
    "Help me plan {what}.",
    "I need a plan for {what}.",
    "How should I prepare for {what}?",
    "Plan {what} for me.",
    "Make a schedule for {what}.",
    "What are the steps for {what}?",
    "We want to organise {what}. Where do we start?",
)
OCCASIONS = (
    "a weekend in {city}",
    "a birthday party for a {job}",
    "a picnic in {month}",
    "my first week as a {job}",
    "a day of {hobby}",
    "a small concert in {place}",
    "a trip with a {animal}",
    "the move to {city}",
    "an exam on {subject}",
    "a dinner with {food}",
    "a school visit to {place}",
    "a {hobby} club",
    "a repair day for every {object} in the street",
)
STEPS = (
    "Decide on the date: a {weekday} in {month} is best.",
    "Ask {person} to bring a {object}.",
    "Buy {food} for everyone.",
    "Check the forecast, because {weather} would spoil it.",
    "Write a list and tick things off.",
    "Pack the {object} the evening before.",
    "Book a table or a room in {city}.",
    "Invite between {3..9} and {10..40} people.",
    "Keep {20..300} euros aside for surprises.",
    "Start at {7..11} o'clock and rest at noon.",
    "Learn the basics of {subject}.",
    "Do some {hobby} in between, so that nobody gets {feeling}.",
    "Tell the neighbours about it.",
    "Have a second plan in case of {weather}.",
    "Practise for {10..50} minutes each day.",
    "Thank the helpers and clean up.",
    "Find a {job} who can give advice.",
    "Make a {colour} sign for the door.",
    "Borrow a {adjective} {object} from {person}.",
    "Cook {dish} the day before.",
)
PLAN_INTRO = (
    "Here is a plan:",
    "Let us go step by step.",
    "I would do it like this:",
    "A simple plan:",
    "These steps should work:",
    "Good idea! First things first:",
    "My proposal:",
)


def plan(side: Side) -> Exchange:
    ask = side.say(ASK_PLAN, {"what": side.say(OCCASIONS)})
    steps = list(dict.fromkeys(side.say(STEPS) for _ in range(side.rng.randint(3, 6))))
    lines = "\n".join(f"{index}. {step}" for index, step in enumerate(steps, 1))
    return ask, f"{side.say(PLAN_INTRO)}\n{lines}"


ASK_LETTER = (
    "Write an email to {person1} about the {topic_word1}.",
    "Draft a short message: the {topic_word1} is late.",
    "Please write a polite letter to {company1} about a {adjective} {product1}.",
    "Write a thank-you note to {person1} for the {object}.",
    "I have to cancel the meeting on {weekday1}. Write to {person1}.",
    "Write an invitation for {weekday1} to {person1}.",
    "Compose a reminder about the {topic_word1} for the {department1} team.",
)
LETTER_OPEN = (
    "Dear {person1},",
    "Hello {person1},",
    "Hi {person1},",
    "Dear team,",
    "Good morning {person1},",
    "Dear {person1} {surname},",
)
LETTER_BODY = (
    "I am writing about the {topic_word1}.",
    "Thank you for your message of {1..28} {month}.",
    "Unfortunately we have to move it to {weekday1}.",
    "The {department1} team has finished its part.",
    "Could you send me the {topic_word1} file by {weekday1}?",
    "We still need {2..40} more copies.",
    "The {product1} arrived, but it is {adjective}.",
    "It made me really {feeling}.",
    "{person} will join us from {city}.",
    "Please tell me by {weekday} whether that suits you.",
    "The cost is {20..900} euros.",
    "I hope you are well.",
    "There will be {food} and a little music.",
    "We meet in {place} at {8..19}:30.",
    "I am sorry for the trouble.",
    "Without your help it would not have worked.",
    "If {weekday1} does not suit you, {weekday} is fine too.",
    "Let me know if you have questions.",
    "Please bring a {object}.",
)
LETTER_CLOSE = (
    "Best wishes,\n{person}",
    "Kind regards,\n{person} {surname}",
    "Many thanks,\n{person}",
    "See you soon,\n{person}",
    "Yours sincerely,\n{person} {surname}",
    "All the best,\n{person}",
)


def letter(side: Side) -> Exchange:
    context: dict[str, object] = {}
    ask = side.say(ASK_LETTER, context)
    body = list(dict.fromkeys(side.say(LETTER_BODY, context) for _ in range(side.rng.randint(2, 5))))
    return ask, f"{side.say(LETTER_OPEN, context)}\n\n{' '.join(body)}\n\n{side.say(LETTER_CLOSE, context)}"


ASK_RECIPE = (
    "How do I make {dish1}?",
    "Give me a recipe for {dish1}.",
    "I have {ingredient} and {ingredient}. Can I make {dish1}?",
    "What do I need for {dish1}?",
    "A simple recipe for {dish1}, please.",
    "I want to cook {dish1} for {person}.",
)
COOK = (
    "Wash and cut the {i}.",
    "Mix the {i} with the {j}.",
    "Heat the {i} in a pan.",
    "Stir in the {i} and wait {2..15} minutes.",
    "Season with {k}.",
    "Let it simmer for {10..45} minutes.",
    "Bake it at {150..220} degrees for {15..50} minutes.",
    "Add the {j} last.",
    "Taste it and add more {k} if needed.",
    "Leave it to cool.",
    "Serve it warm with {food}.",
    "Chop the {j} finely.",
    "Cover the pot and lower the heat.",
    "Sprinkle {k} on top.",
)
RECIPE_INTRO = ("You need:", "Ingredients:", "For {2..6} people you need:", "Take these:", "Put these on the table:")
RECIPE_STEPS = ("Then:", "How to do it:", "Steps:", "Method:", "Now:")
AMOUNTS = ("{50..500} g", "{1..6} spoons of", "{1..4} cups of", "a pinch of", "a little", "{100..900} ml", "some")


def recipe(side: Side) -> Exchange:
    context: dict[str, object] = {}
    ask = side.say(ASK_RECIPE, context)
    things = side.picks("ingredient", side.rng.randint(3, 6))
    listed = "\n".join(f"- {side.say(AMOUNTS)} {thing}" for thing in things)
    steps = []
    for index in range(side.rng.randint(3, 5)):
        i, j, k = (side.rng.choice(things) for _ in range(3))
        steps.append(f"{index + 1}. {side.say(COOK, {'i': i, 'j': j, 'k': k})}")
    return ask, f"{side.say(RECIPE_INTRO)}\n{listed}\n\n{side.say(RECIPE_STEPS)}\n" + "\n".join(steps)


ASK_COPY = {
    "sort": (
        "Sort these words: {list}",
        "Put these in alphabetical order: {list}",
        "Alphabetical order, please: {list}",
    ),
    "reverse": (
        "Write this list backwards: {list}",
        "Reverse the order: {list}",
        "List these from last to first: {list}",
    ),
    "upper": ("Write in capital letters: {list}", "Make this upper case: {list}", "Shout these words: {list}"),
    "bullets": ("Make a bullet list of: {list}", "Turn this into bullets: {list}", "One per line, with dashes: {list}"),
    "repeat": ("Repeat exactly: {list}", "Say this back to me: {list}", "Copy this line: {list}"),
    "json": ("Turn this list into JSON: {list}", "As a JSON array: {list}", "Give me JSON for these: {list}"),
    "count": ("How many words are here: {list}", "Count these: {list}", "How long is this list? {list}"),
}
COUNTED = ("There are {n}.", "I count {n}.", "{n} words.", "The list has {n} entries.", "{n}")


def copy_task(side: Side) -> Exchange:
    task = side.rng.choice(sorted(ASK_COPY))
    pool = side.rng.choice(("animal", "object", "city", "person", "colour", "food", "job", "material", "stem"))
    items = side.picks(pool, side.rng.randint(3, 7))
    answer = {
        "sort": ", ".join(sorted(items, key=str.lower)),
        "reverse": ", ".join(reversed(items)),
        "upper": ", ".join(items).upper(),
        "bullets": "\n".join(f"- {item}" for item in items),
        "repeat": ", ".join(items),
        "json": "[" + ", ".join(f'"{item}"' for item in items) + "]",
        "count": side.say(COUNTED, {"n": len(items)}),
    }[task]
    return side.say(ASK_COPY[task], {"list": ", ".join(items)}), answer
