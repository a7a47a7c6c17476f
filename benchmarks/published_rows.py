"""Reads public speed-up measurements: three CSV layouts into one record, or the reason why a row cannot be used.

A row is used only if it says what a prediction needs: target, GPU, draft, K, batch, and how many tokens a step yields.
What is missing is never filled in, with two exceptions that are definitions and not guesses: an acceptance length
follows from accepted/drafted as 1 + K * alpha_d, and a SpecBundle row ran in SGLang on H200 (the dashboard's only
set-up, which its columns do not repeat).
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, replace
from pathlib import Path

from labsim.sim.drafts import find_draft
from labsim.sim.hardware import find_gpu
from labsim.sim.targets import MODELS, find_model, split_model_name

PUBLISHED = ("method", "target", "hardware", "engine", "K", "concurrency_or_batch", "acceptance_length", "speedup")
SPECBUNDLE = ("target", "benchmark", "batch_size", "steps", "topk", "num_draft_tokens", "speedup", "accept_length")
PARETO = ("arm", "concurrency", "interactivity_tok_s_user", "speedup_interactivity_vs_nospec")

# Tokens of context per request where a row does not say. Speed-ups at these batch sizes hardly depend on it: doubling
# it moves the median prediction by less than half a per cent.
DEFAULT_CONTEXT = 1000

# Baselines of this target differ 2.2-fold between benchmarks (all others: at most 1.7-fold) and its plain step is
# slower than its speculative one (AL / speed-up = R < 1), which no cost model can produce.
INCONSISTENT = {"Llama-4-Scout-17B-16E": "inconsistent measurement: plain steps slower than speculative ones (R < 1)"}


class UnknownLayout(ValueError):
    """The header belongs to none of the three layouts."""


class Skip(ValueError):
    """The reason why a row cannot be predicted."""


@dataclass(frozen=True)
class Row:
    """One usable measurement. `line` is the line number in `file`; `baseline_tok_s` is None where not measured."""

    file: str
    line: int
    target: str
    model: str
    dtype: str
    is_moe: bool
    gpu: str
    gpus: int | None
    engine: str | None
    draft: str
    steps: int
    width: int
    verify: int
    batch: int
    context: int
    acceptance_length: float
    speedup: float
    benchmark: str = ""
    baseline_tok_s: float | None = None


@dataclass(frozen=True)
class Skipped:
    file: str
    line: int
    why: str
    row: Row | None = None


def read_rows(path: Path) -> tuple[list[Row], list[Skipped]]:
    """Usable rows and skipped rows of one CSV file. Raises UnknownLayout (a ValueError), or OSError if unreadable."""
    text = path.read_text(encoding="utf-8-sig")
    lines = [(n, line) for n, line in enumerate(text.splitlines(), 1) if line.strip() and not line.startswith("#")]
    reader = csv.DictReader(line for _, line in lines)
    header = reader.fieldnames or []
    convert = next((f for cols, f in _LAYOUTS if set(cols) <= set(header)), None)
    if convert is None:
        raise UnknownLayout(
            f"{path}: unknown header {','.join(header)[:120]!r}; allowed: the columns of "
            "published_calibration.csv, specbundle_calibration.csv or dspark_pareto_*.csv"
        )
    rows: list[Row] = []
    skipped: list[Skipped] = []
    for record in reader:
        line = lines[min(reader.line_num, len(lines)) - 1][0]
        fields = {key: (value or "").strip() for key, value in record.items() if key}
        try:
            row = replace(convert(fields), file=path.name, line=line)
            check_possible(row)
        except Skip as reason:
            skipped.append(Skipped(path.name, line, str(reason)))
            continue
        if row.model in INCONSISTENT:
            skipped.append(Skipped(path.name, line, INCONSISTENT[row.model], row))
        else:
            rows.append(row)
    return rows, skipped


def check_possible(row: Row) -> None:
    """Skip a row whose figures cannot be: nothing of it may be guessed."""
    if row.acceptance_length > row.steps + 1:
        raise Skip(f"acceptance length {row.acceptance_length} is above K + 1 = {row.steps + 1}")
    if not 0.01 <= row.speedup <= 1000:
        raise Skip(f"speed-up {row.speedup} is not between 0.01 and 1000")
    if row.steps < 1 or row.width < 1 or row.verify < 1 or row.batch < 1 or row.gpus == 0:
        raise Skip("K, width, verified tokens, batch and GPUs must each be at least 1")
    if max(row.steps, row.width, row.verify) > 1000:
        raise Skip("more than 1000 drafted or verified tokens per request")


def _published(f: dict[str, str]) -> Row:
    if re.search(r"\bvs\b|relative", f["method"]) or re.search(r"\bvs [A-Z]|/ *P?-?EAGLE", _metric(f)):
        raise Skip(f"ratio against another draft ({f['method']}: {_metric(f)}), not against plain decoding")
    if "no spec" in f["method"].lower() or f["K"].lower() == "baseline":
        raise Skip("baseline row: nothing to predict")
    speedup = _number(f["speedup"], "speed-up")
    steps, width, verify = _shape_of_k(f["K"])
    if re.search(r"QPS|rps", f["concurrency_or_batch"]) or "E2E" in _metric(f):
        raise Skip("open-loop load: its figures hold queueing, which a ratio of steps does not describe")
    batch = _whole(f["concurrency_or_batch"], "concurrency or batch")
    acceptance = _acceptance_length(f, steps, width)
    target, hardware = f["target"], f["hardware"]
    inside = re.search(r"\s+(\d+x\S+)$", target)
    if inside and not hardware:  # one source prints the GPU after the model's name
        target, hardware = target[: inside.start()], inside.group(1)
    gpu, gpus = _hardware(hardware)
    model, dtype, is_moe = _target(re.sub(r"^EAGLE\S*\s+", "", target))
    return Row(
        "",
        0,
        target,
        model,
        dtype,
        is_moe,
        gpu,
        gpus,
        _engine(f["engine"]),
        _draft(f["method"], model),
        steps,
        width,
        verify,
        batch,
        _context(f.get("source", "")),
        acceptance,
        speedup,
    )


def _specbundle(f: dict[str, str]) -> Row:
    speedup, acceptance = _number(f["speedup"], "speed-up"), _number(f["accept_length"], "acceptance length")
    if acceptance < 1:
        raise Skip(f"acceptance length {acceptance} is below 1")
    steps, width = _whole(f["steps"], "steps"), _whole(f["topk"], "topk")
    verify, batch = _whole(f["num_draft_tokens"], "num_draft_tokens"), _whole(f["batch_size"], "batch_size")
    if steps < 1 or verify < 1:
        raise Skip("baseline row: nothing to predict")
    if re.search(r"n-?gram|dflash|medusa|mtp", f.get("draft", ""), re.IGNORECASE):
        raise Skip(f"draft {f['draft']!r} is not an EAGLE-3 head")
    baseline = f.get("baseline_tok_s", "")
    model, dtype, is_moe = _target(f["target"])
    return Row(
        "",
        0,
        f["target"],
        model,
        dtype,
        is_moe,
        "h200",
        None,
        "sglang",
        "eagle3",
        steps,
        width,
        verify,
        batch,
        DEFAULT_CONTEXT,
        acceptance,
        speedup,
        f["benchmark"],
        _number(baseline, "baseline tok/s") if baseline else None,
    )


def _pareto(f: dict[str, str]) -> Row:
    if f["arm"].lower() == "no spec":
        raise Skip("baseline row: nothing to predict")
    raise Skip("acceptance length per point unpublished, and the target's shape (DeepSeek-V4-Pro) is not known here")


_LAYOUTS = ((PUBLISHED, _published), (SPECBUNDLE, _specbundle), (PARETO, _pareto))


def _metric(f: dict[str, str]) -> str:
    return f.get("speedup_metric", "")


def _number(text: str, what: str) -> float:
    if not text:
        raise Skip(f"no {what}")
    try:
        value = float(text)
    except ValueError:
        raise Skip(f"{what} {text!r} is not one number") from None
    if not 0 < value < float("inf"):
        raise Skip(f"{what} {text!r} is not a positive number")
    return value


def _whole(text: str, what: str) -> int:
    value = _number(text, what)
    if value != int(value):
        raise Skip(f"{what} {text!r} is not a whole number")
    return int(value)


def _shape_of_k(text: str) -> tuple[int, int, int]:
    """(draft steps, width, verified tokens): "3" is a chain, "8/8/60 ..." is SGLang's steps/topk/draft tokens."""
    tree = re.match(r"(\d+)/(\d+)/(\d+)\b", text)
    if tree:
        return tuple(int(part) for part in tree.groups())  # type: ignore[return-value]
    if text.lower().startswith("tree"):
        raise Skip("tree of unpublished shape")
    k = _whole(text, "K")
    return k, 1, k + 1


