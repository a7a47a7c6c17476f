"""Training a draft on its target's answers with training-time test (TTT)."""
