"""Every way in which a run can fail ends with a clear error and no process left.

Leftovers are looked for through a marker of the test's own, not through the one that the runner uses.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from labsim.lab import outcome
from labsim.lab.notebooks import read_notebook
from labsim.lab.runner import run

from .notebook_builder import RECORD, code, write

LIMITS = {"deadline_s": 60, "memory_cap_bytes": 2 * 10**9}
DETACHED = (
    "import subprocess, sys\n"
    "p = subprocess.Popen([sys.executable, '-c', {program!r}], start_new_session=True)\n"
    "open('pid', 'w').write(str(p.pid))"
)
SLEEPER = "import time; time.sleep(600)"
STUBBORN_PROGRAM = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); open('ready', 'w').close(); time.sleep(600)"
)
STUBBORN = (
    DETACHED.format(program=STUBBORN_PROGRAM) + "\nimport os, time\nwhile not os.path.exists('ready'): time.sleep(0.01)"
)


def _marked(mark: str) -> list[str]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            if process.environ().get("LABSIM_TEST_MARK") == mark:
                found.append(f"{process.pid} {process.cmdline()}")
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


@pytest.fixture(autouse=True)
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Everything that the test starts carries this; at its end nothing with it may live."""
    mark = str(uuid.uuid4())
    monkeypatch.setenv("LABSIM_TEST_MARK", mark)
    yield mark
    left = _marked(mark)
    for entry in left:
        os.kill(int(entry.split()[0]), signal.SIGKILL)
    assert left == []


def _gone(pid_file: Path) -> bool:
    try:
        return psutil.Process(int(pid_file.read_text())).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _wait_for(path: Path, seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while not path.exists() or not path.read_text():
        assert time.monotonic() < until, f"{path} did not appear"
        time.sleep(0.02)


def _fails(kind: type[outcome.RunError], path: Path, *patterns: str, **options: Any) -> outcome.RunError:
    with pytest.raises(kind) as caught:
        run(path, path.parent / "out.ipynb", **(LIMITS | options))
    error = caught.value
    assert path.name in str(error)
    for pattern in patterns:
        assert pattern in str(error)
    assert error.result.status == kind.status
    return error


def test_a_cell_that_loops_for_ever(tmp_path: Path) -> None:
    loop = "print('so far', flush=True)\nwhile True:\n    pass"
    path = write(tmp_path / "01_t.ipynb", RECORD + "record('x', 1)", loop, "print(1)")
    begin = time.monotonic()
    error = _fails(outcome.DeadlineError, path, "deadline of 6 s", "cell 4 of 5 (\"print('so far'", deadline_s=6)
    assert 6 <= time.monotonic() - begin < 30, "the deadline ends the run; a busy machine only delays the sweep"
    assert str(error.result.output) in str(error)
    cells = read_notebook(error.result.output)["cells"]
    assert len(cells[3]["outputs"]) == 1, "what ran before the loop is kept for post-mortem"
    assert "so far" in "".join(cells[4]["outputs"][0]["text"]), "so is what the loop itself has said"


def test_a_deadline_holds_while_the_kernel_starts(tmp_path: Path) -> None:
    (tmp_path / "ipykernel_launcher.py").write_text("import time; time.sleep(600)")
    error = _fails(outcome.DeadlineError, write(tmp_path / "01_t.ipynb", "1"), "before its first cell", deadline_s=2)
    assert error.result.cells == ()


def test_without_an_output_path_a_failed_notebook_is_kept_elsewhere(tmp_path: Path) -> None:
    path = write(tmp_path / "01_t.ipynb", "1/0")
    with pytest.raises(outcome.CellError) as caught:
        run(path, **LIMITS)
    kept = caught.value.result.output
    assert kept.exists() and str(kept) in str(caught.value)
    kept.unlink()
    kept.parent.rmdir()


def test_a_kernel_killed(tmp_path: Path) -> None:
    """Even a kernel without a last word leaves a notebook of what ran before, and no process."""
    source = "import os\nopen('pid', 'w').write(str(os.getpid()))\nos.kill(os.getpid(), 9)"
    path = write(tmp_path / "01_t.ipynb", "print('before')", source, "open('after', 'w')")
    error = _fails(outcome.KernelDiedError, path, "signal 9, SIGKILL", 'cell 4 of 5 ("import os")')
    assert [cell.number for cell in error.result.cells] == [2, 3, 4]
    ran = read_notebook(error.result.output)["cells"][3]  # after the cell of injected parameters
    assert "".join(ran["outputs"][0]["text"]) == "before\n"
    assert error.result.orphans == () and _gone(tmp_path / "pid")
    assert not (tmp_path / "after").exists()


def test_a_kernel_killed_leaves_its_children_to_the_sweep(tmp_path: Path) -> None:
    source = DETACHED.format(program=SLEEPER) + "\nimport os\nos.kill(os.getpid(), 9)"
    error = _fails(outcome.KernelDiedError, write(tmp_path / "01_t.ipynb", source), "left 1 process")
    assert len(error.result.orphans) == 1
    assert _gone(tmp_path / "pid")


def test_an_exception_names_cell_exercise_and_traceback(tmp_path: Path) -> None:
    path = write(tmp_path / "01_t.ipynb", code("def f():\n    return {}['k']\nf()", exercise="01.2"))
    error = _fails(outcome.CellError, path, "cell 3 of 3, exercise 01.2", "KeyError: 'k'", "return {}['k']")
    assert "\x1b" not in str(error)


def test_sys_exit_is_no_success(tmp_path: Path) -> None:
    path = write(tmp_path / "01_t.ipynb", "import sys\nsys.exit(0)", "print('never runs')")
    _fails(outcome.CellError, path, "cell 3 of 4", "SystemExit")


def test_the_executor_killed(tmp_path: Path) -> None:
    """Then no descendants are left to look for: only the marker finds the detached process."""
    between = DETACHED.format(program=SLEEPER)
    source = f"import os, subprocess, sys, time\nsubprocess.run([sys.executable, '-c', {between!r}])\n"
    source += "os.kill(os.getppid(), 9)\ntime.sleep(600)"
    _fails(outcome.ExecutorError, write(tmp_path / "01_t.ipynb", source), "ended with status -9", "cell 3 of 3")
    assert _gone(tmp_path / "pid")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"sed": 3}, "unknown parameter 'sed'; did you mean 'seed'? known: rate, scale, seed, solve"),
        ({"seed": "3"}, "parameter seed is '3', a str; allowed: a value of type int"),
        ({"seed": True}, "parameter seed is True, a bool; allowed: a value of type int"),
        ({"rate": "x"}, "parameter rate is 'x', a str; allowed: a value of type float"),
    ],
)
def test_a_mistyped_parameter_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict, says: str
) -> None:
    path = write(tmp_path / "01_t.ipynb", "open('ran', 'w')")
    monkeypatch.setattr(subprocess, "Popen", None)
    _fails(outcome.ParameterError, path, says, "Nothing was started", parameters=given)


