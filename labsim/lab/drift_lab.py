"""What notebook 07 does live: two generations through one loader, and the course's drafts of a real model probed.

An EAGLE-3.1 checkpoint is an EAGLE-3 checkpoint with two flags in its config and, for `fc_norm`, three tensors more. So
one class and one loader serve both, and a checkpoint that has never heard of the flags loads as EAGLE-3.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..decode.generate import generate
from ..drafts.load import shipped, trained
from ..drafts.shape import Chain
from ..models.config import read_json
from ..models.load import Target, load_target
from ..models.smollm2 import TargetUnavailable
from ..models.weights import tensor_names
from ..train.evaluate import Row, evaluate
from ..train.probes.rendering import Rendering, template_called
from .ttt_arms import KIND_NAMES
from .ttt_lab import open_draft

FLAGS = ("fc_norm", "norm_output")


@dataclass(frozen=True)
class Served:
    """One checkpoint in real decoding.

    Attributes:
        identical: every answer is the target's own, token by token.
        tokens_per_step: over all answers.
    """

    name: str
    kind: str
    flags: tuple[str, ...]
    identical: bool
    tokens_per_step: float


def served_alike(
    target: Target, directories: Mapping[str, Path], prompts: Sequence[Sequence[int]], *, k: int, max_new_tokens: int
) -> list[Served]:
    """Every checkpoint through the same loader and the same decoder."""
    plain = [generate(target, list(ids), max_new_tokens=max_new_tokens).tokens for ids in prompts]
    found = []
    for name, directory in directories.items():
        drafter = trained(directory, target)
        results = [
            generate(target, list(ids), drafter=drafter, shape=Chain(k), max_new_tokens=max_new_tokens)
            for ids in prompts
        ]
        steps = sum(len(one.steps) for one in results)
        accepted = sum(len(step.path) for one in results for step in one.steps)
        config = drafter.draft.config
        found.append(
            Served(
                name,
                config.kind,
                tuple(flag for flag in FLAGS if getattr(config, flag)),
                [one.tokens for one in results] == plain,
                1 + accepted / max(1, steps),
            )
        )
    return found


def told_apart(one: Path, other: Path) -> dict[str, list[str]]:
    """What two checkpoints differ in: config keys with another value, and tensors that only one of them has."""
    configs = [flat(read_json(directory / "config.json")) for directory in (one, other)]
    names = [set(tensor_names(directory)) for directory in (one, other)]
    keys = sorted(key for key in configs[0] | configs[1] if configs[0].get(key) != configs[1].get(key))
    return {"config": keys, "tensors": sorted(names[0] ^ names[1])}


def flat(raw: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested keys with dots."""
    found: dict[str, Any] = {}
    for key, value in raw.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return found


@torch.no_grad()
def loads_without_flags(target: Target, directory: Path, tokens: Sequence[int], features_TF: torch.Tensor) -> float:
    """Largest difference of any logit, at depths 1 to 3, when an EAGLE-3 config has never heard of 3.1's flags."""
    with tempfile.TemporaryDirectory(prefix="labsim-flags-") as scratch:
        older = Path(scratch) / "draft"
        shutil.copytree(directory, older)
        raw = read_json(older / "config.json")
        (older / "config.json").write_text(json.dumps({key: raw[key] for key in raw if key not in FLAGS}))
        text_1T, worst = torch.tensor([list(tokens)]), 0.0
        drafts = [open_draft(place, target).draft for place in (directory, older)]
        walks = [draft.ttt_forward(text_1T, features_TF[None].float(), 3) for draft in drafts]
        for one, other in zip(*walks, strict=True):
            logits = [draft.logits(step.output_BLH) for draft, step in zip(drafts, (one, other), strict=True)]
            worst = max(worst, float((logits[0] - logits[1]).abs().max()))
        return worst


@dataclass(frozen=True)
class InService:
    """One draft asked in one way: `row` is what `labsim eval` says of it."""

    kind: str
    prompt: str
    row: Row

    def said(self) -> dict[str, Any]:
        """As a row of a table."""
        row = self.row
        sink = "first token" if row.sink_token is None else f"sink (token {row.sink_token})"
        return {
            "draft": KIND_NAMES[self.kind],
            "prompt": self.prompt,
            "tokens per step": row.acceptance_length,
            "95 %": f"{row.interval[0]:.2f} to {row.interval[1]:.2f}",
            "size of the state": span(row.hidden_norm),
            sink: span(row.sink_mass),
            "own branch": span(row.self_mass),
            "entropy": span(row.entropy),
        }


def probed_in_service(
    name: str, kinds: Sequence[str], renderings: Mapping[str, tuple[str, bool]], *, prompts: int, k: int
) -> list[InService]:
    """Real decoding with probes, once per draft and rendering.

    `renderings` maps a name to (template, with BoS). What is not there is said in a sentence and left out. ValueError
    for a draft that is there and does not fit.
    """
    try:
        target = load_target(name)
    except TargetUnavailable as error:
        print(f"{name} is not on this machine: {error}")
        return []
    found = []
    for kind in kinds:
        try:
            directory = shipped(kind, target)
        except ValueError:
            print(f"No {kind} draft comes with the course for {name} yet; its rows are left out.")
            continue
        drafter = trained(directory, target)
        for called, (template, bos) in renderings.items():
            rendering = Rendering(template=template_called(template, target), bos=bos)
            [row] = evaluate(
                target, drafter, ["chat"], k=k, seeds=2, prompts_per_seed=prompts // 2, max_new_tokens=64,
                rendering=rendering,
            )  # fmt: skip
            found.append(InService(kind, called, row))
    return found


def span(by_depth: Sequence[float] | None) -> str:
    """First and last depth."""
    return "-" if not by_depth else f"{by_depth[0]:.2f} -> {by_depth[-1]:.2f}"
