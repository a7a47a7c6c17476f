"""A draft of a real model probed text by text: the sink of its target, and where the draft looks, by depth.

`nano` has no attention sink, so the drift away from one cannot be seen there. `python -m labsim.lab.drift_real
data/drift/smollm2` probes the EAGLE-3 drafts that come with the course for SmolLM2, along its own held-out greedy
answers, and writes probes.json for notebook 07: some minutes on one core. The intervals are over answers, for there is
one training of each kind.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from ..drafts.load import shipped
from ..features.source import Online
from ..features.store import fingerprint
from ..models.config import read_json
from ..models.files import write_atomically
from ..models.load import Target, load_target
from ..models.paths import data_directory
from ..train.probes.drift import Drift, drift
from ..train.probes.places import walk
from ..train.probes.sink import Sink, find_sink
from ..train.ttt.data import Document
from ..train.ttt.estimate import Estimate
from .answered import Remembered, answered
from .drift_grid import rounded
from .ttt_arms import KIND_NAMES
from .ttt_causes import Spread, over_seeds
from .ttt_lab import open_draft

FILE = "probes.json"
KINDS = ("eagle3", "eagle3.1")
ANSWERS = {"chat": 16}
NEW_TOKENS, LONGEST, DEPTH = 64, 256, 8


@dataclass(frozen=True)
class ProbedDraft:
    """One draft.

    Attributes:
        kind: `eagle3` or `eagle3.1`; `trained` is the number of depths that its training unrolled.
        by_text: its states and attention along each answer.
        chains: greedy chains along all of them.
    """

    kind: str
    trained: int
    by_text: tuple[Drift, ...]
    chains: Estimate

    def by_depth(self, probe: str) -> list[Spread]:
        """A field of `Drift` at each depth, over answers."""
        return [over_seeds(values) for values in zip(*(getattr(one, probe) for one in self.by_text), strict=True)]

    def growth(self) -> Spread:
        """Size of the state at the deepest depth over that at depth 1, over answers."""
        return over_seeds([one.hidden_norm[-1] / one.hidden_norm[0] for one in self.by_text])


@dataclass(frozen=True)
class RealProbes:
    """The drafts of one target. `answers` and `tokens` say on how much text."""

    target: str
    fingerprint: str
    answers: int
    tokens: int
    sink: Sink
    drafts: tuple[ProbedDraft, ...]

    def each(self, say: Callable[[ProbedDraft], str]) -> str:
        """One saying per draft: `EAGLE-3 ..., EAGLE-3.1 ...`."""
        return ", ".join(f"{KIND_NAMES[one.kind]} {say(one)}" for one in self.drafts)


def probe_real(target: Target, texts: Sequence[Document], depth: int = DEPTH) -> RealProbes:
    """Every EAGLE-3 and 3.1 draft that is shipped for the target. ValueError when there is none, or no long answer."""
    texts = [one for one in texts if one.answer_tokens > depth + 2]
    sink = find_sink(target.model, [one.tokens for one in texts])
    found = []
    for kind in KINDS:
        try:
            directory = Path(shipped(kind, target))
        except ValueError:
            continue
        loaded = open_draft(directory, target)
        source = Remembered(Online(target.model, loaded.draft.config.feature_layers))
        by_text = []
        for one in texts:
            [states] = source.read([one.tokens])
            features_TF = states.features_TF.float()
            by_text.append(
                drift(loaded.draft, one.tokens, one.answer_start, features_TF, depth, sink_token=sink.token or 0)
            )
        chains = walk(loaded.draft, texts, source, target.model.head, loaded.vocabulary, depth)
        trained = int(read_json(directory / "recipe.json")["recipe"]["ttt"])
        found.append(ProbedDraft(kind, trained, tuple(by_text), chains))
    if not found:
        raise ValueError(f"no EAGLE-3 draft is shipped for {target.name!r}; labsim train makes one")
    tokens = sum(one.answer_tokens for one in texts)
    return RealProbes(target.name, fingerprint(target.directory), len(texts), tokens, sink, tuple(found))


def write_real(probes: RealProbes, directory: Path) -> None:
    """`probes.json`."""
    directory.mkdir(parents=True, exist_ok=True)
    document = {"versions": {"torch": torch.__version__}} | asdict(probes)
    write_atomically(directory / FILE, (json.dumps(rounded(document)) + "\n").encode())


def open_real(name: str = "smollm2") -> RealProbes:
    """The probes that come with the course. ValueError when there are none, or the file is damaged."""
    path = data_directory() / "drift" / name / FILE
    if not path.exists():
        raise ValueError(f"no probes are shipped for {name!r}; labsim.lab.drift_real makes them")
    try:
        raw = json.loads(path.read_text())
        sink = Sink(raw["sink"]["token"], tuple(raw["sink"]["shares"]), raw["sink"]["even"])
        drafts = tuple(map(_probed, raw["drafts"]))
        return RealProbes(raw["target"], raw["fingerprint"], raw["answers"], raw["tokens"], sink, drafts)
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} does not hold probes of a draft ({error!r}); make them again") from error


def _probed(raw: Mapping[str, Any]) -> ProbedDraft:
    chains = dict(raw["chains"]) | {name: tuple(raw["chains"][name]) for name in ("survival", "marginal")}
    by_text = tuple(Drift(**{name: tuple(values) for name, values in one.items()}) for one in raw["by_text"])
    return ProbedDraft(raw["kind"], raw["trained"], by_text, Estimate(**chains))


def main() -> None:
    """Make the probes of a target."""
    parser = argparse.ArgumentParser(description="Probe the shipped drafts of a real model for notebook 07.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--target", default="smollm2")
    chosen = parser.parse_args()
    target = load_target(chosen.target)
    texts = answered(target, ANSWERS, "held_out", max_new_tokens=NEW_TOKENS, longest=LONGEST)
    write_real(probe_real(target, texts), chosen.directory)


if __name__ == "__main__":
    main()
