"""Python imports this at the start of every process that has this folder on its path: see `recording.environment`."""

import os

from tests.torture import recording

recording.install_if_asked(os.environ)
