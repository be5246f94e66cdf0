"""The scale-out journal: a NATS JetStream cluster that any number of replicas share."""
