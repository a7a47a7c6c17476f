"""`labsim plan`: a staged rollout plan with a verdict, from the engine's own files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from ..rollout import Plan, PlanInput
from ..rollout import plan as make_plan
from ..rollout.inputs import ENGINES, METHODS, RULES, SHARES
from ..rollout.reading import benchmark
from ..telemetry import AcceptanceRecord, MixedInput, TelemetryError, read
from .options import GivenPath, NumberList, Tokens, print_json, wrong_values_exit_2

TAKES_FILES = ("--alpha-from", "--baseline-bench", "--candidate-bench")
FIRST_WORDS = "# Rollout of speculative decoding"


class Unreadable(click.ClickException):
    """Telemetry that cannot be read."""

    exit_code = 3


class FileListCommand(click.Command):
    """A command whose file options take several files: `--alpha-from a.log b.log`, as a shell's `*.log` expands."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        spread: list[str] = []
        words = list(args)
        while words:
            word = words.pop(0)
            files = []
            while word in TAKES_FILES and words and (words[0] == "-" or not words[0].startswith("-")):
                files.append(words.pop(0))
            if word in TAKES_FILES and not files:
                raise click.UsageError(f"{word} needs a file")
            spread += [part for file in files for part in (word, file)] if files else [word]
        return super().parse_args(ctx, spread)


class Assignments(click.ParamType):
    """`name=value,name=value`: numbers, or with `files` numbers and file names."""

    def __init__(self, files: bool = False) -> None:
        self.files = files
        self.name = "NAME=VALUE,..."

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, float | str]:
        if isinstance(value, dict):
            return value
        pairs: dict[str, float | str] = {}
        if not str(value).strip():
            return pairs
        for part in str(value).split(","):
            name, equals, text = part.partition("=")
            name = name.strip()
            if not equals or not name or not text.strip():
                self.fail(f"{part!r} is not NAME=VALUE, such as chat=.7,code=.3", param, ctx)
            if name in pairs:
                self.fail(f"{name!r} is given twice", param, ctx)
            try:
                pairs[name] = float(text)
            except ValueError:
                if not self.files:
                    self.fail(f"{text!r} in {part!r} is not a number", param, ctx)
                pairs[name] = text.strip()
        return pairs


class StepTimes(click.ParamType):
    """`32=13.9,24.7`: at concurrency 32 a step takes 13.9 ms without and 24.7 ms with speculation."""

    name = "C=BASELINE_MS,CANDIDATE_MS"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, tuple[float, float]]:
        if isinstance(value, tuple):
            return value
        point, _, times = str(value).partition("=")
        try:
            before, after = (float(part) for part in times.split(","))
            return int(point), (before, after)
        except ValueError:
            self.fail(f"{value!r} is not CONCURRENCY=BASELINE_MS,CANDIDATE_MS, such as 32=13.9,24.7", param, ctx)


