"""Settings of torch that are of the whole process: a run has set them, and a user's code leaves them."""

import contextlib

import torch

from lra._errors import Refused

DEFAULT_TYPE = "set torch's default type; leave it, and give `dtype` where tensors are made"


def _autocast(device):
    return (
        lambda: torch.is_autocast_enabled(device),
        lambda on: torch.set_autocast_enabled(device, on),
        "switched autocast for the whole process; leave it, a run's number type says it",
    )


# How each is had and set, and what a change of it is called.
_ALL = (
    (torch.get_num_threads, torch.set_num_threads, "set the number of threads to {}; leave it, --threads says it"),
    (torch.get_default_dtype, torch.set_default_dtype, DEFAULT_TYPE),
    (
        torch.get_float32_matmul_precision,
        torch.set_float32_matmul_precision,
        "set torch's precision of float32 products to {}; leave it, as that of all attentions is one",
    ),
    _autocast("cpu"),
    _autocast("cuda"),
    (torch.is_grad_enabled, torch.set_grad_enabled, "switched gradients for what follows; leave them"),
)


def settings():
    """Their values."""
    return [get() for get, _, _ in _ALL]


def restore(before):
    """Puts them back; says what had been changed first, None where nothing was."""
    said = None
    for (get, put, text), value in zip(_ALL, before):
        if (now := get()) != value:
            put(value)
            said = said or text.format(now)
    return said


@contextlib.contextmanager
def settings_kept(where):
    """Refuses what is changed within, in words that begin with `where`."""
    before, changed = settings(), None
    try:
        yield
    finally:
        changed = restore(before)
    if changed:
        raise Refused(f"{where} {changed}")
