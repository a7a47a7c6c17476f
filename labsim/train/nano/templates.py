"""Chat templates: how messages become one text. `nano` knows two, and each conversation is trained in one of them.

A draft that was trained under one template meets the other at serving time: the course measures what that costs.
The Jinja text is what transformers' `apply_chat_template` reads; `render` is the same thing in Python for training
(a test holds them equal).
"""

from __future__ import annotations

from collections.abc import Sequence

BOS = "<|begin_of_text|>"
END_OF_TEXT = "<|end_of_text|>"
PAD = "<|pad|>"
SPECIAL_TOKENS = (
    PAD,
    BOS,
    END_OF_TEXT,
    "<|im_start|>",
    "<|im_end|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
)
# The tokenizer gives the special tokens the first ids, in this order.
BOS_ID = SPECIAL_TOKENS.index(BOS)
# Single tokens too, but part of the text: a decoder that drops special tokens must keep them.
MARK_TOKENS = ("<tool_call>", "</tool_call>")

# name -> (before the role, after the role, after the content)
FRAMES: dict[str, tuple[str, str, str]] = {
    "chatml": ("<|im_start|>", "\n", "<|im_end|>\n"),
    "headers": ("<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>"),
}
END_OF_TURN = {"chatml": "<|im_end|>", "headers": "<|eot_id|>"}
DEFAULT = "chatml"


def render(messages: Sequence[dict[str, str]], template: str = DEFAULT, *, generation_prompt: bool = False) -> str:
    """The conversation as one text, with the beginning-of-text token. ValueError for an unknown template."""
    if template not in FRAMES:
        raise ValueError(f"unknown chat template {template!r} (known: {', '.join(FRAMES)})")
    before, between, after = FRAMES[template]
    turns = [f"{before}{m['role']}{between}{m['content']}{after}" for m in messages]
    return BOS + "".join(turns) + (f"{before}assistant{between}" if generation_prompt else "")


def jinja(template: str) -> str:
    """The template as Jinja text."""
    before, between, after = (part.replace("\n", "\\n") for part in FRAMES[template])
    return (
        f"{{{{- '{BOS}' }}}}"
        "{%- for message in messages %}"
        f"{{{{- '{before}' + message['role'] + '{between}' + message['content'] + '{after}' }}}}"
        "{%- endfor %}"
        "{%- if add_generation_prompt %}"
        f"{{{{- '{before}assistant{between}' }}}}"
        "{%- endif %}"
    )
