"""What the service answers, a file for each group of routes."""
