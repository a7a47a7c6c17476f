"""config.json of a draft: three public dialects in, one out.

    dialect 1   EAGLE, SpecForge, TorchSpec, NeMo     flat, `LlamaForCausalLMEagle3`
    dialect 2   speculators                           sizes inside `transformer_layer_config`, `Eagle3DraftModel`
    dialect 3   Model-Optimizer                       dialect 1 with more switches inside `eagle_config`

They agree on the sizes and quarrel over one list. `eagle_aux_hidden_state_layer_ids` counts "input of layer i" with
EAGLE, vLLM and speculators, at the top of the file, and "output of layer i" with the others, inside `eagle_config`:
one less for the same tensor. Read one off, a draft loads and works, a little worse. So the usual choices, [2, n//2,
n-3] and [1, n//2-1, n-4], are recognised wherever they stand; any other list is taken by its place; and what is
written here says it in both places, each in its own numbering.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..models.config import ModelConfig
from .eagle_config import EagleConfig, default_feature_layers
from .heads import HeadsConfig
from .mtp import MTPConfig
from .rotary import rope_settings

LAYER_IDS = "eagle_aux_hidden_state_layer_ids"
KINDS = ("eagle1", "eagle3", "eagle3.1", "mtp", "heads")
DraftConfig = EagleConfig | MTPConfig | HeadsConfig

# Model-Optimizer's switches: the values that EAGLE-3 has.
FIXED_SWITCHES = {
    "use_aux_hidden_state": True,
    "use_input_layernorm_in_first_layer": True,
    "use_mtp_layernorm": False,
    "next_layer_regular": True,
    "parallel_draft_step": 1,
}


def kind_of(raw: dict[str, Any], tensor_names: Collection[str] = ()) -> str:
    """What a config.json describes: `eagle1`, `eagle3` (3.1 too), `mtp`, `heads` or `small`.

    A public EAGLE-1 config is that of a Llama; its joining layer, `fc.weight`, gives it away. ValueError for a draft of
    a kind not computed here.
    """
    if kind := raw.get("labsim", {}).get("kind"):
        return kind
    names = " ".join(raw.get("architectures") or ())
    speculators = raw.get("speculators_model_type")
    if speculators == "eagle3" or "eagle3" in names.lower():
        return "eagle3"
    if speculators is not None:
        raise ValueError(f"a speculators draft of the kind {speculators!r} is not computed here; right is 'eagle3'")
    return "eagle1" if {"fc.weight", "model.fc.weight"} & set(tensor_names) else "small"


def read_config(raw: dict[str, Any], kind: str, target: ModelConfig, name: str) -> DraftConfig:
    """The draft's config, for this target. ValueError, naming the file, where they do not fit."""
    if kind == "heads":
        return read_heads(raw, target, name)
    sizes = raw.get("transformer_layer_config") or raw
    check_layer(sizes, name)
    heads = sizes["num_attention_heads"]
    common: dict[str, Any] = {
        "vocab_size": sizes["vocab_size"],
        "draft_vocab_size": raw.get("draft_vocab_size") or sizes["vocab_size"],
        "hidden_size": sizes["hidden_size"],
        "target_hidden_size": raw.get("target_hidden_size") or sizes["hidden_size"],
        "intermediate_size": sizes["intermediate_size"],
        "num_heads": heads,
        "num_kv_heads": sizes.get("num_key_value_heads") or heads,
        "head_dim": sizes.get("head_dim") or sizes["hidden_size"] // heads,
        "max_positions": sizes.get("max_position_embeddings", 2048),
        "rms_norm_eps": sizes.get("rms_norm_eps", 1e-6),
        "rope": rope_settings(sizes),
        "attention_bias": bool(sizes.get("attention_bias", False)),
        "initializer_range": sizes.get("initializer_range", 0.02),
    }
    if common["vocab_size"] != target.vocab_size:
        raise ValueError(f"{name}: a draft for {common['vocab_size']} tokens, and the target has {target.vocab_size}")
    if common["target_hidden_size"] != target.hidden_size:
        raise ValueError(
            f"{name}: a draft for states of width {common['target_hidden_size']}, and the target's are "
            f"{target.hidden_size} wide"
        )
    last = tuple(raw.get("labsim", {}).get("feature_layers") or (target.num_layers,))
    try:
        if kind == "mtp":
            return MTPConfig(**common, feature_layers=last)
        if kind == "eagle1":
            return EagleConfig(
                **common,
                generation=1,
                final_norm=False,
                fc_bias=bool(raw.get("bias", True)),
                feature_layers=last,
            )
        return EagleConfig(
            **common, feature_layers=feature_layers(raw, target.num_layers, name), **eagle3_flags(raw, name)
        )
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def check_layer(sizes: dict[str, Any], name: str) -> None:
    """ValueError unless one Llama layer is described."""
    needed = ("vocab_size", "hidden_size", "intermediate_size", "num_attention_heads")
    if missing := [key for key in needed if key not in sizes]:
        raise ValueError(f"{name} lacks {', '.join(missing)}")
    if sizes.get("num_hidden_layers", 1) != 1:
        raise ValueError(f"{name} has {sizes['num_hidden_layers']} draft layers; drafts of one layer are computed here")
    if sizes.get("hidden_act", "silu") != "silu":
        raise ValueError(f"{name} uses the activation {sizes['hidden_act']!r}; silu (SwiGLU) is computed here")
    if sizes.get("mlp_bias"):
        raise ValueError(f"{name} has biases in the MLP, which are not computed here")


