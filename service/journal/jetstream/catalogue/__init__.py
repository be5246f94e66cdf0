"""Which models there are on the cluster, and their summaries."""
