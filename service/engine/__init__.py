"""The engine: live models, and the rule that nothing changes one but an event that is already durable."""
