"""Training: the `nano` target, drafts on a target's own answers, and what their data come from."""
