"""Every probe of attention drift on every draft of a grid, kept as one file of figures.

`python -m labsim.lab.drift_grid DIR --work WORK` trains the arms of `drift_arms` in WORK (or completes them: it may be
stopped at any time), probes each draft, and writes DIR/figures.json with the first seed's EAGLE-3 and EAGLE-3.1. The
trainings take some minutes each on one core, so the course brings the figures and those two drafts only.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from ..drafts.eagle_checkpoint import LoadedDraft
from ..features.source import Online, StateSource
from ..features.store import fingerprint
from ..models.files import write_atomically
from ..models.load import Target, load_target
from ..models.paths import data_directory
from ..train.probes.disturbed import Disturbance, Disturbed
from ..train.probes.drift import Drift, drift
from ..train.probes.places import walk
from ..train.probes.sink import Sink, find_sink
from ..train.ttt.data import Document
from ..train.ttt.estimate import Estimate
from .answered import Remembered
from .drift_arms import DRIFT_ARMS, LONG_ARMS, NANO_DRIFT, POST, PRE
from .situations import Situation, answered_in, held_out, situations
from .ttt_arms import DEPTHS, Arm, Settings
from .ttt_grid import Bench, build_grid, place_of, read_grid
from .ttt_lab import open_draft

FILE = "figures.json"


@dataclass(frozen=True)
class Probing:
    """What is measured, and on how much.

    Attributes:
        prompts, long_prompts: held-out prompts by domain, for templates and system messages, and for contexts.
        contexts: prompt lengths in tokens.
        templates: templates that the draft never saw.
        noises: strengths of the noise on what a draft feeds itself.
        probed: answers along which states and attention are measured, at depths 1 to `depth`.
        deep: length of the chains that are walked in the draft's own situation.
    """

    prompts: Mapping[str, int] = field(default_factory=lambda: {"chat": 14, "code": 10, "agent": 6})
    long_prompts: Mapping[str, int] = field(default_factory=lambda: {"chat": 6, "code": 2})
    contexts: tuple[int, ...] = (256, 512, 1024, 2048)
    templates: tuple[str, ...] = ("llama3", "zephyr", "plain")
    noises: tuple[float, ...] = (0.1, 0.5, 1.0)
    new_tokens: int = 48
    probed: int = 16
    depth: int = 8
    deep: int = 16
    seed: int = 0


@dataclass(frozen=True)
class Probed:
    """One draft's figures.

    Attributes:
        loss: training loss of the last tenth of the steps, mean.
        drift: by depth, mean over answers.
        deep: chains of `Probing.deep` along held-out answers in the template that training had.
        disturbed: chains of `DEPTHS` along the same, by what was done: "state 0.5", "embedding 0.5", "pinned", "none".
        situations: chains of `DEPTHS` by the situation's name.
    """

    arm: Arm
    seed: int
    parameters: int
    loss: float
    drift: Drift
    deep: Estimate
    disturbed: Mapping[str, Estimate]
    situations: Mapping[str, Estimate]


@dataclass(frozen=True)
class DriftGrid:
    """All drafts of one target, probed. `groups` says which situations belong together, in their order."""

    target: str
    fingerprint: str
    settings: Settings
    probing: Probing
    data: Mapping[str, Any]
    sink: Sink
    groups: Mapping[str, tuple[str, ...]]
    drafts: tuple[Probed, ...]
    directory: Path | None = None

    def of(self, arm: Arm) -> list[Probed]:
        """An arm's drafts, in order of their seeds. ValueError when it has none."""
        found = sorted((one for one in self.drafts if one.arm == arm), key=lambda one: one.seed)
        if not found:
            known = sorted({one.arm.key for one in self.drafts})
            raise ValueError(f"arm {arm.key} is not among these drafts; there are {', '.join(known)}")
        return found


