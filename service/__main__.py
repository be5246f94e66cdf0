"""python -m service, and `novikoff`: the command line, in a process that is set up for it."""

import os

# Before numpy is imported. The products here are short; for longer ones BLAS would keep a thread busy on every
# core, and take from the loop and from the writing process what it is supposed to save them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from service.cli import main

if __name__ == "__main__":
    main()
