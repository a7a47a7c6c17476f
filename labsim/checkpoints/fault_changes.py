"""What each planted fault does to config.json and to the tensors, both changed in place.

Tensors carry the names of the public layout 1, as `labsim train` writes them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..drafts.eagle_dialects import LAYER_IDS
from ..drafts.vocabulary import DraftVocabulary

Config = dict[str, Any]
Tensors = dict[str, torch.Tensor]
STALE_EVERY = 8  # of the draft ids, one is replaced: rows behind it stand for a neighbour's token
OTHER_TEMPLATE = (
    "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)


def nothing(raw: Config, tensors: Tensors) -> None:
    """The fault lies in another file."""


def set_layers(raw: Config, layers: list[int]) -> None:
    """In all three places, each in its numbering."""
    raw[LAYER_IDS] = layers
    raw["eagle_config"] = raw.get("eagle_config", {}) | {LAYER_IDS: [layer - 1 for layer in layers]}
    if "labsim" in raw:
        raw["labsim"] = raw["labsim"] | {"feature_layers": layers}


def layers_one_off(raw: Config, tensors: Tensors) -> None:
    set_layers(raw, [layer + 1 for layer in raw[LAYER_IDS]])


def four_layers(raw: Config, tensors: Tensors) -> None:
    set_layers(raw, [*raw[LAYER_IDS], raw[LAYER_IDS][-1] + 3])


def layers_reversed(raw: Config, tensors: Tensors) -> None:
    set_layers(raw, raw[LAYER_IDS][::-1])


def reduced(tensors: Tensors) -> DraftVocabulary:
    """ValueError for a head over the target's whole vocabulary, whose mapping is trivial."""
    t2d = tensors["t2d"]
    if bool(t2d.all()):
        raise ValueError("this draft says all of the target's tokens: it has no mapping to spoil")
    return DraftVocabulary.of(t2d.nonzero()[:, 0], len(t2d))


def d2t_zeros(raw: Config, tensors: Tensors) -> None:
    reduced(tensors)
    tensors["d2t"] = torch.zeros_like(tensors["d2t"])


def d2t_absolute(raw: Config, tensors: Tensors) -> None:
    tensors["d2t"] = reduced(tensors).ids_N


def d2t_stale(raw: Config, tensors: Tensors) -> None:
    """Another honest vocabulary of the same size: some ids fall out, the lowest unused ones come in."""
    old = reduced(tensors)
    kept = [token for index, token in enumerate(old.ids_N.tolist()) if index % STALE_EVERY != STALE_EVERY - 1]
    unused = [token for token in range(len(old.t2d)) if not bool(old.t2d[token])]
    new = DraftVocabulary.of([*kept, *unused[: len(old) - len(kept)]], len(old.t2d))
    if len(new) != len(old):
        raise ValueError(f"only {len(unused)} tokens are outside this draft's vocabulary: too few to replace some")
    tensors["d2t"], tensors["t2d"] = new.d2t, new.t2d


def flip(flag: str) -> Callable[[Config, Tensors], None]:
    """The flag's other value; the tensors stay, since it needs none."""

    def change(raw: Config, tensors: Tensors) -> None:
        raw[flag] = not raw.get(flag, False)

    return change


def norms_of(raw: Config, tensors: Tensors) -> list[str]:
    """ValueError for a draft without fc_norm."""
    names = [name for name in tensors if name.startswith("fc_norm.")]
    if not names or not raw.get("fc_norm"):
        raise ValueError("this draft has no fc_norm to spoil: take an EAGLE-3.1")
    return names


def fc_norm_skipped(raw: Config, tensors: Tensors) -> None:
    for name in norms_of(raw, tensors):
        del tensors[name]


def fc_norm_flag_off(raw: Config, tensors: Tensors) -> None:
    norms_of(raw, tensors)
    raw["fc_norm"] = False


def final_norm_missing(raw: Config, tensors: Tensors) -> None:
    del tensors["norm.weight"]


def halves_swapped(raw: Config, tensors: Tensors) -> None:
    for name in ("q_proj", "k_proj", "v_proj"):
        key = f"midlayer.self_attn.{name}.weight"
        first, second = tensors[key].chunk(2, dim=1)
        tensors[key] = torch.cat([second, first], dim=1).contiguous()


def rope_rewritten(raw: Config, tensors: Tensors) -> None:
    raw["rope_theta"] = 100 * raw["rope_theta"]


def short_positions(raw: Config, tensors: Tensors) -> None:
    raw["max_position_embeddings"] = raw["max_position_embeddings"] // 2


def tied(raw: Config, tensors: Tensors) -> None:
    raw["tie_word_embeddings"] = True


def embedding_never_loaded(raw: Config, tensors: Tensors) -> None:
    tensors["embed_tokens.weight"] = torch.full((raw["vocab_size"], raw["hidden_size"]), float("nan")).half()
