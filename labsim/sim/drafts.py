"""What drafts cost: parameters, forwards per step, and bytes per forward.

| kind | proposes K tokens with | reads per forward |
|---|---|---|
| eagle3, eagle | K forwards of one decoder layer fed with the target's features | the head, never its embedding table |
| small model | K forwards of a whole small model | that model's weights and its own KV cache |
| mtp | K forwards of one target-shaped layer (an MoE layer for an MoE) and the target's head | that layer |
| parallel | one forward for all K tokens | the head once |
| ngram | a look-up in the prompt | nothing on the GPU |

An embedding look-up reads one row per token, so the copy of the target's embedding that an EAGLE-3 checkpoint may
carry costs memory and no time: 950.0M parameters are stored for Llama-3.1-8B, 424.7M are read.
"""

from __future__ import annotations

from dataclasses import dataclass

from .errors import unknown_name
from .targets import MODELS, Model, find_model, split_model_name

DRAFT_KINDS = ("eagle3", "eagle", "mtp", "parallel", "ngram")
EAGLE3_DRAFT_VOCAB = 32000  # SpecForge configs, key draft_vocab_size

# Width of the draft's MLP and its KV heads where they are not the target's (MoE targets have no dense MLP to copy).
# Source: SpecForge configs/<name>-eagle3.json, keys intermediate_size and num_key_value_heads.
_EAGLE3_MLP = {
    "kimi-k2": (18432, 64),
    "ling-flash-2.0": (14336, 8),
    "qwen3-30b-a3b": (6144, 4),
    "qwen3-235b-a22b": (24576, 4),
}


@dataclass(frozen=True)
class Draft:
    """A draft as the cost model sees it.

    `read_parameters` are read by every forward, `stored_parameters` also count the embedding; `kv_bytes_per_token` is
    its cache per token of context; `forwards_per_token` is 1 for a chain, 0 where one forward (or none) proposes all
    K. `experts...` describe the routed part of an MTP layer of an MoE target.
    """

    kind: str
    read_parameters: float
    stored_parameters: float
    kv_bytes_per_token: float
    layers: int
    chain: bool
    source: str
    experts: int = 0
    experts_per_token: int = 0
    expert_parameters: float = 0.0

    def forwards(self, num_speculative_tokens: int) -> int:
        """GPU forwards that propose `num_speculative_tokens` tokens."""
        if self.layers == 0:
            return 0
        return num_speculative_tokens if self.chain else 1


def eagle3_parameters(target: str | Model, *, embedding: bool = False, draft_vocab: int = EAGLE3_DRAFT_VOCAB) -> int:
    """Parameters of a one-layer EAGLE-3 head for `target`.

    fc 3h x h + attention whose q, k, v see 2h + SwiGLU MLP + own head (h x draft vocabulary) + four norms (input,
    hidden, post-attention, final); with `embedding` also the target's table (arXiv 2503.01840, section 3; SpecForge
    llama3-8B-eagle3.json).
    """
    model = find_model(target)
    h = model.hidden
    ffn, kv_heads, head_dim = draft_layer(model)
    attention = 2 * h * (model.heads + 2 * kv_heads) * head_dim + model.heads * head_dim * h
    total = 3 * h * h + attention + 3 * h * ffn + h * draft_vocab + 4 * h
    return total + (model.vocab * h if embedding else 0)


def draft_layer(target: str | Model) -> tuple[int, int, int]:
    """(feed-forward width, key/value heads, head dimension) of the draft's one dense layer.

    The target's own, except where it has no dense feed-forward (an MoE) or no key/value heads (MLA) to copy.
    """
    model = find_model(target)
    ffn, kv_heads = _EAGLE3_MLP.get(_shape_key(model), (model.ffn or 3 * model.hidden, model.kv_heads))
    return ffn, kv_heads, 128 if model.kv_lora_rank else model.head_dim


def draft_parameters(kind: str, target: str | Model, *, embedding: bool = False) -> int:
    """Parameters of a draft of `kind` for `target`: read per forward, or with `embedding=True` as stored.

    `kind` is one of `DRAFT_KINDS` or the name of a small model. Raises ValueError for an unknown one.
    """
    draft = find_draft(kind, target)
    return round(draft.stored_parameters if embedding else draft.read_parameters)


