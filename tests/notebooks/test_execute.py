"""Every notebook of the course, executed whole: exercises solved, limits on, metrics against their goldens."""

from __future__ import annotations

from pathlib import Path

import pytest

from labsim.lab.golden import golden_path
from labsim.lab.runner import run

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
DEADLINE_S = 240
MEMORY_CAP_BYTES = 4 * 10**9


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS, f"no notebook in {ROOT / 'notebooks'}: an empty course must not be green"


@pytest.mark.notebook
@pytest.mark.timeout(DEADLINE_S + 60)
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(notebook: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run(
        notebook,
        tmp_path / notebook.name,
        {"scale": "ci", "seed": 0},
        deadline_s=DEADLINE_S,
        memory_cap_bytes=MEMORY_CAP_BYTES,
        solve=True,
        golden=golden_path(notebook),
    )
    assert result.goldens_checked == len(result.metrics) > 0, "a notebook without a single number checks nothing"
    slowest = max(result.cells, key=lambda cell: cell.seconds)
    with capsys.disabled():
        print(
            f"\n{notebook.name}: {result.wall_s:.1f} s, {result.peak_memory_bytes / 1e6:.0f} MB peak, "
            f"{result.goldens_checked} goldens; slowest cell {slowest.number}: {slowest.seconds:.1f} s ",
            end="",
        )
