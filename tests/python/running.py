"""The program, as tests start it."""

import os
import subprocess
import sys

import lra

# As a user starts it, wherever the package lies.
PROGRAM = [sys.executable, "-m", "lra"]


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
