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

from ..models.config import LARGEST_SIZE, LONGEST_CONTEXT, ModelConfig, check_rope, read_heads
from ..models.fields import Fields, short
from .eagle_config import EagleConfig, default_feature_layers
from .heads import HeadsConfig
from .mtp import MTPConfig
from .rotary import rope_settings
from .shape import MAX_NODES

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


def kind_of(raw: dict[str, Any], tensor_names: Collection[str] = (), name: str = "config.json") -> str:
    """What a config.json describes: `eagle1`, `eagle3` (3.1 too), `mtp`, `heads` or `small`.

    A public EAGLE-1 config is that of a Llama; its joining layer, `fc.weight`, gives it away. ValueError for a draft of
    a kind not computed here.
    """
    own = about(raw, name)
    if kind := own.text("kind", None):
        if kind not in (*KINDS, "small"):
            raise own.wrong("kind", f"one of {', '.join((*KINDS, 'small'))}")
        return kind
    fields = Fields(raw, name)
    names = " ".join(fields.texts("architectures"))
    speculators = fields.text("speculators_model_type", None)
    if speculators == "eagle3" or "eagle3" in names.lower():
        return "eagle3"
    if speculators is not None:
        raise ValueError(
            f"a speculators draft of the kind {short(speculators)} is not computed here; right is 'eagle3'"
        )
    return "eagle1" if {"fc.weight", "model.fc.weight"} & set(tensor_names) else "small"


def about(raw: dict[str, Any], name: str) -> Fields:
    """`labsim`'s own word on kind and target; empty in a public config.json."""
    return Fields(raw, name).inner("labsim")


def read_config(raw: dict[str, Any], kind: str, target: ModelConfig, name: str) -> DraftConfig:
    """The draft's config, for this target. ValueError, naming the file, where they do not fit."""
    if kind == "heads":
        return read_parallel_heads(raw, target, name)
    top = Fields(raw, name)
    sizes = top.inner("transformer_layer_config")
    if not sizes.raw:
        sizes = top
    check_layer(sizes)
    check_rope(sizes)
    heads, kv_heads, head_dim = read_heads(sizes)
    vocab_size = sizes.whole("vocab_size", 1, LARGEST_SIZE)
    hidden_size = sizes.whole("hidden_size", 1, LARGEST_SIZE)
    common: dict[str, Any] = {
        "vocab_size": vocab_size,
        "draft_vocab_size": top.whole("draft_vocab_size", 1, vocab_size, None) or vocab_size,
        "hidden_size": hidden_size,
        "target_hidden_size": top.whole("target_hidden_size", 1, LARGEST_SIZE, None) or hidden_size,
        "intermediate_size": sizes.whole("intermediate_size", 1, LARGEST_SIZE),
        "num_heads": heads,
        "num_kv_heads": kv_heads,
        "head_dim": head_dim,
        "max_positions": sizes.whole("max_position_embeddings", 1, LONGEST_CONTEXT, 2048),
        "rms_norm_eps": sizes.number("rms_norm_eps", 0, 1, 1e-6),
        "rope": rope_settings(sizes.raw),
        "attention_bias": sizes.flag("attention_bias", False),
        "initializer_range": sizes.number("initializer_range", 0, 10, 0.02),
    }
    if common["vocab_size"] != target.vocab_size:
        raise ValueError(f"{name}: a draft for {common['vocab_size']} tokens, and the target has {target.vocab_size}")
    if common["target_hidden_size"] != target.hidden_size:
        raise ValueError(
            f"{name}: a draft for states of width {common['target_hidden_size']}, and the target's are "
            f"{target.hidden_size} wide"
        )
    last = own_layers(raw, target.num_layers, name) or (target.num_layers,)
    try:
        if kind == "mtp":
            return MTPConfig(**common, feature_layers=last)
        if kind == "eagle1":
            return EagleConfig(
                **common,
                generation=1,
                final_norm=False,
                fc_bias=top.flag("bias", True),
                feature_layers=last,
            )
        return EagleConfig(
            **common, feature_layers=feature_layers(raw, target.num_layers, name), **eagle3_flags(raw, name)
        )
    except ValueError as error:
        raise error if str(error).startswith(name) else ValueError(f"{name}: {error}") from error


def check_layer(sizes: Fields) -> None:
    """ValueError unless one Llama layer is described."""
    sizes.require("vocab_size", "hidden_size", "intermediate_size", "num_attention_heads")
    layers = sizes.whole("num_hidden_layers", 0, LARGEST_SIZE, 1)
    if layers != 1:
        raise ValueError(f"{sizes.file} has {layers} draft layers; drafts of one layer are computed here")
    if (activation := sizes.text("hidden_act", "silu")) != "silu":
        raise ValueError(f"{sizes.file} uses the activation {short(activation)}; silu (SwiGLU) is computed here")
    if sizes.flag("mlp_bias", False):
        raise ValueError(f"{sizes.file} has biases in the MLP, which are not computed here")


def eagle3_flags(raw: dict[str, Any], name: str) -> dict[str, bool]:
    """The norms' switches, which stand at the top or inside `eagle_config`; all off unless said."""
    top = Fields(raw, name)
    inner = top.inner("eagle_config")
    for key, right in FIXED_SWITCHES.items():
        if key in inner.raw and inner.raw[key] != right:
            raise ValueError(f"{key} is {short(inner.raw[key])}; {right!r} is what is computed here")
    flags = ("fc_norm", "norm_output", "norm_before_fc", "norm_before_residual")
    found = {flag: top.flag(flag, inner.flag(flag, False)) for flag in flags}
    return found | {"final_norm": inner.flag("use_last_layernorm", True)}


def own_layers(raw: dict[str, Any], num_layers: int, name: str) -> tuple[int, ...]:
    """The feature layers that `labsim` itself wrote; empty in a public config.json."""
    own = about(raw, name)
    layers = own.wholes("feature_layers")
    if any(layer > num_layers for layer in layers):
        raise own.wrong("feature_layers", f"layers from 0 to {num_layers}, which the target has")
    return layers


def feature_layers(raw: dict[str, Any], num_layers: int, name: str) -> tuple[int, ...]:
    """The target layers to read, as "input of layer i", whatever the file's numbering.

    ValueError when its two places disagree or a layer does not exist.
    """
    if own := own_layers(raw, num_layers, name):
        return own
    found: list[tuple[int, ...]] = []
    top = Fields(raw, name)
    for ids, offset in ((top.wholes(LAYER_IDS), 0), (top.inner("eagle_config").wholes(LAYER_IDS), 1)):
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


def read_parallel_heads(raw: dict[str, Any], target: ModelConfig, name: str) -> HeadsConfig:
    """Parallel heads, by Medusa's keys."""
    fields = Fields(raw, name)
    fields.require("hidden_size", "vocab_size", "medusa_num_heads")
    hidden_size = fields.whole("hidden_size", 1, LARGEST_SIZE)
    vocab_size = fields.whole("vocab_size", 1, LARGEST_SIZE)
    if (hidden_size, vocab_size) != (target.hidden_size, target.vocab_size):
        raise ValueError(
            f"{name}: heads for width {hidden_size} and {vocab_size} tokens; the target has "
            f"{target.hidden_size} and {target.vocab_size}"
        )
    return HeadsConfig.beside(
        target,
        num_heads=fields.whole("medusa_num_heads", 1, MAX_NODES),
        num_blocks=fields.whole("medusa_num_layers", 0, 64, 1),
        draft_vocab_size=fields.whole("draft_vocab_size", 1, vocab_size, None) or vocab_size,
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
