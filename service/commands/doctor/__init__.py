"""`novikoff doctor`: checks a data directory for damage and inconsistencies.

`file` checks the SQLite file, `history` replays each model and compares it with its snapshots and counts, `tables`
checks the tables besides the events. Each yields findings, some with a repair; events are never changed.

`streams` does that for the streams of a cluster.

With --repair, `salvaging` copies what can be read out of a file with torn pages, `rows` table by table, and `copying`
puts the copy into its place. Beyond that, a backup is restored.
"""
