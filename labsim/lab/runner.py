"""Run a notebook so that the result can be believed and nothing is left behind.

papermill alone says "green" after a misspelt parameter, waits for ever on a cell that loops, knows no memory limit, and
leaves the processes that a cell started. `run` executes a notebook with papermill in a child process and keeps watch
over it:

1. names and types of the parameters are checked before anything starts (`labsim.lab.notebooks`);
2. with `solve`, each exercise cell holds its solution (`labsim.lab.solutions`);
3. the kernel is this interpreter, in the notebook's directory, with few threads and no IPython profile of the user;
4. the whole notebook has one deadline and one memory cap over all its processes (`labsim.lab.watch`);
5. what the notebook leaves running fails the run, and is ended like everything else of it, on every way out;
6. recorded metrics are compared with goldens (`labsim.lab.golden`).

    run("notebooks/01_alpha_and_k.ipynb", parameters={"scale": "ci"}, deadline_s=120, memory_cap_bytes=4 << 30)

A failure is a `RunError`: its message says which notebook, which cell and what to do.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..sim.errors import unknown_name
from . import golden as goldens
from .metrics import MetricError, collect
from .notebooks import check_parameters, parse_value, read_notebook
from .notebooks import parameters as parameter_schema
from .outcome import (
    ExerciseError,
    GoldenError,
    MetricsError,
    NotebookError,
    OrphanError,
    ParameterError,
    RunError,
    RunResult,
)
from .processes import RUN_ID_VARIABLE
from .solutions import apply_solutions, load_solutions
from .verdict import Status, collect_statuses
from .watch import Failure, Watch

GOLDEN_PARAMETERS: Mapping[str, object] = {"scale": "ci", "seed": 0}
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
# A Unix socket's path has some 104 bytes on macOS, 108 on Linux; the kernel's sockets lie in the run's directory.
_LONGEST_TEMPORARY_DIRECTORY = 60


@dataclass(frozen=True)
class Plan:
    """A run that has passed every check that needs no process."""

    notebook: Path
    source: Mapping[str, Any]
    parameters: Mapping[str, object]
    goldens: Mapping[str, goldens.Golden] | None
    golden_note: str
    solved: tuple[str, ...] = ()


def run(
    notebook: str | Path,
    output: str | Path | None = None,
    parameters: Mapping[str, object] | None = None,
    *,
    deadline_s: float,
    memory_cap_bytes: int,
    solve: bool = False,
    golden: str | Path | None = None,
    start_timeout_s: float = 60.0,
    threads: int = 2,
    on_event: Callable[[Mapping[str, Any]], None] | None = None,
) -> RunResult:
    """Execute one notebook and return what it did.

    Args:
        notebook: the source; never written to.
        output: where the executed notebook goes. Without it, nothing is kept of a run that passes, and what there is
            of a failed one is kept in the temporary directory.
        parameters: values for the notebook's parameters; its own defaults hold for the others. `solve` is set from
            the argument of that name where the notebook declares it.
        deadline_s: for the whole notebook, kernel start included.
        memory_cap_bytes: for all processes of the run together (PSS on Linux, else RSS), sampled every 0.2 s.
        solve: run the exercises' solutions.
        golden: a golden file to compare the metrics with; used at scale="ci", seed=0 only (`golden_note` says so).
        start_timeout_s: for the kernel to answer.
        threads: of OpenMP, MKL and their like, per process.
        on_event: called with each event of the child: `started` and `ended` per cell.

    Raises:
        RunError: the run failed; no process of it is left. See `labsim.lab.outcome` for the kinds.
        ValueError: a limit that is not a positive number.
    """
    for name, limit in (("deadline_s", deadline_s), ("memory_cap_bytes", memory_cap_bytes), ("threads", threads)):
        if not limit > 0:
            raise ValueError(f"{name} is {limit!r}; allowed: a number above 0")
    notebook = Path(notebook).resolve()
    output = Path(output).resolve() if output is not None else None
    if output == notebook:
        raise ValueError(f"output is the notebook itself, {notebook}; allowed: another path")
    plan = _plan(notebook, dict(parameters or {}), solve, golden)

    run_id = str(uuid.uuid4())
    with _run_directory() as directory:
        executed = output or directory / notebook.name
        executed.parent.mkdir(parents=True, exist_ok=True)
        executed.unlink(missing_ok=True)
        prepared = directory / "prepared.ipynb"
        prepared.write_text(json.dumps(plan.source), encoding="utf-8")
        watch = Watch(run_id, notebook, deadline_s=deadline_s, memory_cap_bytes=memory_cap_bytes, on_event=on_event)
        started = time.monotonic()
        failure = watch.run(
            {
                "run_id": run_id,
                "notebook": str(prepared),
                "output": str(executed),
                "run_directory": str(directory),
                "parameters": dict(plan.parameters),
                "start_timeout_s": start_timeout_s,
            },
            _environment(run_id, directory, threads),
            directory / "child.log",
        )
        result = RunResult(
            notebook=notebook,
            status="passed",
            wall_s=time.monotonic() - started,
            cpu_s=watch.cpu_s,
            cells=tuple(watch.cells),
            peak_memory_bytes=watch.peak_memory_bytes,
            orphans=watch.orphans,
            golden_note=plan.golden_note,
        )
        if failure is None:
            failure, result = _judge(result, executed, plan)
        if failure is not None:
            raise _error(failure, result, executed, keep=output is None)
        return replace(result, output=output)


def read_parameters(notebook: str | Path, typed: Iterable[tuple[str, str]]) -> dict[str, object]:
    """Parameter values typed as text, read as the types that the notebook's annotations give.

    Raises:
        ParameterError: an unknown name, or text that is not of the parameter's type.
        NotebookError: no such notebook, or one without a proper parameters cell.
    """
    notebook = Path(notebook)
    with _usable(notebook):
        schema = parameter_schema(read_notebook(notebook))
    with _proper_parameters(notebook):
        values = {}
        for name, text in typed:
            if name not in schema:
                raise unknown_name("parameter", name, schema)
            values[name] = parse_value(schema[name], text)
        return values


@contextmanager
def _usable(notebook: Path, golden: str | Path | None = None) -> Iterator[None]:
    """Turn what is wrong with the notebook and the files beside it into a NotebookError."""
    try:
        yield
    except FileNotFoundError as error:
        if golden is not None and error.filename == str(golden):
            text = f"{notebook.name}: there is no golden file {golden}; write it with labsim run --update-golden"
        else:
            text = f"{notebook}: there is no such notebook"
        raise NotebookError(text, RunResult(notebook, NotebookError.status)) from error
    except (ValueError, OSError) as error:
        raise NotebookError(f"{notebook.name}: {error}", RunResult(notebook, NotebookError.status)) from error
    except (KeyError, AttributeError, TypeError, RecursionError) as error:
        text = f"{notebook.name}: not a notebook of format 4 ({type(error).__name__}: {error})"
        raise NotebookError(text, RunResult(notebook, NotebookError.status)) from error


@contextmanager
def _proper_parameters(notebook: Path) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        text = f"{notebook.name}: {error}. Nothing was started."
        raise ParameterError(text, RunResult(notebook, ParameterError.status)) from error


def _plan(notebook: Path, given: dict[str, object], solve: bool, golden: str | Path | None) -> Plan:
    """Everything that can be known to be wrong before a process starts."""
    with _usable(notebook, golden):
        source = read_notebook(notebook)
        schema = parameter_schema(source)
        solutions = load_solutions(notebook) if solve else {}
        if solve:
            source = apply_solutions(source, solutions)
        expected = goldens.load_goldens(golden) if golden is not None else None
    if "solve" in schema:
        given.setdefault("solve", solve)
    with _proper_parameters(notebook):
        checked = check_parameters(schema, given)
    effective = {name: parameter.default for name, parameter in schema.items()} | checked
    note = ""
    off = [
        f"{name}={effective[name]!r}"
        for name, value in GOLDEN_PARAMETERS.items()
        if effective.get(name, value) != value
    ]
    if expected is not None and off:
        expected, note = None, f"goldens not compared: they hold at scale='ci', seed=0, this run has {', '.join(off)}"
    return Plan(notebook, source, checked, expected, note, tuple(solutions))


def _judge(result: RunResult, executed: Path, plan: Plan) -> tuple[Failure | None, RunResult]:
    """Orphans, then exercises, metrics and goldens of a run whose every cell ended well."""
    notebook = read_notebook(executed)
    result = replace(result, exercises=collect_statuses(notebook))
    try:
        metrics = collect(notebook)
    except MetricError as error:
        return Failure(MetricsError, f"{error}."), result
    result = replace(result, metrics=metrics)
    if result.orphans:
        return Failure(
            OrphanError,
            f"left {len(result.orphans)} process(es) running after its kernel had ended: {'; '.join(result.orphans)}. "
            "They are ended now. Start processes in a `with` block, or end and join them in the cell that starts them.",
        ), result
    unsolved = {one: result.exercises.get(one, "never judged") for one in plan.solved}
    unsolved = {one: status for one, status in unsolved.items() if status != Status.PASSED}
    if unsolved:
        told = ", ".join(f"{one} ({status})" for one, status in unsolved.items())
        return Failure(ExerciseError, f"its own solutions do not pass: {told}. Mend notebooks/solutions."), result
    if plan.goldens is None:
        return None, result
    result = replace(result, goldens_checked=len(plan.goldens))
    deviations = goldens.check(metrics, plan.goldens)
    if not deviations:
        return None, result
    lines = "".join(f"\n  {deviation.name} ({deviation.kind}): {deviation.text}" for deviation in deviations)
    return Failure(
        GoldenError,
        f"{len(deviations)} of its metrics and goldens disagree. Find out which change moved the numbers; if it is "
        f"meant, write them with labsim run --update-golden {plan.notebook.name}.{lines}",
    ), result


def _error(failure: Failure, result: RunResult, executed: Path, *, keep: bool) -> RunError:
    """The exception of a failure; what there is of the executed notebook is moved out of the run's directory."""
    kept = None
    if executed.exists():
        kept = executed
        if keep:
            directory = Path(tempfile.mkdtemp(prefix="labsim-failed-"))
            kept = Path(shutil.move(executed, directory / executed.name))
    head, newline, rest = failure.text.partition("\n")
    where = f" The notebook as far as it got: {kept}." if kept else ""
    message = f"{result.notebook.name}: {head}{where}{newline}{rest}"
    return failure.error(message, replace(result, status=failure.error.status, output=kept))


@contextmanager
def _run_directory() -> Iterator[Path]:
    """A private directory for sockets, logs and IPython's own files, removed at the end."""
    base = tempfile.gettempdir()
    if len(base) > _LONGEST_TEMPORARY_DIRECTORY:
        base = "/tmp"
    directory = Path(tempfile.mkdtemp(prefix="labsim-", dir=base))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _environment(run_id: str, directory: Path, threads: int) -> dict[str, str]:
    environment = dict(os.environ)
    # What a user has set for an own shell must not change a course notebook: a start-up script, a figure back end.
    for name in ("PYTHONSTARTUP", "MPLBACKEND"):
        environment.pop(name, None)
    environment |= dict.fromkeys(_THREAD_VARIABLES, str(threads))
    environment |= {RUN_ID_VARIABLE: run_id, "IPYTHONDIR": str(directory / "ipython"), "PYTHONUNBUFFERED": "1"}
    return environment