def eagle3_flags(raw: dict[str, Any], name: str) -> dict[str, bool]:
    """The norms' switches, which stand at the top or inside `eagle_config`; all off unless said."""
    inner = raw.get("eagle_config") or {}
    for key, right in FIXED_SWITCHES.items():
        if key in inner and inner[key] != right:
            raise ValueError(f"{key} is {inner[key]!r}; {right!r} is what is computed here")
    flags = ("fc_norm", "norm_output", "norm_before_fc", "norm_before_residual")
    found = {flag: bool(raw.get(flag, inner.get(flag, False))) for flag in flags}
    return found | {"final_norm": bool(inner.get("use_last_layernorm", True))}


def feature_layers(raw: dict[str, Any], num_layers: int, name: str) -> tuple[int, ...]:
    """The target layers to read, as "input of layer i", whatever the file's numbering.

    ValueError when its two places disagree or a layer does not exist.
    """
    if own := raw.get("labsim", {}).get("feature_layers"):
        return tuple(own)
    found: list[tuple[int, ...]] = []
    for ids, offset in ((raw.get(LAYER_IDS), 0), ((raw.get("eagle_config") or {}).get(LAYER_IDS), 1)):
        if not ids:
            continue
        if num_layers >= 7:
            usual = default_feature_layers(num_layers)
            if list(ids) == list(usual):
                offset = 0
            elif list(ids) == [layer - 1 for layer in usual]:
                offset = 1
        found.append(tuple(layer + offset for layer in ids))
    if not found:
        return default_feature_layers(num_layers)
    if len(set(found)) > 1:
        raise ValueError(
            f"{LAYER_IDS} at the top means the layers {list(found[0])} and inside eagle_config {list(found[1])}: "
            "correct one of the two lists"
        )
    for layer in found[0]:
        if not 0 <= layer <= num_layers:
            raise ValueError(f"it reads the target's states after layer {layer}, and the target has {num_layers}")
    return found[0]


def read_heads(raw: dict[str, Any], target: ModelConfig, name: str) -> HeadsConfig:
    """Parallel heads, by Medusa's keys."""
    if missing := [key for key in ("hidden_size", "vocab_size", "medusa_num_heads") if key not in raw]:
        raise ValueError(f"{name} lacks {', '.join(missing)}")
    if (raw["hidden_size"], raw["vocab_size"]) != (target.hidden_size, target.vocab_size):
        raise ValueError(
            f"{name}: heads for width {raw['hidden_size']} and {raw['vocab_size']} tokens; the target has "
            f"{target.hidden_size} and {target.vocab_size}"
        )
    return HeadsConfig.beside(
        target,
        num_heads=raw["medusa_num_heads"],
        num_blocks=raw.get("medusa_num_layers", 1),
        draft_vocab_size=raw.get("draft_vocab_size") or raw["vocab_size"],
    )


def write_config(config: DraftConfig, target_name: str, dtype: str = "float16") -> dict[str, Any]:
    """config.json: dialect 1 for EAGLE-3 and 3.1, a Llama's for EAGLE-1, and `labsim`'s own word on kind and target."""
    about = {"kind": config.kind, "target": target_name, "feature_layers": list(config.feature_layers)}
    if isinstance(config, HeadsConfig):
        return {
            "hidden_size": config.hidden_size,
            "vocab_size": config.vocab_size,
            "draft_vocab_size": config.draft_vocab_size,
            "medusa_num_heads": config.num_heads,
            "medusa_num_layers": config.num_blocks,
            "dtype": dtype,
            "labsim": about,
        }
    scaling = config.rope.get("rope_scaling")
    document: dict[str, Any] = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": config.vocab_size,
        "draft_vocab_size": config.draft_vocab_size,
        "num_hidden_layers": 1,
        "hidden_size": config.hidden_size,
        "target_hidden_size": config.target_hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": config.rms_norm_eps,
        "max_position_embeddings": config.max_positions,
        # Older engines read the first two, transformers 5 the third.
        "rope_theta": config.rope["rope_theta"],
        "rope_scaling": scaling,
        "rope_parameters": {"rope_type": "default"} | (scaling or {}) | {"rope_theta": config.rope["rope_theta"]},
        "attention_bias": config.attention_bias,
        "tie_word_embeddings": False,
        "initializer_range": config.initializer_range,
        "torch_dtype": dtype,
        "labsim": about,
    }
    if isinstance(config, MTPConfig):
        del document["architectures"]
    elif config.generation == 1:
        document["bias"] = config.fc_bias
    else:
        inner: dict[str, Any] = {
            "use_aux_hidden_state": True,
            LAYER_IDS: [layer - 1 for layer in config.feature_layers],
        }
        if not config.final_norm:
            inner["use_last_layernorm"] = False
        document |= {
            "architectures": ["LlamaForCausalLMEagle3"],
            "num_aux_hidden_states": len(config.feature_layers),
            "fc_norm": config.fc_norm,
            "norm_output": config.norm_output,
            "norm_before_fc": config.norm_before_fc,
            "norm_before_residual": config.norm_before_residual,
            LAYER_IDS: list(config.feature_layers),
            "eagle_config": inner,
        }
    return document
