"""Other wirings of the same weights: if one of them accepts clearly more, the checkpoint was meant so.

A wiring fault leaves every shape as it is. What betrays it is that the *wrong* way of computing the draft is better
than the configured one. So the doctor tries, one at a time, the wirings that public reports confuse.

Shapes: H hidden size, N draft vocabulary.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch

from ..drafts.eagle import EagleDraft
from ..drafts.mtp import MTPDraft
from ..drafts.recurrent import RecurrentDraft
from ..drafts.rotary import frequencies, rope_settings
from .on_disk import OnDisk
from .served import Served
from .target import TargetFacts


@dataclass(frozen=True)
class Variant:
    """One wiring.

    Attributes:
        name: the fault that it would mend, as `check: fault`.
        says: what was done to the draft.
        symptom, remedy: of the fault.
    """

    name: str
    says: str
    symptom: str
    remedy: str
    served: Served


def variants(served: Served, disk: OnDisk, target: TargetFacts) -> Iterator[Variant]:
    """Every wiring that this draft can be tried in."""
    yield from layer_variants(served, target.config.num_layers)
    yield from time_variants(served)
    yield from vocabulary_variants(served, disk)
    yield from joining_variants(served)
    yield from rope_variants(served, target)
    if isinstance(served.draft, EagleDraft) and served.draft.config.generation == 3:
        yield from eagle3_variants(served, disk)


def layer_variants(served: Served, num_layers: int) -> Iterator[Variant]:
    for by in (-1, 1):
        layers = tuple(layer + by for layer in served.layers)
        if all(0 <= layer <= num_layers for layer in layers):
            yield Variant(
                "feature layers: one off",
                f"given the states after {list(layers)} layers in place of {list(served.layers)}",
                "trains normally, acceptance lower at every depth",
                "the two numberings of layers were mixed: name the layers that accept more",
                replace(served, layers=layers),
            )
    if len(served.layers) == 3:
        yield Variant(
            "feature layers: reversed",
            f"given the layers {list(served.layers[::-1])}, high before low",
            "acceptance near nothing",
            "concatenate in the order of the training",
            replace(served, layers=served.layers[::-1]),
        )


def time_variants(served: Served) -> Iterator[Variant]:
    for late, word in ((1, "the position before"), (-1, "the position after")):
        yield Variant(
            "features: one position off",
            f"given at each position the state of {word}",
            "good training figures, acceptance length about 1 in service",
            "pair the state at t with the token at t + 1: the training's data were shifted by one",
            replace(served, late=late),
        )


def vocabulary_variants(served: Served, disk: OnDisk) -> Iterator[Variant]:
    size, vocab = len(served.ids_N), served.draft.config.vocab_size
    if size == vocab:
        return
    readings: dict[str, torch.Tensor] = {"d2t: absolute ids": served.ids_N - torch.arange(size)}
    readings["d2t: not the identity"] = torch.arange(size)
    t2d = disk.tensors.get("t2d")
    if t2d is not None and t2d.shape == (vocab,) and int(t2d.bool().sum()) == size:
        readings["d2t: lost"] = t2d.bool().nonzero()[:, 0]
    says = {
        "d2t: absolute ids": "with d2t taken for target ids",
        "d2t: not the identity": "with draft id i taken for target id i",
        "d2t: lost": "with the mapping that t2d holds",
    }
    for name, ids_N in readings.items():
        if not torch.equal(ids_N, served.ids_N):
            yield Variant(
                name,
                says[name],
                "no error, text still right, acceptance length about 1",
                "write d2t as target id less draft id, from the mapping that accepts more",
                replace(served, ids_N=ids_N),
            )


def joining_variants(served: Served) -> Iterator[Variant]:
    draft = served.draft
    if not isinstance(draft, EagleDraft | MTPDraft):
        return
    third = isinstance(draft, EagleDraft) and draft.config.generation == 3
    how = "attention's input" if third else "the joining layer's input"

    def swap(other: EagleDraft | MTPDraft) -> None:
        attention = other.layer.self_attn
        for projection in (attention.q_proj, attention.k_proj, attention.v_proj) if third else (other.fc,):
            first, second = projection.weight.chunk(2, dim=1)
            projection.weight.copy_(torch.cat([second, first], dim=1))

    yield Variant(
        "input: halves swapped",
        f"with the two halves of {how}, embedding and state, the other way round",
        "a draft that loads and behaves as a random one",
        "the embedding comes first: swap the two halves of the columns of those projections",
        replace(served, draft=changed(draft, swap)),
    )


def rope_variants(served: Served, target: TargetFacts) -> Iterator[Variant]:
    """The target's angles, where the draft's differ."""
    draft = served.draft
    if not isinstance(draft, RecurrentDraft):
        return
    try:
        angles, scale = frequencies(rope_settings(target.raw), draft.config.head_dim, target.config.max_positions)
    except ValueError:  # the target's own kind of scaling is one that no draft can have
        return
    if torch.allclose(angles, draft.inverse_frequencies) and scale == draft.rope_scale:
        return
    other = copy.copy(draft)
    other.inverse_frequencies, other.rope_scale = angles, scale
    yield Variant(
        "rope: not the trained one",
        "with the target's rotary angles",
        "acceptance falls with the length of the text",
        "write rope_theta, rope_scaling and rope_parameters as the target has them",
        replace(served, draft=other),
    )


def eagle3_variants(served: Served, disk: OnDisk) -> Iterator[Variant]:
    draft = served.draft
    assert isinstance(draft, EagleDraft)
    config = draft.config
    if config.final_norm:
        word = "the state before the norm" if config.norm_output else "the normed state"
        yield Variant(
            "feedback: norm_output",
            f"fed back {word}",
            "right at depth 1, acceptance falling from depth 2 on",
            f"norm_output is {str(config.norm_output).lower()}, and the draft was trained with the other value: set "
            "the flag as it was trained (3.1 wants a training that feeds back the normed state), or train again",
            replace(served, draft=reconfigured(draft, norm_output=not config.norm_output)),
        )
    yield Variant(
        "residual: norm_before_residual",
        "with the residual started "
        + ("before" if config.norm_before_residual else "after")
        + " hidden_norm",
        "acceptance lower at every depth: .131 where .565 is right was reported",
        f"set norm_before_residual to {str(not config.norm_before_residual).lower()}",
        replace(served, draft=reconfigured(draft, norm_before_residual=not config.norm_before_residual)),
    )  # fmt: skip
    norms = [disk.tensors.get(f"fc_norm.{index}.weight") for index in range(len(served.layers))]
    if config.fc_norm:
        yield Variant(
            "norms: fc_norm flag on",
            "without fc_norm",
            "acceptance lower at every depth",
            "set fc_norm to false, and leave its tensors out",
            replace(served, draft=reconfigured(draft, fc_norm=False)),
        )
    elif all(norm is not None and norm.shape == (config.target_hidden_size,) for norm in norms):
        other = EagleDraft(
            replace(config, fc_norm=True, norm_before_fc=False), draft.embedding_VH
        ).to(draft.embedding_VH)  # fmt: skip
        state = other.state_dict() | draft.state_dict()
        state |= {f"fc_norm.{index}.weight": norm.to(draft.embedding_VH) for index, norm in enumerate(norms)}
        other.load_state_dict({name: state[name] for name in other.state_dict()})
        yield Variant(
            "norms: fc_norm flag off",
            "with the fc_norm that lies in the file",
            "acceptance lower at every depth",
            "set fc_norm to true",
            replace(served, draft=other.eval()),
        )


def reconfigured(draft: EagleDraft, **flags: bool) -> EagleDraft:
    """The same weights under other flags: those that need no tensors, or need fewer."""
    other = copy.copy(draft)
    other.config = replace(draft.config, **flags)
    return other


@torch.no_grad()
def changed(draft: torch.nn.Module, change: Callable[[torch.nn.Module], None]) -> torch.nn.Module:
    """A copy with other weights."""
    other = copy.deepcopy(draft)
    change(other)
    return other
