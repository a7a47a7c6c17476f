"""Finding a Chromium for what only a real browser shows: the notebooks' tests and the printed slides."""

from __future__ import annotations

import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
# With these Chromium reaches this machine and nothing else: any other host, by name or by number, is not found.
OFFLINE = ("--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost",)


def find_chromium() -> str | None:
    """Path of the first Chromium on PATH, or None. Debian and Ubuntu: `apt-get install chromium fonts-dejavu-core`."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)