def _acceptance_length(f: dict[str, str], steps: int, width: int) -> float:
    length, rate = f["acceptance_length"], f.get("draft_acceptance_rate", "")
    if length:
        value = _number(length, "acceptance length")
        if value < 1:
            raise Skip(f"acceptance length {value} is below 1")
        return value
    if not rate:
        raise Skip("no acceptance length, and no accepted/drafted to derive it from")
    if width > 1:
        raise Skip("accepted/drafted of a tree gives no acceptance length")
    value = _number(rate, "draft acceptance rate")
    if value > 1:
        raise Skip(f"draft acceptance rate {value} is above 1")
    return 1 + steps * value


def _hardware(text: str) -> tuple[str, int | None]:
    """(GPU name, number of GPUs) of "2xH100 TP2", "4xA100 80G TP4", "RTX 3090"."""
    if not text:
        raise Skip("no hardware")
    match = re.match(r"(?:(\d+)\s*x\s*)?(.+?)(?:\s+(?:\d+G\b|SXM\b|PCIe\b|TP\d+|EP\b|DP\d+|TEP\d+).*)?$", text)
    count, name = match.groups()
    if re.search(r"\bDP\d+", text):
        raise Skip(f"hardware {text!r}: data parallel replicas, and the batch of one of them is not given")
    if re.search(r"\b40\s*GB?\b|\bPCIe\b|\bNVL\b", text, re.IGNORECASE):
        raise Skip(f"hardware {text!r}: another variant of this GPU than the one with known figures")
    tensor_parallel = re.search(r"\bTP(\d+)", text)
    try:
        gpu = find_gpu(name).name
    except ValueError:
        raise Skip(f"hardware {text!r}: no public figures for this GPU here") from None
    return gpu, int(tensor_parallel.group(1)) if tensor_parallel else int(count or 1)


