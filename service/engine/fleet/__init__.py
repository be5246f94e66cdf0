"""Which models there are, which of them are in memory, and how they come and go."""
