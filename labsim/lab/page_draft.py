"""Drafts that are trained within a notebook: the course's own trainer on few texts, and everything to look at after.

All drafts of a page learn from the same documents and meet the same held-out ones. The target's states are computed
once per text and shared by the trainings, whichever layers they read.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from ..drafts.eagle_drafter import EagleDrafter
from ..drafts.load import shipped, trained
from ..drafts.recurrent import RecurrentDraft
from ..drafts.small import SmallModelDrafter
from ..drafts.vocabulary import DraftVocabulary
from ..features.source import Online, StateSource, TargetStates
from ..models.load import Target
from ..sim.intervals import Interval
from ..train.small import SmallRecipe, save_draft, start_from_target
from ..train.small_data import batches, draft_vocabulary
from ..train.small_loop import train as train_small_draft
from ..train.ttt.build import build, start_from
from ..train.ttt.data import Document, pack
from ..train.ttt.estimate import Estimate, estimate
from ..train.ttt.loop import Report, identity_of, train
from ..train.ttt.recipe import TTTRecipe
from .page_data import PageData, as_answers

DRAWS = 2000
HALF_LIFE = 8  # steps; single rows differ a lot


class SharedStates:
    """States of several layers, computed once per text; `reading` gives a source of some of them."""

    def __init__(self, target: Target, layers: Sequence[int]) -> None:
        self.layers = tuple(sorted(set(layers)))
        self.online, self.size = Online(target.model, self.layers), target.model.config.hidden_size
        self.kept: dict[tuple[int, ...], TargetStates] = {}

    def read(self, documents: Sequence[Sequence[int]]) -> list[TargetStates]:
        """All layers, ascending."""
        missing = [one for one in dict.fromkeys(map(tuple, documents)) if one not in self.kept]
        if missing:
            self.kept |= dict(zip(missing, self.online.read(missing), strict=True))
        return [self.kept[tuple(one)] for one in documents]

    def reading(self, layers: Sequence[int]) -> StateSource:
        """ValueError for a layer that is not kept."""
        return ChosenLayers(self, layers)


class ChosenLayers:
    """Some of the shared layers, in the order and as often as named."""

    def __init__(self, shared: SharedStates, layers: Sequence[int]) -> None:
        if missing := [layer for layer in layers if layer not in shared.layers]:
            raise ValueError(f"layer {missing[0]} is not kept; shared are {', '.join(map(str, shared.layers))}")
        self.shared, self.places = shared, [shared.layers.index(layer) for layer in layers]

    def read(self, documents: Sequence[Sequence[int]]) -> list[TargetStates]:
        found = []
        for states in self.shared.read(documents):
            parts = states.features_TF.split(self.shared.size, dim=-1)
            found.append(TargetStates(torch.cat([parts[i] for i in self.places], dim=-1), states.last_TE))
        return found


class Late:
    """A planted bug: every state where the next position's belongs (the last one twice)."""

    def __init__(self, source: StateSource) -> None:
        self.source = source

    def read(self, documents: Sequence[Sequence[int]]) -> list[TargetStates]:
        return [
            replace(one, features_TF=torch.cat([one.features_TF[1:], one.features_TF[-1:]]))
            for one in self.source.read(documents)
        ]


@dataclass(frozen=True)
class PageDraft:
    """A draft trained on the page, as its checkpoint has it.

    Attributes:
        curve: one report per step.
        looks: (step, held-out acceptance length at chains of `recipe.k`); the best one was kept.
        seconds: of training, looks included.
    """

    name: str
    draft: RecurrentDraft
    vocabulary: DraftVocabulary
    recipe: TTTRecipe
    source: StateSource
    directory: Path
    curve: tuple[Report, ...]
    seconds: float

    @property
    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.draft.parameters())

    @property
    def looks(self) -> list[tuple[int, float]]:
        return [(one.counters.step, one.held_out.acceptance_length) for one in self.curve if one.held_out]

    def smooth(self, depth: int | None = None) -> list[float]:
        """Loss over the steps (nats), or the accuracy at a depth: exponential mean with a half-life of 8 steps."""
        values = [one.loss if depth is None else one.per_depth_accuracy[depth - 1] for one in self.curve]
        keep, mean, weight, found = 0.5 ** (1 / HALF_LIFE), 0.0, 0.0, []
        for value in values:
            mean, weight = keep * mean + (1 - keep) * value, keep * weight + 1 - keep
            found.append(mean / weight)
        return found

    def drafter(self, target: Target) -> EagleDrafter:
        """From the checkpoint on disk, packed for decoding."""
        found = trained(self.directory, target)
        assert isinstance(found, EagleDrafter)
        return found

    def measure(self, target: Target, documents: Sequence[Document], k: int, source: StateSource | None = None):
        """Greedy chains of k along each document, one `Estimate` per document."""
        return [
            estimate(self.draft, [one], source or self.source, target.model.head, self.vocabulary, self.recipe, k)
            for one in documents
        ]


