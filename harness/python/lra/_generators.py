"""Python's and NumPy's generators, and what else a user's code may change for all."""

import contextlib
import json
import random
import sys
import threading

import torch


def random_state():
    """The state of `random`, and of NumPy's legacy generator where it is loaded, as JSON."""
    state = {"random": random.getstate()}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        state["numpy"] = numpy.random.get_state(legacy=False)  # of whatever bit generator
    return json.dumps(state, default=lambda part: part.tolist())


def set_random_state(text):
    state = json.loads(text)
    version, words, gauss = state["random"]
    random.setstate((version, tuple(words), gauss))
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy" in state:
        kept = state["numpy"]
        numpy.random.set_state(kept if isinstance(kept, dict) else tuple(kept))  # a tuple in older states


def seed_generators(seed):
    """Python's and NumPy's generators; torch's are the caller's."""
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        try:
            numpy.random.seed(seed % 2**32)
        except TypeError:  # set_bit_generator() has put another in MT19937's place
            generator = numpy.random.get_bit_generator()
            generator.state = type(generator)(seed).state


# torch's generators are of the whole process: who seeds them and puts them back waits for others.
exclusive = threading.RLock()


class _Default:
    """torch's default type, which is of all threads: the first that enters keeps it, the last puts it back."""

    lock = threading.Lock()
    within = 0
    kept = torch.float32


@contextlib.contextmanager
def float32_by_default():
    """The C++ library makes its tensors in torch's default type, which a caller may have set."""
    with _Default.lock:
        if _Default.within == 0:
            _Default.kept = torch.get_default_dtype()
            torch.set_default_dtype(torch.float32)
        _Default.within += 1
    try:
        yield
    finally:
        with _Default.lock:
            _Default.within -= 1
            if _Default.within == 0:
                torch.set_default_dtype(_Default.kept)
