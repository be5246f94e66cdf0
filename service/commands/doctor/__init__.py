"""`novikoff doctor`: checks a data directory for damage and inconsistencies.

`file` checks the SQLite file, `history` replays each model and compares it with its snapshots and counts, `tables`
checks the tables besides the events. Each yields findings, some with a repair; events are never
changed but to what their digests prove that they were.

With --repair, `salvaging` copies what can be read out of a file that SQLite cannot read, `rows` table by table,
`mending` puts events back of which a column has changed, and `copying` puts the copy into its place.
"""
