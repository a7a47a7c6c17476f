"""Write requirements.lock: what pip resolves today for labsim[lab,site,test], pinned.

    python scripts/update_lock.py            # in a Python 3.11, the oldest supported one

Resolves with `pip install --dry-run`, so nothing is installed. Left out: labsim itself, local version labels
(`+cpu`), and the CUDA libraries that torch pulls on a GPU machine, since their versions belong to the torch build
that is installed there.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CUDA = re.compile(r"^(nvidia-|cuda-|triton$)")
HEADER = """\
# Pinned versions for labsim[lab,site,test], Python 3.11 to 3.13. Written by scripts/update_lock.py; never by hand.
# CUDA libraries are not listed: the torch build that set-up chooses brings its own.
"""


def resolve() -> dict[str, str]:
    """name -> version of every distribution that a fresh environment would receive."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
    command += [f"{ROOT}[lab,site,test]", "torch==2.13.0"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    found = {}
    for item in report["install"]:
        name = re.sub(r"[-_.]+", "-", item["metadata"]["name"]).lower()
        if name != "labsim" and not CUDA.match(name):
            found[name] = item["metadata"]["version"].split("+")[0]
    return found


def main() -> None:
    pins = [f"{name}=={version}\n" for name, version in sorted(resolve().items())]
    (ROOT / "requirements.lock").write_text(HEADER + "".join(pins))
    print(f"requirements.lock: {len(pins)} pins")


if __name__ == "__main__":
    main()
