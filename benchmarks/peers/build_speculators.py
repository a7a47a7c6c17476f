"""Make build/peers/speculators: an environment with the peer `speculators` 0.9.0, apart from labsim's own.

    python benchmarks/peers/build_speculators.py          # Python 3.11 to 3.13; minutes, about 1.3 GB

`speculators` declares torchvision and torchaudio, which its EAGLE-3 training does not import, and narrow ranges for
others. So torch comes first, then speculators without its dependencies, then the pins of speculators.txt: what those
imports need, within its ranges.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / "build" / "peers" / "speculators"
PINS = Path(__file__).resolve().with_name("speculators.txt")
READY = "ready"  # written last: without it the environment is a broken-off one
TORCH, PEER = "torch==2.13.0", ("speculators==0.9.0", "hs-connectors==0.9.0")


def main() -> int:
    sys.path.insert(0, str(ROOT / "scripts"))
    from setup_env import PYTORCH_CPU_INDEX, has_nvidia_gpu, index_answers

    subprocess.run([sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT)], check=True)
    from_pytorch = not has_nvidia_gpu() and index_answers(PYTORCH_CPU_INDEX)
    install(*(("--index-url", PYTORCH_CPU_INDEX) if from_pytorch else ()), TORCH)
    install("--no-deps", *PEER)
    install("-r", str(PINS))
    command = [ENVIRONMENT / "bin" / "python", "-c", "import speculators.models.eagle3"]
    if subprocess.run(command).returncode:
        sys.exit("The packages are installed, but speculators does not import (its message is above).")
    (ENVIRONMENT / READY).touch()
    print(f"{ENVIRONMENT} is ready: python benchmarks/ttt_step.py")
    return 0


def install(*arguments: str) -> None:
    command = [str(ENVIRONMENT / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", *arguments]
    if subprocess.run(command, cwd=ROOT).returncode:
        sys.exit(f"Set-up stopped: `pip install {' '.join(arguments)}` failed (its message is above).")


if __name__ == "__main__":
    sys.exit(main())