def _golden(tmp_path: Path, **entries: dict) -> Path:
    path = tmp_path / "golden.json"
    path.write_text(json.dumps({"metrics": entries}))
    return path


def test_goldens_that_agree(tmp_path: Path) -> None:
    path = write(tmp_path / "01_t.ipynb", RECORD + "record('x', 1.0 + seed)")
    golden = _golden(tmp_path, x={"value": 1.0, "abs_tol": 0.5})
    assert run(path, golden=golden, **LIMITS).goldens_checked == 1
    other_seed = run(path, golden=golden, parameters={"seed": 5}, **LIMITS)
    assert other_seed.goldens_checked == 0 and "seed=5" in other_seed.golden_note


def test_metrics_against_goldens(tmp_path: Path) -> None:
    path = write(tmp_path / "01_t.ipynb", RECORD + "record('x', 1.5)\nrecord('extra', 2)")
    golden = _golden(tmp_path, x={"value": 1.4, "rel_tol": 0.01}, gone={"value": True})
    error = _fails(
        outcome.GoldenError,
        path,
        "3 of its metrics",
        "x (value): 1.4 -> 1.5 (+0.0714 relative): off by 0.1, allowed 0.014 (rel_tol 0.01), in cell 3",
        "gone (missing): golden True, but the notebook does not record it",
        "extra (unexpected): recorded 2 in cell 3, but it has no golden",
        "--update-golden",
        golden=golden,
    )
    assert error.result.metrics["x"].value == 1.5


def test_a_golden_file_that_is_not_there(tmp_path: Path) -> None:
    _fails(outcome.NotebookError, write(tmp_path / "01_t.ipynb"), "no golden file", golden=tmp_path / "no.json")


def test_one_metric_twice(tmp_path: Path) -> None:
    path = write(tmp_path / "01_t.ipynb", RECORD + "record('x', 1)", "record('x', 2)")
    _fails(outcome.MetricsError, path, "'x' is recorded twice, in cell 3 (1) and in cell 4 (2)")


def test_memory_above_the_cap(tmp_path: Path) -> None:
    source = (
        "import time\nblocks = []\nwhile True:\n    blocks.append(bytearray(b'x') * 20_000_000)\n    time.sleep(0.02)"
    )
    path = write(tmp_path / "01_t.ipynb", source)
    error = _fails(outcome.MemoryCapError, path, "above the cap of 0.40 GB", "cell 3 of 3", memory_cap_bytes=4 * 10**8)
    assert 4 * 10**8 < error.result.peak_memory_bytes < 20 * 10**8


def test_memory_is_summed_over_processes(tmp_path: Path) -> None:
    """No single process passes the cap: two detached ones and the kernel do it together."""
    program = "import time; b = bytearray(b'x') * 200_000_000; time.sleep(600)"
    path = write(tmp_path / "01_t.ipynb", *[DETACHED.format(program=program)] * 2, "import time\ntime.sleep(600)")
    _fails(outcome.MemoryCapError, path, "cell 5 of 5", memory_cap_bytes=4 * 10**8)


