"""Memory that is given back: the service looks every two seconds, whatever else is wrong with the machine."""

import subprocess
import sys

WITHOUT_FILES = """
import resource
from service.allocator import may_have_too_much
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
print(may_have_too_much())
"""


def test_a_process_that_can_open_no_file_goes_on() -> None:
    ended = subprocess.run([sys.executable, "-c", WITHOUT_FILES], capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("False\n", ""), (
        "on the loop of the server, an exception would end it"
    )
