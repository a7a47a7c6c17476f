"""A run that passes: what it returns, and what the notebook sees."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import threading
from pathlib import Path

import nbformat
import papermill
import pytest

from labsim.lab import notebooks
from labsim.lab.outcome import ExerciseError
from labsim.lab.runner import RunResult, run

from .notebook_builder import RECORD, code, write

GB = 10**9
LIMITS = {"deadline_s": 60, "memory_cap_bytes": 2 * GB}


@pytest.fixture(scope="module")
def passed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunResult, list[str]]:
    """One run, many facts. The braces in the path are a trap: papermill formats path names."""
    directory = tmp_path_factory.mktemp("c{our}se")
    path = write(
        directory / "notebooks" / "01_t.ipynb",
        RECORD + "import os, sys, time\nrecord('exe', sys.executable); record('cwd', os.getcwd())\n"
        "record('threads', os.environ['OMP_NUM_THREADS'], unit='')",
        "block = bytearray(300_000_000)\ntime.sleep(0.5)",
        "del block\nrecord('seed', seed); record('double', 2 * rate, unit='x', claim='C01'); record('solve', solve)",
    )
    before = path.read_bytes()
    temporary = tempfile.mkdtemp(prefix="t", dir="/tmp")
    previous, tempfile.tempdir = tempfile.tempdir, temporary
    try:
        result = run(path, directory / "out" / "x.ipynb", {"seed": 7, "rate": 2}, **LIMITS)
    finally:
        tempfile.tempdir = previous
    assert path.read_bytes() == before
    left = os.listdir(temporary)
    shutil.rmtree(temporary)
    return path, result, left


def test_kernel_is_this_interpreter_in_the_notebooks_directory(passed) -> None:
    path, result, _ = passed
    assert result.status == "passed"
    assert os.path.realpath(result.metrics["exe"].value) == os.path.realpath(sys.executable)
    assert result.metrics["cwd"].value == str(path.parent)
    assert result.metrics["threads"].value == "2"


def test_parameters_reach_the_notebook(passed) -> None:
    _, result, _ = passed
    assert result.metrics["seed"].value == 7
    assert result.metrics["double"].value == 4.0
    assert (result.metrics["double"].unit, result.metrics["double"].claim) == ("x", "C01")
    assert result.metrics["solve"].value is False
    assert result.metrics["double"].cell == 5


def test_times_and_memory_are_measured(passed) -> None:
    _, result, _ = passed
    assert [cell.number for cell in result.cells] == [2, 3, 4, 5]
    assert 0.5 <= result.cells[2].seconds <= result.wall_s
    assert 300e6 < result.peak_memory_bytes < 800e6


def test_executed_notebook_is_kept_and_nothing_else(passed) -> None:
    _, result, left_in_temporary_directory = passed
    executed = nbformat.read(result.output, as_version=4)
    assert "injected-parameters" in executed.cells[2].metadata.tags
    assert executed.cells[3].metadata.papermill.status == "completed"
    assert left_in_temporary_directory == []
    assert os.listdir(result.output.parent) == ["x.ipynb"]


def test_no_warning_about_unencrypted_tcp(tmp_path: Path) -> None:
    """The kernel's sockets are files in a private directory: no TCP port, and nothing on the kernel's stderr."""
    source = (
        "import json\nfrom ipykernel.connect import get_connection_file\n"
        "facts = json.load(open(get_connection_file()))\nimport os\n"
        "print(facts['transport'], oct(os.stat(os.path.dirname(facts['ip'])).st_mode & 0o777))"
    )
    result = run(write(tmp_path / "01_t.ipynb", source), tmp_path / "out.ipynb", **LIMITS)
    outputs = notebooks.read_notebook(result.output)["cells"][-1]["outputs"]
    assert ["".join(output["text"]) for output in outputs] == ["ipc 0o700\n"]


def test_a_users_python3_kernelspec_is_not_picked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from jupyter_client.kernelspec import KernelSpecManager

    spec = tmp_path / "data" / "kernels" / "python3" / "kernel.json"
    spec.parent.mkdir(parents=True)
    spec.write_text(
        json.dumps({"argv": ["/bin/false", "{connection_file}"], "display_name": "x", "language": "python"})
    )
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "0")
    assert KernelSpecManager().get_kernel_spec("python3").argv[0] == "/bin/false", "the trap must be set"
    path = write(tmp_path / "01_t.ipynb", RECORD + "import sys\nrecord('exe', sys.executable)")
    result = run(path, **LIMITS)
    assert os.path.realpath(result.metrics["exe"].value) == os.path.realpath(sys.executable)


def test_a_users_profile_and_back_end_do_not_leak_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    startup = tmp_path / "ipython" / "profile_default" / "startup" / "00.py"
    startup.parent.mkdir(parents=True)
    startup.write_text("leaked = True")
    (tmp_path / "start.py").write_text("leaked_too = True")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("PYTHONSTARTUP", str(tmp_path / "start.py"))
    monkeypatch.setenv("MPLBACKEND", "Agg")
    source = "import os\nrecord('leaks', 'leaked' in globals() or 'leaked_too' in globals())"
    source += "\nrecord('backend', os.environ['MPLBACKEND'])"
    result = run(write(tmp_path / "01_t.ipynb", RECORD + source), **LIMITS)
    assert result.metrics["leaks"].value is False
    assert "inline" in result.metrics["backend"].value


SOLVED = """# %% 00.1
@exercise("00.1")
def acceptance_length(accepted):
    return {answer}
