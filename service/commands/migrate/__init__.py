"""`novikoff migrate`: a fleet moves from a file to a cluster.

What was there is read by `source`, written and compared by `moving`; `command` tells of it.
"""
