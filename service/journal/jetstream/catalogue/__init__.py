"""Which models live on the cluster, and their summaries."""
