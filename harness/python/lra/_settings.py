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


def _precision():
    """That of float32 products by torch's new settings, and by its old one, which does not know all of theirs."""
    new = (torch.backends.fp32_precision, torch.backends.cuda.matmul.fp32_precision, torch.backends.mkldnn.matmul.fp32_precision)
    try:
        return new, torch.get_float32_matmul_precision()
    except RuntimeError:
        return new, None


def _set_precision(value):
    new, old = value
    if old is not None:
        torch.backends.fp32_precision = new[0]
        torch.set_float32_matmul_precision(old)
    torch.backends.fp32_precision, torch.backends.cuda.matmul.fp32_precision, torch.backends.mkldnn.matmul.fp32_precision = new


# How each is had and set, and what a change of it is called.
_ALL = (
    (torch.get_num_threads, torch.set_num_threads, "set the number of threads to {}; leave it, --threads says it"),
    (torch.get_default_dtype, torch.set_default_dtype, DEFAULT_TYPE),
    (
        _precision,
        _set_precision,
        "set torch's precision of float32 products; leave it, as that of all attentions is one",
    ),
    _autocast("cpu"),
    _autocast("cuda"),
    (torch.is_grad_enabled, torch.set_grad_enabled, "switched gradients for what follows; leave them"),
)


@contextlib.contextmanager
def settings_kept(where):
    """Refuses what is changed within, in words that begin with `where`."""
    before, changed = [get() for get, _, _ in _ALL], None
    try:
        yield
    finally:
        for (get, put, text), value in zip(_ALL, before):
            if (now := get()) != value:
                put(value)
                changed = changed or text.format(now)
    if changed:
        raise Refused(f"{where} {changed}")
