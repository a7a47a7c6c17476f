"""Engine: the event loop under `labsim.sim.serving`.

State changes only when a request arrives, finishes its prompt or finishes its answer. Between two such events the
batch is constant, and because a request's accept counts are drawn when it joins, the tokens of all coming steps are
known too. So a stretch of steps is priced in one go, and work per request and step is one addition:

    tokens[i] = what the batch emits in step i        kv before step i + 1 = kv before step i + tokens[i]

A request that joins before step s with m steps adds its own m numbers to tokens[s : s + m] and leaves after step
s + m - 1; a heap of these ends gives the next event.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate, repeat
from operator import add

from .accept_process import Sampler
from .errors import check_whole
from .report import Trace

# Steps priced at once while an arrival may cut the stretch short: bounds the work thrown away.
STRETCH = 32


@dataclass(frozen=True)
class EngineConfig:
    """Scheduler limits: requests in the batch, tokens per step (decode and prefill together), and whether prompts are
    processed here (`prefill=False`: by other machines or from a prefix cache, the first token arriving with them).
    """

    max_batch: int = 1024
    token_budget: int = 2048
    prefill: bool = True

    def __post_init__(self) -> None:
        check_whole("max_batch", self.max_batch)
        check_whole("token_budget", self.token_budget)


class Engine:
    """State of one run. Step i lasts `step_seconds[i]` and ends at `step_end[i]`; lists grow as time passes.

    Requests are numbered in order of arrival; `prompts` and `outputs` are their lengths, `sampler` their tokens per
    step (None without speculation: one).
    """

    def __init__(
        self,
        price: Callable[[int, int, int, int], float],
        k: int,
        config: EngineConfig,
        prompts: Sequence[int],
        outputs: Sequence[int],
        sampler: Sampler | None,
    ) -> None:
        count = len(prompts)
        self.price, self.k, self.config, self.sampler = price, k, config, sampler
        self.prompts, self.outputs = prompts, outputs
        self.now = 0.0
        self.step_seconds: list[float] = []
        self.step_end: list[float] = []
        self.batch: list[int] = []
        self.prefill_tokens: list[int] = []
        self.tokens: list[int] = []
        self.arrival: list[float] = []
        self.first_token = [0.0] * count
        self.finish = [0.0] * count
        self.first_step = [0] * count
        self.emitted: list[Sequence[int]] = [()] * count
        self.overrun = [0] * count
        self.waiting: deque[int] = deque()
        # At most one prompt is half done, since prompts are processed oldest first.
        self.prompting: int | None = None
        self.prompt_left = 0
        self.partial_kv = 0
        self.decoding = 0
        self.decoding_kv = 0
        self.ends: list[tuple[int, int]] = []

    def play(self, scheduled: Sequence[float], replace_finished: bool) -> None:
        """Serve all requests: arrivals at the `scheduled` seconds (ascending) and, in a closed loop, one more
        whenever a request finishes, until every request has been sent.
        """
        count, coming, done = len(self.prompts), deque(scheduled), 0
        unsent = count - len(coming)
        while done < count:
            if not (self.decoding or self.waiting or self.prompting is not None):
                self.now = max(self.now, coming[0])
                self._take_due(coming)
            chunk, prefilled = self._admit()
            if chunk:
                self._append_step(chunk)
                for request in prefilled:
                    self.partial_kv -= self.prompts[request]
                    self._join(request)
            elif self.ends[0][0] > len(self.step_seconds):
                has_room = self.decoding + (self.prompting is not None) < self.config.max_batch
                self._append_stretch(coming[0] if coming and has_room else None)
            # Whoever arrived during these steps queues before those who only now send their next request.
            self._take_due(coming)
            while self.ends and self.ends[0][0] == len(self.step_seconds):
                self._leave(heappop(self.ends)[1])
                done += 1
                if replace_finished and unsent:
                    self._arrive(self.now)
                    unsent -= 1

    def to_trace(self, concurrency: int | None, measured: range, window: tuple[float, float]) -> Trace:
        """What happened, with the part of it that a report counts."""
        return Trace(
            k=self.k,
            concurrency=concurrency,
            measured=measured,
            window=window,
            step_seconds=self.step_seconds,
            step_end=self.step_end,
            batch=self.batch,
            prefill_tokens=self.prefill_tokens,
            tokens=self.tokens if self.k else self.batch,
            prompts=self.prompts,
            outputs=self.outputs,
            arrival=self.arrival,
            first_token=self.first_token,
            finish=self.finish,
            first_step=self.first_step,
            emitted=self.emitted,
            overrun=self.overrun,
        )

    def _take_due(self, coming: deque[float]) -> None:
        while coming and coming[0] <= self.now:
            self._arrive(coming.popleft())

    def _arrive(self, time: float) -> None:
        self.waiting.append(len(self.arrival))
        self.arrival.append(time)

    def _admit(self) -> tuple[int, list[int]]:
        """(prompt tokens to process in the coming step, requests whose prompt that completes)."""
        config = self.config
        if not config.prefill:
            while self.waiting and self.decoding < config.max_batch:
                request = self.waiting.popleft()
                self._join(request)
            return 0, []
        left = config.token_budget - self.decoding * (self.k + 1)
        free = config.max_batch - self.decoding - (self.prompting is not None)
        chunk, prefilled = 0, []
        while left > 0 and (self.prompting is not None or (self.waiting and free > 0)):
            if self.prompting is None:
                self.prompting = self.waiting.popleft()
                self.prompt_left = self.prompts[self.prompting]
                free -= 1
            part = min(left, self.prompt_left)
            self.prompt_left -= part
            left -= part
            chunk += part
            if self.prompt_left == 0:
                prefilled.append(self.prompting)
                self.prompting = None
        return chunk, prefilled

    def _append_step(self, chunk: int) -> None:
        """One step that carries `chunk` prompt tokens beside the decode batch."""
        step = len(self.step_seconds)
        # The attention of this step also reads the part of a prompt that earlier steps have processed.
        seconds = self.price(self.decoding, self.k, self.decoding_kv + self.partial_kv, chunk)
        self.now += seconds
        self.step_seconds.append(seconds)
        self.step_end.append(self.now)
        self.batch.append(self.decoding)
        self.prefill_tokens.append(chunk)
        if self.k:
            self._extend_tokens(step + 1)
            self.decoding_kv += self.tokens[step]
        else:
            self.decoding_kv += self.decoding
        self.partial_kv += chunk

    def _append_stretch(self, next_arrival: float | None) -> None:
        """Decode steps up to the next end of an answer, or the first that ends at or after `next_arrival`."""
        first, batch, k = len(self.step_seconds), self.decoding, self.k
        count = self.ends[0][0] - first
        if next_arrival is not None:
            count = min(count, STRETCH)
        if k:
            kv_before = list(accumulate(self.tokens[first : first + count], initial=self.decoding_kv + self.partial_kv))
        else:
            kv_now = self.decoding_kv + self.partial_kv
            kv_before = range(kv_now, kv_now + batch * count + 1, batch)
        seconds = self._price_stretch(kv_before[:count])
        ends = list(accumulate(seconds, initial=self.now))[1:]
        if next_arrival is not None and ends[-1] >= next_arrival:
            count = bisect_left(ends, next_arrival) + 1
            del seconds[count:], ends[count:]
        self.decoding_kv = kv_before[count] - self.partial_kv
        self.now = ends[-1]
        self.step_seconds += seconds
        self.step_end += ends
        self.batch += repeat(batch, count)
        self.prefill_tokens += repeat(0, count)

    def _price_stretch(self, kv: Sequence[int]) -> list[float]:
        """Seconds of decode steps with KV lengths `kv` (ascending).

        A roofline, summed or max()-ed, is convex in the KV length: if it meets its chord between first and last
        length at an inner point it is straight there, and three prices give all of them.
        """
        batch, k, price = self.decoding, self.k, self.price
        if len(kv) > 4:
            start, stop, inner = kv[0], kv[-1], kv[len(kv) // 2]
            base = price(batch, k, start, 0)
            slope = (price(batch, k, stop, 0) - base) / (stop - start)
            if abs(base + slope * (inner - start) - price(batch, k, inner, 0)) <= 1e-9 * base:
                base -= slope * start
                return [base + slope * tokens for tokens in kv]
        return [price(batch, k, tokens, 0) for tokens in kv]

    def _join(self, request: int) -> None:
        """The prompt is in the cache and the first token out: decode from the coming step on."""
        first, tokens = len(self.step_seconds), self.outputs[request] - 1
        self.first_token[request] = self.now
        self.first_step[request] = first
        steps = tokens
        if self.k and tokens:
            emitted = self.sampler.steps(request, tokens)
            overrun = sum(emitted) - tokens
            # The answer ends inside the last step: it emits no more than is left.
            emitted[-1] -= overrun
            steps = len(emitted)
            self.emitted[request], self.overrun[request] = emitted, overrun
            self._extend_tokens(first + steps)
            self.tokens[first : first + steps] = map(add, self.tokens[first : first + steps], emitted)
        heappush(self.ends, (first + steps, request))
        self.decoding += 1
        self.decoding_kv += self.prompts[request] + 1

    def _leave(self, request: int) -> None:
        self.finish[request] = self.now
        self.decoding -= 1
        self.decoding_kv -= self.prompts[request] + self.outputs[request]

    def _extend_tokens(self, length: int) -> None:
        missing = length - len(self.tokens)
        if missing > 0:
            self.tokens.extend(repeat(0, missing))
