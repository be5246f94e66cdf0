"""`novikoff replay`: plays the examples of a file to a model, or to several models that are compared."""
