"""Published points that come without an acceptance length, predicted under a stated assumption.

Kimi-K2.6 (NVFP4) with an EAGLE-3.1 draft, vLLM, 4 x GB200 (TP4), SPEED-Bench coding: the blog post of 2026-05-26 gives
2.03x / 1.71x / 1.66x per-user throughput at concurrency 1 / 4 / 16 with K = 3, and no acceptance length. The same draft
measured on other hardware and text (ROCm/ATOM guide, GSM8K, K = 3) accepts with conditional probabilities
.783 / .751 / .711: acceptance length 2.79. That figure is the assumption. It scales all three predictions alike, so
the ratios between concurrencies test the cost model alone.

Llama-3.1-8B with EAGLE at K = 3 on one H100, vLLM 0.10.1, GSM8K: SpecDecode-Bench (arXiv 2601.11580) measures 1.73x at
batch 1 and 1.21x at 128. Its per-token acceptance records of the same runs give acceptance length 2.391.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .acceptance import acceptance_length, survival_from_conditional
from .cost import cost_model
from .errors import check_whole

KIMI_PUBLISHED = {1: 2.03, 4: 1.71, 16: 1.66}
KIMI_CONDITIONAL_ACCEPTANCE = (0.783, 0.751, 0.711)
KIMI_CONTEXT = 1000  # tokens per request, assumed; the ratios move by under 1 % between 500 and 4,000


SPECDECODE_PUBLISHED = {1: 1.73, 128: 1.21}
SPECDECODE_ACCEPTANCE_LENGTH = 2.391  # data/calibration/accept_stats_llama31_8b_H100.csv, gsm8k, acc_eagle, K = 3
SPECDECODE_CONTEXT = 400  # tokens per request: GSM8K prompts with half of their answers


@dataclass(frozen=True)
class ReferencePoint:
    """One concurrency: predicted and published speed-up (None where nothing was published), and R."""

    concurrency: int
    predicted: float
    published: float | None
    step_ratio: float


def predict_kimi_gb200(
    concurrency: Sequence[int] = (1, 4, 16),
    conditional_acceptance: Sequence[float] = KIMI_CONDITIONAL_ACCEPTANCE,
    context: int = KIMI_CONTEXT,
) -> tuple[ReferencePoint, ...]:
    """Predicted speed-ups of Kimi-K2.6 NVFP4 with EAGLE-3.1, K = len(conditional_acceptance), on 4 x GB200."""
    survival = survival_from_conditional(conditional_acceptance)
    length, k = acceptance_length(survival), len(survival)
    context = check_whole("context", context)
    cost = cost_model("gb200", "kimi-k2.6-nvfp4", "eagle3", tensor_parallel=4, engine="vllm")
    points = []
    for users in concurrency:
        ratio = cost.step_ratio(check_whole("concurrency", users), k, users * context)
        points.append(ReferencePoint(users, length / ratio, KIMI_PUBLISHED.get(users), ratio))
    return tuple(points)


def predict_specdecode_bench(concurrency: Sequence[int] = (1, 128)) -> tuple[ReferencePoint, ...]:
    """Predicted speed-ups of Llama-3.1-8B with EAGLE, K = 3, on one H100, at the acceptance length of the same runs."""
    cost = cost_model("h100", "llama-3.1-8b", "eagle", engine="vllm")
    points = []
    for users in concurrency:
        ratio = cost.step_ratio(check_whole("concurrency", users), 3, users * SPECDECODE_CONTEXT)
        points.append(
            ReferencePoint(users, SPECDECODE_ACCEPTANCE_LENGTH / ratio, SPECDECODE_PUBLISHED.get(users), ratio)
        )
    return tuple(points)
