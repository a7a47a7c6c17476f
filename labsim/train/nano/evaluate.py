"""How good and how predictable a target is: held-out perplexity, and the entropy along the target's own answers.

Speculation lives on predictability. The *conditional entropy* of a target's next-token distribution, averaged over
the positions of its own answers, says how much of the answer a draft could know in advance at best: near 0 bits any
draft follows, at 3 bits even a perfect draft of a sampled answer is rejected often. It is measured on answers that
the target writes itself, greedily and by sampling at temperature 1, since these are what is decoded in production.

    H = -sum_v p(v | prefix) ln p(v | prefix)        in nats; bits = nats / ln 2

Any target with the `LanguageModel` interface can be measured, nano and others alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch

from ...models.llama import LanguageModel
from ...models.load import Target


@dataclass(frozen=True)
class AnswerEntropy:
    """Figures over the answers to one domain's prompts.

    Attributes:
        answers, tokens: how many answers, and how many tokens in them (end-of-turn tokens included).
        entropy_nats, entropy_bits: mean over positions of the entropy of the next-token distribution at temperature 1.
        top_probability: mean over positions of the largest probability.
        stopped: share of the answers that end with a stop token within the limit.
        repetition: share of the 4-token windows that occurred earlier in the same answer.
    """

    answers: int
    tokens: int
    entropy_nats: float
    entropy_bits: float
    top_probability: float
    stopped: float
    repetition: float


@dataclass(frozen=True)
class Answer:
    """One answer with what the model thought at each of its positions."""

    tokens: tuple[int, ...]
    entropies: tuple[float, ...]
    top_probabilities: tuple[float, ...]
    stopped: bool


def mean_loss(model: LanguageModel, rows_BT: np.ndarray) -> float:
    """Mean loss in nats of each token given the ones before it in its row. Perplexity is its exponential."""
    total = 0.0
    for row_T in rows_BT.astype(np.int64):
        tokens_BT = torch.from_numpy(row_T)[None].to(model.device)
        logits_TV = model.forward(tokens_BT, model.new_cache(1, tokens_BT.shape[1])).logits_BQV[0, :-1].float()
        total += float(torch.nn.functional.cross_entropy(logits_TV, tokens_BT[0, 1:], reduction="sum"))
    return total / (rows_BT.shape[0] * (rows_BT.shape[1] - 1))


@dataclass(frozen=True)
class Copying:
    """Mean loss in nats on random tokens when they come first, and when the same tokens come again."""

    first: float
    again: float


def copying(model: LanguageModel, seed: int, *, prefix: Sequence[int] = (), period: int = 60, rows: int = 8) -> Copying:
    """Whether the model looks back: only a model that copies from its context predicts random tokens the second time.

    `prefix` is what every text of the model begins with, such as its beginning-of-text token. The first token of the
    repetition is left out: nothing announces it.
    """
    draw = np.random.default_rng(seed)
    losses = []
    for _ in range(rows):
        piece = draw.permutation(np.arange(model.config.vocab_size // 10, model.config.vocab_size))[:period]
        start = np.array([*prefix] or piece[-1:])
        tokens_T = torch.from_numpy(np.concatenate([start, piece, piece]).astype(np.int64)).to(model.device)
        logits_TV = model.forward(tokens_T[None], model.new_cache(1, len(tokens_T))).logits_BQV[0, :-1].float()
        losses.append(torch.nn.functional.cross_entropy(logits_TV, tokens_T[1:], reduction="none")[len(start) - 1 :])
    loss_RT = torch.stack(losses)
    return Copying(first=float(loss_RT[:, :period].mean()), again=float(loss_RT[:, period + 1 :].mean()))


def answer(
    model: LanguageModel,
    prompt: Sequence[int],
    stop_ids: frozenset[int],
    *,
    temperature: float,
    max_new_tokens: int,
    generator: torch.Generator,
) -> Answer:
    """Let the model answer, greedily (temperature 0) or by sampling, and record the entropy at each position.

    ValueError if prompt and answer do not fit the model's positions.
    """
    if len(prompt) + max_new_tokens > model.config.max_positions:
        raise ValueError(
            f"a prompt of {len(prompt)} tokens and {max_new_tokens} new ones do not fit "
            f"{model.config.max_positions} positions"
        )
    cache = model.new_cache(1, len(prompt) + max_new_tokens)
    new = list(prompt)
    tokens: list[int] = []
    entropies, tops = [], []
    while len(tokens) < max_new_tokens:
        logits_V = (
            model.forward(torch.tensor([new], device=model.device), cache, logits="last").logits_BQV[0, -1].float()
        )
        cache.keep([list(range(len(new)))])
        log_p_V = torch.log_softmax(logits_V, -1)
        p_V = log_p_V.exp()
        # xlogy counts 0 ln 0 as 0, where a plain product gives NaN.
        entropies.append(float(-torch.special.xlogy(p_V, p_V).sum()))
        tops.append(float(p_V.max()))
        if temperature == 0:
            token = int(logits_V.argmax())
        else:
            p_V = torch.softmax(logits_V / temperature, -1)
            token = int(torch.multinomial(p_V.cpu(), 1, generator=generator))
        tokens.append(token)
        new = [token]
        if token in stop_ids:
            break
    return Answer(tuple(tokens), tuple(entropies), tuple(tops), bool(tokens) and tokens[-1] in stop_ids)


def repetition(tokens: Sequence[int], width: int = 4) -> float:
    """Share of the windows of `width` tokens that occurred earlier in the same sequence."""
    windows = [tuple(tokens[i : i + width]) for i in range(len(tokens) - width + 1)]
    return 1 - len(set(windows)) / len(windows) if windows else 0.0


def summarise(answers: Sequence[Answer]) -> AnswerEntropy:
    """Means over all positions of all answers. ValueError for no answers."""
    if not answers:
        raise ValueError("no answers to summarise (give at least one prompt)")
    entropies = [h for a in answers for h in a.entropies]
    nats = sum(entropies) / len(entropies)
    tops = [p for a in answers for p in a.top_probabilities]
    return AnswerEntropy(
        answers=len(answers),
        tokens=len(entropies),
        entropy_nats=nats,
        entropy_bits=nats / math.log(2),
        top_probability=sum(tops) / len(tops),
        stopped=sum(a.stopped for a in answers) / len(answers),
        repetition=sum(repetition(a.tokens) for a in answers) / len(answers),
    )


def answer_entropies(
    target: Target,
    prompts: Mapping[str, Sequence[Sequence[Mapping[str, str]]]],
    *,
    max_new_tokens: int = 120,
    max_prompt_tokens: int = 1500,
    seed: int = 0,
    template: str | None = None,
) -> dict[str, dict[str, dict[str, float]]]:
    """Entropy figures by domain, for greedy answers and for sampled ones (temperature 1).

    `prompts` gives each domain's conversations, ending with a user or tool turn; those over `max_prompt_tokens` are
    left out. Returns {domain: {"greedy": figures, "sampled": figures}}.
    """
    report: dict[str, dict[str, dict[str, float]]] = {}
    for domain, conversations in prompts.items():
        encoded = [target.encode_chat(messages, template=template) for messages in conversations]
        room = min(max_prompt_tokens, target.model.config.max_positions - max_new_tokens)
        kept = [ids for ids in encoded if len(ids) <= room]
        report[domain] = {}
        for mode, temperature in (("greedy", 0.0), ("sampled", 1.0)):
            generator = torch.Generator().manual_seed(seed)
            answers = [
                answer(
                    target.model,
                    ids,
                    target.stop_ids,
                    temperature=temperature,
                    max_new_tokens=max_new_tokens,
                    generator=generator,
                )
                for ids in kept
            ]
            report[domain][mode] = asdict(summarise(answers))
    return report