def _target(text: str) -> tuple[str, str, bool]:
    if not text:
        raise Skip("no target")
    try:
        model = find_model(text)
    except ValueError:
        raise Skip(f"target {text!r}: shape not known here") from None
    return model.name, split_model_name(text)[1] or model.dtype, model.is_moe


def _draft(method: str, target: str) -> str:
    text = method.lower()
    small = re.match(r"draft model\s+(.+)", text)
    name = small.group(1) if small else re.split(r"[\s(]", text, maxsplit=1)[0]
    if small and split_model_name(name)[0] not in MODELS:
        raise Skip(f"draft {method!r}: shape not known here")
    try:
        find_draft(name, target)
    except ValueError:
        raise Skip(f"method {method!r}: no cost model for this draft") from None
    return name


def _engine(text: str) -> str | None:
    key = text.lower().replace("-", "").split(" ")[0]
    return key if key in ("vllm", "sglang", "trtllm") else None


def _context(source: str) -> int:
    """Prompt plus half of the output where the workload says "1k/1k", "512/128" or "2K in/128 out"."""
    match = re.search(
        r"(\d+(?:\.\d+)?)(k?)(?:\s*in)?\s*/\s*(\d+(?:\.\d+)?)(k?)\b", source.partition("workload:")[2], re.I
    )
    if not match:
        return DEFAULT_CONTEXT
    prompt, k_in, output, k_out = match.groups()
    return round(float(prompt) * (1000 if k_in else 1) + float(output) * (1000 if k_out else 1) / 2)
