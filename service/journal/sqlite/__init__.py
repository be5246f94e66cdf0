"""The embedded journal: one SQLite file, written by a process of its own."""
