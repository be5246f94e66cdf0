"""`novikoff migrate`: moves all models from a data directory to a NATS cluster.

`source` reads them, `moving` writes and compares them, `command` reports.
"""
