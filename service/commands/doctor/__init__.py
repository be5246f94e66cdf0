"""`novikoff doctor`: checks a data directory for damage and inconsistencies.

`checks` looks at the SQLite file and its tables, `history` replays each model and compares it with its snapshots, its
line in the list of models and its `outcomes`. Each yields findings, some with a repair; events are never changed.
`streams` does that for the streams of a cluster. `repairing` is --repair.
"""
