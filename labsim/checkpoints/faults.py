"""Faults planted on purpose: what public reports describe, each in a checkpoint that loads and is wrong.

A fault is learnt by its symptom. So each of these takes a healthy draft's directory and writes another one with one
thing changed, the thing that somebody, somewhere, got wrong. `symptom` serves it as an engine would and gives the
curve; the doctor names it. Faults of the trainer are in `trainer_faults`.

    for fault in faults():
        plant(fault.name, healthy, scratch / fault.name)
        curve = symptom(scratch / fault.name, target, texts)
        examine(scratch / fault.name, "nano").faults
"""

from __future__ import annotations

import difflib
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..models.config import read_json
from ..models.files import write_atomically
from ..models.load import Target
from ..models.weights import read_weights, tensor_bytes
from ..train.ttt.data import Document
from . import fault_changes as changes
from .curve import Curve, K, measure, read_texts
from .served import serve
from .trainer_faults import TRAINER_FAULTS

Config = dict[str, Any]
Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        name: for `plant`, or for `trainer_faults.planted_loss`.
        where: `checkpoint` or `trainer`.
        cause, symptom, remedy: one sentence each; the symptom is what its user sees, without knowing the cause.
        caught_by: the doctor's check, or the test, that finds it.
        runs: the planted draft can be run, so `symptom` gives a curve.
    """

    name: str
    where: str
    cause: str
    symptom: str
    remedy: str
    caught_by: str
    runs: bool = True


CHECKPOINT: dict[str, tuple[Fault, Callable[[Config, Tensors], None]]] = {}


def checkpoint_fault(
    name: str, change: Callable[[Config, Tensors], None], cause: str, symptom: str, remedy: str, caught_by: str,
    *, runs: bool = True,
) -> None:  # fmt: skip
    CHECKPOINT[name] = Fault(name, "checkpoint", cause, symptom, remedy, caught_by, runs), change


NOTHING = "no error, the text is still right, acceptance length about 1"
checkpoint_fault(
    "layers-one-off", changes.layers_one_off,
    "the ids were written in the numbering 'output of layer i' and read as 'input of layer i', or the reverse",
    "nothing but a slightly lower acceptance at every depth",
    "write the ids as input of layer i at the top of config.json, one less inside eagle_config",
    "feature layers: one off the usual",
)  # fmt: skip
checkpoint_fault(
    "four-layers", changes.four_layers,
    "the last layer, which the teacher needs, was written beside the three that the draft reads",
    "a shape error in fc, or the wrong slice of the features",
    "name the three layers that fc was trained on",
    "feature layers: 4 of them", runs=False,
)  # fmt: skip
checkpoint_fault(
    "layers-reversed", changes.layers_reversed,
    "features were concatenated high to low, and engines collect them low to high",
    "lower acceptance at every depth, the first included",
    "sort the ids and fc's column blocks together",
    "feature layers: not ascending",
)  # fmt: skip
checkpoint_fault(
    "d2t-zeros", changes.d2t_zeros,
    "d2t was allocated and never filled when the checkpoint was written",
    NOTHING, "restore d2t from the training, or from the true places of t2d", "d2t: zeros",
)  # fmt: skip
checkpoint_fault(
    "d2t-absolute", changes.d2t_absolute,
    "d2t holds target ids where the layout wants offsets",
    NOTHING, "subtract the draft ids", "d2t: absolute ids",
)  # fmt: skip
checkpoint_fault(
    "d2t-stale", changes.d2t_stale,
    "a fine-tuning counted tokens anew and wrote a new mapping beside a head with the old rows",
    "acceptance collapses; d2t and t2d agree with each other",
    "keep the mapping that the head was trained with",
    "head rows: another mapping",
)  # fmt: skip
checkpoint_fault(
    "feedback-flag", changes.flip("norm_output"),
    "the next depth consumes another state than in training: pre-norm under the name 3.1, or the reverse",
    "depth 1 is as good as ever, deeper ones collapse",
    "set norm_output as it was trained",
    "feedback: norm_output",
)  # fmt: skip
checkpoint_fault(
    "residual-flag", changes.flip("norm_before_residual"),
    "the residual stream starts after hidden_norm where it was trained to start before it, or the reverse",
    "lower acceptance at every depth",
    "set norm_before_residual as it was trained",
    "residual: norm_before_residual",
)  # fmt: skip
checkpoint_fault(
    "fc-norm-skipped", changes.fc_norm_skipped,
    "the loader or the export did not know fc_norm's tensors and left them out",
    "lower acceptance at every depth; the norms stand at 1, in silence",
    "export fc_norm.{0,1,2}.weight too",
    "norms: fc_norm missing",
)  # fmt: skip
checkpoint_fault(
    "fc-norm-flag-off", changes.fc_norm_flag_off,
    "the tensors are there and the flag was lost on the way",
    "lower acceptance at every depth",
    "set fc_norm to true",
    "norms: fc_norm flag off",
)  # fmt: skip
checkpoint_fault(
    "final-norm-missing", changes.final_norm_missing,
    "norm.weight was left out, and the norm before the head stays at 1",
    "a somewhat lower acceptance, the loss would be plausible",
    "export norm.weight",
    "norms: final norm missing",
)  # fmt: skip
checkpoint_fault(
    "halves-swapped", changes.halves_swapped,
    "the state stands first and the embedding second in the 2H concatenation",
    "the draft loads and behaves as a random one",
    "swap the halves of the columns of q, k and v",
    "input: halves swapped",
)  # fmt: skip
checkpoint_fault(
    "rope-rewritten", changes.rope_rewritten,
    "an export wrote another rope_theta than the training had; rope_parameters kept the right one",
    "acceptance lower, and more so with the length of the text",
    "write rope_theta, rope_scaling and rope_parameters from the training",
    "rope: disagrees with itself",
)  # fmt: skip
checkpoint_fault(
    "short-positions", changes.short_positions,
    "max_position_embeddings is that of the training texts",
    "right until that length; beyond it out of bounds, or no drafts",
    "write the target's context",
    "max positions: below the target's",
)  # fmt: skip
checkpoint_fault(
    "tied", changes.tied,
    "tie_word_embeddings came along with a copy of the target's config.json",
    "an engine that ties puts the embedding in the head's place: a shape error, or nothing accepted",
    "set tie_word_embeddings to false",
    "embeddings: tied",
)  # fmt: skip
checkpoint_fault(
    "embedding-never-loaded", changes.embedding_never_loaded,
    "the trainer marks the embedding with NaN until the target's is loaded, and it was saved before",
    "every logit is NaN",
    "load the target's rows before saving, or leave embed_tokens out",
    "values: not numbers", runs=False,
)  # fmt: skip
checkpoint_fault(
    "template-differs", changes.nothing,
    "the training rendered its prompts by another chat template than the target's",
    "good training figures, low acceptance in service",
    "serve with the training's template, or train on answers in the target's",
    "template: differs",
)  # fmt: skip


def faults(where: str | None = None) -> tuple[Fault, ...]:
    """All of them, or those of a `checkpoint` or of the `trainer`."""
    known = [fault for fault, _ in CHECKPOINT.values()]
    known += [Fault(one.name, "trainer", one.cause, one.symptom, one.remedy, one.caught_by) for one in TRAINER_FAULTS]
    return tuple(fault for fault in known if where in (None, fault.where))


def fault_named(name: str) -> Fault:
    """ValueError for a name that no fault has."""
    known = {fault.name: fault for fault in faults()}
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"fault {name!r} is not known: {hint}(known: {', '.join(known)})")
    return known[name]


def plant(name: str, directory_in: str | Path, directory_out: str | Path) -> Path:
    """Copy an EAGLE-3 or 3.1 draft with one fault in it. The other files come along.

    Raises:
        ValueError: a name that is not a checkpoint fault's, a draft that has nothing to spoil in that way (fc_norm of
            an EAGLE-3), a directory that is there already.
    """
    fault = fault_named(name)
    if fault.where != "checkpoint":
        raise ValueError(f"{name!r} is a fault of the trainer: see labsim.checkpoints.trainer_faults.planted_loss")
    source, out = Path(directory_in), Path(directory_out)
    raw, tensors = read_json(source / "config.json"), read_weights(source)
    if "midlayer.self_attn.q_proj.weight" not in tensors:
        raise ValueError(f"{source} is no EAGLE-3 draft in the layout that `labsim train` writes")
    if out.exists():
        raise ValueError(f"{out} is there already; give a new directory")
    CHECKPOINT[name][1](raw, tensors)
    shutil.copytree(source, out)
    write_atomically(out / "model.safetensors", tensor_bytes(tensors, {"format": "pt"}))
    write_atomically(out / "config.json", (json.dumps(raw, indent=2) + "\n").encode())
    if name == "template-differs":
        (out / "chat_template.jinja").write_text(changes.OTHER_TEMPLATE)
    return out


def symptom(directory: str | Path, target: Target, texts: Sequence[Document], k: int = K) -> Curve:
    """Acceptance by depth of a draft as an engine serves it, on greedy texts of the target (`curve.greedy_texts`).

    ValueError where no engine could run it.
    """
    served = serve(directory, target)
    return measure(served, read_texts(target, texts, served.layers), k)
