"""Training-time test under the loupe: is it what drafting does, and what does its attention keep in memory?

Drafting is done here entry by entry through the draft's cache, as `labsim.drafts.eagle_drafter` does it, but with the
tokens of a given text in place of the draft's own guesses; so its logits can be laid beside those of the training-time
forward at the same place and depth.

Shapes: T tokens, F feature width, L positions, N draft vocabulary, H heads, D head dimension, S keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import torch

from ..attention.ttt import ttt_attention
from ..drafts.eagle_checkpoint import LoadedDraft, load_draft
from ..drafts.load import trained
from ..drafts.protocol import Drafter
from ..drafts.recurrent import RecurrentDraft
from ..features.source import StateSource
from ..models.live_bytes import peak_bytes
from ..models.load import Target
from ..train.ttt.data import Document, PackedRow
from ..train.ttt.loss import Teacher, ttt_steps
from ..train.ttt.recipe import TTTRecipe
from .exercises.ttt_by_hand import trained_places, who_sees_whom
from .ttt_arms import Arm
from .ttt_grid import Grid


def open_draft(directory: Path, target: Target, dtype: torch.dtype = torch.float32) -> LoadedDraft:
    """A draft of this target with weights of that precision, not packed. ValueError as in `load_draft`."""
    model = target.model
    return load_draft(
        directory,
        target=model.config,
        embedding_VH=model.embedding_VE.to(dtype),
        head_VH=model.head.weight_OI.to(dtype),
        dtype=dtype,
    )


@torch.no_grad()
def drafted_logits(
    draft: RecurrentDraft, tokens: Sequence[int], features_TF: torch.Tensor, prefix: int, depths: int
) -> list[torch.Tensor]:
    """Logits (N,) of guesses 1 to `depths` after the prefix 0..`prefix`, drafted one by one through a cache.

    Guess d reads token `prefix + d` of the text. ValueError when the text is too short for that.
    """
    if prefix + depths >= len(tokens):
        raise ValueError(f"a text of {len(tokens)} tokens has no chain of {depths} after position {prefix}")
    text_1T = torch.tensor([list(tokens)])
    cache = draft.new_cache(1, prefix + 1 + depths)
    state = draft.fuse(features_TF[None, : prefix + 1].to(cache.kv.dtype))
    output, state = draft.forward_cached(text_1T[:, 1 : prefix + 2], state, cache)
    cache.keep([range(prefix + 1)])
    found = [draft.logits(output[0, -1])]
    for depth in range(1, depths):
        at = prefix + 1 + depth
        output, state = draft.forward_cached(text_1T[:, at : at + 1], state[:, -1:], cache)
        cache.keep([[0]])
        found.append(draft.logits(output[0, -1]))
    return found


@torch.no_grad()
def drafting_difference(
    draft: RecurrentDraft,
    tokens: Sequence[int],
    features_TF: torch.Tensor,
    prefixes: Sequence[int],
    depths: int,
    branch: Literal["own", "step"] = "own",
) -> list[float]:
    """By depth: largest difference of any logit between TTT step depth - 1 and drafting at that depth."""
    text_1T, dtype = torch.tensor([list(tokens)]), next(draft.parameters()).dtype
    steps = draft.ttt_forward(text_1T, features_TF[None].to(dtype), depths, branch=branch)
    trained = [draft.logits(step.output_BLH[0, list(prefixes)]) for step in steps]
    worst = [0.0] * depths
    for row, prefix in enumerate(prefixes):
        for depth, logits in enumerate(drafted_logits(draft, tokens, features_TF, prefix, depths)):
            worst[depth] = max(worst[depth], float((trained[depth][row] - logits).abs().max()))
    return worst


@torch.no_grad()
def chains(
    loaded: LoadedDraft, documents: Sequence[Document], source: StateSource, target: Target, depths: int
) -> list[list[bool]]:
    """For every place of the answers from which `depths` guesses can be judged: was each the target's choice?"""
    found: list[list[bool]] = []
    recipe = TTTRecipe(draft=loaded.draft.config.kind, ttt=depths, bf16=False)
    for one in documents:
        row = PackedRow.of([one])
        places = row.places(depths - 1)
        if len(places) == 0:
            continue
        [states] = source.read([one.tokens])
        teacher = Teacher.of(row, states.last_TE, target.model.head, loaded.vocabulary)
        right = []
        for step in ttt_steps(loaded.draft, row, states.features_TF[None].float(), recipe, depths):
            guessed_P = loaded.draft.logits(step.output_BLH[0, places]).argmax(dim=-1)
            said_P = teacher.drafted_P[torch.isin(teacher.places_P, places + 1 + step.step)]
            right.append((guessed_P == said_P).tolist())
        found += [list(chain) for chain in zip(*right, strict=True)]
    return found


def open_drafters(grid: Grid, arms: Iterable[Arm], target: Target) -> dict[str, Drafter]:
    """The kept drafts of a grid, packed for decoding, by the names of their arms. ValueError without a directory."""
    if grid.directory is None:
        raise ValueError("this grid has no directory, so its drafts were not kept")
    return {arm.name: trained(grid.directory / arm.key, target) for arm in arms}


def unrolled_rows(words: Sequence[str], answer_start: int, step: int) -> list[dict[str, Any]]:
    """What happens at each position of a small text in one step, as rows of a table."""
    rows, last = [], len(words) - 1
    counts = trained_places(len(words), answer_start, step)
    for t in range(len(words)):
        read, guessed = t + 1 + step, t + 2 + step
        rows.append(
            {
                "position": f"{t} {words[t]}",
                "state": f"target's at {t}" if step == 0 else f"own, from step {step - 1} at {t}",
                "reads": words[read] if read <= last else "-",
                "stands at": t + step,
                "teacher": f"after {words[read]}" if read <= last else "-",
                "guesses": words[guessed] if guessed <= last else "-",
                "counts": "yes" if t in counts else "no",
            }
        )
    return rows


def masked_attention(q_HLD: torch.Tensor, k_HSD: torch.Tensor, v_HSD: torch.Tensor, step: int) -> torch.Tensor:
    """The same attention as one softmax over all (1 + step) L keys under a dense mask: what the flash form replaces."""
    length = q_HLD.shape[1]
    mask, _ = who_sees_whom(length, step)
    scores = q_HLD @ k_HSD.transpose(-1, -2) * q_HLD.shape[-1] ** -0.5
    return scores.masked_fill(~torch.tensor(mask), float("-inf")).softmax(-1) @ v_HSD


def attention_bytes(
    length: int, step: int, way: Literal["branch", "mask"], *, heads: int = 4, width: int = 16, seed: int = 0
) -> int:
    """Live bytes at the worst moment of one forward and backward of a step's attention, float32."""
    generator = torch.Generator().manual_seed(seed)
    parts = [torch.randn(1, heads, length, width, generator=generator, requires_grad=True) for _ in range(3 + 2 * step)]
    q, k, v, *branch = parts
    pairs = list(zip(branch[0::2], branch[1::2], strict=True))
    mask = torch.tensor(who_sees_whom(length, step)[0]) if way == "mask" else None

    def work() -> None:
        if mask is None:
            out = ttt_attention(q, k, v, pairs)
        else:
            keys, values = (torch.cat([first, *rest], dim=2) for first, rest in ((k, branch[0::2]), (v, branch[1::2])))
            scores = (q @ keys.transpose(-1, -2) * width**-0.5).masked_fill(~mask, float("-inf"))
            out = scores.softmax(-1) @ values
        out.sum().backward()

    return peak_bytes(work)
