"""Waiting predictions on the cluster: their ids, how they are kept, and which replica gives them up."""
