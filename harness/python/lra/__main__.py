"""`python3 -m lra`: the program's command line."""

import gc
import os
import signal
import sys

from lra import check_torch


def main() -> int:
    """Runs the program with sys.argv and returns its exit status."""
    called = os.environ.pop("LRA_CALLED", "lra")
    program = os.environ.pop("LRA_PROGRAM", "")
    try:
        check_torch()
        from lra import _lra
    except ImportError as error:
        print(f"lra: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    # What torch is made of lives to the end; collections, those at the end above all, would look through it.
    gc.freeze()
    # Python's own handler would interrupt a user's code alone, and the program would go on.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # What a module prints must not stand within a table or JSON.
    sys.stdout = sys.stderr
    start = ["lra"] if program else [sys.executable, "-m", "lra"]
    return _lra.run([called, *sys.argv[1:]], program or sys.executable, start, _lra.__file__)


if __name__ == "__main__":
    sys.exit(main())
