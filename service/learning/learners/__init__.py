"""Binary learners, a file each. `learner.py` says what each promises, `algorithms.py` lists them."""
