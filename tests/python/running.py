"""The program, as tests start it."""

import os
import subprocess
import sys

import lra

# As a user of the package starts it, wherever that lies.
PACKAGE = [sys.executable, "-m", "lra"]
# What only makes files for a test is made by the program itself where it is built: importing torch takes ten times as long.
PROGRAM = [os.environ["LRA_TEST_PROGRAM"]] if "LRA_TEST_PROGRAM" in os.environ else PACKAGE


def started(command):
    """What a command prints; an error where it fails."""
    paths = [os.path.dirname(os.path.dirname(lra.__file__)), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return done.stdout


def program(*words):
    return started([*PROGRAM, *words])
