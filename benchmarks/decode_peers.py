"""The contenders of decode_speed.py: labsim's decoding and the transformers library's, behind one call.

A contender answers one prompt greedily and says which tokens came out, how long the whole call took (prompt included)
and how many forwards of the target it needed.

The library's side runs as well as it can here: same weights, precision and attention kernel, prompt lookup with the
same n-gram length, assisted generation with a constant number of drafted tokens and no confidence threshold, so that
both sides draft K tokens per step. Its assistant is the very same small draft: a `LlamaForCausalLM` whose head computes
the draft vocabulary and scatters it into the full one (missing tokens get the lowest float), since the library wants
both models to have one vocabulary.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig, PreTrainedModel

from labsim.decode.generate import generate
from labsim.drafts.ngram import NgramDrafter
from labsim.drafts.protocol import Drafter
from labsim.drafts.shape import Chain
from labsim.models.load import Target
from labsim.models.weights import read_weights

NGRAM_LENGTH = 5


@dataclass(frozen=True)
class Run:
    """One answer: tokens, a stop token included; seconds of the whole call; target forwards, the prompt's included."""

    tokens: tuple[int, ...]
    seconds: float
    target_forwards: int

    @property
    def seconds_per_token(self) -> float:
        return self.seconds / len(self.tokens)

    @property
    def acceptance_length(self) -> float:
        """Tokens per forward after the prompt's."""
        return (len(self.tokens) - 1) / max(1, self.target_forwards - 1)


Contender = Callable[[list[int], int], Run]


def ours(target: Target, make_drafter: Callable[[], Drafter] | None, k: int) -> Contender:
    """labsim, plain or with a chain of `k` drafted tokens."""

    def run(prompt: list[int], new_tokens: int) -> Run:
        drafter = make_drafter() if make_drafter else None
        synchronize()
        start = time.perf_counter()
        result = generate(target, prompt, drafter=drafter, shape=Chain(k), max_new_tokens=new_tokens)
        synchronize()
        return Run(result.tokens, time.perf_counter() - start, result.target_forwards)

    return run


def ngram_drafter() -> Drafter:
    return NgramDrafter(max_n=NGRAM_LENGTH)


class Library:
    """transformers' generate on the target's own files."""

    def __init__(self, target: Target) -> None:
        self.device = target.model.device
        self.model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(target.directory, dtype=target.model.dtype)
        self.model.to(self.device).eval()
        # A fresh one: the checkpoint's may carry sampling parameters.
        self.model.generation_config = GenerationConfig(
            do_sample=False, eos_token_id=sorted(target.stop_ids), pad_token_id=min(target.stop_ids)
        )
        self.forwards = 0
        self.model.register_forward_hook(self._count)

    def _count(self, *_: object) -> None:
        self.forwards += 1

    def contender(self, **options: object) -> Contender:
        """`generate` with these options."""

        def run(prompt: list[int], new_tokens: int) -> Run:
            ids = torch.tensor([prompt], device=self.device)
            self.forwards = 0
            synchronize()
            start = time.perf_counter()
            with torch.inference_mode():
                output = self.model.generate(
                    ids, attention_mask=torch.ones_like(ids), max_new_tokens=new_tokens, use_cache=True, **options
                )
            synchronize()
            return Run(tuple(output[0, len(prompt) :].tolist()), time.perf_counter() - start, self.forwards)

        return run

    def prompt_lookup(self, k: int) -> Contender:
        return self.contender(prompt_lookup_num_tokens=k, max_matching_ngram_size=NGRAM_LENGTH)

    def assisted(self, k: int, draft: Path) -> Contender:
        assistant = build_assistant(draft, self.model)
        assistant.generation_config.num_assistant_tokens = k
        assistant.generation_config.num_assistant_tokens_schedule = "constant"
        assistant.generation_config.assistant_confidence_threshold = 0.0
        return self.contender(assistant_model=assistant)


class ScatteredHead(torch.nn.Module):
    """Logits of a draft vocabulary, placed where the target's vocabulary has these tokens."""

    def __init__(self, weight_NE: torch.Tensor, target_ids_N: torch.Tensor, vocab_size: int) -> None:
        super().__init__()
        self.register_buffer("weight_NE", weight_NE)
        self.register_buffer("target_ids_N", target_ids_N)
        self.vocab_size = vocab_size

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        logits = torch.nn.functional.linear(hidden, self.weight_NE)
        wide = logits.new_full((*logits.shape[:-1], self.vocab_size), torch.finfo(logits.dtype).min)
        wide[..., self.target_ids_N] = logits
        return wide


def build_assistant(draft: Path, target: PreTrainedModel) -> PreTrainedModel:
    """The draft in `draft` as a transformers model of the target's vocabulary.

    ValueError for a draft whose tensors are not those of its configuration.
    """
    config = AutoConfig.from_pretrained(draft)
    config.tie_word_embeddings = False
    weights = read_weights(draft)
    d2t_N = weights.pop("d2t", None)
    weights.pop("t2d", None)
    head_NE = weights.pop("lm_head.weight", None)
    if "model.embed_tokens.weight" not in weights:
        weights["model.embed_tokens.weight"] = target.get_input_embeddings().weight.detach()
    if head_NE is None:
        head_NE = weights["model.embed_tokens.weight"]
    ids_N = torch.arange(len(head_NE)) + (0 if d2t_N is None else d2t_N)
    model = AutoModelForCausalLM.from_config(config)
    model.lm_head = ScatteredHead(head_NE, ids_N, config.vocab_size)
    missing, unexpected = model.load_state_dict(weights, strict=False)
    missing = [name for name in missing if not name.startswith("lm_head.")]
    if missing or unexpected:
        raise ValueError(f"{draft}: tensors missing {missing}, unexpected {unexpected}")
    model.generation_config = GenerationConfig(do_sample=False)
    return model.to(target.device, target.dtype).eval()


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
