"""What the service is compared with."""
