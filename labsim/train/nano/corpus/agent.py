"""Agent traces: tool schemas, calls with JSON arguments, tool output, errors, a new plan, an answer.

A trace is a script of events run against a small random world (a file tree, a calendar, a stock list, ...), so the
tool's output follows from the world and the final answer quotes it. Tools have several names each; the names of the
held-out side are other names.

A call is written as

    <tool_call>
    {"name": "read_file", "arguments": {"path": "src/main.py"}}
    </tool_call>
"""

from __future__ import annotations

import json
from collections.abc import Callable

from .scenes_code import failing_test, files
from .scenes_office import event, order, table, weather
from .side import Side
from .trace import Trace
from .worlds import Toolbox

SYSTEM = (
    "You are an agent with tools.\n\n{tools}\n\nCall a tool like this:\n<tool_call>\n{example}\n</tool_call>",
    "You can use these tools:\n{tools}\n\nAnswer with a tool call or with text.",
    "# Tools\n{tools}\n\nWrite calls between <tool_call> and </tool_call> as JSON.",
    "You work for {company}. Tools:\n{tools}",
    "Use the tools below when they help. If one fails, try another way.\n\n{tools}",
    "Available functions:\n\n{tools}\n\nThink briefly, then act.",
    "You are {person}, an assistant with access to tools.\n{tools}",
)

SCENES: tuple[tuple[Callable[[Trace], None], int], ...] = (
    (files, 4),
    (failing_test, 3),
    (event, 3),
    (order, 3),
    (table, 3),
    (weather, 2),
)


def conversation(side: Side) -> list[dict[str, str]]:
    """A system prompt with the tools, and one or two tasks."""
    tools = Toolbox(side)
    trace = Trace(side, tools)
    scenes, weights = zip(*SCENES, strict=True)
    chosen = side.rng.choices(scenes, weights, k=side.rng.choice((1, 1, 2)))
    for scene in chosen:
        scene(trace)
    example = json.dumps({"name": tools.name("read"), "arguments": {"path": "notes.txt"}})
    system = side.say(SYSTEM, {"tools": tools.describe(), "example": example})
    return [{"role": "system", "content": system}, *trace.messages]
