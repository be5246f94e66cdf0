"""Batch training as jobs, each in a process of its own."""
