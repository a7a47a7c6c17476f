"""Where models lie: the ones this project ships, and the user's cache for the ones it fetches.

Shipped models (`nano`, the drafts, the prompt sets) lie in the repository's `data/`. Fetched ones go to
`$LABSIM_CACHE`, else `$XDG_CACHE_HOME/labsim`, else `~/.cache/labsim`.
"""

from __future__ import annotations

import os
from pathlib import Path

from .fields import shown


def data_directory() -> Path:
    """The repository's `data/`: what the project ships."""
    return Path(__file__).resolve().parents[2] / "data"


def expanded(name: str | Path) -> Path:
    """The path with `~` taken for a home. ValueError for another user's home that is not there."""
    try:
        return Path(name).expanduser()
    except RuntimeError as error:
        raise ValueError(f"{shown(name)} begins with the home of a user who is not there") from error


def expanded_or_as_is(path: Path) -> Path:
    """For messages: the path with its home filled in where there is one."""
    try:
        return path.expanduser()
    except RuntimeError:
        return path


def cache_directory() -> Path:
    """The user's cache for fetched models. Not created here: whoever writes into it creates it.

    ValueError where its name begins with another user's home that is not there.
    """
    _, path = cache_setting()
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ValueError(cache_unusable(error)) from error


def cache_setting() -> tuple[str, Path]:
    """What decides where the cache is, and the path that it names."""
    if chosen := os.environ.get("LABSIM_CACHE"):
        return "LABSIM_CACHE", Path(chosen)
    if base := os.environ.get("XDG_CACHE_HOME"):
        return "XDG_CACHE_HOME", Path(base) / "labsim"
    return "the cache", Path("~/.cache/labsim")


def cache_unusable(reason: object) -> str:
    """One line for an error: which setting, its path, what was wrong, and what would be right."""
    name, path = cache_setting()
    return (
        f"{name} is {shown(expanded_or_as_is(path))}, which cannot be used ({reason}); "
        "right is LABSIM_CACHE=a folder that can be written"
    )
