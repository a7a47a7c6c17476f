"""Explorers of notebook 09: a row of scores cut into blocks, and what each way of merging makes of hard cases."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ..explorer import Explorer, Frame, Reference, Series, Slider, explore
from ..merge_forms import FORMS, PRECISIONS, Part, accumulated
from ..merge_lab import dense, parts_of, qkv, worst

KEYS = 24
LENGTHS = (3, 4, 6, 8, 12, 24)
ROWS = {
    "all alike": lambda i: 0.8 * math.sin(2.4 * i),
    "one loud key": lambda i: 0.8 * math.sin(2.4 * i) + (4.0 if i == 0 else 0.0),
    "rising": lambda i: 0.8 * math.sin(2.4 * i) + 0.15 * i,
}
STEPS = ("each rank for itself", "rank 0's piece has come to rank 1", "and both pieces to rank 2")
BLOCKS, BLOCK_KEYS = 64, 8
SHOWN = (1, 2, 4, 8, 16, 32, 64)
DRAWN = tuple(name for name in PRECISIONS if name != "float16 outputs")
TINY = 1e-17  # stands for "no error at all" on the logarithmic axis
BROKEN = 1e3  # where "not a number" is drawn
CASES = (
    "plain",
    "large scores",
    "an empty accumulator first",
    "two empty sides first",
    "a masked block with LSE 0 first",
    "LSEs in base two",
)


def row_of(scores: str) -> tuple[torch.Tensor, torch.Tensor]:
    """(scores, values) of the drawn row. ValueError for another name."""
    if scores not in ROWS:
        raise ValueError(f"scores is {scores!r}; allowed: {', '.join(ROWS)}")
    places = range(1, KEYS + 1)
    values = torch.tensor([math.cos(0.7 * i) for i in places], dtype=torch.float64)
    return torch.tensor([ROWS[scores](i) for i in range(KEYS)], dtype=torch.float64), values


def cut_row(scores: torch.Tensor, values: torch.Tensor, length: int) -> list[Part]:
    """(out, lse) of each block of `length` keys; out has one entry."""
    pairs = zip(scores.split(length), values.split(length), strict=True)
    return [((s.softmax(0) @ v)[None], s.logsumexp(0)) for s, v in pairs]


def a_row_in_blocks() -> Explorer:
    """Shares of the softmax: of a key in its block, of both in the row. Sliders: cut, scores."""

    def frame(length: int, scores: str) -> Frame:
        s, v = row_of(scores)
        parts = cut_row(s, v, length)
        out, lse = accumulated(parts)[-1]
        weights = [float((one - lse).exp()) for _, one in parts]
        inside = torch.cat([block.softmax(0) for block in s.split(length)])
        whole = s.softmax(0)
        x = range(1, KEYS + 1)
        each = "; ".join(
            f"{float(o):+.2f}, {float(one):.2f}, {w:.0%}" for (o, one), w in zip(parts, weights, strict=True)
        )
        blocks = f"{len(parts)} blocks" if len(parts) > 1 else "one block"
        text = (
            f"{blocks} of {length} keys. Out, LSE and share of each: {each}. Merged: out {float(out):+.4f}, LSE "
            f"{float(lse):.4f}; one softmax over the row: {float(whole @ v):+.4f}, {float(s.logsumexp(0)):.4f}."
        )
        return Frame(
            [
                Series("key in the whole row", x, whole.tolist(), kind="bar"),
                Series("key in its block", x, inside.tolist(), kind="points"),
                Series("block in the row", x, [weights[i // length] for i in range(KEYS)], kind="step"),
            ],
            text=text,
            alt=f"Bars of each key's share in the whole softmax, points of its share inside its own block, and a "
            f"staircase of each block's share. The point times the stair is the bar. {text}",
        )

    return explore(
        frame,
        {
            "length": Slider("block length", LENGTHS, value=6, unit="keys"),
            "scores": Slider("scores", tuple(ROWS), value="one loud key"),
        },
        title="A row of scores, cut into blocks",
        x_label="key",
        y_label="share of the softmax",
        y_range=(0.0, 1.0),
    )


def three_ranks() -> Explorer:
    """Three ranks hold a third of the row each; their pieces meet one by one. Sliders: step, scores."""
    ranks, share = 3, KEYS // 3
    held = [range(rank * share, (rank + 1) * share) for rank in range(ranks)]

    def frame(step: str, scores: str) -> Frame:
        met = STEPS.index(step)  # ranks 0..met know of each other
        s, v = row_of(scores)
        parts = cut_row(s, v, share)
        merged = accumulated(parts)
        weights, said = [], []
        for rank, keys in enumerate(held):
            together = rank <= met
            out, lse = merged[met] if together else parts[rank]
            weights.append([float((s[key] - lse).exp()) for key in keys])
            if not together or rank == met:
                who = f"ranks 0 to {met}" if together and met else f"rank {rank}"
                said.append(f"{who}: out {float(out):+.4f}, LSE {float(lse):.4f}")
        whole = f"One softmax over the row: out {float(s.softmax(0) @ v):+.4f}, LSE {float(s.logsumexp(0)):.4f}."
        text = f"{step}. {'; '.join(said)}. {whole}"
        return Frame(
            [
                Series(f"rank {rank}", [key + 1 for key in keys], row, kind="points")
                for rank, (keys, row) in enumerate(zip(held, weights, strict=True))
            ],
            text=text,
            alt=f"A point for each key, by the rank that holds it: its share of what its rank has merged. {text}",
        )

    return explore(
        frame,
        {"step": Slider("step", STEPS), "scores": Slider("scores", tuple(ROWS), value="one loud key")},
        title="Three ranks, a third of the keys each",
        x_label="key",
        y_label="share of what has been merged",
        y_range=(0.0, 1.0),
    )


def prepared(case: str, seed: int = 0) -> tuple[list[Part], Sequence[Part]]:
    """(what is merged one after the other, what is right after each). ValueError for another case."""
    if case not in CASES:
        raise ValueError(f"case is {case!r}; allowed: {', '.join(CASES)}")
    q, k, v = qkv(BLOCKS * BLOCK_KEYS, seed, queries=4, heads=1)
    q = q * (300.0 if case == "large scores" else 1.0)
    parts = parts_of(q, k, v, BLOCKS)
    right = [dense(q, k[:, :, : n * BLOCK_KEYS], v[:, :, : n * BLOCK_KEYS]) for n in SHOWN]
    zeros, nothing = torch.zeros_like(parts[0][0]), torch.full_like(parts[0][1], float("-inf"))
    before: dict[str, list[Part]] = {
        "an empty accumulator first": [(zeros, nothing)],
        "two empty sides first": [(zeros, nothing)] * 2,
        "a masked block with LSE 0 first": [(zeros, torch.zeros_like(nothing))],
    }
    if case == "LSEs in base two":
        parts = [(out, lse / math.log(2)) for out, lse in parts]
        right = [(out, lse / math.log(2)) for out, lse in right]
    return before.get(case, []) + parts, right


def in_words(error: float) -> str:
    if error >= BROKEN:
        return "not a number"
    return "exact" if error <= TINY else f"off by {error:.0e}"


def merge_errors(seed: int = 0) -> Explorer:
    """Largest error of output and log-sum-exp as blocks are merged. Sliders: form, precision, case."""
    made = {case: prepared(case, seed) for case in CASES}

    def frame(form: str, precision: str, case: str) -> Frame:
        parts, right = made[case]
        more = len(parts) - BLOCKS
        found = accumulated(parts, FORMS[form], PRECISIONS[precision])
        columns: dict[str, list[float]] = {"output": [], "log-sum-exp": []}
        for n, exact in zip(SHOWN, right, strict=True):
            for name, mine, one in zip(columns, found[more + n - 1], exact, strict=True):
                error = worst(mine, one)
                columns[name].append(max(error, TINY) if math.isfinite(error) else BROKEN)
        said = [f"{name} {in_words(errors[-1])}" for name, errors in columns.items()]
        text = f"{form}, {precision}, {case}: after {SHOWN[-1]} blocks {', '.join(said)}."
        return Frame(
            [Series(name, SHOWN, values, kind="line") for name, values in columns.items()],
            text=text,
            alt=f"Error of output and log-sum-exp over the number of merged blocks, on logarithmic axes; "
            f"what is not a number is drawn at the top. {text}",
        )

    return explore(
        frame,
        {
            "form": Slider("form of the merge", tuple(FORMS)),
            "precision": Slider("precision", DRAWN, value="float32"),
            "case": Slider("case", CASES),
        },
        title="The error of a merge, block by block",
        x_label="merged blocks",
        y_label="largest error",
        x_scale="log2",
        y_scale="log10",
        y_range=(TINY, 1e5),
        reference=Reference(BROKEN, "not a number"),
    )
