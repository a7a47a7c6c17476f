"""The doctor on a healthy machine, and on machines that are ill in one place each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from labsim import doctor


def test_this_environment_can_run_the_course() -> None:
    findings = doctor.examine()
    assert [f for f in findings if not f.ok] == []
    assert doctor.can_run(findings)
    wanted = "Python packages torch CPU/GPU memory port kernel fonts weights cache progress"
    assert [f.name.split()[-1] for f in findings] == wanted.split()


def run_doctor(**environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "labsim", "doctor", "--json"]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=120)


def test_a_foreign_kernel_is_found_and_fails_the_doctor(tmp_path: Path) -> None:
    spec = tmp_path / "kernels" / "python3"
    spec.mkdir(parents=True)
    argv = ["/opt/other/bin/python", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "other", "language": "python"}))
    result = run_doctor(JUPYTER_PATH=str(tmp_path))
    assert result.returncode == 1
    kernel = next(c for c in json.loads(result.stdout)["checks"] if c["name"] == "kernel")
    assert not kernel["ok"]
    assert kernel["detail"] == "/opt/other/bin/python"
    assert "make lab" in kernel["fix"]


def test_progress_is_shown_on_stderr_of_a_terminal_only() -> None:
    shown = run_doctor(TTY_COMPATIBLE="1")
    assert {finding["name"] for finding in json.loads(shown.stdout)["checks"]} >= {"Python", "torch"}
    assert "torch" in shown.stderr and f"2/{len(doctor.CHECKS)}" in shown.stderr
    assert run_doctor().stderr == ""


def test_a_wrong_package_version_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "requirements.lock").write_text("# header\nclick==0.1\nno-such-package==1.0\n")
    monkeypatch.setattr(doctor, "ROOT", tmp_path)
    finding = doctor.check_packages()
    assert not finding.ok
    assert "click" in finding.detail and "lock 0.1" in finding.detail
    assert "no-such-package missing" in finding.detail


def test_too_little_memory_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "available_memory_bytes", lambda: doctor.GIB)
    finding = doctor.check_memory()
    assert not finding.ok and "1.0 GiB" in finding.detail and finding.fix
    assert not doctor.can_run([finding])


def test_an_optional_finding_does_not_fail_the_doctor() -> None:
    assert doctor.can_run([doctor.Finding("weights", False, "missing", "fetch them", optional=True)])


def test_an_unsupported_python_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.sys, "version_info", (3, 14, 0))
    assert not doctor.check_python().ok


def test_a_driver_that_fails_is_not_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho NVIDIA-SMI has failed\nexit 9\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert "no NVIDIA GPU" in doctor.check_processor().detail


def test_places_that_can_be_written_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LABSIM_CACHE", str(tmp_path / "not" / "yet"))
    monkeypatch.setenv("LABSIM_HOME", str(tmp_path / "home"))
    for finding, path in ((doctor.check_cache(), "not/yet"), (doctor.check_progress(), "home/progress.json")):
        assert finding.ok and f"{tmp_path / path} can be written" in finding.detail
    assert list(tmp_path.iterdir()) == [], "looking leaves nothing behind"


def test_places_that_cannot_be_written_say_which_variable_mends_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("LABSIM_CACHE", "LABSIM_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/proc/nohome")
    for finding, path, fix in (
        (doctor.check_cache(), "/proc/nohome/.cache/labsim", "LABSIM_CACHE"),
        (doctor.check_progress(), "/proc/nohome/.local/share/labsim/progress.json", "LABSIM_HOME"),
    ):
        assert (finding.ok, finding.optional, finding.detail) == (False, True, f"{path} cannot be written")
        assert fix in finding.fix
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LABSIM_CACHE", str(tmp_path / "file" / "below"))
    assert not doctor.check_cache().ok


def test_a_full_disk_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LABSIM_CACHE", str(tmp_path))
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda place: SimpleNamespace(free=300_000_000))
    finding = doctor.check_cache()
    assert not finding.ok and finding.optional
    assert finding.detail.endswith("0.3 GB free; SmolLM2 needs 0.9")


def test_a_home_that_cannot_be_written_is_told_by_the_findings_alone() -> None:
    assert run_doctor(HOME="/proc/nohome", MPLCONFIGDIR="").stderr == ""
