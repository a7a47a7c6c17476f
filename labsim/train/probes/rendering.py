"""One conversation, rendered in ways that a draft may not have been trained on.

    template   own (the tokenizer's), another one, or `none`: the messages' texts alone, an empty line between them
    bos        the token that opens every text, where the target's own template begins with one; left out or kept
    system     a system message put first, in place of the conversation's own

The four corners template x bos are the paper's: a draft whose sink is the first token loses it without one.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...models.fields import shown
from ...models.load import Target
from ...models.paths import data_directory, expanded

OWN, NONE = "own", "none"


@dataclass(frozen=True, kw_only=True)
class Rendering:
    """How a conversation becomes tokens.

    Attributes:
        template: `own`, `none`, or a Jinja text; `template_called` finds one by its name.
        bos: keep the opening token, and put it before a template that lacks it, if the own template has one.
        system: system message; None leaves the conversation's.
    """

    template: str = OWN
    bos: bool = True
    system: str | None = None

    def __call__(self, target: Target, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Token ids up to where the answer begins. ValueError when that leaves none, or the template refuses."""
        if self.system is not None:
            rest = [message for message in messages if message["role"] != "system"]
            messages = [{"role": "system", "content": self.system}, *rest]
        if self.template == NONE:
            ids = target.encode("\n\n".join(message["content"] for message in messages) + "\n\n")
        else:
            ids = target.encode_chat(messages, template=None if self.template == OWN else self.template)
        opening = opening_of(target)
        ids = ids[len(opening) :] if ids[: len(opening)] == opening else ids
        if not ids:
            raise ValueError("nothing is left of this conversation; it needs at least one token")
        return [*(opening if self.bos else []), *ids]


AS_TRAINED = Rendering()


def opening_of(target: Target) -> list[int]:
    """The beginning-of-text token, where the target's own template opens with it; otherwise nothing."""
    bos = target.tokenizer.bos_token_id
    if bos is None or not target.tokenizer.chat_template:
        return []
    return [bos] if target.encode_chat("?")[:1] == [bos] else []


def template_called(name: str, target: Target) -> str:
    """`own` and `none` themselves; the Jinja text of a template that the target or the course brings, or of a file.

    ValueError for any other name.
    """
    if name in (OWN, NONE):
        return name
    known = {
        path.stem: path
        for folder in (data_directory() / "prompts" / "templates", target.directory / "templates")
        for path in sorted(folder.glob("*.jinja"))
    }
    path = known[name] if name in known else expanded(name)
    if path.is_file():
        try:
            return path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"template {path} is not UTF-8 text ({error}); right is a Jinja template") from error
    close = difflib.get_close_matches(name.lower(), [OWN, NONE, *known], n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"template {shown(name)} is neither {', '.join([OWN, NONE, *known])} nor a file{hint}")
