"""Drafts that come with the course, to be served beside plain decoding with the clock running.

They were trained longer than anything on a page, so what a page cannot reach is asked of them. What they were trained
on and for how long stands beside each, as its `recipe.json` has it: two drafts of unequal training differ in one more
cause than their names say.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ..drafts.load import load_drafter, shipped
from ..drafts.protocol import Drafter
from ..models.load import Target
from ..sim.intervals import Interval
from ..train.evaluate import chosen, prompts_of
from .tpot import FEWEST_TIMED, Request, Requests, acceptance_length, mean_tpot, p95_tpot, survival
from .ttt_arms import KIND_NAMES


@dataclass(frozen=True)
class Shipped:
    """A draft of the course for one target.

    Attributes:
        ttt: unrolled steps of its training; 1 is training without training-time test, 0 a draft that feeds no state.
        steps, tokens: optimiser steps of all its trainings, and tokens of the rows that they read.
        answer_tokens: different answer tokens in the data of the last one.
    """

    kind: str
    drafter: Drafter
    parameters: int
    ttt: int
    steps: int
    tokens: int
    answer_tokens: int

    @property
    def name(self) -> str:
        """As a table says it."""
        unrolled = {0: "", 1: ", without TTT"}.get(self.ttt, f", TTT {self.ttt}")
        return KIND_NAMES.get(self.kind, self.kind) + unrolled

    @property
    def training(self) -> dict[str, Any]:
        """How it was trained, as a row of a table."""
        return {
            "draft": self.name,
            "weights (M)": self.parameters / 1e6,
            "answer tokens": self.answer_tokens,
            "steps": self.steps,
            "tokens read": self.tokens,
        }


def first_shipped(target: Target, *kinds: str) -> Shipped | None:
    """The first of these kinds that the course ships for the target; None, and a sentence, where it ships none.

    ValueError for a draft that was made for another target.
    """
    for kind in kinds:
        try:
            directory = shipped(kind, target)
        except ValueError:
            continue
        document = json.loads((directory / "recipe.json").read_text(encoding="utf-8"))
        drafter = load_drafter(kind, target)
        assert drafter is not None
        return Shipped(kind, drafter, *_told(kind, document))
    print(f"No {' or '.join(kinds)} draft comes with the course for {target.name}; it is left out.")
    return None


def _told(kind: str, document: dict[str, Any]) -> tuple[int, int, int, int, int]:
    """parameters, ttt, steps, tokens, answer tokens: the two trainers write them down differently.

    A draft that was begun from another one has that one's steps behind it too.
    """
    recipe = document["recipe"]
    if kind == "small":
        tokens = document["training_tokens"]
        return document["parameters"], 0, document["steps"], tokens * recipe["epochs"], tokens
    result, before = document["result"], document.get("begin")
    _, _, steps, tokens, _ = _told(kind, before) if before and "result" in before else (0,) * 5
    told = result["parameters"], recipe["ttt"], result["steps"] + steps, result["tokens"] + tokens
    return *told, document["training_answer_tokens"]


def agent_prompts(target: Target, count: int, seed: int, max_new_tokens: int) -> list[list[int]]:
    """Token ids of `count` agent prompts that no draft of the course was trained on, drawn by `seed`."""
    return list(chosen(target, prompts_of("agent"), None, seed, count, max_new_tokens))


def served_rows(served: Requests, depths: int) -> list[dict[str, Any]]:
    """What `tpot.serve` found, as rows of a table."""
    rows = []
    for name, requests in served.items():
        shares = [1.0, *survival(requests, depths)]
        alive = [f"{now / then:.2f}" if then else "-" for then, now in pairwise(shares)]
        rows.append(
            {
                "draft": name,
                "tokens per step": f"{acceptance_length(requests):.2f}",
                "conditional by depth": " ".join(alive) if shares[1] else "-",
                "mean TPOT (ms)": f"{mean_tpot(requests):.1f}",
                "P95 TPOT (ms)": f"{p95_tpot(requests):.1f}" if len(requests) >= FEWEST_TIMED else "-",
            }
        )
    return rows


def interval_said(interval: Interval, requests: Sequence[Request]) -> str:
    """`0.62 to 1.01`, or that there are too few requests for an interval."""
    if len(requests) < FEWEST_TIMED:
        return f"{len(requests)} requests: no interval"
    return f"{interval.low:.2f} to {interval.high:.2f}"
