"""A draft in the words of an engine: config.json and tensors of each public layout.

    format vllm          EAGLE-3, 3.1     dialect 1, `midlayer.`       method eagle3
                         EAGLE-1          a Llama's, `layers.0.`       method eagle
                         heads            Medusa's, `blocks.`          method medusa
    format speculators   EAGLE-3, 3.1     dialect 2, `layers.0.`, the embedding with it

What no engine computes is refused here, with the reason, rather than written and served wrong. One case is common:
EAGLE-1 was published with a bias in fc (`"bias"` is true by default in its trainer). vLLM's own layout for it, whose
`eagle_fc_bias` switched one on, went with engine V0; `EagleLlamaForCausalLM` fixes `bias=False`, and nothing else in
that model adds a constant that could carry it: no norm on the input, the embedding shared with the target.

(Read in vLLM's llama_eagle3, llama_eagle and medusa models and in speculators 0.9.0.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..drafts.eagle_config import EagleConfig
from ..drafts.eagle_dialects import LAYER_IDS, DraftConfig, write_config
from ..drafts.heads import HeadsConfig
from ..drafts.mtp import MTPConfig
from .target import TargetFacts
from .tensors import MAPPING, OWN_EMBEDDING

FORMATS = ("vllm", "speculators")
SPECULATORS_VERSION = "0.9.0"
Tensors = dict[str, torch.Tensor]


def method(config: DraftConfig) -> str:
    """vLLM's name for the kind."""
    if isinstance(config, HeadsConfig):
        return "medusa"
    return "eagle" if isinstance(config, EagleConfig) and config.generation == 1 else "eagle3"


def check_exportable(config: DraftConfig, tensors: Mapping[str, torch.Tensor], form: str) -> None:
    """ValueError, one line, for a draft that no engine computes from this format."""
    if form not in FORMATS:
        raise ValueError(f"format {form!r} is not known; right is {' or '.join(FORMATS)}")
    if isinstance(config, MTPConfig):
        raise ValueError(
            "an MTP module of this package is a Llama layer beside its target; vLLM and speculators read MTP only as "
            "part of targets that were trained with one (DeepSeek, Qwen3-Next, ...), so there is no format for it"
        )
    if form == "speculators" and (isinstance(config, HeadsConfig) or config.generation == 1):
        raise ValueError(f"speculators {SPECULATORS_VERSION} has no model for {config.kind}; --format vllm writes it")
    if isinstance(config, HeadsConfig):
        return
    if config.attention_bias:
        raise ValueError(
            "the draft has biases on q, k and v; engines that switch them on expect one on o_proj too, which it lacks"
        )
    if config.generation == 1:
        bias = tensors.get("fc.bias")
        if bias is not None and bool(bias.any()):
            raise ValueError(
                "this draft's fc.bias is not zero, and vLLM's EAGLE-1 has no bias there: a file with one stops its "
                "loader, one without is another draft. SGLang computes the bias (LlamaForCausalLMEagle); for vLLM "
                'train with "bias": false in EAGLE\'s config.json, or train an EAGLE-3'
            )
        return
    if not config.final_norm:
        raise ValueError("the draft has no norm before its head, and every engine computes one")
    if form == "speculators" and config.target_hidden_size != config.hidden_size:
        raise ValueError(
            f"speculators {SPECULATORS_VERSION} fuses states of the draft's own width ({config.hidden_size}), and the "
            f"target's are {config.target_hidden_size} wide; --format vllm writes it"
        )


def public_tensors(
    config: DraftConfig, tensors: Mapping[str, torch.Tensor], embedding_VH: torch.Tensor | None, form: str
) -> Tensors:
    """The stored tensors under the format's names, uncast. `embedding_VH` is the target's, for speculators."""
    if isinstance(config, HeadsConfig):
        return medusa_tensors(config, tensors)
    third, found = config.generation == 3, {}
    for name, tensor in tensors.items():
        if name in MAPPING and (not third or config.draft_vocab_size == config.vocab_size):
            continue  # the identity: engines take it where there is no mapping
        if name == "fc.bias":
            continue
        layers = not third or form == "speculators"
        found[name.replace("midlayer.", "layers.0.", 1) if layers else name] = tensor
    if form == "speculators" and OWN_EMBEDDING not in found:
        if embedding_VH is None:
            raise ValueError(
                "speculators keeps the target's embedding in the draft's file: the target's weights are needed"
            )
        found[OWN_EMBEDDING] = embedding_VH
    return found  # fmt: skip


