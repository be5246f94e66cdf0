"""The protocol of rounds: predict, reveal, learn; and predictions whose labels never come."""
