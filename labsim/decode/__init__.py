"""Propose, verify, accept: decoding with a draft, without changing what the target would say."""
