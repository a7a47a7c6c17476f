"""`labsim run`: execute course notebooks under limits and compare their metrics with the goldens."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .options import GivenPath, Number, making, print_json

if TYPE_CHECKING:
    from ..lab.budget import Budget
    from ..lab.outcome import RunResult

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}


class MemorySize(click.ParamType):
    """A size such as `4GB`, `512MiB` or a number of bytes."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*([A-Za-z]*)", str(value).strip())
        count = float(match[1]) * _UNITS.get(match[2].lower(), 0) if match else 0
        if count < 1:
            self.fail(f"{value!r} is not a size above 0 such as 4GB or 512MiB", param, ctx)
        return int(count)


@click.command("run")
@click.argument("notebooks", nargs=-1, required=True, metavar="NOTEBOOK...", type=GivenPath(path_type=Path))
@click.option("--scale", metavar="NAME", help='The notebook\'s parameter `scale` (its own default is "ci").')
@click.option("--seed", metavar="N", help="The notebook's parameter `seed` (its own default is 0).")
@click.option("-p", "--parameter", "pairs", nargs=2, multiple=True, metavar="NAME VALUE", help="Any other parameter.")
@click.option("--solve", is_flag=True, help="Run the exercises' solutions.")
@click.option("--deadline", type=Number(min=0, min_open=True), default=120, show_default=True, metavar="S")
@click.option("--memory", type=MemorySize(), default="4GB", show_default=True, help="Cap over all processes of a run.")
@click.option("--out", type=GivenPath(path_type=Path, file_okay=False), help="Keep executed notebooks here.")
@click.option("--metrics", type=GivenPath(path_type=Path, file_okay=False), help="Write the metrics here, as NN.json.")
@click.option("--update-budget", is_flag=True, help="Record the processor time as the notebook's budget.")
@click.option("--no-golden", is_flag=True, help="Do not compare the metrics with tests/golden/NN.json.")
@click.option("--update-golden", is_flag=True, help="Write the metrics to the golden files, keeping the tolerances.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.pass_context
def command(
    ctx: click.Context,
    notebooks: tuple[Path, ...],
    scale: str | None,
    seed: str | None,
    pairs: tuple[tuple[str, str], ...],
    solve: bool,
    deadline: float,
    memory: int,
    out: Path | None,
    metrics: Path | None,
    update_budget: bool,
    no_golden: bool,
    update_golden: bool,
    as_json: bool,
) -> None:
    """Execute notebooks: one deadline, one memory cap, no process left, metrics compared with goldens.

    Goldens and time budgets hold at --scale ci and --seed 0 only. Exit status 1 when a run fails; stderr says why.
    A run that takes more than 1.5 times its recorded processor time (data/budgets.json) gets a line there, too.

    \b
    labsim run notebooks/01_alpha_and_k.ipynb
    labsim run notebooks/*.ipynb --solve --out build/executed
    labsim run notebooks/02_concurrency_and_tails.ipynb --scale laptop -p seed 3 --deadline 600
    """
    from ..lab.budget import load_budgets
    from ..lab.outcome import Interrupted, RunError

    if no_golden and update_golden:
        raise click.UsageError("--no-golden and --update-golden exclude each other")
    typed = [*(("scale", scale),) * (scale is not None), *(("seed", seed),) * (seed is not None), *pairs]
    for name, _ in typed:
        if sum(name == other for other, _ in typed) > 1:
            raise click.UsageError(f"parameter {name} is given twice")
    if out:
        _check_out(out, notebooks)
    with making(out) if out else nullcontext():
        documents: list[dict[str, Any]] = []
        failed = False
        budgets = load_budgets()
        with _progress(len(notebooks), shown=not as_json) as progress:
            for notebook in notebooks:
                error, changes = None, []
                try:
                    result, changes = _run_one(
                        notebook,
                        typed,
                        use_golden=not no_golden,
                        update_golden=update_golden,
                        output=out / notebook.name if out else None,
                        deadline_s=deadline,
                        memory_cap_bytes=memory,
                        solve=solve,
                        on_event=progress(notebook),
                    )
                except RunError as failure:
                    error, result, failed = failure, failure.result, True
                late = None if error else _keep(result, typed, metrics, solve, update_budget, budgets)
                documents.append(
                    {
                        **result.to_json(),
                        "error": str(error) if error else None,
                        "golden_changes": changes,
                        "budget": late and {"cpu_s": late.recorded_s, "ratio": late.ratio, "over": late.over},
                    }
                )
                if not as_json:
                    click.echo(_line(result))
                    for change in changes:
                        click.echo(f"  {change}")
                if error:
                    click.echo(str(error), err=True)
                if late and late.over:
                    click.echo(f"slower: {late.text}", err=True)
                if isinstance(error, Interrupted):
                    break
        if as_json:
            print_json({"ok": not failed, "notebooks": documents})
        ctx.exit(1 if failed else 0)


def _check_out(out: Path, notebooks: tuple[Path, ...]) -> None:
    """Refuse a folder that holds the sources, or in which two notebooks would meet."""
    names = [notebook.name for notebook in notebooks]
    for notebook in notebooks:
        if notebook.resolve().parent == out.resolve():
            raise click.UsageError(f"--out {out} is the folder of {notebook.name} itself; choose another")
        if names.count(notebook.name) > 1:
            raise click.UsageError(f"--out {out}: two of the notebooks are called {notebook.name}; run them apart")


def _run_one(
    notebook: Path,
    typed: list[tuple[str, str]],
    *,
    use_golden: bool,
    update_golden: bool,
    **options: Any,
) -> tuple[RunResult, list[str]]:
    """Run one notebook; with `update_golden`, also rewrite its goldens and say what changed."""
    from ..lab import golden as goldens
    from ..lab.outcome import NotebookError, RunResult
    from ..lab.runner import GOLDEN_PARAMETERS, read_parameters, run

    parameters = read_parameters(notebook, typed)
    path = None
    if use_golden or update_golden:
        try:
            path = goldens.golden_path(notebook)
        except ValueError as error:
            text = f"{error}. Rename it, or run it with --no-golden."
            raise NotebookError(text, RunResult(notebook, NotebookError.status)) from error
    if not update_golden:
        return run(notebook, parameters=parameters, golden=path, **options), []
    for name, value in GOLDEN_PARAMETERS.items():
        if parameters.get(name, value) != value:
            raise click.UsageError(f"--update-golden holds for {name}={value!r} only; {name} is {parameters[name]!r}")
    old = goldens.load_goldens(path) if path.exists() else {}
    result = run(notebook, parameters=parameters, **options)
    new = goldens.updated(result.metrics, old)
    goldens.save_goldens(path, new)
    return result, goldens.describe_update(old, new) or ["goldens unchanged"]


def _keep(
    result: RunResult,
    typed: list[tuple[str, str]],
    metrics: Path | None,
    solve: bool,
    update_budget: bool,
    budgets: Mapping[str, Mapping[str, float]],
) -> Budget | None:
    """Write the metrics and the budget of a run that passed; its budget, where one holds."""
    from ..lab.budget import budget_of
    from ..lab.budget import update_budget as record_budget
    from ..lab.claims.store import from_run, save
    from ..lab.notebooks import read_notebook
    from ..lab.runner import GOLDEN_PARAMETERS, read_parameters

    given = read_parameters(result.notebook, typed)
    if metrics:
        source = read_notebook(result.notebook)
        save(from_run(source, result.notebook.name, {**given, "solve": solve}, result.metrics), metrics)
    if any(given.get(name, value) != value for name, value in GOLDEN_PARAMETERS.items()):
        return None
    if update_budget and result.cpu_s is not None:
        record_budget(result.notebook, result.cpu_s, solve)
        return None
    return budget_of(result.notebook, result.cpu_s, solve, budgets)


def _line(result: RunResult) -> str:
    mark = click.style("ok  ", fg="green") if result.status == "passed" else click.style("FAIL", fg="red", bold=True)
    checked = f"{len(result.metrics)} metrics"
    checked += f", {result.goldens_checked} goldens checked" if result.goldens_checked else ", no goldens checked"
    used = [] if result.cpu_s is None else [f"{result.cpu_s:6.1f} s of processor"]
    parts = [f"{result.wall_s:6.1f} s", *used, f"{result.peak_memory_bytes / 1e6:7.0f} MB peak", checked]
    if result.status != "passed":
        parts.append(result.status)
    if result.golden_note:
        parts.append(result.golden_note)
    if result.output and result.status == "passed":
        parts.append(str(result.output))
    return f"{mark}  {result.notebook.name}  " + "  ".join(parts)


@contextmanager
def _progress(total: int, *, shown: bool) -> Iterator[Callable[[Path], Callable[[Mapping[str, Any]], None] | None]]:
    """A bar over notebooks and one over the cells of each, on stderr when that is a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not shown or not console.is_terminal:
        yield lambda notebook: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, redirect_stdout=sys.stdout.isatty()) as bars:
        overall = bars.add_task("notebooks", total=total)
        cells = bars.add_task("cells", total=None)
        begun = False

        def start(notebook: Path) -> Callable[[Mapping[str, Any]], None]:
            nonlocal begun
            bars.update(overall, advance=1 if begun else 0)
            bars.reset(cells, total=None, description=notebook.stem)
            begun = True

            def event(facts: Mapping[str, Any]) -> None:
                if facts["event"] == "started":
                    bars.update(cells, completed=facts["cell"]["number"] - 1, total=facts["cell"]["total"])

            return event

        yield start
