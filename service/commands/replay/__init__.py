"""`novikoff replay`: the examples of a file, one round each, as if they came live.

Bytes (`opening`) become records (`formats`), records features and labels (`layout`), the features what the
model takes (`shape`), and rounds with ids that are the same each time (`rounds`).
"""
