"""One model: the state that its events make, and the outcome of each round."""
