"""A grid of small trainings, kept on disk: every arm of a comparison with every seed, and what came of it.

A grid is a directory: `grid.json` with settings, data and one entry per training, and for the first seed the drafts
themselves, in the public layout. `python -m labsim.lab.ttt_grid DIR` makes the one of notebook 06, or completes it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from ..drafts.eagle import EagleDraft
from ..drafts.eagle_checkpoint import LoadedDraft, TrainedDraft, save_draft
from ..drafts.vocabulary import count_tokens, coverage
from ..features.source import Online
from ..features.store import fingerprint
from ..models.files import write_atomically
from ..models.load import Target, load_target
from ..models.paths import data_directory
from ..train.ttt.build import answer_vocabulary, build, start_from
from ..train.ttt.data import Document, PackedRow
from ..train.ttt.estimate import Estimate, estimate
from ..train.ttt.loop import Report, train
from ..train.ttt.recipe import TTTRecipe
from .answered import Remembered, answered
from .ttt_arms import ARMS, CROSSED, DEPTHS, NANO, Arm, Settings, recipe_of


@dataclass(frozen=True)
class Trial:
    """One training and what came of it.

    Attributes:
        loss: of the last tenth of the steps, mean, as the trainer prints it; `losses` all of them.
        found: estimate of greedy chains of `DEPTHS` by domain ("all" among them).
        looks: (step, held-out acceptance length) on the way.
    """

    arm: Arm
    seed: int
    parameters: int
    losses: tuple[float, ...]
    looks: tuple[tuple[int, float], ...]
    found: Mapping[str, Estimate]

    @property
    def loss(self) -> float:
        last = self.losses[-max(1, len(self.losses) // 10) :]
        return sum(last) / len(last)


@dataclass(frozen=True)
class Grid:
    """Trainings of one target. `directory` holds the first seed's drafts."""

    target: str
    fingerprint: str
    settings: Settings
    data: Mapping[str, Any]
    trials: tuple[Trial, ...]
    directory: Path | None = None

    def of(self, arm: Arm) -> list[Trial]:
        """The trials of an arm, in order of their seeds. ValueError when it was not trained."""
        found = sorted((one for one in self.trials if one.arm == arm), key=lambda one: one.seed)
        if not found:
            raise ValueError(f"arm {arm.key} is not in this grid; it holds {', '.join(sorted(self.keys()))}")
        return found

    def keys(self) -> set[str]:
        return {one.arm.key for one in self.trials}


