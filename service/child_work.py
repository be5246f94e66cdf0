"""The whole of a process of our own: what the service starts ends here, and never with a traceback in its log."""

import logging
import os
import signal
import sys
from collections.abc import Callable

from service import logs

log = logging.getLogger(__name__)


def work(run: Callable[[], None]) -> None:
    """Do what the service has started this process for, then end it.

    EOFError and BrokenPipeError mean that the service has ended. What else goes wrong is a line of the log, like one of
    the service's own.
    """
    log_format, level, features = sys.argv[1:4]  # `child_processes.command_of`
    logs.configure("json" if log_format == "json" else "console", level, features=bool(features))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the service is told, and ends this process in good time
    try:
        run()
    except (EOFError, BrokenPipeError):
        log.info("a process has no more to do, since the service has ended")
        os._exit(0)  # what is left in the buffer of a broken pipe would be a complaint
    except Exception as error:
        log.error("a process of the service has failed", exc_info=error)
        os._exit(1)
