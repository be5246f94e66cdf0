"""The learning itself: numpy, mmh3 for its hash, msgspec for saved states, and nothing else.

A round runs through three parts, each replaceable by its siblings:
`Features` turn what a client sent into a `Vector`, a `Classifier` turns the vector into a label and
learns from the true one, and the binary `Learner`s under it hold the weights. Each `Statistic` counts what came of it.
What each promises: `features/contract.py`, `classes/classifier.py`, `learners/learner.py`, `statistics/statistic.py`.
"""