class Bench:
    """A target with its answers and states, on which arms are trained."""

    def __init__(self, target: Target, settings: Settings) -> None:
        self.target, self.settings = target, settings
        size = {"max_new_tokens": settings.max_new_tokens, "longest": settings.longest}
        self.training = answered(target, settings.train, "train", seed=settings.data_seed, **size)
        self.held_out = answered(target, settings.held_out, "held_out", seed=settings.data_seed, **size)
        self.sources: dict[tuple[int, ...], Remembered] = {}

    def source(self, layers: Sequence[int]) -> Remembered:
        """States of these feature layers, computed once."""
        layers = tuple(layers)
        if layers not in self.sources:
            self.sources[layers] = Remembered(Online(self.target.model, layers))
        return self.sources[layers]

    def train(
        self,
        arm: Arm,
        seed: int,
        out: Path | None = None,
        *,
        begin: Path | None = None,
        told: Callable[[Report], None] = lambda _: None,
        **changes: Any,
    ) -> Trial:
        """Train one arm and estimate what it kept. `begin` is a draft to go on from; `changes` are of the recipe."""
        recipe = replace(recipe_of(arm, seed, self.target.model.config, self.settings), **changes)
        target, losses, looks = self.target, [], []

        def hear(report: Report) -> None:
            losses.append(report.loss)
            if report.held_out:
                looks.append((report.counters.step, report.held_out.acceptance_length))
            told(report)

        with tempfile.TemporaryDirectory() as scratch:
            draft, vocabulary = start_from(begin, recipe, target) if begin else build(recipe, target, self.training)
            if arm.flags and not begin:
                draft = flagged(draft, arm.flags)
            source = self.source(draft.config.feature_layers)
            train(
                draft, vocabulary, target, source, self.training, self.held_out, recipe, Path(scratch), identity={},
                told=hear,
            )  # fmt: skip
            draft, vocabulary = start_from(Path(scratch), recipe, target)
        if out is not None:
            save_draft(out, draft, vocabulary, target.name)
        recipe = as_served(recipe)
        groups = [documents for name, documents in self.by_domain().items() if name != "all"] or [self.held_out]
        walked = [estimate(draft, one, source, target.model.head, vocabulary, recipe, DEPTHS) for one in groups]
        found = {group[0].domain: one for group, one in zip(groups, walked, strict=True)}
        found["all"] = pooled(walked, groups)
        parameters = sum(one.numel() for one in draft.parameters())
        return Trial(arm, seed, parameters, tuple(losses), tuple(looks), found)

    def walk(self, loaded: LoadedDraft, arm: Arm, documents: Sequence[Document], k: int) -> Estimate:
        """Greedy chains of `k` of a draft along these documents."""
        recipe = as_served(recipe_of(arm, 0, self.target.model.config, self.settings))
        source = self.source(loaded.draft.config.feature_layers)
        return estimate(loaded.draft, documents, source, self.target.model.head, loaded.vocabulary, recipe, k)

    def by_domain(self) -> dict[str, list[Document]]:
        """Held-out documents: all, and each domain's where there are several."""
        domains = dict.fromkeys(one.domain for one in self.held_out)
        groups = {name: [one for one in self.held_out if one.domain == name] for name in domains}
        return {"all": self.held_out} | (groups if len(groups) > 1 else {})

    def described(self) -> dict[str, Any]:
        """Sizes of the data, for `grid.json`."""
        counts_V = count_tokens(
            (one.tokens[one.answer_start :] for one in self.held_out), self.target.model.config.vocab_size
        )
        recipe = recipe_of(Arm("eagle3", 1), 0, self.target.model.config, self.settings)
        vocabulary = answer_vocabulary(self.training, recipe, self.target.model.config.vocab_size)
        return {
            "training_documents": len(self.training),
            "training_answer_tokens": sum(one.answer_tokens for one in self.training),
            "training_tokens": sum(len(one.tokens) for one in self.training),
            "held_out_documents": {name: len(group) for name, group in self.by_domain().items()},
            "held_out_answer_tokens": sum(one.answer_tokens for one in self.held_out),
            "draft_vocabulary_coverage": coverage(counts_V, vocabulary),
        }


def flagged(draft: TrainedDraft, flags: Mapping[str, bool]) -> EagleDraft:
    """The same start with other switches: every weight that both have is equal, a norm that is new is at 1."""
    twin = EagleDraft(replace(draft.config, **flags), draft.embedding_VH)
    twin.initialise(0)
    new = set(twin.state_dict()) - set(draft.state_dict())
    twin.load_state_dict(draft.state_dict() | {name: twin.state_dict()[name] for name in new})
    return twin.to(draft.embedding_VH.device)


def as_served(recipe: TTTRecipe) -> TTTRecipe:
    """The recipe to walk by: however a draft was unrolled in training, serving sees the prefix and its own branch."""
    return replace(recipe, mtp_branch="own")


def pooled(walked: Sequence[Estimate], groups: Sequence[Sequence[Document]]) -> Estimate:
    """The estimate over several groups of documents together, from those of each."""
    steps = sum(one.steps for one in walked)
    survival = tuple(sum(one.steps * one.survival[depth] for one in walked) / max(1, steps) for depth in range(DEPTHS))
    # A marginal share is over places, of which a text has fewer at each further depth.
    places = [
        [sum(len(PackedRow.of([one]).places(depth)) for one in group) for depth in range(DEPTHS)] for group in groups
    ]
    marginal = tuple(
        sum(one.marginal[depth] * count[depth] for one, count in zip(walked, places, strict=True))
        / max(1, sum(count[depth] for count in places))
        for depth in range(DEPTHS)
    )
    accepted = sum(one.accepted for one in walked)
    return Estimate(sum(one.documents for one in walked), steps, accepted, survival, marginal)


