"""HTTP: the routes, what they take and answer, and how errors look."""
