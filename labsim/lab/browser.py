"""Finding a Chromium for what only a real browser shows: the notebooks' tests, and later the printed slides."""

from __future__ import annotations

import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")


def find_chromium() -> str | None:
    """Path of the first Chromium on PATH, or None. Debian and Ubuntu: `apt-get install chromium fonts-dejavu-core`."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)