def build_grid(
    target: Target,
    settings: Settings,
    arms: Sequence[Arm],
    seeds: Sequence[int],
    directory: Path | None = None,
    *,
    keep: Sequence[Arm] = CROSSED,
    keep_seeds: int = 1,
    told: Callable[[Arm, int], None] = lambda _arm, _seed: None,
) -> Grid:
    """Train every arm with every seed. With a directory, go on from what it has, and keep the drafts of the arms in
    `keep` for the first `keep_seeds` seeds.

    ValueError when the directory holds a grid of other settings or another target.
    """
    mark = fingerprint(target.directory)
    bench = Bench(target, settings)
    grid = Grid(target.name, mark, settings, bench.described(), (), directory)
    if directory is not None and (directory / "grid.json").exists():
        old = read_grid(directory)
        if (old.fingerprint, old.settings) != (mark, settings):
            raise ValueError(f"{directory} holds a grid of another target or other settings; remove it first")
        grid = old
    for seed in seeds:
        for arm in arms:
            if any((one.arm, one.seed) == (arm, seed) for one in grid.trials):
                continue
            told(arm, seed)
            kept = directory is not None and seed in seeds[:keep_seeds] and arm in keep
            out = directory / place_of(arm, seeds.index(seed)) if kept else None
            grid = replace(grid, trials=(*grid.trials, bench.train(arm, seed, out)))
            if directory is not None:
                write_grid(grid)
    return grid


def place_of(arm: Arm, turn: int) -> str:
    """Name of the directory of a draft; `turn` counts the seeds from 0."""
    return arm.key if turn == 0 else f"{arm.key}-{turn}"


def open_grid(target: Target) -> Grid:
    """The grid that comes with the course for this target, and a sentence when the target has changed since.

    ValueError when there is none.
    """
    directory = data_directory() / "ttt" / target.name
    if not (directory / "grid.json").exists():
        raise ValueError(f"no grid of trainings is shipped for {target.name!r}; build_grid makes one")
    grid = read_grid(directory)
    if grid.fingerprint != fingerprint(target.directory):
        print(f"These trainings were made beside another version of {target.name}; beside this one they accept less.")
    return grid


def write_grid(grid: Grid) -> None:
    """`grid.json` in the grid's directory. ValueError for a grid without one."""
    if grid.directory is None:
        raise ValueError("this grid has no directory; build it with one to keep it")
    document = {
        "target": grid.target,
        "fingerprint": grid.fingerprint,
        "versions": {"torch": torch.__version__},
        "settings": asdict(grid.settings),
        "data": grid.data,
        "trials": [
            {
                **asdict(one.arm),
                "seed": one.seed,
                "parameters": one.parameters,
                "losses": [round(loss, 4) for loss in one.losses],
                "looks": [[step, round(length, 4)] for step, length in one.looks],
                "found": {domain: asdict(estimate) for domain, estimate in one.found.items()},
            }
            for one in grid.trials
        ],
    }
    write_atomically(grid.directory / "grid.json", (json.dumps(document, indent=1) + "\n").encode())


def read_grid(directory: Path) -> Grid:
    """The grid of a directory. ValueError when the file is damaged."""
    path = directory / "grid.json"
    try:
        raw = json.loads(path.read_text())
        trials = tuple(
            Trial(
                Arm(one["kind"], one["ttt"], one["branch"]),
                one["seed"],
                one["parameters"],
                tuple(one["losses"]),
                tuple((step, length) for step, length in one["looks"]),
                {
                    domain: Estimate(**(found | {name: tuple(found[name]) for name in ("survival", "marginal")}))
                    for domain, found in one["found"].items()
                },
            )
            for one in raw["trials"]
        )
        settings = Settings(**raw["settings"])
        return Grid(raw["target"], raw["fingerprint"], settings, raw["data"], trials, directory)
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is not a grid of trainings ({error!r}); make it again") from error


def main() -> None:
    """Make or complete the grid of a target."""
    parser = argparse.ArgumentParser(description="Train the grid of notebook 06.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--target", default="nano")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=NANO.steps)
    chosen = parser.parse_args()
    target, settings = load_target(chosen.target), replace(NANO, steps=chosen.steps)
    for arms in (CROSSED, ARMS):
        build_grid(
            target, settings, arms, range(chosen.seeds), chosen.directory,
            told=lambda arm, seed: print(arm.name, "seed", seed, flush=True),
        )  # fmt: skip


if __name__ == "__main__":
    main()
