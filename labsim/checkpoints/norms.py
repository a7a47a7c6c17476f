"""Flags against tensors: which norms does the draft have, and will the engine compute them?

    fc_norm              one RMSNorm per feature layer before fc      fc_norm.{0,1,2}.weight
    norm_before_fc       one RMSNorm over all features before fc      input_norm.weight
    norm_output          the next depth consumes norm(a)              none: norm.weight is used again
    norm_before_residual the residual starts at the normed state      none
    use_last_layernorm   false: no norm before the head               (no norm.weight)

EAGLE-3.1 is the first and the third. A flag without tensors, or tensors without a flag, is a norm that was trained and
is not computed, or the reverse. The two flags without tensors cannot be checked by looking: the behavioural check
tries them both ways.

Norm weights that are exactly 1 throughout are what a loader leaves behind that skipped the tensor. Training moves all
of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..drafts.eagle_config import FEATURES
from ..models.weights import WEIGHT_TYPES
from .check import Check, fault, listed, ok, warning
from .layers import inside
from .on_disk import OnDisk

SILENT = "no error; acceptance lower at every depth, the first included"


def flag(raw: dict[str, Any], name: str, default: bool = False) -> bool:
    """At the top, else inside `eagle_config`."""
    value = raw.get(name, inside(raw, "eagle_config", name))
    return default if value is None else bool(value)


def norm_checks(disk: OnDisk) -> list[Check]:
    """Of an EAGLE-3 draft; other kinds have no switched norms, only weights to look at."""
    checks = list(untouched(disk))
    if disk.eagle3:
        checks += [*per_layer(disk), *over_all(disk), *final(disk), *feedback(disk)]
    return checks or [ok("norms", said(disk))]


def said(disk: OnDisk) -> str:
    if not disk.eagle3:
        return "none of them is exactly 1"
    names = ("fc_norm", "norm_output", "norm_before_fc", "norm_before_residual")
    on = [name for name in names if flag(disk.raw, name)]
    return f"flags on: {', '.join(on) or 'none'}; their tensors are there, none of them exactly 1"


def per_layer(disk: OnDisk) -> Iterator[Check]:
    """fc_norm."""
    wanted = {f"fc_norm.{index}.weight" for index in range(FEATURES)}
    found = {name for name in disk.tensors if name.startswith("fc_norm.")}
    on = flag(disk.raw, "fc_norm")
    if on and (missing := wanted - found):
        yield fault(
            "norms: fc_norm missing",
            f"fc_norm is true, and {listed(missing)} {'is' if len(missing) == 1 else 'are'} not there",
            "the norms stay at 1, in silence: features weighed otherwise than in training; acceptance lower",
            "export the fc_norm tensors too; a loader that skips unknown names loses them",
        )
    if found and not on:
        yield fault(
            "norms: fc_norm flag off",
            f"{listed(found)} are there, and fc_norm is not true",
            SILENT,
            "set fc_norm to true; vLLM reads it from 0.22 on and takes false where it is absent",
        )
    if on and flag(disk.raw, "norm_before_fc"):
        yield fault(
            "norms: both before fc",
            "fc_norm and norm_before_fc are both true; they exclude each other",
            "speculators refuses the config; other engines apply both, or one",
            "keep the one whose tensors were trained (fc_norm.{0,1,2} or input_norm)",
        )


def over_all(disk: OnDisk) -> Iterator[Check]:
    """norm_before_fc."""
    found, on = "input_norm.weight" in disk.tensors, flag(disk.raw, "norm_before_fc")
    if on and not found:
        yield fault(
            "norms: input_norm missing",
            "norm_before_fc is true, and input_norm.weight is not there",
            "the norm stays at 1, in silence; acceptance lower",
            "export input_norm.weight too",
        )
    if found and not on:
        yield fault(
            "norms: norm_before_fc off",
            "input_norm.weight is there, and norm_before_fc is not true",
            SILENT,
            "set norm_before_fc to true, at the top; vLLM also reads it inside eagle_config",
        )


def final(disk: OnDisk) -> Iterator[Check]:
    """The norm before the head."""
    on = flag(disk.raw, "use_last_layernorm", True)
    found = "norm.weight" in disk.tensors
    if on and not found:
        yield fault(
            "norms: final norm missing",
            "norm.weight is not there, and use_last_layernorm is not false",
            "logits too flat or too sharp: acceptance length 1.4 where 1.8 was trained",
            "export norm.weight; or set eagle_config.use_last_layernorm to false if it was trained without",
        )
    if found and not on:
        yield fault(
            "norms: final norm switched off",
            "norm.weight is there, and eagle_config.use_last_layernorm is false",
            "an engine that obeys drops a norm that was trained",
            "set use_last_layernorm to true",
        )


def feedback(disk: OnDisk) -> Iterator[Check]:
    """norm_output, alone or with fc_norm."""
    output, layers = flag(disk.raw, "norm_output"), flag(disk.raw, "fc_norm")
    if output and not flag(disk.raw, "use_last_layernorm", True):
        yield fault(
            "norms: nothing to feed back",
            "norm_output is true, and use_last_layernorm is false",
            "the engine normalises with a weight of 1, or stops",
            "set one of the two right",
        )
    if output != layers:
        lacks = "fc_norm" if output else "norm_output"
        yield warning(
            "norms: half of 3.1",
            f"{'norm_output' if output else 'fc_norm'} is true and {lacks} is not: a form of its own, not EAGLE-3.1",
            "right if it was trained so (speculators' command line sets norm_output without fc_norm); otherwise "
            + ("acceptance lower at every depth" if output else "right at depth 1, falling from depth 2 on"),
            f"compare with the training's flags; engines take {lacks} as false where it is absent",
        )


def untouched(disk: OnDisk) -> Iterator[Check]:
    """Norm weights of exactly 1, or 0."""
    vectors = {name: tensor for name, tensor in disk.tensors.items() if name.endswith("weight") and tensor.ndim == 1}
    weights = {name: tensor for name, tensor in vectors.items() if tensor.dtype in WEIGHT_TYPES}
    ones = {name for name, tensor in weights.items() if tensor.numel() and bool((tensor == 1).all())}
    if ones:
        yield warning(
            "norms: exactly 1",
            f"{listed(ones)}: every weight is 1",
            "a tensor that loading skipped, or that was never trained; acceptance lower if the training had moved it",
            "compare with the training's own file; a draft that was trained has moved all its norms",
        )
    if shrunk := {name for name, tensor in weights.items() if tensor.numel() and float(tensor.abs().max()) < 1e-4}:
        yield warning(
            "norms: almost 0",
            f"{listed(shrunk)}: no weight above 1e-4",
            "a part of the input that the draft does not hear",
            "a type that underflowed, or a learning rate that was too high",
        )


def norm_output_note(raw: dict[str, Any]) -> Check:
    """Who computes norm_output as the paper has it."""
    if not flag(raw, "norm_output"):
        explicit = raw.get("norm_output") is False
        return ok(
            "feedback",
            "the state before the norm is fed back (EAGLE-3)"
            + ("; norm_output is written as false, which SpecForge 0.2.0 takes for 'no norm before the head'"
               if explicit else ""),
        )  # fmt: skip
    return ok(
        "feedback",
        "the normed state is fed back (norm_output): vLLM from 0.22, SGLang and TensorRT-LLM read the flag; older "
        "vLLM, EAGLE and Model-Optimizer ignore it and are right at depth 1 only. SpecForge 0.2.0 trained with "
        "the state before the norm under this flag",
    )
