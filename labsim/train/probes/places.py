"""Training-time test for chosen places only: what a measurement needs, at a fraction of the cost.

`ttt_forward` unrolls every position of a text. Chains start in the answer alone, and a chain after the prefix 0..t
reads nothing but the prefix's keys of step 0 and its own branch. So the prefix is run once, and only the chosen places
go on: for an answer of 50 tokens behind a prompt of 2,000 that is forty times less work at each depth, and the logits
are the same.

Shapes: T tokens, F feature width, P places, H hidden size, A query heads, K key/value heads, D head dimension.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import torch

from ...attention.ttt import ttt_attention
from ...drafts.recurrent import Pair, RecurrentDraft
from ...drafts.vocabulary import DraftVocabulary
from ...features.source import StateSource
from ...models.linear import Linear
from ..ttt.data import Document, PackedRow
from ..ttt.estimate import Estimate, chain_runs
from ..ttt.loss import Teacher
from .attention import attention_weights
from .disturbed import Disturbed


@torch.no_grad()
def unroll_at(
    draft: RecurrentDraft, tokens: Sequence[int], features_TF: torch.Tensor, places_P: torch.Tensor, steps: int
) -> Iterator[torch.Tensor]:
    """What the head reads, (P, H), in TTT step 0, 1, ... at these positions of one text.

    Where the text has no token left, 0 stands in, as in `ttt_forward`; such guesses are the caller's to leave out.
    """
    history: list[Pair] = []

    def keeping(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, branch: Sequence[Pair]) -> torch.Tensor:
        history.append((k, v))
        return ttt_attention(q, k, v, branch)

    text_T = torch.tensor([*tokens, *[0] * steps], device=features_TF.device)
    [first] = draft.ttt_forward(text_T[None], features_TF[None], 1, attention=keeping)
    yield first.output_BLH[0, places_P]
    state_1PH, branch = first.state_BLH[:, places_P], []
    if isinstance(draft, Disturbed):
        draft.guessing = True
    for step in range(1, steps):
        attend = partial(attend_at, *history[0], places_P, branch)
        output_1PH, state_1PH, k, v = draft.block(
            text_T[None, places_P + 1 + step], state_1PH, (places_P + step)[None], attend
        )
        branch = [*branch, (k, v)]
        yield output_1PH[0]


def attend_at(
    history_k: torch.Tensor,
    history_v: torch.Tensor,
    places_P: torch.Tensor,
    branch: Sequence[Pair],
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
) -> torch.Tensor:
    """(1, A, P, D): each query's prefix and its own branch, in one softmax."""
    groups, length = q.shape[1] // k.shape[1], history_k.shape[2]
    own = [*branch, (k, v)]
    # The branch's entries lie in the order of the places, the history's in that of the text.
    weights_APS = attention_weights(q, history_k, own, places_P, queries_at=torch.arange(len(places_P)))
    values_ALD = history_v[0].repeat_interleave(groups, dim=0).float()
    out_APD = weights_APS[..., :length] @ values_ALD
    for index, (_, value) in enumerate(own):
        out_APD = out_APD + weights_APS[..., length + index, None] * value[0].repeat_interleave(groups, dim=0).float()
    return out_APD[None].to(q.dtype)


@torch.no_grad()
def walk(
    draft: RecurrentDraft,
    documents: Sequence[Document],
    source: StateSource,
    head: Linear,
    vocabulary: DraftVocabulary,
    k: int,
) -> Estimate:
    """The figures of `labsim.train.ttt.estimate.estimate`: greedy chains of k along greedy answers.

    ValueError for a sampled document.
    """
    if sampled := next((document for document in documents if not document.greedy), None):
        raise ValueError(f"answer {sampled.key} was sampled; the walk is exact on greedy answers only")
    device = draft.embedding_VH.device
    steps = accepted = 0
    reached, right, asked = [0] * k, [0] * k, [0] * k
    for document in documents:
        row = PackedRow.of([document])
        [states] = source.read([document.tokens])
        teacher = Teacher.of(row, states.last_TE.to(device), head, vocabulary)
        features_TF = states.features_TF.to(device, torch.float32)
        places_P = row.places(0).to(device)
        correct: list[list[bool]] = []
        for step, output_PH in enumerate(unroll_at(draft, document.tokens, features_TF, places_P, k)):
            at_P, counts_P = teacher.judged(row, step)
            rows_C = torch.searchsorted(places_P, at_P[counts_P])
            guessed_C = draft.logits(output_PH[rows_C], step).argmax(dim=-1)
            hits = (guessed_C == teacher.drafted_P[counts_P]).tolist()
            correct.append(hits)
            right[step] += sum(hits)
            asked[step] += len(hits)
        for run in chain_runs(correct, document.answer_tokens, k, document.stopped):
            steps += 1
            accepted += run
            for level in range(run):
                reached[level] += 1
    survival = tuple(count / steps if steps else 0.0 for count in reached)
    marginal = tuple(hits / count if count else 0.0 for hits, count in zip(right, asked, strict=True))
    return Estimate(len(documents), steps, accepted, survival, marginal)