def train_on_page(
    name: str, recipe: TTTRecipe, target: Target, data: PageData, shared: SharedStates, *, tell: bool = True
) -> PageDraft:
    """Train, keep the checkpoint with the longest held-out acceptance, and read it back from disk."""
    draft, vocabulary = build(recipe, target, data.training)
    source = shared.reading(draft.config.feature_layers)
    out, reports, began = scratch("draft"), [], time.monotonic()
    identity = identity_of(recipe, target, data.training)
    train(
        draft, vocabulary, target, source, data.training, data.choosing, recipe, out, identity=identity,
        told=lambda one: reports.append(replace(one, counters=replace(one.counters))), checkpoint_seconds=1e9,
    )  # fmt: skip
    kept, vocabulary = start_from(out, recipe, target)
    found = PageDraft(name, kept, vocabulary, recipe, source, out, tuple(reports), time.monotonic() - began)
    if tell:
        said = f"{found.parameters / 1e6:.2f} M weights, {recipe.steps} steps, {reports[-1].counters.tokens} tokens"
        print(
            f"{name}: {said}, {found.seconds:.0f} s; acceptance length on the choosing texts {found.looks[-1][1]:.2f}"
        )
    return found


def shipped_on_page(kind: str, target: Target, k: int) -> PageDraft:
    """A draft of the EAGLE-3 family that the course ships, as if it had been trained here; it has no curve.

    ValueError where none is shipped.
    """
    directory, recipe = shipped(kind, target), TTTRecipe(draft=kind, bf16=False, k=k)
    draft, vocabulary = start_from(directory, recipe, target)
    source = SharedStates(target, draft.config.feature_layers).reading(draft.config.feature_layers)
    return PageDraft(f"shipped {kind}", draft, vocabulary, recipe, source, directory, (), 0.0)


def scratch(name: str) -> Path:
    """A directory that lives as long as the kernel."""
    directory = Path(tempfile.mkdtemp(prefix=f"labsim-{name}-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def steps_of(data: PageData, seq: int, epochs: float, seed: int) -> int:
    """Optimiser steps of so many passes, a row of `seq` tokens each."""
    return max(1, round(epochs * len(pack(data.training, seq, seed, 0))))


def train_small_on_page(
    recipe: SmallRecipe, target: Target, data: PageData, *, tell: bool = True
) -> tuple[SmallModelDrafter, int, int]:
    """The small draft, on the same texts: (drafter, weights, steps)."""
    answers = as_answers(data.training)
    vocabulary = draft_vocabulary(answers, recipe.draft_vocab_size, target.model.config.vocab_size)
    draft = start_from_target(target.directory, recipe, vocabulary)
    out, began = scratch("small"), time.monotonic()
    # Apart from the draft, whose directory holds its own tensors only.
    steps = train_small_draft(draft, vocabulary, answers, recipe, out / "training", checkpoint_seconds=1e9)
    save_draft(out, draft, vocabulary, target.name, target.model.config.vocab_size)
    weights = sum(parameter.numel() for parameter in draft.parameters())
    tokens = recipe.epochs * sum(
        len(a.prompt_ids) + len(a.answer_ids)
        for batch in batches(answers, recipe.tokens_per_batch, 0, 0)
        for a in batch
    )
    if tell:
        print(f"small: {weights / 1e6:.2f} M weights, {steps} steps, {tokens} tokens, {time.monotonic() - began:.0f} s")
    return SmallModelDrafter.from_directory(out, target), weights, steps


def pooled(estimates: Sequence[Estimate]) -> float:
    """Acceptance length over all documents together."""
    return 1 + sum(one.accepted for one in estimates) / max(1, sum(one.steps for one in estimates))


def survival_of(estimates: Sequence[Estimate]) -> list[float]:
    """Share of all steps that accepted at least 1, 2, ... k drafted tokens."""
    steps = max(1, sum(one.steps for one in estimates))
    depths = range(len(estimates[0].survival))
    return [sum(one.survival[d] * one.steps for one in estimates) / steps for d in depths]


def length_range(estimates: Sequence[Estimate], seed: int = 0) -> Interval:
    """95 % bootstrap interval of the acceptance length, resampling documents."""
    return _range([estimates], seed)


def gain_range(estimates: Sequence[Estimate], baseline: Sequence[Estimate], seed: int = 0) -> Interval:
    """The same of a difference of two drafts on the same documents, resampled in pairs."""
    if len(estimates) != len(baseline):
        raise ValueError(f"{len(estimates)} and {len(baseline)} documents: pairs need the same ones")
    return _range([estimates, baseline], seed)


def _range(groups: Sequence[Sequence[Estimate]], seed: int) -> Interval:
    draws = np.random.default_rng(seed).integers(0, len(groups[0]), (DRAWS, len(groups[0])))
    lengths = []
    for group in groups:
        accepted_D, steps_D = (np.array([getattr(one, f) for one in group], float) for f in ("accepted", "steps"))
        lengths.append(1 + accepted_D[draws].sum(1) / np.maximum(1, steps_D[draws].sum(1)))
    found = lengths[0] - lengths[1] if len(groups) == 2 else lengths[0]
    low, high = np.percentile(found, [2.5, 97.5])
    return Interval(float(low), float(high))
