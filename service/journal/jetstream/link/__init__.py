"""The connection to the NATS servers: requests, publishing, following streams, and checks of the servers."""