def find_draft(kind: str | Draft | Model, target: str | Model) -> Draft:
    """The draft called `kind` for `target`; a Draft passes through, a Model (or its name) drafts as a small model."""
    if isinstance(kind, Draft):
        return kind
    model = find_model(target)
    if isinstance(kind, Model):
        return _small_model(kind)
    key = str(kind).strip().lower().replace("_", "-").replace(" ", "-")
    key = {
        "heads": "parallel",
        "eagle-3": "eagle3",
        "eagle-3.1": "eagle3",
        "eagle3.1": "eagle3",
        "eagle-1": "eagle",
        "eagle1": "eagle",
        "eagle-2": "eagle",
        "eagle2": "eagle",
        "n-gram": "ngram",
        "p-eagle": "parallel",
        "medusa": "parallel",
        "deepseek-mtp": "mtp",
    }.get(key, key)
    if key == "ngram":
        return Draft("ngram", 0, 0, 0, 0, chain=False, source="prompt look-up, no weights")
    if key in ("eagle3", "parallel"):
        read, stored = eagle3_parameters(model), eagle3_parameters(model, embedding=True)
        source = "EAGLE-3 shape (arXiv 2503.01840), SpecForge configs"
        return Draft(key, read, stored, _one_layer_kv(model), 1, chain=key == "eagle3", source=source)
    if key == "eagle":
        # EAGLE-1: fc 2h x h, one decoder layer of the target's shape, the target's own full head and embedding
        # (arXiv 2401.15077, section 3).
        layer = _dense_layer(model)
        read = 2 * model.hidden**2 + layer + model.embedding_parameters
        return Draft(
            "eagle",
            read,
            read + model.embedding_parameters,
            _one_layer_kv(model),
            1,
            chain=True,
            source="EAGLE-1 shape (arXiv 2401.15077)",
        )
    if key == "mtp":
        # DeepSeek-V3 report (arXiv 2412.19437), section 2.2: projection 2h x h, one layer, shared head and embedding.
        read = 2 * model.hidden**2 + model.embedding_parameters
        if model.is_moe:
            read += model.attention_parameters + 3 * model.hidden * model.shared_expert_ffn
            routed = 3.0 * model.hidden * model.expert_ffn * model.experts
            return Draft(
                "mtp",
                read,
                read + routed,
                _one_layer_kv(model),
                1,
                True,
                "MTP (arXiv 2412.19437)",
                model.experts,
                model.experts_per_token,
                routed,
            )
        read += model.attention_parameters + 3 * model.hidden * model.ffn
        return Draft("mtp", read, read, _one_layer_kv(model), 1, True, "MTP (arXiv 2412.19437)")
    name, _ = split_model_name(str(kind))
    if name in MODELS:
        return _small_model(MODELS[name])
    raise unknown_name("draft", str(kind), [*DRAFT_KINDS, *(m.name for m in MODELS.values())])


def _shape_key(model: Model) -> str:
    return split_model_name(model.name)[0]


def _dense_layer(model: Model) -> float:
    ffn, kv_heads, head_dim = draft_layer(model)
    attention = 2 * model.hidden * (model.heads + kv_heads) * head_dim
    return attention + 3 * model.hidden * ffn


def _one_layer_kv(model: Model) -> float:
    """Bytes per token of a one-layer bf16 cache: the head's own KV heads where its config is known, MLA for other MLA
    targets, else the target's KV heads.
    """
    head_dim = 128 if model.kv_lora_rank else model.head_dim
    if _shape_key(model) in _EAGLE3_MLP:
        return 4.0 * _EAGLE3_MLP[_shape_key(model)][1] * head_dim
    if model.kv_lora_rank:
        return (model.kv_lora_rank + model.rope_dim) * 2.0
    return 4.0 * model.kv_heads * head_dim


def _small_model(model: Model) -> Draft:
    if model.is_moe:
        return Draft(
            model.name,
            model.always_read_parameters,
            model.parameters,
            model.kv_bytes_per_token(),
            model.layers,
            True,
            model.source,
            model.experts,
            model.experts_per_token,
            model.routed_parameters,
        )
    return Draft(
        model.name,
        model.always_read_parameters,
        model.parameters,
        model.kv_bytes_per_token(),
        model.layers,
        True,
        model.source,
    )
