"""`python -m labsim.sim`: bare interpreter, and every printed conclusion holds."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from labsim.sim.__main__ import GridRow, TailRow, conclusions, main

ROOT = Path(__file__).resolve().parents[2]


def bare(*arguments):
    """Run without site-packages and without environment variables of Python: nothing but the standard library."""
    command = [sys.executable, "-S", "-E", "-m", "labsim.sim", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def text():
    done = bare()
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def result():
    done = bare("--json", "--quick")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("shell", "says"),
    [("> /dev/full", "labsim.sim: standard output cannot be written: No space left on device\n"), ("| head -1", "")],
)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is full")
def test_an_output_that_takes_no_more_is_no_traceback(shell, says):
    line = f"'{sys.executable}' -S -E -m labsim.sim {shell}"
    done = subprocess.run(line, shell=True, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert done.stderr == says


def test_third_party_packages_are_out_of_reach_in_these_tests():
    done = subprocess.run([sys.executable, "-S", "-E", "-c", "import numpy"], cwd=ROOT, capture_output=True)
    assert done.returncode != 0


def test_lines_stay_under_a_hundred_columns(text):
    assert max(map(len, text.splitlines())) < 100


def test_columns_are_aligned(text):
    for start, stop in (("1. Break", "2. Measured"), ("2. Measured", "3. Tails"), ("3. Tails", "What the")):
        section = text[text.index(start) : text.index(stop)].splitlines()
        rows = [line for line in section if re.match(r" +\d+ +\d", line)]
        assert len(rows) >= 4
        assert len({len(row.removesuffix("wins").removesuffix("loses").removesuffix("even")) for row in rows}) == 1


def test_break_even_table_of_the_published_calibration(text):
    # K = 3, context 400: .10, .12, .17, .23, .30, .39 at concurrency 1, 8, 32, 64, 128, 256 (published coefficients).
    row = next(line for line in text.splitlines() if re.match(r" +3 +0\.\d+ ", line))
    assert [float(cell) for cell in row.split()[1:]] == pytest.approx([0.10, 0.12, 0.17, 0.23, 0.30, 0.39], abs=0.005)


def test_some_rows_lose_and_say_so(text):
    verdicts = re.findall(r"(wins|loses|even)$", text, re.MULTILINE)
    assert verdicts.count("loses") >= 1
    assert verdicts.count("wins") >= 1
    for line in text.splitlines():
        if line.endswith("loses"):
            closed_form, simulated = map(float, line.split()[6:8])
            assert closed_form < 1.02
            assert simulated < 1


def test_verdicts_follow_from_the_numbers(result):
    for row in result["grid"]:
        expected = "loses" if row["speedup_high"] < 1 else "wins" if row["speedup_low"] > 1 else "even"
        assert row["verdict"] == expected
        assert row["speedup_low"] < row["speedup"] < row["speedup_high"]


def test_grid_agrees_with_arithmetic_done_here(result):
    for row in result["grid"]:
        alpha, k = row["alpha_c"], row["k"]
        length = (1 - alpha ** (k + 1)) / (1 - alpha)
        rows, kv = row["concurrency"] * (k + 1), row["concurrency"] * 400
        # Coefficients of arXiv 2601.11580; the draft's constant and context terms grow with K and are theirs at K = 3.
        plain = 5.88590713e-03 + 2.10103129e-05 * row["concurrency"] + 3.92645679e-08 * kv + 1.20683946e-03
        drafted = 5.88590713e-03 + 2.10103129e-05 * rows + 3.92645679e-08 * kv + 1.20683946e-03
        drafted += k / 3 * (2.13526175e-03 + 2.37768493e-09 * kv) + 8.41429603e-07 * rows
        assert row["acceptance_length"] == pytest.approx(length)
        assert row["alpha_d"] == pytest.approx((length - 1) / k)
        assert row["step_ratio"] == pytest.approx(drafted / plain, rel=1e-6)
        assert row["speedup_closed_form"] == pytest.approx(length / (drafted / plain), rel=1e-6)
        # Prompts take the same time on both sides and pull the ratio towards 1.
        assert abs(row["speedup"] - 1) < abs(row["speedup_closed_form"] - 1) * 1.15 + 0.02
        # A rejection costs no forward of its own.
        assert row["target_forwards_per_token"] == pytest.approx(1 / length, rel=0.02)


def test_printed_sentences_repeat_the_tables(result):
    verdicts = [row["verdict"] for row in result["grid"]]
    assert f"{verdicts.count('loses')} of {len(verdicts)} points lose" in result["conclusions"][0]
    for sentence in result["conclusions"]:
        found = re.match(r"Concurrency (\d+): the P99 gap between chunks rises from ([\d.]+) to ([\d.]+) ms", sentence)
        if found:
            row = next(r for r in result["tails"] if r["concurrency"] == int(found[1]))
            assert float(found[2]) == pytest.approx(row["chunk_gap_p99_plain"], abs=0.05)
            assert float(found[3]) == pytest.approx(row["chunk_gap_p99"], abs=0.05)
            assert row["chunk_gap_p99"] > row["chunk_gap_p99_plain"]


GRID = GridRow(8, 0.5, 3, 0.29, 1.88, 1.4, 1.3, 1.3, 1.29, 1.31, 0.53, 9.0, 7.0, "wins")
TAIL = TailRow(8, 1.5, 0.0, 9, 6, 10, 8, 8, 12, 20, 15, 20, 8, 0.01, 0.02)


def test_a_sentence_that_does_not_hold_is_not_printed():
    said = " ".join(conclusions([GRID], [TAIL]))
    assert "0 of 1 points lose, 1 win" in said
    assert "Worst" not in said
    assert "P99" not in said
    assert "agrees with" in said


def test_sentences_turn_when_the_numbers_do():
    loser = replace(GRID, speedup=0.8, speedup_low=0.79, speedup_high=0.81, verdict="loses", concurrency=64)
    worse = replace(TAIL, tpot_p99=12.0, requests_slower=0.2, chunk_gap_p99=30)
    said = " ".join(conclusions([GRID, loser], [worse]))
    assert "1 of 2 points lose" in said
    assert "Worst: 0.80x at concurrency 64" in said
    assert "3 at 8, none at 64" in said
    assert "fails at 1 points" in said
    assert "P99 TPOT rises from 10.0 to 12.0 ms; 20% of the requests" in said
    assert "gap between chunks rises from 20.0 to 30.0 ms" in said


def test_seed_fixes_the_output_and_changes_it(result):
    assert json.loads(bare("--json", "--quick").stdout) == result
    assert json.loads(bare("--json", "--quick", "--seed", "7").stdout)["grid"] != result["grid"]


def test_other_hardware_has_other_numbers(result):
    other = json.loads(bare("--json", "--quick", "--gpu", "h200", "--model", "llama-3.3-70b").stdout)
    assert other["cost_source"] != result["cost_source"]
    assert other["breakeven"] != result["breakeven"]


def test_help_names_every_option(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    said = capsys.readouterr().out
    assert all(option in said for option in ("--seed", "--json", "--quick", "--gpu", "--model", "--draft"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--gpu", "h10"], ["'h10'", "did you mean 'h100'"]),
        (["--seed", "-1"], ["seed is -1", "at least 0"]),
        (["--seed", "x"], ["seed is 'x'"]),
    ],
)
def test_wrong_values_exit_2_with_one_line(capsys, arguments, words):
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert all(word in said for word in words)