def test_an_orphan_fails_the_run(tmp_path: Path) -> None:
    path = write(tmp_path / "01_t.ipynb", STUBBORN)
    error = _fails(outcome.OrphanError, path, "left 1 process(es)", "signal.SIG_IGN", "`with` block")
    assert f"pid {(tmp_path / 'pid').read_text()}" in error.result.orphans[0]
    assert _gone(tmp_path / "pid")


@pytest.mark.skipif(sys.platform != "linux", reason="adopting orphans is Linux's own")
def test_a_daemon_without_the_marker_is_found_as_a_descendant(tmp_path: Path) -> None:
    daemon = (
        "import os, sys\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        f"        os.execve(sys.executable, [sys.executable, '-c', {SLEEPER!r}], {{}})\n"
        "    os._exit(0)\n"
    )
    source = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {daemon!r}], env={{}})"
    path = write(tmp_path / "01_t.ipynb", source)
    error = _fails(outcome.OrphanError, path, "time.sleep(600)")
    pid = int(error.result.orphans[0].split()[1].rstrip(":"))
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_helper_that_ends_soon_after_its_kernel_is_no_orphan(tmp_path: Path) -> None:
    helper = (
        "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "open('ready', 'w').write('x'); sys.stdin.read(); time.sleep(0.5); open('done', 'w')"
    )
    source = (
        "import os, subprocess, sys, time\n"
        f"p = subprocess.Popen([sys.executable, '-c', {helper!r}], stdin=subprocess.PIPE, start_new_session=True)\n"
        "while not os.path.exists('ready'): time.sleep(0.01)"
    )
    assert run(write(tmp_path / "01_t.ipynb", source), **LIMITS).orphans == ()
    assert (tmp_path / "done").exists()


def test_multiprocessings_own_helper_is_no_orphan(tmp_path: Path) -> None:
    """The resource tracker ignores SIGTERM and lives until the kernel's end closes its pipe."""
    source = "from multiprocessing import shared_memory as s\nm = s.SharedMemory(create=True, size=10)\nm.unlink()"
    assert run(write(tmp_path / "01_t.ipynb", source), **LIMITS).orphans == ()


def test_a_kernel_that_never_starts(tmp_path: Path) -> None:
    (tmp_path / "ipykernel_launcher.py").write_text("import time; time.sleep(600)")
    path = write(tmp_path / "01_t.ipynb", "1")
    _fails(outcome.KernelStartError, path, "kernel did not start", "labsim doctor", start_timeout_s=1)


def test_a_kernel_that_dies_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "ipykernel_launcher.py").write_text("raise SystemExit('no kernel today')")
    _fails(outcome.KernelStartError, write(tmp_path / "01_t.ipynb", "1"), "did not start", "no kernel today")


@pytest.mark.parametrize(("number", "how"), [(signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM")])
def test_interrupted_in_a_cell(tmp_path: Path, number: signal.Signals, how: str) -> None:
    """A second signal, half-way through the clearing up, does not stop it."""
    path = write(tmp_path / "01_t.ipynb", STUBBORN, "import time\ntime.sleep(600)")
    again = threading.Timer(0.7, os.kill, (os.getpid(), number))
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)

    def interrupt(event: dict) -> None:
        if event["event"] == "started" and event["cell"]["number"] == 4:
            again.start()
            signal.raise_signal(number)

    error = _fails(outcome.Interrupted, path, f"stopped by {how} in cell 4 of 4", on_event=interrupt)
    assert not again.is_alive(), "the clearing up must have lasted beyond the second signal"
    assert isinstance(error, KeyboardInterrupt), "or pytest would go on to the next notebook"
    assert _gone(tmp_path / "pid")
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers


def test_the_runner_killed(tmp_path: Path, mark: str) -> None:
    """SIGKILL leaves the runner no word; the child ends the run."""
    path = write(tmp_path / "01_t.ipynb", STUBBORN, "import time\ntime.sleep(600)")
    program = f"from labsim.lab.runner import run; run({str(path)!r}, deadline_s=60, memory_cap_bytes=10**9)"
    temporary = tempfile.mkdtemp(prefix="t", dir="/tmp")
    runner = subprocess.Popen([sys.executable, "-c", program], env={**os.environ, "TMPDIR": temporary})
    _wait_for(tmp_path / "pid")
    assert len(_marked(mark)) == 4, "runner, child, kernel, detached process"
    runner.kill()
    runner.wait()
    until = time.monotonic() + 10
    while _marked(mark) and time.monotonic() < until:
        time.sleep(0.1)
    assert _marked(mark) == []
    assert os.listdir(temporary) == [], "the run's directory goes too"
    os.rmdir(temporary)


def test_an_error_in_the_callback_sweeps(tmp_path: Path) -> None:
    path = write(tmp_path / "01_t.ipynb", "import time\ntime.sleep(600)")

    def fail(event: dict) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(path, on_event=fail, **LIMITS)


def test_other_peoples_processes_are_left_alone(tmp_path: Path) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", SLEEPER], env={**os.environ, "LABSIM_RUN_ID": "another run"})
    try:
        with pytest.raises(outcome.CellError):
            run(write(tmp_path / "01_t.ipynb", "1/0"), tmp_path / "out.ipynb", **LIMITS)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()
