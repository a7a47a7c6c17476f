"""The exercises of the course: `ex_NN.py` exports EXERCISES for notebook NN."""
