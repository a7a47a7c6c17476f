"""Acceptance by depth on the target's own greedy text, for a draft wired in any way.

On a greedy answer the token that follows *is* what the target would have said, so one unrolling over a finished text
shows every guess that serving would have seen, from every place of the answer (`labsim.train.ttt.estimate` walks over
them as a decoder does). Two wirings of one draft are compared place by place, on the same text.

Shapes: P places, D depths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch

from ..attention.ttt import ttt_attention
from ..drafts.heads import ParallelHeads
from ..features.source import Online
from ..models.load import Target
from ..train.answers import Question, generate_answers
from ..train.evaluate import prompts_of
from ..train.ttt.data import Document, PackedRow, documents
from .check import Told, untold
from .served import Served

DOMAINS = ("chat", "code", "agent")
LONGEST_PROMPT = 256
K = 5


@dataclass(frozen=True)
class Texts:
    """Greedy answers of a target, packed into one row, with the states of the layers that were asked for.

    Attributes:
        states: by layer, (L, E) over all texts.
        text_P: for each place of the row where a chain may start, to which text it belongs.
    """

    row: PackedRow
    states: dict[int, torch.Tensor]
    places_P: torch.Tensor
    text_P: torch.Tensor


@dataclass(frozen=True)
class Curve:
    """Chains of `k` from every place.

    Attributes:
        runs_P: accepted drafted tokens of the chain that starts at each place.
        survival: share of the chains that accept at least 1, 2, ... k tokens.
        marginal: share of right guesses at each depth, broken chains included.
    """

    runs_P: torch.Tensor
    survival: tuple[float, ...]
    marginal: tuple[float, ...]

    @property
    def accepted(self) -> float:
        """Mean accepted drafted tokens of a chain; the acceptance length is 1 more."""
        return float(self.runs_P.double().mean())

    @property
    def conditional(self) -> tuple[float, ...]:
        """Share of the chains alive at each depth that survive it; 0 where none is."""
        before = (1.0, *self.survival[:-1])
        return tuple(now / then if then else 0.0 for now, then in zip(self.survival, before, strict=True))


def greedy_texts(target: Target, count: int = 24, new_tokens: int = 64, told: Told = untold) -> list[Document]:
    """The target's own greedy answers to some of the course's held-out prompts, a third of each domain.

    ValueError when no prompt is short enough for the target.
    """
    longest = min(LONGEST_PROMPT, target.model.config.max_positions - new_tokens)
    questions = []
    for domain in DOMAINS:
        fitting = []
        for prompt in prompts_of(domain):
            if target.tokenizer.chat_template:
                ids = target.encode_chat(prompt.messages)
            else:
                ids = target.encode("\n".join(message["content"] for message in prompt.messages))
            if 0 < len(ids) <= longest:
                fitting.append(Question(prompt.id, 0, domain, tuple(ids)))
            if len(fitting) == -(-count // len(DOMAINS)):
                break
        questions += fitting
    if not questions:
        raise ValueError(f"none of the prompts fits into the {target.model.config.max_positions} tokens of the target")
    answers = []
    told("greedy answers", 0, len(questions))
    for answer in generate_answers(target.model, target.stop_ids, questions, max_new_tokens=new_tokens, seed=0):
        answers.append(answer)
        told("greedy answers", len(answers), len(questions))
    answers.sort(key=lambda answer: answer.key)
    return documents(answers, target.model.config.max_positions, greedy=True)


def read_texts(target: Target, texts: Sequence[Document], layers: Sequence[int]) -> Texts:
    """Run the target over the texts once and keep the states of some layers, in float32 or better.

    ValueError without texts, or for a sampled one.
    """
    if sampled := next((text for text in texts if not text.greedy), None):
        raise ValueError(f"text {sampled.key} was sampled; acceptance is exact on greedy text only")
    row, layers = PackedRow.of(texts), tuple(sorted(set(layers)))
    read = Online(target.model, layers).read([text.tokens for text in texts])
    whole = torch.cat([one.features_TF for one in read])
    whole = whole if whole.dtype == torch.float64 else whole.float()
    parts = whole.split(target.model.config.hidden_size, dim=-1)
    lengths = torch.tensor(row.lengths)
    text_L = torch.repeat_interleave(torch.arange(len(texts)), lengths)
    places_P = row.places(0)
    return Texts(row, dict(zip(layers, parts, strict=True)), places_P, text_L[places_P])


def commonest(texts: Texts) -> float:
    """Share of the first guesses that a draft gets right which always says the commonest token of these texts."""
    at_P = texts.places_P[texts.row.rest_L[texts.places_P] >= 2]
    counts_V = torch.bincount(texts.row.tokens_1L[0, at_P + 2])
    return float(counts_V.max()) / len(at_P) if len(at_P) else 0.0


@torch.no_grad()
def measure(served: Served, texts: Texts, k: int = K) -> Curve:
    """Acceptance of greedy chains of `k` from every place of the answers. ValueError for a layer that was not read."""
    if missing := [layer for layer in served.layers if layer not in texts.states]:
        raise ValueError(f"layer {missing[0]} was not read; these were: {sorted(texts.states)}")
    row, draft = texts.row, served.draft
    features_1LF = torch.cat([texts.states[layer] for layer in served.layers], dim=-1)[None]
    if served.late:
        features_1LF = shifted(features_1LF, row.lengths, served.late)
    tokens_1L = row.tokens_1L.to(features_1LF.device)
    heads = isinstance(draft, ParallelHeads)
    depths = min(k, draft.config.num_heads) if heads else k
    if heads:
        steps = draft.ttt_forward(tokens_1L, features_1LF, depths)
    else:
        attention = partial(ttt_attention, documents=row.lengths)
        steps = draft.ttt_forward(tokens_1L, features_1LF, depths, attention=attention)
    alive_P = torch.ones(len(texts.places_P), dtype=torch.bool)
    runs_P = torch.zeros(len(texts.places_P), dtype=torch.long)
    survival, marginal = [], []
    for step in steps:
        in_text_P = row.rest_L[texts.places_P] >= step.step + 2
        at_P = texts.places_P[in_text_P]
        guessed = draft.logits(step.output_BLH[0, at_P.to(features_1LF.device)], step.step).argmax(dim=-1).cpu()
        right_P = torch.zeros_like(alive_P)
        right_P[in_text_P] = served.ids_N[guessed] == row.tokens_1L[0, at_P + 2 + step.step]
        alive_P &= right_P
        runs_P += alive_P
        # Shares over the chains that have room for this depth: the end of a text is no rejection.
        survival.append(share(alive_P, in_text_P))
        marginal.append(share(right_P, in_text_P))
    blank = (0.0,) * (k - len(survival))
    return Curve(runs_P, (*survival, *blank), (*marginal, *blank))


def share(which_P: torch.Tensor, of_P: torch.Tensor) -> float:
    return float(which_P[of_P].double().mean()) if bool(of_P.any()) else 0.0


def shifted(features_1LF: torch.Tensor, lengths: Sequence[int], late: int) -> torch.Tensor:
    """Each text's states moved `late` positions towards its end; the border's own state fills the gap."""
    parts = []
    for text in features_1LF[0].split(list(lengths)):
        at = (torch.arange(len(text)) - late).clamp(0, len(text) - 1)
        parts.append(text[at])
    return torch.cat(parts)[None]