@click.command("plan", cls=FileListCommand)
@click.option("--target", required=True, help="The model that is served: a Hugging Face id or a path.")
@click.option("--draft-checkpoint", help="The draft: a Hugging Face id or a path. Not needed for ngram and mtp.")
@click.option("--method", default="eagle3", show_default=True, help=", ".join(METHODS))
@click.option("--k", type=int, required=True, help="Drafted tokens per step (num_speculative_tokens).")
@click.option("--engine", default="vllm", show_default=True, help=", ".join(ENGINES))
@click.option(
    "--concurrency", type=NumberList(int), required=True, help="Operating points: 1,32,128. Each needs its benchmarks."
)
@click.option("--gpu", help="a100, h100, h200, b200, ... Without it break-even is unknown.")
@click.option("--tensor-parallel", type=int, help="GPUs per replica. Default: as few as hold the weights.")
@click.option("--dtype", help="Weights: bf16, fp8, ... Default: as published for the model.")
@click.option("--context", type=Tokens(), default=1000, show_default=True, help="Tokens in each request's KV cache.")
@click.option("--alpha-from", multiple=True, metavar="FILE...", help="Telemetry of the draft: logs, /metrics, JSON.")
@click.option("--alpha-k", type=int, help="K at which that telemetry was made, where it does not say.")
@click.option("--baseline-bench", multiple=True, metavar="FILE...", help="Benchmark without speculation.")
@click.option("--candidate-bench", multiple=True, metavar="FILE...", help="Benchmark with it, same concurrency.")
@click.option("--traffic", type=Assignments(), default="", help="Shares per kind of traffic: chat=.7,code=.3")
@click.option("--alpha-by", type=Assignments(files=True), default="", help="alpha per kind, a number or a file.")
@click.option("--traffic-shares", default="tokens", show_default=True, help=f"What of: {', '.join(SHARES)}.")
@click.option("--output-tokens-by", type=Assignments(), default="", help="Mean answer length per kind of traffic.")
@click.option("--step-times", type=StepTimes(), multiple=True, help="Measured step times; replace the cost model.")
@click.option("--rule", default="both", show_default=True, help=f"What governs alpha: {', '.join(RULES)} (the higher).")
@click.option("--policy", type=float, default=0.55, show_default=True, help="Least alpha, whatever break-even says.")
@click.option("--margin", type=float, default=0.05, show_default=True, help="Added to break-even.")
@click.option("--stall-limit-ms", type=float, default=100.0, show_default=True, help="Most P99 chunk gap.")
@click.option("--tpot-tolerance", type=float, default=0.0, show_default=True, help="0.02 allows 2 % more P99 TPOT.")
@click.option("--ttft-tolerance", type=float, default=0.10, show_default=True, help="The same for P99 TTFT.")
@click.option("--out", type=GivenPath(dir_okay=False), help="Write the plan (Markdown) here; replaces an older plan.")
@click.option("--force", is_flag=True, help="Let --out replace a file that is not a plan.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(
    alpha_from: tuple[str, ...],
    alpha_k: int | None,
    baseline_bench: tuple[str, ...],
    candidate_bench: tuple[str, ...],
    alpha_by: dict[str, float | str],
    step_times: tuple[tuple[int, tuple[float, float]], ...],
    out: str | None,
    force: bool,
    as_json: bool,
    **choices: object,
) -> None:
    """Shall I turn speculation on? The verdict, the gates behind it, and a staged plan to execute.

    \b
    labsim plan --target meta-llama/Llama-3.3-70B-Instruct --draft-checkpoint org/head --gpu h100 \\
      --concurrency 1,32,128 --k 3 --alpha-from engine.log --baseline-bench base.json --candidate-bench spec.json \\
      --out plan.md

    Without measurements it plans the measuring. "go" is for all operating points together; where they differ, the
    verdict line says which is which, and --json has `verdict_at`. Of telemetry in which alpha shifts, what comes after
    the last shift counts; of engines that differ, the worst one. The exit status is 0 whatever the verdict; 2 for
    wrong values, files of two services and benchmarks that must not be compared; 3 for files that hold no telemetry.
    """
    with wrong_values_exit_2():
        choices |= {"acceptance_k": alpha_k, "step_times": dict(step_times)}
        # Wrong choices are told before any file is read.
        PlanInput(**choices, alpha_by={name: 0.0 if isinstance(v, str) else v for name, v in alpha_by.items()})
        if out is not None:
            check_out(out, force)
        known = {file: _record([file]) for file in alpha_by.values() if isinstance(file, str)}
        made = make_plan(
            PlanInput(
                **choices,
                acceptance=_record(alpha_from) if alpha_from else None,
                baseline=tuple(_benchmark(file) for file in baseline_bench),
                candidate=tuple(_benchmark(file) for file in candidate_bench),
                alpha_by={name: known.get(value, value) for name, value in alpha_by.items()},
            )
        )
    if out is not None:
        write(out, made.to_markdown())
    if as_json:
        print_json(made.to_dict())
    elif out is not None:
        click.echo(f"{out}: {summary(made)}")
    else:
        click.echo(made.to_markdown(), nl=False)


def _record(files: Sequence[str]) -> AcceptanceRecord:
    try:
        return read(list(files))
    except MixedInput:
        raise
    except TelemetryError as error:
        raise Unreadable(str(error)) from error


def _benchmark(file: str) -> AcceptanceRecord:
    try:
        return benchmark(file)
    except TelemetryError as error:
        raise Unreadable(str(error)) from error


def summary(made: Plan) -> str:
    """One line: the verdict and what decided it."""
    return " ".join(f"{made.verdict} ({made.decided_by})".split()) if made.decided_by else made.verdict


def check_out(out: str, force: bool) -> None:
    """ValueError unless `out` may be written: its folder exists, and what is there is an older plan (or `force`)."""
    path = Path(out)
    if not path.parent.is_dir():
        raise ValueError(f"out is {out}; allowed: a file in a folder that exists")
    if path.exists() and not force and path.stat().st_size > 0:
        with path.open("rb") as stream:
            if not stream.read(len(FIRST_WORDS)) == FIRST_WORDS.encode():
                raise ValueError(f"out is {out}, which exists and is not a plan; allowed: a new file, or --force")


def write(out: str, text: str) -> None:
    """Write `text` whole or not at all: to a file beside it, then renamed."""
    path = Path(out)
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(name, path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~umask)
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise click.ClickException(f"cannot write {out}: {error.strerror or error}") from error
