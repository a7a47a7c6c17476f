"""Where models lie: the ones this project ships, and the user's cache for the ones it fetches.

Shipped models (`nano`, the drafts, the prompt sets) lie in the repository's `data/`. Fetched ones go to
`$LABSIM_CACHE`, else `$XDG_CACHE_HOME/labsim`, else `~/.cache/labsim`.
"""

from __future__ import annotations

import os
from pathlib import Path


def data_directory() -> Path:
    """The repository's `data/`: what the project ships."""
    return Path(__file__).resolve().parents[2] / "data"


def cache_directory() -> Path:
    """The user's cache for fetched models. Not created here: whoever writes into it creates it."""
    if chosen := os.environ.get("LABSIM_CACHE"):
        return Path(chosen).expanduser()
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base).expanduser() / "labsim"
    return Path("~/.cache/labsim").expanduser()
