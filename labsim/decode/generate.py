"""The decoding loop: propose, verify, accept, until every row has finished.

    drafts   = drafter.propose(texts, ...)                     guesses, cheap
    logits   = verify(model, cache, last_tokens, drafts)       one target forward for all of them
    outcome  = accept_greedy(...) or accept_sampled(...)       how far the guesses were right, and the next token
    cache.keep(...)                                            what was wrong leaves the cache

Plain decoding is the same loop with empty drafts, so a comparison of the two compares the drafting and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import torch

from ..drafts.protocol import Draft, Drafter
from ..drafts.shape import Chain, Shape
from ..models.cache import KVCache, each_once
from ..models.llama import LanguageModel
from ..models.load import Target
from ..models.sampling import GREEDY, Sampling, distribution
from .accept import Accepted, accept_greedy, accept_sampled
from .result import FinishReason, GenerationResult, PhaseSeconds, Step
from .verify import verify

PREFILL_CHUNK = 2048  # tokens per row and forward: bounds the activations of a long prompt


def generate(target: Target, prompt: Sequence[int], **options: object) -> GenerationResult:
    """`generate_batch` for one prompt."""
    return generate_batch(target, [prompt], **options)[0]


def generate_batch(
    target: Target,
    prompts: Sequence[Sequence[int]],
    *,
    drafter: Drafter | None = None,
    shape: Shape | None = None,
    max_new_tokens: int = 200,
    sampling: Sampling = GREEDY,
    seed: int = 0,
    stop_ids: frozenset[int] | None = None,
    on_tokens: Callable[[int, Sequence[int]], None] | None = None,
) -> list[GenerationResult]:
    """Answer every prompt; rows accept different numbers of tokens and finish at different times.

    Args:
        target: the model whose answers these are.
        prompts: token ids, at least one each.
        drafter: None for plain decoding. One drafter serves one call at a time.
        shape: of the drafts; a chain of 4 by default, nothing without a drafter.
        max_new_tokens: per row, at least 1.
        sampling: greedy unless told otherwise.
        seed: each row draws from its own generator, seeded with this and the row's number.
        stop_ids: tokens that end an answer; None for the target's own.
        on_tokens: called with (row, new tokens) after each step.

    Raises:
        ValueError: an empty prompt, one that fills the context, ids outside the vocabulary, or max_new_tokens < 1.
    """
    shape = Chain(0) if drafter is None else (shape or Chain(4))
    stop_ids = target.stop_ids if stop_ids is None else stop_ids
    model, context = target.model, target.model.config.max_positions
    check(target, prompts, max_new_tokens)
    rows = [
        Row(index, list(prompt), len(prompt), min(len(prompt) + max_new_tokens, context), max_new_tokens)
        for index, prompt in enumerate(prompts)
    ]
    for row in rows:
        row.generator.manual_seed(1_000_003 * seed + row.index)
    longest = max(row.limit for row in rows)
    cache = model.new_cache(len(rows), longest + 1 + shape.nodes)
    clock = Clock(model.device)
    hidden_layers = drafter.hidden_layers if drafter else ()
    if drafter is not None:
        drafter.start(len(rows), longest)

    first_logits_BV, hidden, prefill_forwards = prefill(model, cache, prompts, hidden_layers)
    clock.lap("prefill")
    outcomes = accept([Draft()] * len(rows), first_logits_BV[:, None], sampling, rows)
    active = rows
    for row, outcome in zip(rows, outcomes, strict=True):
        row.take((outcome.token,), stop_ids)
        report(on_tokens, row, 1)
    clock.lap("accept")

    while True:
        going = [i for i, row in enumerate(active) if row.finish_reason is None]
        if len(going) < len(active):
            if not going:
                break
            cache.select(going)
            active = [active[i] for i in going]
            hidden = [hidden[i] for i in going]
            if drafter is not None:
                drafter.select(going)
        # A step adds at most depth + 1 tokens: no draft reaches beyond a row's limit.
        room = [row.limit - len(row.text) - 1 for row in active]
        drafts = [Draft()] * len(active)
        if drafter is not None and max(room) > 0:
            if hidden_layers:
                drafter.observe(hidden)
            texts = [row.text for row in active]
            proposed = drafter.propose(texts, shape.limited(max(room)), sampling, [row.generator for row in active])
            drafts = [draft.limited(depth) for draft, depth in zip(proposed, room, strict=True)]
        clock.lap("propose")

        out = verify(model, cache, [row.text[-1] for row in active], drafts, hidden_layers)
        clock.lap("verify")

        outcomes = accept(drafts, out.logits_BQV, sampling, active)
        paths = [[0, *(node + 1 for node in outcome.path)] for outcome in outcomes]
        cache.keep(paths)
        hidden = [{i: h[b, paths[b]] for i, h in out.hidden.items()} for b in range(len(active))]
        for row, draft, outcome in zip(active, drafts, outcomes, strict=True):
            report(on_tokens, row, row.step(draft, outcome, stop_ids))
        clock.lap("accept")

    seconds = PhaseSeconds(**clock.seconds)
    return [row.result(prefill_forwards, seconds, model.weight_bytes) for row in rows]


def accept(
    drafts: Sequence[Draft], logits_BQV: torch.Tensor, sampling: Sampling, rows: Sequence[Row]
) -> list[Accepted]:
    """Judge each row's draft by the target's logits after the last token and after each drafted one."""
    if sampling.greedy:
        choices = logits_BQV.argmax(-1).tolist()
        return [accept_greedy(draft, chosen) for draft, chosen in zip(drafts, choices, strict=True)]
    outcomes = []
    for draft, logits_QV, row in zip(drafts, logits_BQV, rows, strict=True):
        p_NV = distribution(logits_QV[: 1 + len(draft.tokens)], sampling).cpu()
        outcomes.append(accept_sampled(draft, p_NV, row.generator))
    return outcomes


def prefill(
    model: LanguageModel, cache: KVCache, prompts: Sequence[Sequence[int]], hidden_layers: Sequence[int]
) -> tuple[torch.Tensor, list[dict[int, torch.Tensor]], int]:
    """Run the prompts into an empty cache, in chunks; one that several rows share is run once.

    Returns logits (B, V) after each row's last token, each row's hidden states (T, E) by layer, and the number of
    forwards.
    """
    distinct, of_row = each_once(prompts)
    if len(distinct) < len(prompts):
        once = model.new_cache(len(distinct), max(map(len, distinct)))
        logits_BV, hidden, forwards = prefill(model, once, distinct, hidden_layers)
        cache.copy_rows(once, of_row)
        return logits_BV[of_row], [hidden[row] for row in of_row], forwards
    lengths = [len(prompt) for prompt in prompts]
    logits: list[torch.Tensor | None] = [None] * len(prompts)
    parts: list[list[dict[int, torch.Tensor]]] = [[] for _ in prompts]
    forwards = 0
    for start in range(0, max(lengths), PREFILL_CHUNK):
        end = min(start + PREFILL_CHUNK, max(lengths))
        tokens = torch.tensor(
            [[*prompt[start:end]] + [0] * (end - max(start, len(prompt[:end]))) for prompt in prompts]
        )
        counts = [max(0, min(length, end) - start) for length in lengths]
        out = model.forward(tokens, cache, hidden_layers=hidden_layers, logits=[max(0, count - 1) for count in counts])
        cache.keep([range(count) for count in counts])
        forwards += 1
        for row, (length, count) in enumerate(zip(lengths, counts, strict=True)):
            if count:
                parts[row].append({i: h[row, :count] for i, h in out.hidden.items()})
            if start < length <= end:
                logits[row] = out.logits_BQV[row, 0]
    hidden = [{i: torch.cat([part[i] for part in row]) for i in hidden_layers} for row in parts]
    return torch.stack(logits), hidden, forwards


@dataclass
class Row:
    """One answer while it grows."""

    index: int
    text: list[int]
    prompt_length: int
    limit: int  # text length at which to end
    max_new_tokens: int
    generator: torch.Generator = field(default_factory=torch.Generator)
    steps: list[Step] = field(default_factory=list)
    finish_reason: FinishReason | None = None

    def take(self, tokens: Sequence[int], stop_ids: frozenset[int]) -> int:
        """Append tokens up to the first stop token; returns how many were taken."""
        stop = next((i for i, token in enumerate(tokens) if token in stop_ids), None)
        taken = tokens if stop is None else tokens[: stop + 1]
        self.text += taken
        if stop is not None:
            self.finish_reason = "stop"
        elif len(self.text) >= self.limit:
            full = self.limit < self.prompt_length + self.max_new_tokens
            self.finish_reason = "context" if full else "length"
        return len(taken)

    def step(self, draft: Draft, outcome: Accepted, stop_ids: frozenset[int]) -> int:
        """Record one verify step and append what it emitted; returns the number of tokens taken."""
        accepted = [draft.tokens[node] for node in outcome.path]
        taken = self.take([*accepted, outcome.token], stop_ids)
        whole = taken > len(accepted)
        self.steps.append(
            Step(
                draft.tokens,
                draft.parents,
                outcome.path[:taken],
                outcome.token if whole else None,
                outcome.kind if whole else "stop",
            )
        )
        return taken

    def result(self, prefill_forwards: int, seconds: PhaseSeconds, weight_bytes: int) -> GenerationResult:
        prompt, tokens = self.text[: self.prompt_length], self.text[self.prompt_length :]
        return GenerationResult(
            tuple(prompt), tuple(tokens), self.finish_reason, tuple(self.steps), prefill_forwards, seconds, weight_bytes
        )


class Clock:
    """Wall time by phase. A GPU works behind the program's back, so each lap waits for it."""

    def __init__(self, device: torch.device) -> None:
        self.cuda = device.type == "cuda"
        self.seconds = dict.fromkeys(("prefill", "propose", "verify", "accept"), 0.0)
        self.last = perf_counter()

    def lap(self, phase: str) -> None:
        if self.cuda:
            torch.cuda.synchronize()
        now = perf_counter()
        self.seconds[phase] += now - self.last
        self.last = now


def report(on_tokens: Callable[[int, Sequence[int]], None] | None, row: Row, count: int) -> None:
    if on_tokens is not None:
        on_tokens(row.index, row.text[-count:])


def check(target: Target, prompts: Sequence[Sequence[int]], max_new_tokens: int) -> None:
    if not prompts:
        raise ValueError("there is no prompt: give at least one")
    if max_new_tokens < 1:
        raise ValueError(f"max_new_tokens is {max_new_tokens}; right is at least 1")
    context = target.model.config.max_positions
    for index, prompt in enumerate(prompts):
        if not prompt:
            raise ValueError(f"prompt {index} is empty: it needs at least one token")
        if len(prompt) >= context:
            raise ValueError(
                f"prompt {index} has {len(prompt)} tokens, and the context of {target.name} holds {context}: "
                "shorten it so that there is room for an answer"
            )
