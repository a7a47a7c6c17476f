"""Target models as shapes, and what a step has to read of them.

A dense model reads all its weights for every step. A mixture of experts (MoE) reads attention, shared experts and
head, and of the routed experts only those that some token of the step chose. With E experts of which each token picks
k, independently and evenly, T tokens touch

    touched(T) = E * (1 - (1 - k/E)^T)

so verifying K+1 tokens reads more experts than decoding one: for an MoE, verification is not free even at batch 1.

Shapes are those of the models' public `config.json`; `source` names the file. Parameter totals are computed from the
shape and agree with the published totals (see tests).
"""

from __future__ import annotations

from dataclasses import dataclass

from .errors import check_positive, unknown_name


def touched_experts(experts: int, experts_per_token: int, tokens: float) -> float:
    """Expected number of distinct experts that `tokens` tokens activate: E * (1 - (1 - k/E)^T)."""
    if not 1 <= experts_per_token <= experts:
        raise ValueError(f"experts_per_token is {experts_per_token}; allowed: 1 to {experts}")
    check_positive("tokens", tokens, zero=True)
    return experts * (1.0 - (1.0 - experts_per_token / experts) ** tokens)


@dataclass(frozen=True)
class Model:
    """A decoder-only target. Sizes in units of the config file; 0 where a field does not apply.

    `dense_layers` counts leading layers of an MoE that have an ordinary MLP. `kv_lora_rank` > 0 means MLA: the cache
    holds one compressed vector of kv_lora_rank + rope_dim per token and layer. `attention_parameters_per_layer`
    overrides the GQA formula where attention is of another kind. `kv_layers` counts layers with a growing KV cache
    (hybrid models have fewer). `dtype` is how the published checkpoint stores its linear weights; `expert_dtype`, if
    set, how it stores the routed experts.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    source: str
    tied_embeddings: bool = False
    experts: int = 0
    experts_per_token: int = 0
    expert_ffn: int = 0
    shared_expert_ffn: int = 0
    dense_layers: int = 0
    kv_lora_rank: int = 0
    rope_dim: int = 0
    q_lora_rank: int = 0
    v_head_dim: int = 0
    attention_parameters_per_layer: float = 0.0
    kv_layers: int = 0
    dtype: str = "bf16"
    expert_dtype: str = ""

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "heads", "kv_heads", "head_dim", "vocab"):
            check_positive(name, getattr(self, name))
        if self.experts:
            touched_experts(self.experts, self.experts_per_token, 1)
            check_positive("expert_ffn", self.expert_ffn)
        else:
            check_positive("ffn", self.ffn)

    @property
    def is_moe(self) -> bool:
        return self.experts > 0

    @property
    def attention_parameters(self) -> float:
        """Parameters of one attention block."""
        if self.attention_parameters_per_layer:
            return self.attention_parameters_per_layer
        if self.kv_lora_rank:  # MLA: DeepSeek-V3 report (arXiv 2412.19437), section 2.1.1
            q = self.hidden * self.q_lora_rank + self.q_lora_rank * self.heads * (self.head_dim + self.rope_dim)
            kv = self.hidden * (self.kv_lora_rank + self.rope_dim)
            kv += self.kv_lora_rank * self.heads * (self.head_dim + self.v_head_dim)
            return q + kv + self.heads * self.v_head_dim * self.hidden
        q_and_o = 2 * self.hidden * self.heads * self.head_dim
        return q_and_o + 2 * self.hidden * self.kv_heads * self.head_dim

    @property
    def routed_parameters(self) -> float:
        """Parameters of all routed experts of all layers."""
        return 3.0 * self.hidden * self.expert_ffn * self.experts * (self.layers - self.dense_layers)

    @property
    def embedding_parameters(self) -> float:
        return float(self.vocab * self.hidden)

    @property
    def always_read_parameters(self) -> float:
        """Parameters that every step reads: all but the input embedding (a look-up) and the routed experts."""
        moe_layers = self.layers - self.dense_layers if self.is_moe else 0
        mlp = 3.0 * self.hidden * self.ffn * (self.layers - moe_layers)
        shared = 3.0 * self.hidden * self.shared_expert_ffn * moe_layers
        router = float(self.hidden * self.experts * moe_layers)
        norms = self.hidden * (2 * self.layers + 1)
        return self.attention_parameters * self.layers + mlp + shared + router + norms + self.embedding_parameters

    @property
    def parameters(self) -> float:
        """All parameters, embedding and head included."""
        embedding = 0.0 if self.tied_embeddings else self.embedding_parameters
        return self.always_read_parameters + self.routed_parameters + embedding

    @property
    def active_parameters(self) -> float:
        """Parameters one token multiplies with (the head counted, the embedding look-up not)."""
        share = self.experts_per_token / self.experts if self.is_moe else 0.0
        return self.always_read_parameters + self.routed_parameters * share

    def kv_bytes_per_token(self, bytes_per_value: float = 2.0) -> float:
        """Bytes of KV cache that one token of context adds over all layers."""
        layers = self.kv_layers or self.layers
        if self.kv_lora_rank:
            return layers * (self.kv_lora_rank + self.rope_dim) * bytes_per_value
        return 2 * layers * self.kv_heads * self.head_dim * bytes_per_value


def _llama(name: str, layers: int, hidden: int, heads: int, kv: int, dim: int, ffn: int, **extra: object) -> Model:
    extra.setdefault("vocab", 128256)
    extra.setdefault("source", f"{name} config.json (meta-llama)")
    return Model(name, layers, hidden, heads, kv, dim, ffn, **extra)  # type: ignore[arg-type]


def _qwen(name: str, layers: int, hidden: int, heads: int, kv: int, ffn: int, **extra: object) -> Model:
    extra.setdefault("vocab", 151936)
    extra.setdefault("source", f"{name} config.json (Qwen)")
    return Model(name, layers, hidden, heads, kv, 128, ffn, **extra)  # type: ignore[arg-type]


_MLA = {"kv_lora_rank": 512, "rope_dim": 64, "q_lora_rank": 1536, "v_head_dim": 128}

# Qwen3-Next: 36 of 48 layers are gated DeltaNet (16 key heads and 32 value heads of 128), 12 are gated attention
# (16 query and 2 KV heads of 256, the query projection doubled by the gate). Mean over the layers:
_NEXT_DELTA = 2048 * (2 * 16 * 128 + 2 * 32 * 128 + 2 * 32) + 32 * 128 * 2048
_NEXT_ATTENTION = 2048 * (2 * 16 * 256 + 2 * 2 * 256) + 16 * 256 * 2048
_NEXT_MEAN = (36 * _NEXT_DELTA + 12 * _NEXT_ATTENTION) / 48

MODELS: dict[str, Model] = {
    model.name.lower(): model
    for model in (
        _llama("Llama-3.1-8B", 32, 4096, 32, 8, 128, 14336),
        _llama("Llama-3.3-70B", 80, 8192, 64, 8, 128, 28672),
        _llama("Llama-3.2-1B", 16, 2048, 32, 8, 64, 8192, tied_embeddings=True),
        _llama("Llama-3.2-3B", 28, 3072, 24, 8, 128, 8192, tied_embeddings=True),
        _llama("Llama-2-7B", 32, 4096, 32, 32, 128, 11008, vocab=32000),
        _llama(
            "Llama-4-Scout-17B-16E",
            48,
            5120,
            40,
            8,
            128,
            0,
            vocab=202048,
            experts=16,
            experts_per_token=1,
            expert_ffn=8192,
            shared_expert_ffn=8192,
        ),
        _qwen("Qwen3-0.6B", 28, 1024, 16, 8, 3072, tied_embeddings=True),
        _qwen("Qwen3-1.7B", 28, 2048, 16, 8, 6144, tied_embeddings=True),
        _qwen("Qwen3-4B", 36, 2560, 32, 8, 9728, tied_embeddings=True),
        _qwen("Qwen3-8B", 36, 4096, 32, 8, 12288),
        _qwen("Qwen3-14B", 40, 5120, 40, 8, 17408),
        _qwen("Qwen3-32B", 64, 5120, 64, 8, 25600),
        _qwen("Qwen3-30B-A3B", 48, 2048, 32, 4, 0, experts=128, experts_per_token=8, expert_ffn=768),
        _qwen("Qwen3-Coder-30B-A3B", 48, 2048, 32, 4, 0, experts=128, experts_per_token=8, expert_ffn=768),
        _qwen("Qwen3-235B-A22B", 94, 4096, 64, 4, 0, experts=128, experts_per_token=8, expert_ffn=1536),
        _qwen("Qwen3-Coder-480B-A35B", 62, 6144, 96, 8, 0, experts=160, experts_per_token=8, expert_ffn=2560),
        Model(
            "Qwen3-Next-80B-A3B",
            48,
            2048,
            16,
            2,
            256,
            0,
            151936,
            "Qwen3-Next-80B-A3B config.json (Qwen)",
            experts=512,
            experts_per_token=10,
            expert_ffn=512,
            shared_expert_ffn=512,
            kv_layers=12,
            attention_parameters_per_layer=_NEXT_MEAN,
        ),
        Model(
            "Ling-flash-2.0",
            32,
            4096,
            32,
            4,
            128,
            9216,
            157184,
            "Ling-flash-2.0 config.json (inclusionAI)",
            experts=256,
            experts_per_token=8,
            expert_ffn=1024,
            shared_expert_ffn=1024,
            dense_layers=1,
        ),
        Model(
            "Kimi-K2",
            61,
            7168,
            64,
            64,
            128,
            18432,
            163840,
            "Kimi-K2-Instruct config.json (moonshotai); block fp8",
            experts=384,
            experts_per_token=8,
            expert_ffn=2048,
            shared_expert_ffn=2048,
            dense_layers=1,
            dtype="fp8",
            **_MLA,
        ),
        Model(
            "DeepSeek-V3",
            61,
            7168,
            128,
            128,
            128,
            18432,
            129280,
            "DeepSeek-V3 config.json (deepseek-ai); block fp8",
            experts=256,
            experts_per_token=8,
            expert_ffn=2048,
            shared_expert_ffn=2048,
            dense_layers=3,
            dtype="fp8",
            **_MLA,
        ),
        Model(
            "gpt-oss-20b",
            24,
            2880,
            64,
            8,
            64,
            0,
            201088,
            "gpt-oss-20b config.json (openai); experts in MXFP4",
            experts=32,
            experts_per_token=4,
            expert_ffn=2880,
            expert_dtype="mxfp4",
        ),
        Model(
            "gpt-oss-120b",
            36,
            2880,
            64,
            8,
            64,
            0,
            201088,
            "gpt-oss-120b config.json (openai); experts in MXFP4",
            experts=128,
            experts_per_token=4,
            expert_ffn=2880,
            expert_dtype="mxfp4",
        ),
        Model(
            "MiniMax-M2",
            62,
            3072,
            48,
            8,
            128,
            0,
            200064,
            "MiniMax-M2 config.json (MiniMaxAI); block fp8",
            experts=256,
            experts_per_token=8,
            expert_ffn=1536,
            dtype="fp8",
        ),
        Model(
            "Mixtral-8x7B",
            32,
            4096,
            32,
            8,
            128,
            0,
            32000,
            "Mixtral-8x7B config.json (mistralai)",
            experts=8,
            experts_per_token=2,
            expert_ffn=14336,
        ),
    )
}

# Other names of the same shape (later releases of an architecture included).
_SAME_SHAPE = {
    "kimi-k2.5": "kimi-k2",
    "kimi-k2.6": "kimi-k2",
    "kimi-k2-0905": "kimi-k2",
    "deepseek-r1": "deepseek-v3",
    "deepseek-v3.1": "deepseek-v3",
    "minimax-m2.5": "minimax-m2",
    "llama-3-8b": "llama-3.1-8b",
    "llama3.1-8b": "llama-3.1-8b",
    "llama3-8b": "llama-3.1-8b",
    "llama3.3-70b": "llama-3.3-70b",
    "llama-3-70b": "llama-3.3-70b",
    "llama3-70b": "llama-3.3-70b",
    "llama3.1-70b": "llama-3.3-70b",
    "llama-3.1-70b": "llama-3.3-70b",
    "llama3.2-1b": "llama-3.2-1b",
    "llama3.2-3b": "llama-3.2-3b",
    "meta-llama-3.1-8b": "llama-3.1-8b",
    "meta-llama-3-8b": "llama-3.1-8b",
    "meta-llama-3.1-70b": "llama-3.3-70b",
    "llama-4-scout": "llama-4-scout-17b-16e",
    "llama-2-7b-32k": "llama-2-7b",
}
_SUFFIX_DTYPE = {
    "-fp8": "fp8",
    "-nvfp4": "nvfp4",
    "-mxfp4": "mxfp4",
    "-awq": "int4",
    "-gptq": "int4",
    "-int4": "int4",
    "-bf16": "bf16",
    "-int8": "int8",
}
_SUFFIX_TUNING = ("-instruct", "-chat", "-thinking", "-2507", "-base", "-it", "-dynamic", "-0711", "-nex-n1", "-hf")


def split_model_name(name: str) -> tuple[str, str | None]:
    """(shape name, dtype or None) of a model name as people write it.

    The organisation, tuning suffixes and a precision suffix are cut off:
    "Qwen/Qwen3-30B-A3B-Instruct-2507-FP8" -> ("qwen3-30b-a3b", "fp8").
    """
    key = str(name).strip().lower().replace("_", "-").replace(" ", "-").rsplit("/", 1)[-1]
    dtype: str | None = None
    shortened = True
    while shortened:
        shortened = False
        for suffix, found in _SUFFIX_DTYPE.items():
            if key.endswith(suffix):
                key, dtype, shortened = key.removesuffix(suffix), dtype or found, True
        for suffix in _SUFFIX_TUNING:
            if key.endswith(suffix):
                key, shortened = key.removesuffix(suffix), True
    return _SAME_SHAPE.get(key, key), dtype


def find_model(model: str | Model) -> Model:
    """The model called `model` in any common spelling; a Model passes through; ValueError names the nearest match."""
    if isinstance(model, Model):
        return model
    key, _ = split_model_name(model)
    if key not in MODELS:
        raise unknown_name("model", str(model), (m.name for m in MODELS.values()))
    return MODELS[key]
