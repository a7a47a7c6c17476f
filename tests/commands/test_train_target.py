"""`labsim train-target`: wrong values are one line."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from labsim.commands.train_target import command


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nanoo"], "nano"),
        (["nano", "--minutes", "0"], "minutes = 0.0 is not a budget"),
        (["nano", "--minutes", "5", "--tokens", "1000"], "exactly one"),
        (["nano", "--tokens", "1000", "--workers", "0"], "workers = 0"),
    ],
)
def test_a_wrong_value_is_named(arguments: list[str], message: str, tmp_path) -> None:
    result = CliRunner().invoke(command, [*arguments, "--out", str(tmp_path / "x")])
    assert result.exit_code == 2
    assert message in result.output
