"""The learning itself: numpy, and mmh3 for its hash, and nothing else.

A round runs through three parts, each replaceable by its siblings:
`features` turn what a client sent into a `Vector`, a `Classifier` turns the vector into a label and
learns from the true one, and the binary `Learner`s under it hold the weights.
"""
