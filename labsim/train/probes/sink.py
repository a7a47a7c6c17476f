"""The target's attention sink: a token near the beginning that takes much attention whatever it says.

A softmax must spend its whole mass. A head with nothing to read gives it to a token that every query sees, and training
makes one of them: the first in Llama, the second in Qwen, none in gpt-oss (which has a learned sink outside the text).
A draft may inherit the habit, so its drift is measured on the target's sink, and a target without one cannot show it.

Shapes: T tokens, A query heads, K key/value heads, D head dimension, P queries, E early tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import rms_norm

from ...models.llama import LanguageModel

EARLY = 4  # where a sink is looked for
FIRST_QUERY = 16  # earlier queries see so few keys that each has a large share anyway
SINK_SHARE = 0.1  # of all attention, mean over layers, heads and queries
TIMES_EVEN = 5  # and so many times what each key has when all share evenly: short texts have large shares anyway
MOST_QUERIES = 64  # of one text


@dataclass(frozen=True)
class Sink:
    """The target's sink.

    Attributes:
        token: its position; None when no early token has a tenth of all attention and five times its even share.
        shares: attention share of the first tokens, mean over layers, heads and queries.
        even: what each key had if all in sight of a query shared evenly, mean over queries.
    """

    token: int | None
    shares: tuple[float, ...]
    even: float


@torch.no_grad()
def find_sink(model: LanguageModel, texts: Sequence[Sequence[int]]) -> Sink:
    """From the target's own attention on these texts. ValueError when none is long enough."""
    long_enough = [text for text in texts if len(text) > FIRST_QUERY]
    if not long_enough:
        raise ValueError(f"a sink is looked for in texts of more than {FIRST_QUERY} tokens, and there is none")
    shares_E = torch.stack([early_shares(model, text) for text in long_enough]).mean(0)
    even = torch.stack([(1 / (queries(len(text)) + 1)).mean() for text in long_enough]).mean()
    return sink_among(shares_E.tolist(), float(even))


def sink_among(shares: Sequence[float], even: float) -> Sink:
    """The early token with the largest share, if that is large enough."""
    best = max(range(len(shares)), key=lambda token: shares[token])
    found = shares[best] >= max(SINK_SHARE, TIMES_EVEN * even)
    return Sink(best if found else None, tuple(shares), even)


def queries(length: int) -> torch.Tensor:
    """(P,): positions whose attention is looked at, spread over a text."""
    return torch.linspace(FIRST_QUERY, length - 1, min(MOST_QUERIES, length - FIRST_QUERY)).long()


def early_shares(model: LanguageModel, text: Sequence[int]) -> torch.Tensor:
    """(E,): attention share of each early token, mean over layers, heads and queries from `FIRST_QUERY` on."""
    config, length = model.config, len(text)
    cache = model.new_cache(1, length)
    hidden = model.forward(
        torch.tensor([list(text)]), cache, hidden_layers=range(config.num_layers), logits="none"
    ).hidden
    places_P = queries(length).to(model.device)
    later_PT = torch.arange(length, device=model.device)[None] > places_P[:, None]
    cos_PD, sin_PD = model.cos_PD[places_P], model.sin_PD[places_P]
    found = []
    for index, layer in enumerate(model.layers):
        x_PE = hidden[index][0, places_P]
        qkv = layer.qkv(rms_norm(x_PE, x_PE.shape[-1:], layer.input_norm, config.rms_norm_eps))
        q_APD = qkv.view(len(places_P), -1, config.head_dim).transpose(0, 1)[: config.num_heads]
        if layer.q_norm is not None:
            q_APD = rms_norm(q_APD, (config.head_dim,), layer.q_norm, config.rms_norm_eps)
        q_APD = q_APD * cos_PD + q_APD.roll(config.head_dim // 2, dims=-1) * sin_PD
        k_KTD = cache.kv[index, 0, 0, :, :length]
        k_ATD = k_KTD.repeat_interleave(config.num_heads // config.num_kv_heads, dim=0)
        scores_APT = (q_APD.float() @ k_ATD.float().transpose(-1, -2)) * config.head_dim**-0.5
        weights_APT = scores_APT.masked_fill(later_PT, float("-inf")).softmax(-1)
        found.append(weights_APT[..., :EARLY].mean((0, 1)))
    return torch.stack(found).mean(0).cpu()
