"""`python -m labsim` is the same as `labsim`."""

import sys

try:
    from .cli import main
except ModuleNotFoundError as error:
    if error.name != "click":
        raise
    sys.exit(f"labsim: {sys.executable} has no click; right: `. .venv/bin/activate`, after `make lab` has made .venv")

main()
