"""The names of environment variables that more than one program of ours reads."""

PREFIX = "NOVIKOFF_"
"""What the names of all of ours begin with. The settings of a service are listed in `service.settings`."""

URL = f"{PREFIX}URL"
KEY = f"{PREFIX}KEY"
KEY_FILE = f"{PREFIX}KEY_FILE"

OF_CLIENTS = frozenset({URL, KEY, KEY_FILE})
"""For the commands that talk to a service: where it is, and the key. They are no settings of a service."""
