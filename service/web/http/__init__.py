"""HTTP itself: connections, requests, bodies and answers; nothing of models."""
