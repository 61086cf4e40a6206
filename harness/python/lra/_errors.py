"""Errors of users' code, as they are told: in one line, with the place in the user's files."""

import contextlib
import os
import threading
import traceback

import torch

_files: set = set()  # of users' sources: frames in other files are left out of tracebacks
_interrupted = False  # by Ctrl-C, within what a user's code was asked for


def own_file(path):
    """Says that a source is the user's: errors name places in it, and beside it."""
    _files.add(os.path.abspath(path))


def interrupt():
    """Notes a Ctrl-C that C++ was told of: interrupts_told() raises it."""
    global _interrupted
    _interrupted = True


def is_interrupted():
    """Whether that is of the call that runs: in the main thread, the one that Python interrupts."""
    return _interrupted and threading.current_thread() is threading.main_thread()


class Refused(Exception):
    """The text says what is wrong, where, and what to do."""


class WrongUse(Refused):
    """A name or an option is wrong."""


class OutOfMemory(Refused):
    """An allocation failed."""


def _where(options):
    return f"python:{options['file']}:{options['class']}"


def _frames(trace):
    """ "my.py:12 in forward, ..." of a traceback, innermost last, the user's own files alone."""
    ours = os.path.dirname(os.path.abspath(__file__))
    library = os.path.dirname(os.path.abspath(torch.__file__))
    frames = [
        frame
        for frame in traceback.extract_tb(trace)
        if not frame.filename.startswith((ours, library, "<frozen"))
    ]
    own = [frame for frame in frames if is_own(os.path.abspath(frame.filename))] or frames
    return ", ".join(f"{os.path.basename(f.filename)}:{f.lineno} in {f.name}" for f in own[-4:])


def is_own(path):
    """Whether a file is a user's source, or lies beside one."""
    beside = tuple(os.path.dirname(file) + os.sep for file in _files)
    return path in _files or (path.startswith(beside) and "-packages" + os.sep not in path)


_LONGEST = 400  # characters of an exception's own text


def _told(error, trace=None):
    """One line: the exception, and where in the user's code it was raised."""
    if isinstance(error, SystemExit):
        text = f"called sys.exit({'' if error.code is None else repr(error.code)})"
    elif isinstance(error, SyntaxError):
        text = f"SyntaxError: {error.msg} ({os.path.basename(error.filename or '?')}:{error.lineno})"
    else:
        said = "; ".join(line.strip() for line in str(error).splitlines() if line.strip())
        if len(said) > _LONGEST:  # the cause stands in the first lines, or in the last
            said = said[: _LONGEST * 2 // 3] + " ... " + said[-_LONGEST // 3 :]
        text = type(error).__name__ + (f": {said}" if said else "")
        if isinstance(error, ImportError) and "relative import" in said:
            text += "; name a file of a package as python:PACKAGE.MODULE:CLASS"
    frames = _frames(trace or error.__traceback__)
    text += f" ({frames})" if frames else ""
    return text.encode(errors="backslashreplace").decode()  # of lone surrogates


def _is_out_of_memory(error):
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


@contextlib.contextmanager
def _told_by(where):
    """What the user's code raises within, as Refused that begins with `where`."""
    try:
        yield
    except Refused:
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            interrupt()
        if _is_out_of_memory(error):
            raise OutOfMemory(f"{where}: {_told(error)}") from None
        raise Refused(f"{where}: {_told(error)}") from error


@contextlib.contextmanager
def interrupts_told():
    """Raises KeyboardInterrupt at its end, or in place of an error, where a user's code was interrupted within.

    In the main thread, the one that Python interrupts.
    """
    global _interrupted
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    around, _interrupted = _interrupted, False
    try:
        yield
    finally:
        within, _interrupted = _interrupted, around
        if within:
            raise KeyboardInterrupt from None