def medusa_tensors(config: HeadsConfig, tensors: Mapping[str, torch.Tensor]) -> Tensors:
    """`medusa_head.{i}.{block}.linear` and the last one, a head, as vLLM's Medusa names them."""
    found: Tensors = {}
    for head in range(config.num_heads):
        for block in range(config.num_blocks):
            for part in ("weight", "bias"):
                found[f"blocks.{head}.layers.{block}.{part}"] = tensors[f"medusa_head.{head}.{block}.linear.{part}"]
        found[f"lm_heads.{head}.weight"] = tensors[f"medusa_head.{head}.{config.num_blocks}.weight"]
    if config.draft_vocab_size < config.vocab_size:
        d2t = tensors["d2t"]
        found["token_map"] = torch.arange(len(d2t)) + d2t  # ids, where d2t holds offsets
    return found


def public_config(config: DraftConfig, target: TargetFacts, form: str, dtype: str, k: int) -> dict[str, Any]:
    """config.json. `k` is the number of drafted tokens that the file proposes."""
    if isinstance(config, HeadsConfig):
        return {
            "architectures": ["MedusaModel"],
            "model_type": "medusa",
            "hidden_size": config.hidden_size,
            "vocab_size": config.vocab_size,
            "truncated_vocab_size": config.draft_vocab_size,
            "num_heads": config.num_heads,
            "num_hidden_layers": config.num_blocks,
            "medusa_fc_bias": True,
            "torch_dtype": dtype,
        }
    document = write_config(config, target.name, dtype)
    del document["labsim"]
    ids = {key: target.raw[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id") if key in target.raw}
    if form == "vllm":
        if config.generation == 1:
            # vLLM takes `bias` for biases on q, k and v.
            document |= {"bias": False}
            del document["draft_vocab_size"], document["target_hidden_size"]
        return document | ids
    layer = {
        key: document[key]
        for key in (
            "model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
            "num_key_value_heads", "head_dim", "hidden_act", "rms_norm_eps", "max_position_embeddings", "rope_theta",
            "rope_scaling", "rope_parameters", "attention_bias", "initializer_range",
        )
    }  # fmt: skip
    hub = target.known_by_name and "/" in target.name
    return {
        "architectures": ["Eagle3DraftModel"],
        "speculators_model_type": "eagle3",
        "speculators_version": SPECULATORS_VERSION,
        "transformer_layer_config": layer | {"mlp_bias": False, "tie_word_embeddings": False} | ids,
        "draft_vocab_size": config.draft_vocab_size,
        "norm_before_residual": config.norm_before_residual,
        "norm_before_fc": config.norm_before_fc,
        "fc_norm": config.fc_norm,
        "norm_output": config.norm_output,
        "embed_requires_grad": False,
        LAYER_IDS: list(config.feature_layers),
        "target_hidden_size": config.target_hidden_size,
        "tie_word_embeddings": False,
        "dtype": dtype,
        "speculators_config": {
            "algorithm": "eagle3",
            "default_proposal_method": "greedy",
            "proposal_methods": [
                {
                    "proposal_type": "greedy",
                    "speculative_tokens": k,
                    "accept_tolerance": 0.0,
                    "verifier_accept_k": 1,
                }
            ],
            "verifier": {
                # Never null: speculators 0.9.0 looks for the verifier's config.json whenever it loads the draft.
                "name_or_path": target.name if hub else str(target.directory.resolve()),
                "architectures": target.raw.get("architectures") or ["LlamaForCausalLM"],
            },
        },
    }
