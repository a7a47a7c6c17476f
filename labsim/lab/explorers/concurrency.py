"""Explorers of notebook 02: break-even by concurrency, and three different P99s."""

from __future__ import annotations

from ...sim.accept_process import Acceptance
from ...sim.acceptance import convert_survival
from ...sim.cost import break_even, choose_tensor_parallel, cost_model
from ...sim.hardware import find_gpu
from ...sim.memory import requests_that_fit
from ...sim.serving import EngineConfig, compare
from ...sim.targets import find_model
from ...sim.workload import LogNormal, Workload
from ..explorer import Explorer, Frame, Reference, Series, Slider, explore

CONCURRENCIES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
MODELS = ("llama-3.1-8b", "llama-3.3-70b", "qwen3-30b-a3b", "kimi-k2")
GPUS = ("a100", "h100", "h200", "b200", "gb200")
METRICS = ("tpot_mean_ms", "tpot_p99_ms", "chunk_gap_p99_ms", "token_gap_p99_ms")
LABELS = ("TPOT mean", "TPOT P99", "chunk gap P99", "token gap P99")
# ShareGPT with an EAGLE head at K = 3, extended by its last conditional acceptance (survival, spread, autocorrelation
# from data/calibration/accept_stats_llama31_8b_H100.csv).
CHAT_SURVIVAL, CHAT_LAG1 = (0.622, 0.381, 0.252), 0.265


def break_even_by_concurrency(policy: float = 0.55) -> Explorer:
    """Break-even accepted/drafted over concurrency; sliders for model, GPU, K and context.

    `policy` is drawn as a reference: the rate below which a common rule of thumb switches speculation off.
    """
    return explore(
        lambda **at: _breakeven_frame(policy, **at),
        {
            "model": Slider("target", MODELS),
            "gpu": Slider("GPU", GPUS, value="h100"),
            "k": Slider("draft length K", (1, 2, 3, 5, 7), value=3, unit="tokens"),
            "context": Slider("context", (400, 2000, 8000, 32000), unit="tokens"),
        },
        title="Which alpha pays?",
        x_label="concurrency (requests)",
        y_label="break-even alpha (accepted/drafted)",
        x_scale="log2",
        y_range=(0.0, 1.2),
        reference=Reference(policy, f"rule of thumb {policy:g}"),
    )


def _breakeven_frame(policy: float, model: str, gpu: str, k: int, context: int) -> Frame:
    cost, fits = cost_model(gpu, model, "eagle3"), requests_that_fit(gpu, model, context)
    alphas = {c: break_even(cost, k, c, context).alpha_breakeven for c in CONCURRENCIES if c <= fits}
    above = [c for c, alpha in alphas.items() if alpha >= policy]
    last = max(alphas, default=None)
    reach = f"reaches {policy:g} at concurrency {above[0]}" if above else f"stays below {policy:g}"
    ends = f"{alphas[1]:.2f} at concurrency 1, {alphas[last]:.2f} at {last}; it {reach}" if last else "no request fits"
    if last == CONCURRENCIES[-1]:
        end = f"so all points, to {last}, are drawn"
    else:
        end = f"so the curve ends at {last}" if last else "so there is no curve"
    shape = find_model(model)
    gpus = choose_tensor_parallel(find_gpu(gpu), shape, shape.dtype)
    text = (
        f"{model} on {gpus} x {gpu}, EAGLE-3, K = {k}, context {context}: {ends}. The cache of {fits} such "
        f"requests fits beside the weights, {end}."
    )
    drawn = [alphas.get(c) for c in CONCURRENCIES]
    return Frame([Series("break-even", CONCURRENCIES, drawn)], text=text, alt=f"One curve. {text}")


def three_tails(seed: int = 0, requests: int | None = None) -> Explorer:
    """Mean and three kinds of P99 with and without speculation; sliders for load, prompts, prefill slice and K.

    Every frame is an event simulation (Llama-3.1-8B on one H100, chat acceptance).
    """
    return explore(
        lambda **at: _tails_frame(seed, requests, **at),
        {
            "concurrency": Slider("concurrency", (1, 4, 8, 16, 32, 64, 128), value=32, unit="requests"),
            "prompt": Slider("mean prompt", (300, 2000), unit="tokens"),
            "budget": Slider("prompt slice", (512, 2048), value=2048, unit="tokens"),
            "k": Slider("draft length K", (1, 3, 5), value=3, unit="tokens"),
        },
        title="Three tails",
        x_label="latency figure",
        y_label="milliseconds",
        y_range="frame",
    )


def _tails_frame(seed: int, requests: int | None, concurrency: int, prompt: int, budget: int, k: int) -> Frame:
    cost = cost_model("h100", "llama-3.1-8b", "eagle3")
    chat = Acceptance(convert_survival(CHAT_SURVIVAL, k), request_std=0.1 * k, autocorrelation=CHAT_LAG1)
    load = Workload(prompt=LogNormal(prompt, 0.5), output=LogNormal(400, 0.6), requests=requests)
    run = compare(cost, load, k, chat, concurrency, seed, EngineConfig(token_budget=budget + concurrency * (k + 1)))
    plain, drafted = ([getattr(report, name) for name in METRICS] for report in (run.baseline, run.speculative))
    changes = ", ".join(
        f"{label} {after / before - 1:+.0%}" for label, before, after in zip(LABELS, plain, drafted, strict=True)
    )
    wait = run.speculative.ttft_mean_ms / run.baseline.ttft_mean_ms - 1
    text = (
        f"Concurrency {concurrency}, K = {k}: {changes}, wait for the first token {wait:+.0%}. Steps with a prompt: "
        f"{run.baseline.prefill_step_share:.1%} without, {run.speculative.prefill_step_share:.1%} with speculation."
    )
    return Frame(
        [
            Series("without speculation", LABELS, plain, kind="bar"),
            Series("with speculation", LABELS, drafted, kind="bar"),
        ],
        text=text,
        alt=f"Pairs of bars. {text}",
    )
