"""Who may do what: keys, roles, tenants, rate limits."""
