"""The journal: what has happened, durable and in order."""
