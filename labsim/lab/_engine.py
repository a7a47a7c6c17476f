"""papermill with a pinned kernel: how a run's child process executes its notebook.

The kernel is the running interpreter itself. Looked up by name, a kernelspec `python3` in the user's home would win
over the environment's own. It listens on sockets in the run's private directory (IPC), not on TCP ports.

papermill calls `sys.exit()` in a cell a success although later cells never run, and it writes notebooks in place, so
that a kill leaves half a file; both are mended here.
"""

from __future__ import annotations

import math
import os
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import DeadKernelError
from papermill import execute_notebook
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import Engine, NotebookExecutionManager, papermill_engines
from papermill.exceptions import PapermillExecutionError
from papermill.log import logger

if TYPE_CHECKING:
    from ._execute import Job, Reporter

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_IOPUB_TIMEOUT_S = 30
_AUTOSAVE_S = 5


class PinnedKernelManager(AsyncKernelManager):
    """Starts the running interpreter as the kernel; remembers how the kernel ended."""

    exit_status: int | None = None

    @property
    def kernel_spec(self) -> KernelSpec:
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=argv, display_name="labsim", language="python")

    async def _async_is_alive(self) -> bool:
        alive = await super()._async_is_alive()
        if not alive and self.has_kernel:
            self.exit_status = await self.provisioner.poll()
        return alive

    is_alive = _async_is_alive


class ReportingManager(NotebookExecutionManager):
    """papermill's book-keeping, plus events for the runner and files that are never half written."""

    def __init__(self, nb: nbformat.NotebookNode, output: Path, report: Reporter) -> None:
        super().__init__(nb, output_path=None, progress_bar=False, autosave_cell_every=_AUTOSAVE_S)
        self.output = output
        self.report = report

    def save(self, **_: object) -> None:
        temporary = self.output.with_name(self.output.name + ".part")
        temporary.write_text(nbformat.writes(self.nb), encoding="utf-8")
        os.replace(temporary, self.output)
        self.last_save_time = self.now()

    def cell_start(self, cell: nbformat.NotebookNode, cell_index: int | None = None, **_: object) -> None:
        self.report.cell = _cell_facts(self.nb, cell_index)
        self.report.send("started", cell=self.report.cell)
        cell.metadata.papermill |= {
            "start_time": self.now().isoformat(),
            "status": self.RUNNING,
            "exception": False,
        }

    def cell_complete(self, cell: nbformat.NotebookNode, cell_index: int | None = None, **kwargs: object) -> None:
        if cell.cell_type == "code":
            super().cell_complete(cell, cell_index, **kwargs)
            if "injected-parameters" not in cell.metadata.tags:
                self.report.send("ended", seconds=cell.metadata.papermill["duration"])
        else:
            cell.metadata.papermill["status"] = self.COMPLETED


class ReportingEngine(Engine):
    """papermill's engine with the pinned kernel and the reporting manager; one instance per job."""

    def __init__(self, job: Job, report: Reporter) -> None:
        self.job = job
        self.report = report
        self.kernel = PinnedKernelManager(
            transport="ipc", connection_file=str(Path(job.run_directory, "kernel.json")), kernel_name="python3"
        )

    def execute_notebook(self, nb: nbformat.NotebookNode, kernel_name: str, **_: object) -> nbformat.NotebookNode:  # type: ignore[override]
        manager = ReportingManager(nb, Path(self.job.output), self.report)
        signal.signal(signal.SIGTERM, lambda *_: _save_and_exit(manager))
        manager.notebook_start()
        client = PapermillNotebookClient(
            manager,
            km=self.kernel,
            log=logger,
            startup_timeout=math.ceil(self.job.start_timeout_s),
            iopub_timeout=_IOPUB_TIMEOUT_S,
        )
        try:
            client.execute(cleanup_kc=True)
        finally:
            manager.notebook_complete()
        return manager.nb


def execute(job: Job, report: Reporter) -> dict[str, Any] | None:
    """Run the job's notebook; None when every cell ran to its end, else the facts of the failure.

    `kind` is start (no kernel), kernel (it died in a cell) or cell (an exception).
    """
    engine = ReportingEngine(job, report)
    papermill_engines.register("labsim", engine)
    try:
        executed = execute_notebook(
            nbformat.read(job.notebook, as_version=4),
            None,
            job.parameters,
            engine_name="labsim",
            kernel_name="python3",
            language="python",
        )
    except PapermillExecutionError as error:
        return _error_facts(error.ename, error.evalue, error.traceback) | {"cell": report.cell}
    except (DeadKernelError, RuntimeError, TimeoutError) as error:
        if report.cell is None:
            return {"kind": "start", "detail": str(error)}
        if isinstance(error, DeadKernelError):
            return {"kind": "kernel", "detail": _how_it_ended(engine.kernel.exit_status), "cell": report.cell}
        raise
    for cell in executed.cells:
        for output in cell.get("outputs", ()):
            if output.output_type == "error":
                return _error_facts(output.ename, output.evalue, output.traceback) | {"cell": report.cell}
    return None


def _save_and_exit(manager: ReportingManager) -> None:
    try:
        manager.save()
    finally:
        os._exit(128 + signal.SIGTERM)


def _cell_facts(nb: nbformat.NotebookNode, index: int) -> dict[str, Any]:
    """Position in the *source* notebook: the injected cell is not counted and shares its predecessor's number."""
    injected = [i for i, cell in enumerate(nb.cells) if "injected-parameters" in cell.metadata.get("tags", ())]
    cell = nb.cells[index]
    first_line = next((line for line in cell.source.splitlines() if line.strip()), "")
    return {
        "number": index + 1 - sum(i <= index for i in injected),
        "total": len(nb.cells) - len(injected),
        "code": cell.cell_type == "code",
        "exercise": cell.metadata.get("labsim", {}).get("exercise"),
        "first_line": first_line[:100],
    }


def _error_facts(name: str, value: str, traceback: list[str]) -> dict[str, Any]:
    text = _ANSI.sub("", "\n".join(traceback))
    return {"kind": "cell", "detail": f"{name}: {value}" if value else name, "traceback": text.splitlines()}


def _how_it_ended(status: int | None) -> str:
    if status is None:
        return "unknown exit status"
    return f"by signal {-status}, {signal.Signals(-status).name}" if status < 0 else f"with exit status {status}"
