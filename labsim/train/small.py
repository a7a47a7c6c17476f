"""The small draft: a few of the target's own layers, taught to say what the target says.

A draft that is a separate model must be small beside its target and still guess well. Three savings and one gift:

- *Layers*: two of the target's thirty, copied from it (pruning), then trained. Copied layers read the target's
  embeddings from the first step on, where random ones would spend the small data learning to.
- *Vocabulary*: the head knows the few thousand tokens that the answers use. It starts as the target's own rows.
- *Embedding*: not stored at all. The target's table is in memory whenever the draft runs, so the draft reads that one.
- *Gift*: the target's own candidates at each place as labels (distillation: Hinton et al., arXiv 1503.02531). "Paris,
  or perhaps France" says more than "Paris".

The loss at a place is the cross-entropy between the target's candidates, renormalised over the draft vocabulary, and
the draft's distribution. For greedy decoding the share of places where the two agree on the first choice is what
counts.

Shapes: B rows, L tokens, P places, T candidates, N draft vocabulary, V target vocabulary, E hidden size.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..drafts.eagle_checkpoint import check_tensors
from ..drafts.eagle_dialects import about
from ..drafts.small_checkpoint import read_small
from ..models.config import ModelConfig, read_json, transformers_config
from ..models.files import write_atomically
from ..models.weights import check_tensor, opened, tensor_bytes, weight_files
from .small_data import DraftVocabulary, TrainingBatch


@dataclass(frozen=True)
class SmallRecipe:
    """Everything that decides what training makes of the same answers.

    Attributes:
        layers: which of the target's layers the draft starts from, in this order.
        draft_vocab_size: N; capped at the target's vocabulary.
        epochs: passes over the training answers.
        tokens_per_batch: per step, padding included.
        bf16: matrix products in bfloat16 (weights, moments and loss stay fp32); about half the time, on a CPU too.
    """

    layers: tuple[int, ...]
    draft_vocab_size: int
    epochs: int = 6
    tokens_per_batch: int = 1024
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    warmup_steps: int = 20
    clip: float = 1.0
    bf16: bool = True
    seed: int = 0


class SmallDraft(nn.Module):
    """A short Llama over the target's embedding, with a head over the draft vocabulary.

    Its parameters carry Hugging Face's names (`model.layers.0...`, `model.norm.weight`, `lm_head.weight`).
    """

    def __init__(self, config: Any, embedding_VE: torch.Tensor, draft_vocab_size: int) -> None:
        from transformers import LlamaModel

        super().__init__()
        self.config = config
        self.model = LlamaModel(config)
        self.model.embed_tokens = nn.Identity()
        self.lm_head = nn.Linear(config.hidden_size, draft_vocab_size, bias=False)
        self.register_buffer("embedding_VE", embedding_VE, persistent=False)

    def forward(self, tokens_BL: torch.Tensor) -> torch.Tensor:
        """Last hidden states, normed, (B, L, E): the head is applied only where there is something to say."""
        embeds_BLE = nn.functional.embedding(tokens_BL, self.embedding_VE)
        return self.model(inputs_embeds=embeds_BLE, use_cache=False).last_hidden_state


def start_from_target(directory: Path, recipe: SmallRecipe, vocabulary: DraftVocabulary) -> SmallDraft:
    """A draft made of layers and rows of the target in `directory`.

    ValueError for a target that is no Llama, or that has no such layer.
    """
    from transformers import LlamaConfig

    sizes = ModelConfig.from_dict(read_json(directory / "config.json"), str(directory))
    config = transformers_config(directory)
    if not isinstance(config, LlamaConfig):
        raise ValueError(f"{directory} is a {config.model_type}; a small draft starts from a Llama target")
    for layer in recipe.layers:
        if not 0 <= layer < config.num_hidden_layers:
            raise ValueError(f"layer {layer} to start from: the target has layers 0 to {config.num_hidden_layers - 1}")
    prefixes = {f"model.layers.{old}.": f"model.layers.{new}." for new, old in enumerate(recipe.layers)}
    weights: dict[str, torch.Tensor] = {}
    head_VE: torch.Tensor | None = None
    for path in weight_files(directory):
        with opened(path) as file:
            for name in file.keys():  # noqa: SIM118
                if name == "lm_head.weight":
                    head_VE = file.get_tensor(name).float()
                elif name == "model.norm.weight":
                    weights[name] = file.get_tensor(name).float()
                else:
                    for old, new in prefixes.items():
                        if name.startswith(old):
                            weights[name.replace(old, new, 1)] = file.get_tensor(name).float()
    embedding_VE = embedding_of(directory)
    check_tensor(embedding_VE, (sizes.vocab_size, sizes.hidden_size), "model.embed_tokens.weight", str(directory))
    weights["lm_head.weight"] = (embedding_VE if head_VE is None else head_VE)[vocabulary.ids_N].clone()
    config.num_hidden_layers = len(recipe.layers)
    config.dtype = torch.float32
    draft = SmallDraft(config, embedding_VE, len(vocabulary.ids_N))
    check_tensors(weights, draft.state_dict(), str(directory))
    draft.load_state_dict(weights)
    return draft


def start_from_draft(directory: Path, draft_directory: Path, target_name: str) -> tuple[SmallDraft, DraftVocabulary]:
    """A draft that was saved before, to be trained on, over the embedding of the target in `directory`.

    It keeps its vocabulary: head rows belong to tokens. ValueError when it is no small draft.
    """
    from transformers import LlamaConfig

    file = f"{draft_directory}/config.json"
    if about(read_json(draft_directory / "config.json"), file).text("kind", None) != "small":
        raise ValueError(f"{draft_directory} is not a small draft: its config.json has no labsim.kind 'small'")
    target = ModelConfig.from_dict(read_json(directory / "config.json"), str(directory))
    found = read_small(draft_directory, target, target_name)
    if not found.borrows_embedding:
        raise ValueError(f"{file}: labsim.embedding is missing; right is 'target': training reads the target's")
    config = LlamaConfig(**{key: value for key, value in found.raw.items() if key != "labsim"})
    config.dtype = torch.float32
    draft = SmallDraft(config, embedding_of(directory), len(found.vocabulary))
    check_tensors(found.weights, draft.state_dict(), str(draft_directory))
    draft.load_state_dict({name: tensor.float() for name, tensor in found.weights.items()})
    return draft, found.vocabulary


def embedding_of(directory: Path) -> torch.Tensor:
    """The input embedding of a target, in fp32."""
    for path in weight_files(directory):
        with opened(path) as file:
            if "model.embed_tokens.weight" in file.keys():  # noqa: SIM118
                return file.get_tensor("model.embed_tokens.weight").float()
    raise ValueError(f"{directory} holds no model.embed_tokens.weight")


def draft_loss(draft: SmallDraft, batch: TrainingBatch, *, bf16: bool = False) -> torch.Tensor:
    """Mean cross-entropy in nats over the batch's places."""
    with torch.autocast(batch.tokens_BL.device.type, torch.bfloat16, enabled=bf16):
        states_PE = draft(batch.tokens_BL)[batch.rows_P, batch.places_P]
        logits_PN = draft.lm_head(states_PE)
    logprobs_PN = logits_PN.float().log_softmax(dim=-1)
    return -(batch.weights_PT * logprobs_PN.gather(1, batch.labels_PT)).sum(dim=1).mean()


def save_draft(out: Path, draft: SmallDraft, vocabulary: DraftVocabulary, target_name: str, vocab_size: int) -> None:
    """Write config.json and model.safetensors (fp16, with d2t and t2d), each in one piece."""
    tensors = {name: tensor.detach().half().contiguous() for name, tensor in draft.state_dict().items()}
    tensors |= {"d2t": vocabulary.d2t, "t2d": vocabulary.t2d}
    config = draft.config.to_dict() | {
        "architectures": ["LlamaForCausalLM"],
        "dtype": "float16",
        "vocab_size": vocab_size,
        "draft_vocab_size": len(vocabulary.ids_N),
        "tie_word_embeddings": False,
        "labsim": {"kind": "small", "target": target_name, "embedding": "target"},
    }
    config.pop("_name_or_path", None)
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / "config.json", json.dumps(config, indent=2).encode())
    write_atomically(out / "model.safetensors", tensor_bytes(tensors, {"format": "pt"}))


def recipe_dict(recipe: SmallRecipe) -> dict[str, object]:
    return asdict(recipe) | {"layers": list(recipe.layers)}