class ProbeBench:
    """A target with the texts of every situation, on which drafts are probed."""

    def __init__(
        self, target: Target, documents: Sequence[Document], probing: Probing, asked: Sequence[Situation] | None = None
    ) -> None:
        """`documents` are held-out answers in the draft's own situation; `asked` the other situations, None for all."""
        self.target, self.probing, self.documents = target, probing, list(documents)
        self.asked = tuple(asked) if asked is not None else situations(target, probing.contexts, probing.templates)
        self.sources: dict[tuple[int, ...], StateSource] = {}
        self.texts: dict[str, list[Document]] = {}
        long_enough = [one for one in documents if one.answer_tokens > probing.depth + 2]
        self.probed = long_enough[: probing.probed]
        self.sink = find_sink(target.model, [one.tokens for one in self.probed])

    def situation(self, one: Situation) -> list[Document]:
        """The target's answers there, generated once."""
        if one.name not in self.texts:
            p = self.probing
            counts = p.prompts if one.context is None else p.long_prompts
            self.texts[one.name] = answered_in(
                self.target, one, held_out(counts, p.seed), max_new_tokens=p.new_tokens, seed=p.seed
            )
        return self.texts[one.name]

    def source(self, layers: Sequence[int]) -> StateSource:
        layers = tuple(layers)
        if layers not in self.sources:
            self.sources[layers] = Remembered(Online(self.target.model, layers))
        return self.sources[layers]

    def drift(self, loaded: LoadedDraft) -> Drift:
        """States and attention by depth, mean over the probed answers."""
        source, found = self.source(loaded.draft.config.feature_layers), []
        for one in self.probed:
            [states] = source.read([one.tokens])
            found.append(
                drift(
                    loaded.draft, one.tokens, one.answer_start, states.features_TF.float(), self.probing.depth,
                    sink_token=self.sink.token or 0,
                )
            )  # fmt: skip
        return Drift.mean(found)

    def walk(
        self, loaded: LoadedDraft, documents: Sequence[Document], k: int = DEPTHS, wanted: Disturbance | None = None
    ) -> Estimate:
        """Greedy chains of k along these answers, the draft disturbed as wanted."""
        draft = loaded.draft if wanted is None else Disturbed(loaded.draft, wanted)
        source = self.source(loaded.draft.config.feature_layers)
        return walk(draft, documents, source, self.target.model.head, loaded.vocabulary, k)

    def disturbances(self, pinned: float, seed: int) -> dict[str, Disturbance | None]:
        """By name; `pinned` is the root mean square at which a state is held."""
        found: dict[str, Disturbance | None] = {"none": None, "pinned": Disturbance(pinned=pinned)}
        for which in ("state", "embedding"):
            for strength in self.probing.noises:
                found[f"{which} {strength}"] = Disturbance(**{f"{which}_noise": strength}, seed=seed)
        return found

    def probe(self, loaded: LoadedDraft, arm: Arm, seed: int, loss: float) -> Probed:
        """Everything about one draft."""
        found = self.drift(loaded)
        wanted = self.disturbances(found.hidden_norm[0], seed)
        return Probed(
            arm=arm,
            seed=seed,
            parameters=sum(one.numel() for one in loaded.draft.parameters()),
            loss=loss,
            drift=found,
            deep=self.walk(loaded, self.documents, self.probing.deep),
            disturbed={name: self.walk(loaded, self.documents, DEPTHS, one) for name, one in wanted.items()},
            situations={one.name: self.walk(loaded, self.situation(one)) for one in self.asked},
        )

    def groups(self) -> dict[str, tuple[str, ...]]:
        return {group: tuple(one.name for one in self.asked if one.group == group) for group in _groups(self.asked)}


def _groups(asked: Sequence[Situation]) -> list[str]:
    return list(dict.fromkeys(one.group for one in asked))


def probe_grid(
    target: Target, work: Path, directory: Path, probing: Probing, told: Callable[[Arm, int], None] = lambda *_: None
) -> DriftGrid:
    """Probe every draft of the grid in `work` that `directory` does not have yet, and write after each.

    ValueError when `directory` holds figures of another target, other trainings or another probing.
    """
    trained = read_grid(work)
    bench = ProbeBench(target, Bench(target, trained.settings).held_out, probing)
    grid = DriftGrid(
        target.name, trained.fingerprint, trained.settings, probing, trained.data, bench.sink, bench.groups(), (),
        directory,
    )  # fmt: skip
    if (directory / FILE).exists():
        old = read_figures(directory)
        if (old.fingerprint, old.settings, old.probing) != (grid.fingerprint, grid.settings, probing):
            raise ValueError(f"{directory} holds figures of other trainings or another probing; remove it first")
        grid = old
    for trial in trained.trials:
        if any((one.arm, one.seed) == (trial.arm, trial.seed) for one in grid.drafts):
            continue
        told(trial.arm, trial.seed)
        loaded = open_draft(work / place_of(trial.arm, trial.seed), target)
        grid = replace(grid, drafts=(*grid.drafts, bench.probe(loaded, trial.arm, trial.seed, trial.loss)))
        write_figures(grid)
    return grid


