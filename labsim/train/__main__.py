"""`torchrun --nproc-per-node 4 -m labsim.train --ring 2 --ulysses 2 ...` is `labsim train` on four ranks."""

from __future__ import annotations

import sys

from ..cli import main

if __name__ == "__main__":
    main(["train", *sys.argv[1:]])
