"""What others have claimed, and what this course measured of it.

`data/claims.csv` says who claims what. For each claim a small rule (`serving`, `training`, `drift`) names the metrics
it rests on, and turns their values into a finding: a figure with its interval, a verdict and one sentence of reason.
The values come from files that the runner writes (`labsim run --metrics`), so no number on the claims page is typed,
and a changed number changes sentence and verdict by itself.
"""
