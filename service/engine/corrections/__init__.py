"""What was wrong put right: labels that are corrected, predictions that do not count, and models rebuilt for that."""
