"""`python -m labsim` is the same as `labsim`."""

from .cli import main

main()
