"""Verify: one target forward over the last token and every drafted token of every row.

The forward returns a next-token distribution after *each* of them. That is all that acceptance needs: the row after the
last accepted token already holds the correction or the bonus token, so a rejection costs no second pass.

Shapes: B rows, N drafted tokens (the most of any row), V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..drafts.protocol import Draft
from ..models.cache import KVCache
from ..models.llama import LanguageModel, ModelOutput


def verify(
    model: LanguageModel,
    cache: KVCache,
    last_tokens: Sequence[int],
    drafts: Sequence[Draft],
    hidden_layers: Sequence[int] = (),
) -> ModelOutput:
    """Logits (B, 1 + N, V): at index 0 after each row's last token, at index 1 + i after its drafted token i.

    The last token is not in the cache yet; it becomes pending token 0, drafted token i pending token 1 + i. Rows
    with shorter drafts are padded, and the padding is never kept.
    """
    width = max(len(draft.tokens) for draft in drafts)
    rows = [
        [last, *draft.tokens] + [0] * (width - len(draft.tokens))
        for last, draft in zip(last_tokens, drafts, strict=True)
    ]
    parents = None
    # In a chain the padding stands behind the draft, and a row near the end of the context has no positions there.
    beyond = max(cache.lengths) + 1 + width > model.config.max_positions
    if beyond or not all(draft.is_chain for draft in drafts):
        parents = [
            [-1, *(parent + 1 for parent in draft.parents)] + [0] * (width - len(draft.tokens)) for draft in drafts
        ]
    return model.forward(torch.tensor(rows), cache, parents_BQ=parents, hidden_layers=hidden_layers)
