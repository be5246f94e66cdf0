"""The perceptron's mistake bound, live; docs/theory.md has the proofs."""
