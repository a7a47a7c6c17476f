"""Does the draft accept here what its training measured on text that it had not seen?

`labsim train` writes the held-out survival of each domain into recipe.json. Weights that were damaged since then may
still draft well enough to look sound by themselves; against their own past they do not.

    said      mean over domains of  sum_k survival_k            recipe.json
    here      the same, walked over texts as a decoder walks
    fault     if  here + 2.6 standard errors < said  and  said - here > max(0.05, 10 % of said)

Where the answers that the training held out are at hand (the shipped ones), they are the texts, and there is no error
of sampling. Otherwise the doctor's own few texts are a sample, and so were the training's: the error of `here` is a
bootstrap over texts inside each domain, that of `said` is taken for as large per text. Then only a large loss is named.

Shapes: T texts of a domain, P places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ..models.config import LONGEST_CONTEXT, read_json
from ..models.fields import Fields
from ..models.load import Target
from ..train.ttt.data import Document
from ..train.ttt.estimate import chain_runs
from ..train.ttt.run import find, read_data
from .beside import RECIPE
from .check import Check, fault, ok
from .curve import Texts, measure, read_texts
from .on_disk import OnDisk
from .served import Served

DRAWS, DEVIATIONS = 2000, 2.6
LEAST_LOSS, LEAST_SHARE = 0.05, 0.10
DEEPEST = 64  # of the chains that a training looks at
FEWEST_TEXTS = 4  # of a domain: fewer say nothing about their spread


@dataclass(frozen=True)
class Said:
    """A domain of recipe.json: how many documents, and the share of chains that accept at least 1, 2, ... tokens."""

    documents: int
    survival: tuple[float, ...]


def read_said(disk: OnDisk) -> dict[str, Said]:
    """By domain; empty where there is no recipe or it holds no such figures. ValueError for damaged ones."""
    path = disk.directory / RECIPE
    if not path.is_file():
        return {}
    held_out = Fields(read_json(path), str(path)).inner("result").inner("held_out")
    said = {}
    for domain in held_out.raw:
        figures = held_out.inner(domain)
        survival = figures.raw.get("survival")
        if not isinstance(survival, list) or not all(isinstance(x, int | float) and 0 <= x <= 1 for x in survival):
            raise figures.wrong("survival", "a list of shares from 0 to 1")
        if len(survival) > DEEPEST:  # every depth costs a forward of the draft
            raise figures.wrong("survival", f"a list of at most {DEEPEST} shares")
        said[domain] = Said(figures.whole("documents", 1, 10**9), tuple(map(float, survival)))
    return said


def held_out_checks(disk: OnDisk, draft: Served, target: Target, texts: Sequence[Document], read: Texts) -> list[Check]:
    """Nothing where the recipe says nothing about a domain of these texts (`beside` names a recipe that is damaged).

    Args:
        read: of `texts`, with the draft's layers.
    """
    try:
        said = read_said(disk)
    except ValueError:
        return []
    depths = min((len(one.survival) for one in said.values()), default=0)
    if not depths:
        return []
    same = same_texts(disk, target, said)
    if same:
        texts, read = same, read_texts(target, same, draft.layers)
    runs_P = measure(draft, read, depths).runs_P
    counts_T2 = [walked(text, runs_P[read.text_P == index], depths) for index, text in enumerate(texts)]
    here, there, variances = [], [], []
    for domain in sorted({text.domain for text in texts} & said.keys()):
        own_T2 = np.array([counts for counts, text in zip(counts_T2, texts, strict=True) if text.domain == domain])
        count, documents = len(own_T2), said[domain].documents
        if count < FEWEST_TEXTS:
            continue
        draws = np.random.default_rng(0).integers(0, count, (DRAWS, count))
        steps, accepted = own_T2[draws].sum(1).T
        here.append(float(own_T2[:, 1].sum() / max(1, own_T2[:, 0].sum())))
        there.append(sum(said[domain].survival[:depths]))
        spread = 0 if same else float((accepted / np.maximum(1, steps)).var())
        variances.append(spread * (count / (count - 1) + count / documents))
    if not here:
        return []
    now, then = sum(here) / len(here), sum(there) / len(there)
    error = sum(variances) ** 0.5 / len(here)
    where = "on the same texts" if same else f"on its held-out texts, other ones (standard error {error:.2f})"
    finding = (
        f"{now:.2f} drafted tokens per step of {depths}, mean of {len(here)} domains; {RECIPE} says {then:.2f} {where}"
    )
    if now + DEVIATIONS * error < then and then - now > max(LEAST_LOSS, LEAST_SHARE * then):
        return [
            fault(
                "acceptance: below its training's",
                finding,
                "text still right, acceptance fair and lower than was measured after training",
                "the weights have changed since (a damaged copy, a cast, a later training over them), or the target "
                "has: compare the file with the training's output",
            )
        ]
    return [ok("held-out acceptance", finding)]


def walked(text: Document, runs_P: torch.Tensor, k: int) -> tuple[int, int]:
    """(steps, accepted drafted tokens) of a decoder, from what the chain behind each answer token would accept.

    As `labsim.train.ttt.estimate.chain_runs`.
    """
    correct = [(runs_P > depth).tolist() for depth in range(k)]
    runs = chain_runs(correct, text.answer_tokens, k, text.stopped)
    return len(runs), sum(runs)


def same_texts(disk: OnDisk, target: Target, said: dict[str, Said]) -> list[Document]:
    """The shipped answers that a training on them holds out; empty where this draft was not trained on those."""
    path = disk.directory / RECIPE
    try:
        recipe = Fields(read_json(path), str(path))
        data = read_data(find("shipped", target.name), target, recipe.inner("recipe").whole("seq", 8, LONGEST_CONTEXT))
        # Only greedy answers are held out: sampled ones that came later change nothing.
        counted, ours = (
            [(one["max_new_tokens"], one["answers"]) for one in sources if one["temperature"] == 0]
            for sources in (recipe.raw["data"], data.sources)
        )
    except (ValueError, OSError, KeyError, TypeError):
        return []
    domains = Counter(text.domain for text in data.held_out)
    if counted != ours or any(domains[name] != one.documents for name, one in said.items() if name != "all"):
        return []
    return data.held_out
