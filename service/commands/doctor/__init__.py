"""`novikoff doctor`: is the data directory sound, and does it say the same thing twice?

`file` looks at the SQLite file, `history` replays each model and compares, `tables` looks at what stands beside
the events. Each gives findings, some with a repair; events are never touched.
"""
