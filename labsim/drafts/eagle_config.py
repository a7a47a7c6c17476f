"""What an EAGLE draft is made of: EAGLE-1, EAGLE-3 and EAGLE-3.1 are three settings of one class.

    EAGLE-1    reads the target's last state; joins it with the embedding by a linear layer; no norm at entry or exit;
               speaks through the target's own head                                (Li et al., arXiv 2401.15077)
    EAGLE-3    reads a low, a middle and a high layer, fused; joins normed embedding and normed state by concatenation;
               has its own final norm and its own head over a draft vocabulary     (Li et al., arXiv 2503.01840)
    EAGLE-3.1  EAGLE-3 with `fc_norm` (a norm on each target layer before the fusion) and `norm_output` (the next depth
               consumes the normed state, as the head does)                        (Eldenk et al., arXiv 2605.09992)

Feature layers are numbered as "input of layer i" = "after i layers" = Hugging Face's `hidden_states[i]`. Half of the
public code counts "output of layer i", one less for the same tensor.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Self

from ..models.config import ModelConfig

FEATURES = 3


@dataclass(frozen=True, kw_only=True)
class BlockConfig:
    """Sizes of a draft's one decoder layer, and how it meets its target.

    Attributes:
        vocab_size: V, the target's vocabulary; `draft_vocab_size` is N, what the draft's head can say.
        hidden_size: H, the draft's width; `target_hidden_size` is Ht.
        rope: `rope_theta` and, where there is one, `rope_scaling`, as config.json has them.
        feature_layers: target states to read, by the number of layers behind them, in the order of concatenation.
    """

    vocab_size: int
    draft_vocab_size: int
    hidden_size: int
    target_hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    feature_layers: tuple[int, ...]
    max_positions: int = 2048
    rms_norm_eps: float = 1e-5
    rope: dict[str, Any] = field(default_factory=lambda: {"rope_theta": 10000.0, "rope_scaling": None})
    attention_bias: bool = False
    initializer_range: float = 0.02

    def __post_init__(self) -> None:
        if self.num_heads % self.num_kv_heads:
            raise ValueError(f"{self.num_heads} query heads do not divide among {self.num_kv_heads} key/value heads")
        if not 1 <= self.draft_vocab_size <= self.vocab_size:
            raise ValueError(f"draft_vocab_size is {self.draft_vocab_size}; right is 1 to {self.vocab_size}")
        if self.head_dim % 2:
            raise ValueError(f"head_dim is {self.head_dim}; rotary positions need an even number")
        if not self.feature_layers:
            raise ValueError("feature_layers is empty; name at least one layer of the target")

    @property
    def kind(self) -> str:
        """The name that `--draft` takes."""
        raise NotImplementedError

    @property
    def feature_size(self) -> int:
        """Width of the concatenated target states."""
        return len(self.feature_layers) * self.target_hidden_size

    @classmethod
    def beside(cls, target: ModelConfig, rope: dict[str, Any] | None = None, **settings: Any) -> Self:
        """A draft with the sizes of its target's layers, except for what `settings` say."""
        sizes: dict[str, Any] = {
            "vocab_size": target.vocab_size,
            "draft_vocab_size": target.vocab_size,
            "hidden_size": target.hidden_size,
            "target_hidden_size": target.hidden_size,
            "intermediate_size": target.intermediate_size,
            "num_heads": target.num_heads,
            "num_kv_heads": target.num_kv_heads,
            "head_dim": target.head_dim,
            "max_positions": target.max_positions,
            "rms_norm_eps": target.rms_norm_eps,
        }
        if rope is not None:
            sizes["rope"] = rope
        return cls(**(sizes | settings))


@dataclass(frozen=True, kw_only=True)
class EagleConfig(BlockConfig):
    """One EAGLE draft.

    Attributes:
        generation: 1 or 3; 3.1 is 3 with `fc_norm` and `norm_output`.
        fc_norm: one RMSNorm per feature layer before the fusion.
        norm_output: the state that feeds the next depth is the normed one.
        norm_before_fc: one RMSNorm over the concatenated features (gpt-oss drafts); not part of 3.1.
        norm_before_residual: the residual stream starts at the normed state.
        final_norm: the norm before the head; EAGLE-1 has none.
        fc_bias: EAGLE-1's joining layer has a bias.
    """

    generation: Literal[1, 3] = 3
    fc_norm: bool = False
    norm_output: bool = False
    norm_before_fc: bool = False
    norm_before_residual: bool = False
    final_norm: bool = True
    fc_bias: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        flags = ("fc_norm", "norm_output", "norm_before_fc", "norm_before_residual", "final_norm")
        if self.generation == 1 and (on := [flag for flag in flags if getattr(self, flag)]):
            raise ValueError(f"EAGLE-1 has no {', '.join(on)}; those belong to EAGLE-3 and 3.1")
        if self.fc_norm and self.norm_before_fc:
            raise ValueError(
                "fc_norm and norm_before_fc exclude each other: one norm per feature layer, or one over all"
            )
        if self.norm_output and not self.final_norm:
            raise ValueError("norm_output feeds back the normed state, and this draft has no final norm")
        if self.generation == 1 and self.draft_vocab_size != self.vocab_size:
            raise ValueError(
                f"EAGLE-1 speaks through the target's head of {self.vocab_size} tokens; "
                f"a draft vocabulary of {self.draft_vocab_size} needs EAGLE-3"
            )
        if self.generation == 1 and self.feature_size != self.hidden_size:
            raise ValueError(
                f"EAGLE-1 takes the target's last state as its own: its width must be {self.feature_size}, "
                f"not {self.hidden_size}"
            )
        if self.generation == 3 and len(self.feature_layers) != FEATURES:
            raise ValueError(
                f"EAGLE-3 fuses {FEATURES} target layers, and feature_layers names {len(self.feature_layers)}: "
                f"{list(self.feature_layers)}. Where a fourth stands, it is the last layer, kept for the teacher"
            )

    @property
    def kind(self) -> str:
        if self.generation == 1:
            return "eagle1"
        return "eagle3.1" if self.fc_norm and self.norm_output else "eagle3"

    @classmethod
    def eagle1(cls, target: ModelConfig, **settings: Any) -> Self:
        """EAGLE-1: one layer, the target's last normed state, the target's head."""
        own = {"generation": 1, "final_norm": False, "fc_bias": True, "feature_layers": (target.num_layers,)}
        return cls.beside(target, **(own | settings))

    @classmethod
    def eagle3(cls, target: ModelConfig, **settings: Any) -> Self:
        """EAGLE-3, by default on the public choice of layers and the whole vocabulary."""
        if "feature_layers" not in settings:
            settings["feature_layers"] = default_feature_layers(target.num_layers)
        return cls.beside(target, **settings)

    @classmethod
    def eagle31(cls, target: ModelConfig, **settings: Any) -> Self:
        """EAGLE-3.1: EAGLE-3 with `fc_norm` and `norm_output`, and nothing else."""
        return cls.eagle3(target, **({"fc_norm": True, "norm_output": True} | settings))


def default_feature_layers(num_layers: int) -> tuple[int, int, int]:
    """Low, middle, high: [2, n//2, n-3] as EAGLE, vLLM and speculators have it (SpecForge's [1, n//2-1, n-4]).

    Below seven layers those are not three different ones; then [1, n//2, n-1]. ValueError below four layers.
    """
    if num_layers >= 7:
        return 2, num_layers // 2, num_layers - 3
    if num_layers >= 4:
        return 1, num_layers // 2, num_layers - 1
    raise ValueError(f"a target of {num_layers} layers has no low, middle and high one: name three feature_layers")
