"""The connection to the NATS servers: asking, publishing, following, and whether they are heard of."""
