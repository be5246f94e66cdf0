"""How far a prediction and a number can be trusted; docs/theory.md has the proofs."""
