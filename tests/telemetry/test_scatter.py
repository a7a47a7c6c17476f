"""Intervals that cover, and drift that is found, over many drawn logs."""

from __future__ import annotations

import random
from itertools import pairwise
from math import sqrt

import pytest

from labsim.telemetry.scatter import alpha_interval, engines_that_differ, find_drift, lag_one
from labsim.telemetry.sums import Observation, Tally
from scripts import engine_output as out

SURVIVAL = (0.7, 0.45, 0.3)
ALPHA = sum(SURVIVAL) / 3


def tally(groups: list[out.Steps], counts: bool = True) -> Tally:
    result = Tally()
    for steps in groups:
        seen = out.truth(steps, 3)
        result.add(
            Observation(
                k=3 if counts else None,
                drafts=seen["drafts"] if counts else None,
                drafted=seen["drafted"],
                accepted=seen["accepted"],
                survival=tuple(seen["survival"]) if counts else None,
            )
        )
    return result


def interval(found: Tally, counts: bool = True) -> tuple[float, float]:
    total = found.total
    low_high, why = alpha_interval(
        total, found.series.windows(), total.alpha(), 3 if counts else None, total.survival() if counts else None
    )
    assert low_high is not None, why
    return low_high


@pytest.mark.parametrize("counts", [True, False])
def test_the_interval_covers_19_of_20_times(counts: bool) -> None:
    covered = 0
    for seed in range(300):
        groups = [out.draw_steps(1000 * seed + i, SURVIVAL, 60) for i in range(12)]
        low, high = interval(tally(groups, counts), counts)
        covered += low <= ALPHA <= high
    # 95 % of 300 is 285; three standard deviations of that count are 11.
    assert 274 <= covered <= 300


def test_it_covers_where_traffic_changes_between_windows() -> None:
    """Each window has its own acceptance: steps alone would promise half the true error."""
    covered = widths = naive = 0.0
    for seed in range(200):
        rng = random.Random(seed)
        groups = []
        for i in range(20):
            shift = rng.gauss(0, 0.07)
            survival = [min(0.95, max(0.02, s + shift)) for s in SURVIVAL]
            groups.append(out.draw_steps(5000 * seed + i, survival, 200))
        low, high = interval(tally(groups))
        covered += low <= ALPHA <= high
        widths += high - low
        low, high = interval(tally([[step for steps in groups for step in steps]]))
        naive += high - low
    assert covered / 200 >= 0.9
    assert widths > 1.5 * naive


def test_autocorrelated_steps_widen_it() -> None:
    found = tally([out.draw_steps(1, SURVIVAL, 2_000)])
    arguments = (found.total, found.series.windows(), found.total.alpha(), 3, found.total.survival())
    plain, _ = alpha_interval(*arguments)
    wide, _ = alpha_interval(*arguments, autocorrelation=0.5)
    assert (wide[1] - wide[0]) / (plain[1] - plain[0]) == pytest.approx(sqrt(1.5 / 0.5), rel=0.02)


def test_lag_one_against_a_direct_computation() -> None:
    rng = random.Random(1)
    values = [0.0]
    for _ in range(5_000):
        values.append(0.6 * values[-1] + rng.gauss(0, 1))
    pairs = list(pairwise(values))
    sums = tuple(sum(f(x, y) for x, y in pairs) for f in (
        lambda x, y: x, lambda x, y: y, lambda x, y: x * x, lambda x, y: y * y, lambda x, y: x * y,
    ))  # fmt: skip
    assert lag_one(len(pairs), sums) == pytest.approx(0.6, abs=0.03)
    assert lag_one(10, sums) is None


@pytest.mark.parametrize("windows", [4, 6, 30, 200])
def test_drift_false_alarms_are_rare_and_real_shifts_found(windows: int) -> None:
    alarms = found = 0
    for seed in range(100):
        steady = tally([out.draw_steps(9000 * seed + i, SURVIVAL, 300) for i in range(windows)])
        alarms += find_drift(steady.series.windows(), 3, steady.total.survival()) is not None
        worse = (0.58, 0.3, 0.15)
        half = windows // 2
        groups = [out.draw_steps(7000 * seed + i, SURVIVAL if i < half else worse, 300) for i in range(windows)]
        shifted = tally(groups)
        shift = find_drift(shifted.series.windows(), 3, shifted.total.survival())
        if shift is not None:
            found += 1
            assert shift.before > shift.after
    assert alarms <= 2
    # Four windows of 300 drafts leave 4 standard deviations between the halves.
    assert found >= (55 if windows == 4 else 95)


def test_scatter_without_a_shift_is_no_drift() -> None:
    alarms = 0
    for seed in range(100):
        rng = random.Random(seed)
        groups = []
        for i in range(40):
            survival = [min(0.95, s + rng.gauss(0, 0.06)) for s in SURVIVAL]
            groups.append(out.draw_steps(300 * seed + i, survival, 400))
        scattered = tally(groups)
        alarms += find_drift(scattered.series.windows(), 3, scattered.total.survival()) is not None
    assert alarms <= 4


def test_engines_that_differ_by_chance_are_not_called_mixed() -> None:
    alarms = 0
    for seed in range(200):
        result = Tally()
        for engine in range(8):
            seen = out.truth(out.draw_steps(800 * seed + engine, SURVIVAL, 400), 3)
            result.add(
                Observation(
                    engine=str(engine),
                    k=3,
                    drafts=400,
                    drafted=1200,
                    accepted=seen["accepted"],
                    survival=tuple(seen["survival"]),
                )
            )
        alarms += engines_that_differ(list(result.engines.values()), 3) is not None
    assert alarms <= 4