def open_figures(target: Target) -> DriftGrid:
    """The figures that come with the course for this target, and a sentence when the target has changed since.

    ValueError when there are none.
    """
    directory = data_directory() / "drift" / target.name
    if not (directory / FILE).exists():
        raise ValueError(f"no drift figures are shipped for {target.name!r}; labsim.lab.drift_grid makes them")
    grid = read_figures(directory)
    if grid.fingerprint != fingerprint(target.directory):
        print(f"These drafts were trained beside another version of {target.name}; beside this one they accept less.")
    return grid


def write_figures(grid: DriftGrid) -> None:
    """`figures.json` in the grid's directory. ValueError for a grid without one."""
    if grid.directory is None:
        raise ValueError("these figures have no directory to be written to")
    document = {
        "target": grid.target,
        "fingerprint": grid.fingerprint,
        "versions": {"torch": torch.__version__},
        "settings": asdict(grid.settings),
        "probing": asdict(grid.probing),
        "data": grid.data,
        "sink": asdict(grid.sink),
        "groups": grid.groups,
        "drafts": [asdict(one) for one in grid.drafts],
    }
    grid.directory.mkdir(parents=True, exist_ok=True)
    write_atomically(grid.directory / FILE, (json.dumps(rounded(document)) + "\n").encode())


def rounded(value: Any) -> Any:
    """Numbers of a JSON document to six digits: more is noise, and a third of the file."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {key: rounded(one) for key, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, list | tuple) else value


def read_figures(directory: Path) -> DriftGrid:
    """The figures of a directory. ValueError when the file is damaged."""
    path = directory / FILE
    try:
        raw = json.loads(path.read_text())
        probing = raw["probing"]
        return DriftGrid(
            raw["target"],
            raw["fingerprint"],
            Settings(**raw["settings"]),
            Probing(**(probing | {name: tuple(probing[name]) for name in ("contexts", "templates", "noises")})),
            raw["data"],
            Sink(raw["sink"]["token"], tuple(raw["sink"]["shares"]), raw["sink"]["even"]),
            {name: tuple(members) for name, members in raw["groups"].items()},
            tuple(read_probed(one) for one in raw["drafts"]),
            directory,
        )
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} does not hold drift figures ({error!r}); make them again") from error


def read_probed(raw: Mapping[str, Any]) -> Probed:
    """One entry of the file."""

    def chains(one: Mapping[str, Any]) -> Estimate:
        return Estimate(**(dict(one) | {name: tuple(one[name]) for name in ("survival", "marginal")}))

    return Probed(
        Arm(**raw["arm"]),
        raw["seed"],
        raw["parameters"],
        raw["loss"],
        Drift(**{name: tuple(values) for name, values in raw["drift"].items()}),
        chains(raw["deep"]),
        {name: chains(one) for name, one in raw["disturbed"].items()},
        {name: chains(one) for name, one in raw["situations"].items()},
    )


def make_figures(
    target: Target, settings: Settings, seeds: Sequence[int], work: Path, directory: Path | None = None
) -> DriftGrid:
    """Train every arm with every seed in `work`, probe all drafts, and keep what a page opens in `directory`.

    Both may hold parts of it already; by default the figures go to `work`/figures.
    """
    directory = work / "figures" if directory is None else directory
    arms = (*DRIFT_ARMS, *LONG_ARMS)
    build_grid(
        target, settings, arms, seeds, work, keep=arms, keep_seeds=len(seeds),
        told=lambda arm, seed: print("train", arm.name, "seed", seed, flush=True),
    )  # fmt: skip
    return keep_figures(target, work, directory)


def keep_figures(target: Target, work: Path, directory: Path, probing: Probing | None = None) -> DriftGrid:
    """Probe the drafts of `work`, and copy those that a page opens beside their figures."""
    grid = probe_grid(
        target, work, directory, probing or Probing(),
        told=lambda arm, seed: print("probe", arm.name, "seed", seed, flush=True),
    )  # fmt: skip
    for arm in (PRE, POST):
        shutil.copytree(work / arm.key, directory / arm.key, dirs_exist_ok=True)
    return grid


def main() -> None:
    """Make or complete the figures of a target."""
    parser = argparse.ArgumentParser(description="Train and probe the drafts of notebook 07.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="Keeps all drafts: about 45 MB.")
    parser.add_argument("--target", default="nano")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=NANO_DRIFT.steps)
    parser.add_argument("--probe-only", action="store_true", help="Only what WORK has by now.")
    chosen = parser.parse_args()
    target = load_target(chosen.target)
    if chosen.probe_only:
        keep_figures(target, chosen.work, chosen.directory)
    else:
        settings = replace(NANO_DRIFT, steps=chosen.steps)
        make_figures(target, settings, range(chosen.seeds), chosen.work, chosen.directory)


if __name__ == "__main__":
    main()
