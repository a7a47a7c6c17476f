"""Questions by notebook: `quiz_NN.py` exports `QUESTIONS` for notebook NN. See `labsim.lab.questions`."""