"""
STUB = '@exercise("00.1")\ndef acceptance_length(accepted):\n    ...'


def solvable(directory: Path, answer: str) -> Path:
    """A notebook with the course's first exercise, and a solution of its own."""
    path = write(
        directory / "00_t.ipynb",
        RECORD + "from labsim.lab.exercise import exercise",
        code(STUB, exercise="00.1"),
        "record('answer', acceptance_length([3, 0, 5]) or 0.0)\nrecord('solve', solve)",
    )
    (directory / "solutions").mkdir()
    (directory / "solutions" / "00_t.py").write_text(SOLVED.format(answer=answer))
    return path


def test_solve_swaps_in_the_solutions_and_judges_them(tmp_path: Path) -> None:
    path = solvable(tmp_path, "sum(accepted) / len(accepted) + 1")
    events: list = []
    result = run(path, solve=True, on_event=events.append, **LIMITS)
    assert result.exercises == {"00.1": "passed"}
    assert (result.metrics["answer"].value, result.metrics["solve"].value) == (pytest.approx(11 / 3), True)
    exercises = [event["cell"]["exercise"] for event in events if event["event"] == "started"]
    assert exercises == [None, None, None, None, "00.1", None]


def test_an_unsolved_exercise_blocks_nothing(tmp_path: Path) -> None:
    result = run(solvable(tmp_path, "0"), **LIMITS)
    assert result.exercises == {"00.1": "not attempted"}
    assert result.metrics["answer"].value == 0


def test_a_solution_that_does_not_pass_fails_the_run(tmp_path: Path) -> None:
    with pytest.raises(ExerciseError, match=r"00_t.ipynb.*do not pass: 00\.1 \(misconception\)"):
        run(solvable(tmp_path, "sum(accepted) / len(accepted)"), solve=True, **LIMITS)


def test_runs_in_a_thread_too(tmp_path: Path) -> None:
    path = write(tmp_path / "01_t.ipynb", RECORD + "record('x', 1)")
    results: list[RunResult] = []
    thread = threading.Thread(target=lambda: results.append(run(path, **LIMITS)))
    thread.start()
    thread.join()
    assert results[0].metrics["x"].value == 1


@pytest.mark.parametrize("limit", [{"deadline_s": 0}, {"memory_cap_bytes": -1}, {"threads": 0}])
def test_a_limit_must_be_positive(tmp_path: Path, limit: dict) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(limit))} is .*; allowed: a number above 0"):
        run(write(tmp_path / "01_t.ipynb"), **(LIMITS | limit))


def test_the_source_is_never_the_output(tmp_path: Path) -> None:
    path = write(tmp_path / "01_t.ipynb")
    with pytest.raises(ValueError, match="output is the notebook itself"):
        run(path, tmp_path / "." / "01_t.ipynb", **LIMITS)


def test_schema_agrees_with_papermills_own(tmp_path: Path) -> None:
    path = write(tmp_path / "01_t.ipynb")
    ours = notebooks.parameters(notebooks.read_notebook(path))
    theirs = papermill.inspect_notebook(path)
    assert list(ours) == list(theirs)
    for name, parameter in ours.items():
        assert parameter.type.__name__ == theirs[name]["inferred_type_name"]
        assert json.dumps(parameter.default) == {"False": "false"}.get(theirs[name]["default"], theirs[name]["default"])
