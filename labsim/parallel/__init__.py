"""Ranks: how tokens are dealt out to them, how they talk, how they are started and how they fail."""
