"""The claims page and the metrics that it is made of: current, in agreement with the goldens, and not typed."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from labsim.commands.claims import command
from labsim.lab.claims.findings import AT_SCALE
from labsim.lab.claims.store import Recorded, from_executed, load, load_directory, metrics_directory, save, values
from labsim.lab.golden import apart, check, golden_path, load_goldens
from labsim.lab.metrics import Metric
from labsim.lab.notebooks import read_notebook
from labsim.lab.runner import run

from .notebook_builder import RECORD, write

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "claims.md"
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
RECORDED = load_directory(metrics_directory() / "ci")


def claims(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(command, [str(one) for one in arguments])
    return result.exit_code, result.stdout, result.stderr


def test_the_page_says_what_the_metrics_say() -> None:
    status, _, said = claims("--check", PAGE)
    assert status == 0, said


def test_every_notebook_has_its_metrics() -> None:
    assert [run.notebook for run in RECORDED.values()] == [path.name for path in NOTEBOOKS]
    assert all({"scale": "ci", "seed": 0, "solve": True}.items() <= run.parameters.items() for run in RECORDED.values())


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_recorded_metrics_agree_with_the_goldens(path: Path) -> None:
    """Goldens are held against every run of the suite; so what the page shows is what a run gives."""
    metrics = {
        name: Metric(name, one.value, one.unit, one.claim) for name, one in RECORDED[path.name[:2]].metrics.items()
    }
    assert check(metrics, load_goldens(golden_path(path))) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_golden_and_recorded_metric_are_one_number(path: Path) -> None:
    """Both are of scale ci and seed 0: a golden that a tolerance keeps alive is of an older notebook."""
    found = {name: one.value for name, one in RECORDED[path.name[:2]].metrics.items()}
    command = f"labsim run --solve --update-golden --metrics data/metrics/ci notebooks/{path.name}"
    assert apart(found, load_goldens(golden_path(path))) == [], f"write both from one run: {command}"


@pytest.mark.parametrize(("claim", "scale"), AT_SCALE)
def test_rules_of_a_larger_scale_have_their_metrics(claim: str, scale: str) -> None:
    recorded = values(load_directory(metrics_directory() / scale))
    assert [name for name in AT_SCALE[claim, scale].uses if name not in recorded] == []


def test_a_changed_metric_changes_page_and_verdict(tmp_path: Path) -> None:
    shutil.copytree(metrics_directory(), tmp_path, dirs_exist_ok=True)
    path = tmp_path / "ci" / "02.json"
    document = json.loads(path.read_text())
    document["metrics"]["rows_reaching_045"]["value"] = document["metrics"]["rows_looked_at"]["value"]
    path.write_text(json.dumps(document))
    status, _, said = claims("--metrics", tmp_path, "--check", PAGE)
    assert status == 1 and "is not what the recorded metrics say; write it with labsim claims --out" in said
    assert claims("--metrics", tmp_path, "--out", tmp_path / "page.md")[0] == 0
    old, new = PAGE.read_text().splitlines(), (tmp_path / "page.md").read_text().splitlines()
    changed = [two for one, two in zip(old, new, strict=True) if one != two]
    assert len(changed) == 2 and "**S3**" in changed[1] and "✓ **reproduced**" in changed[1]
    assert changed[0].startswith(f"{len(json.loads(claims('--json')[1])['claims'])} claims: ")


def test_every_link_leads_to_a_section_that_records() -> None:
    links = re.findall(r"\[([^\]]+)\]\(\.\./notebooks/([^)\s]+\.ipynb)#([^)\s]+)\)", PAGE.read_text())
    assert len(links) > 40
    for heading, notebook, there in links:
        recording, title, titles = set(), "", []
        for cell in read_notebook(ROOT / "notebooks" / notebook)["cells"]:
            if cell["cell_type"] == "markdown":
                titles += re.findall(r"^#+ +(.+)$", cell["source"], re.MULTILINE)
                title = titles[-1] if titles else ""
            elif "record" in cell["source"]:
                recording.add(title)
        assert heading in recording, f"{notebook}: {heading}"
        assert titles.count(heading) == 1, f"{notebook} has {heading} twice: the second one's anchor is another"
        assert there == re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_the_load_of_s5_is_the_notebooks() -> None:
    load = "56 users, prompts of 300 tokens, slices of 512"
    assert f"no blind prediction: {load}" in PAGE.read_text()
    cells = read_notebook(ROOT / "notebooks" / "02_concurrency_and_tails.ipynb")["cells"]
    assert any(load in cell["source"] for cell in cells if cell["cell_type"] == "markdown")


def test_a_cell_that_is_gone_is_named(tmp_path: Path) -> None:
    shutil.copytree(metrics_directory(), tmp_path, dirs_exist_ok=True)
    path = tmp_path / "ci" / "10.json"
    text = path.read_text()
    gone = load(path).metrics["bytes_for_the_branch"].cell
    path.write_text(text.replace(gone, "no-such-cell"))
    status, _, said = claims("--metrics", tmp_path, "--check", PAGE)
    assert status == 2
    assert "10_ring_attention.ipynb has no cell no-such-cell" in said and "labsim run --metrics" in said


def test_json_is_one_document_with_a_verdict_per_claim() -> None:
    status, out, said = claims("--json")
    document = json.loads(out)
    assert (status, said, document["ok"]) == (0, "", True)
    found = {one["id"]: one for one in document["claims"]}
    assert found["S4"]["verdict"] == "refuted" and "02.rows_looked_at" in found["S3"]["uses"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--metrics", "a", "--executed", "b"], "exclude each other"),
        (["--out", "a", "--check", "b"], "exclude each other"),
        (["--metrics", "nowhere"], "nowhere has no folder ci or laptop or gpu"),
        (["--executed", "nowhere"], "holds no notebook"),
    ],
)
def test_wrong_values(arguments: list[str], says: str) -> None:
    status, out, said = claims(*arguments)
    assert (status, out) == (2, "") and says in said


def test_an_executed_notebook_gives_the_same_file(tmp_path: Path) -> None:
    path = write(
        tmp_path / "01_t.ipynb",
        RECORD + "from labsim.lab.metrics import record_interval\nrecord('a', 1.5, unit='x', claim='S1')",
        "record_interval('b', 2.0, 1.0, 3.0, claim='S2')",
    )
    result = run(path, tmp_path / "out" / path.name, {"seed": 3}, deadline_s=60, memory_cap_bytes=2 * 10**9)
    recorded = from_executed(result.output)
    ids = [cell["id"] for cell in read_notebook(path)["cells"]]
    assert recorded.parameters == {"scale": "ci", "seed": 3, "solve": False, "rate": 0.5}
    assert recorded.metrics["a"] == Recorded(1.5, "x", "S1", ids[2])
    assert {name: (one.value, one.cell) for name, one in recorded.metrics.items() if name.startswith("b")} == {
        "b": (2.0, ids[3]),
        "b.low": (1.0, ids[3]),
        "b.high": (3.0, ids[3]),
    }
    assert load(save(recorded, tmp_path / "kept")) == recorded
    assert result.cpu_s > 0.1, "a kernel's start alone takes more"


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"notebook": "x"}', '{"notebook": "01_x.ipynb", "parameters": {"scale": "big"}, "metrics": {}}'],
)
def test_what_is_no_file_of_metrics(tmp_path: Path, text: str) -> None:
    (tmp_path / "01.json").write_text(text)
    with pytest.raises(ValueError, match="is no file of recorded metrics"):
        load(tmp_path / "01.json")
