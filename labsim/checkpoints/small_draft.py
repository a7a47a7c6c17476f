"""A small draft is a model of its own: its loader is strict, and says what is wrong in one line."""

from __future__ import annotations

from ..drafts.small_checkpoint import read_small
from .beside import beside_checks
from .check import Check, fault, ok, unchecked
from .on_disk import OnDisk
from .target import TargetFacts
from .tensors import value_checks


def small_checks(disk: OnDisk, facts: TargetFacts) -> list[Check]:
    """The loader's verdict, the values, and what lies beside."""
    try:
        draft = read_small(disk.directory, facts.config, facts.name)
    except ValueError as error:
        first = fault(
            "small draft: refused",
            str(error),
            "the draft does not load, or says tokens of another vocabulary",
            "correct what is named",
        )
    else:
        first = ok("small draft", f"{len(draft.vocabulary)} of {facts.config.vocab_size} tokens, all tensors there")
    return [
        first,
        *value_checks(disk),
        *beside_checks(disk, facts),
        unchecked("acceptance", "a model of its own has no wiring to get wrong; `labsim eval` measures it"),
    ]
