"""A conversation with tool calls under construction."""

from __future__ import annotations

import json

from .side import Side
from .worlds import Toolbox

AGAIN = (
    "That failed: {error}. I will try another way.",
    "The tool reports an error ({error}). Let me look again.",
    "Hm, {error}. A different approach, then.",
    "This did not work. I check what there is.",
    "No luck: {error}. Next attempt.",
    "I misremembered. Let me list what exists.",
)


class Trace:
    """A conversation under construction."""

    def __init__(self, side: Side, tools: Toolbox) -> None:
        self.side, self.tools = side, tools
        self.messages: list[dict[str, str]] = []

    def user(self, templates: tuple[str, ...], context: dict[str, object]) -> None:
        self.messages.append({"role": "user", "content": self.side.say(templates, context)})

    def call(self, tool: str, arguments: dict[str, object], output: object, thought: str = "") -> None:
        """A call and what the tool returns (a string as it is, anything else as JSON)."""
        call = json.dumps({"name": self.tools.name(tool), "arguments": arguments})
        text = f"<tool_call>\n{call}\n</tool_call>"
        self.messages.append({"role": "assistant", "content": f"{thought}\n{text}" if thought else text})
        self.messages.append({"role": "tool", "content": output if isinstance(output, str) else json.dumps(output)})

    def answer(self, text: str) -> None:
        self.messages.append({"role": "assistant", "content": text})
