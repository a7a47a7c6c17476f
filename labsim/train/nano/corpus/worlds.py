"""What the agent's tools act upon: a toolbox with this side's names, and small random worlds."""

from __future__ import annotations

import json

from .side import Side

# tool -> (names it goes by, descriptions, parameters)
TOOLS: dict[str, tuple[tuple[str, ...], tuple[str, ...], dict[str, str]]] = {
    "list": (
        ("list_files", "ls", "list_directory", "show_files", "dir"),
        ("List the files in a folder.", "Names of all files under a path.", "Show a directory."),
        {"path": "string"},
    ),
    "read": (
        ("read_file", "cat", "open_file", "view", "get_file"),
        ("Read a text file.", "Return a file's content.", "Show the text of a file."),
        {"path": "string"},
    ),
    "search": (
        ("search_files", "grep", "find_text", "search_code", "rg"),
        ("Search for a pattern.", "Find lines that contain a pattern.", "Look for text in files."),
        {"pattern": "string", "path": "string"},
    ),
    "edit": (
        ("edit_file", "replace_text", "patch", "str_replace", "write_change"),
        ("Replace text in a file.", "Change a line of a file.", "Swap old text for new."),
        {"path": "string", "old": "string", "new": "string"},
    ),
    "test": (
        ("run_tests", "pytest", "check", "test_suite", "run_checks"),
        ("Run the tests.", "Run the test suite and report.", "Execute all tests under a path."),
        {"path": "string"},
    ),
    "events": (
        ("get_events", "calendar_list", "agenda", "list_events", "day_view"),
        ("Events of a day.", "List calendar entries.", "Show the agenda of a date."),
        {"date": "string"},
    ),
    "create": (
        ("create_event", "calendar_add", "book", "add_event", "new_event"),
        ("Create a calendar event.", "Add an entry to the calendar.", "Book a time."),
        {"title": "string", "date": "string", "time": "string", "with": "array"},
    ),
    "order": (
        ("get_order", "order_status", "find_order", "lookup_order", "order_info"),
        ("Details of an order.", "Look up an order by number.", "Status of one order."),
        {"order_id": "string"},
    ),
    "customer": (
        ("find_customer", "customer_orders", "search_customer", "get_customer", "customer_info"),
        ("Orders of a customer.", "Find a customer by name.", "Look up a customer."),
        {"name": "string"},
    ),
    "query": (
        ("query", "run_sql", "sql", "query_table", "database"),
        ("Run an SQL query.", "Query the database.", "Send SQL and get rows."),
        {"sql": "string"},
    ),
    "weather": (
        ("get_weather", "weather", "forecast", "current_weather", "meteo"),
        ("Weather of a city.", "Forecast for a place.", "Temperature, sky and wind."),
        {"city": "string", "when": "string"},
    ),
}


class Toolbox:
    """The tools of one conversation under this side's names; the used ones and a few more are described."""

    def __init__(self, side: Side) -> None:
        self._entries = {}
        for tool, (names, descriptions, parameters) in TOOLS.items():
            self._entries[tool] = (side.pick(names), side.say(descriptions), parameters)
        self._style = side.rng.randrange(3)
        self._order = side.rng.sample(sorted(TOOLS), len(TOOLS))
        self._shown = set(self._order[: side.rng.randint(0, 7)])

    def name(self, tool: str) -> str:
        self._shown.add(tool)
        return self._entries[tool][0]

    def describe(self) -> str:
        """The tools named so far and a few more, as JSON schemas, as short JSON, or as signatures."""
        lines = []
        for name, description, parameters in (self._entries[t] for t in self._order if t in self._shown):
            if self._style == 0:
                schema = {"type": "object", "properties": {key: {"type": kind} for key, kind in parameters.items()}}
                lines.append(json.dumps({"name": name, "description": description, "parameters": schema}))
            elif self._style == 1:
                lines.append(json.dumps({"name": name, "description": description, "parameters": parameters}))
            else:
                lines.append(f"- {name}({', '.join(parameters)}): {description}")
        return "\n".join(lines)


def file_tree(side: Side) -> dict[str, dict[str, object]]:
    """Paths and the settings in each file."""
    tree: dict[str, dict[str, object]] = {}
    for _ in range(side.rng.randint(3, 8)):
        path = f"{side.pick('folder')}/{side.pick('stem')}.{side.rng.choice(('toml', 'cfg', 'py', 'ini', 'txt'))}"
        settings: dict[str, object] = {}
        for _ in range(side.rng.randint(2, 7)):
            key = side.rng.choice(
                (str(side.pick("identifier")), f"{side.pick('identifier')}_{side.pick('identifier')}")
            )
            settings[key] = side.rng.choice(
                (side.rng.randint(1, 900), side.pick("identifier"), f'"{side.pick("object")}"', "true", "false")
            )
        tree[path] = settings
    return tree


def calendar(side: Side) -> list[dict[str, str]]:
    """The entries of one day, by time."""
    hours = sorted(side.rng.sample(range(8, 18), side.rng.randint(1, 5)))
    return [{"time": f"{hour:02d}:00", "title": side.say(EVENT_TITLES)} for hour in hours]


EVENT_TITLES = (
    "{department} meeting",
    "lunch with {person}",
    "call with {company}",
    "{topic_word} review",
    "visit from {city}",
    "{hobby} course",
    "interview with {person} {surname}",
    "planning of {project}",
    "demo of the {product}",
)


def orders(side: Side) -> list[dict[str, object]]:
    """Orders of three customers."""
    customers = [
        f"{first} {last}" for first, last in zip(side.picks("person", 3), side.picks("surname", 3), strict=True)
    ]
    found = []
    for _ in range(side.rng.randint(3, 6)):
        quantity, price = side.rng.randint(1, 9), side.rng.randint(5, 200)
        found.append(
            {
                "id": f"{side.rng.choice('ABCDEFGHK')}{side.rng.randint(1000, 9999)}",
                "customer": side.rng.choice(customers),
                "item": side.pick("product"),
                "quantity": quantity,
                "total": quantity * price,
                "status": side.rng.choice(
                    ("shipped", "in preparation", "delivered", "delayed", "waiting for payment", "packed")
                ),
                "date": f"2025-{side.rng.randint(1, 12):02d}-{side.rng.randint(1, 28):02d}",
            }
        )
    return found


def records(side: Side) -> tuple[str, list[str]]:
    """What a table's rows are called, and the rows."""
    row = side.rng.choice(("city", "product", "department", "person", "project", "company"))
    return row, [str(name) for name in side.picks(row, side.rng.randint(3, 7))]
