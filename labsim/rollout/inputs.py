"""What a rollout plan is made from: the user's choices and the records that their telemetry gave.

Nothing here is looked up or guessed. A measurement that was not made is absent (None, or an empty tuple), and the plan
then says how to make it. Every choice has a default that the plan prints as such.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import isfinite
from types import MappingProxyType

from ..sim.errors import check_positive, check_probability, check_whole, out_of_range, unknown_name
from ..sim.hardware import check_dtype, find_gpu
from ..telemetry.record import AcceptanceRecord

ENGINES = ("vllm", "sglang")
METHODS = ("eagle3", "eagle", "mtp", "draft_model", "ngram")
RULES = ("policy", "breakeven", "both")
SHARES = ("tokens", "requests", "drafts")
NEEDS_CHECKPOINT = ("eagle3", "eagle", "draft_model")


@dataclass(frozen=True)
class PlanInput:
    """All inputs of `labsim.rollout.plan`.

    `k` drafted tokens per step, `concurrency` the operating points, `context` tokens in each request's KV cache.
    `acceptance` what the engine's telemetry says of the draft, `acceptance_k` its K where the telemetry does not say.
    `baseline`, `candidate` benchmark records without and with speculation, one or several (paired by concurrency).
    `traffic` shares per kind of traffic, `alpha_by` accepted/drafted per kind, a number (at `k`) or a record;
    `traffic_shares` says of what the shares are, `output_tokens_by` the mean answer length per kind.
    `step_times` maps a concurrency to the measured (baseline, candidate) step time in ms; they replace the cost model.
    `rule` which limit governs alpha: the `policy`, break-even plus `margin`, or the higher of both.
    `tpot_tolerance`, `ttft_tolerance` are fractions of the baseline's P99; `stall_limit_ms` is absolute.

    Raises ValueError that names the input, its value and what is allowed.
    """

    target: str
    k: int
    concurrency: tuple[int, ...]
    draft_checkpoint: str | None = None
    method: str = "eagle3"
    engine: str = "vllm"
    gpu: str | None = None
    tensor_parallel: int | None = None
    dtype: str | None = None
    context: int = 1000
    acceptance: AcceptanceRecord | None = None
    acceptance_k: int | None = None
    baseline: tuple[AcceptanceRecord, ...] = ()
    candidate: tuple[AcceptanceRecord, ...] = ()
    traffic: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    alpha_by: Mapping[str, float | AcceptanceRecord] = field(default_factory=lambda: MappingProxyType({}))
    traffic_shares: str = "tokens"
    output_tokens_by: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    step_times: Mapping[int, tuple[float, float]] = field(default_factory=lambda: MappingProxyType({}))
    rule: str = "both"
    policy: float = 0.55
    margin: float = 0.05
    stall_limit_ms: float = 100.0
    tpot_tolerance: float = 0.0
    ttft_tolerance: float = 0.10

    def __post_init__(self) -> None:
        put = object.__setattr__
        for name in ("baseline", "candidate"):
            value = getattr(self, name)
            put(self, name, (value,) if isinstance(value, AcceptanceRecord) else tuple(value or ()))
        points = (self.concurrency,) if isinstance(self.concurrency, int) else tuple(self.concurrency)
        if not points:
            raise out_of_range("concurrency", "empty", "at least one number of concurrent requests, such as 1,32,128")
        put(self, "concurrency", tuple(sorted({check_whole("concurrency", c) for c in points})))
        put(self, "k", check_whole("k", self.k))
        put(self, "context", check_whole("context", self.context))
        _check_name("target", self.target)
        _check_choice("engine", self.engine, ENGINES)
        _check_choice("method", self.method, METHODS)
        _check_choice("rule", self.rule, RULES)
        _check_choice("traffic_shares", self.traffic_shares, SHARES)
        if self.draft_checkpoint is not None:
            _check_name("draft_checkpoint", self.draft_checkpoint)
        elif self.method in NEEDS_CHECKPOINT:
            raise out_of_range("draft_checkpoint", "missing", f"a Hugging Face id or path, which {self.method} needs")
        if self.gpu is not None:
            find_gpu(self.gpu)
        if self.dtype is not None:
            check_dtype(self.dtype)
        for name in ("tensor_parallel", "acceptance_k"):
            if getattr(self, name) is not None:
                put(self, name, check_whole(name, getattr(self, name)))
        check_probability("policy", self.policy)
        check_probability("margin", self.margin)
        check_positive("stall_limit_ms", self.stall_limit_ms)
        check_positive("tpot_tolerance", self.tpot_tolerance, zero=True)
        check_positive("ttft_tolerance", self.ttft_tolerance, zero=True)
        self._check_traffic()
        self._check_step_times()

    def is_default(self, name: str) -> bool:
        """Whether the input called `name` has its default value."""
        return any(f.name == name and f.default == getattr(self, name) for f in fields(self))

    def origin(self, name: str) -> str:
        """ "default" or "your input", for the plan's column of origins."""
        return "default" if self.is_default(name) else "your input"

    def _check_traffic(self) -> None:
        if bool(self.traffic) != bool(self.alpha_by):
            have, lack = ("traffic", "alpha_by") if self.traffic else ("alpha_by", "traffic")
            raise out_of_range(
                lack, "missing", f"one value per kind of traffic in {have}: {', '.join(getattr(self, have))}"
            )
        for name in self.traffic:
            if name not in self.alpha_by:
                raise unknown_name("kind of traffic in alpha_by", name, self.alpha_by)
        for name, value in self.alpha_by.items():
            if name not in self.traffic:
                raise unknown_name("kind of traffic in traffic", name, self.traffic)
            if not isinstance(value, AcceptanceRecord):
                check_probability(f"alpha_by {name}", value)
        for name, share in self.traffic.items():
            check_positive(f"traffic {name}", share, zero=True)
        if self.traffic and not sum(self.traffic.values()) > 0:
            raise out_of_range("traffic", dict(self.traffic), "at least one share above 0")
        for name, length in self.output_tokens_by.items():
            if name not in self.traffic:
                raise unknown_name("kind of traffic in output_tokens_by", name, self.traffic)
            check_positive(f"output_tokens_by {name}", length)
        if self.output_tokens_by and set(self.output_tokens_by) != set(self.traffic):
            lacking = sorted(set(self.traffic) - set(self.output_tokens_by))
            raise out_of_range(
                "output_tokens_by", f"missing for {', '.join(lacking)}", "one length per kind of traffic"
            )

    def _check_step_times(self) -> None:
        for point, times in self.step_times.items():
            check_whole("step_times concurrency", point)
            if len(times) != 2 or not all(isinstance(t, int | float) and isfinite(t) and t > 0 for t in times):
                raise out_of_range(f"step_times at {point}", times, "two times in ms above 0: baseline, candidate")
            if point not in self.concurrency:
                known = ", ".join(map(str, self.concurrency))
                raise out_of_range("step_times concurrency", point, f"one of the concurrency points: {known}")


def _check_choice(kind: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise unknown_name(kind, str(name), known)


def _check_name(kind: str, name: str) -> None:
    text = str(name)
    if not text.strip() or text != text.strip() or any(not c.isprintable() for c in text) or text.startswith("-"):
        raise out_of_range(kind, repr(name), "a model's name or path: printable, no leading dash, no outer spaces")


def source_of(record: AcceptanceRecord) -> str:
    """The files of a record, as the plan names them."""
    return ", ".join(record.files) if record.files else "the record given in Python"
