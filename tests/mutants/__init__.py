"""Wrong answers that every check must reject, and right ones that it must accept: one file per notebook, `NN.py`."""
