"""Training on a set of examples at once: the batch perceptron, and passes of a model's own learner."""
