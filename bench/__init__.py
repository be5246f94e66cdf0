"""Measurements of the service beside its peers. `python -m bench` runs them and writes results.md."""
