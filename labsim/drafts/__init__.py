"""Drafters: cheap guesses about what the target will say next."""
