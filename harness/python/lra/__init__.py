"""The Long Range Arena: attentions, tasks, runs and the program `lra`, from Python.

    layer = lra.attention("nystrom[num_landmarks=64]", dim=64, heads=2)   # a torch.nn.Module
    train = lra.dataset("data/listops", split="train")                    # a torch Dataset
    print(lra.check(MyAttention))                                         # your class and the contract
    run = lra.load_run("runs/x")
    rows = lra.records("runs/")

`lra` or `python3 -m lra` is the program's command line. docs/python.md says more.
"""

import gc
import importlib
import importlib.util
import os
import sys
import sysconfig
import warnings
from typing import TYPE_CHECKING

from lra._build import TORCH_VERSION
from lra._build import VERSION as __version__

if TYPE_CHECKING:
    from lra._attentions import Attention, Check, attention, check
    from lra._data import Batch, Dataset, dataset, generate
    from lra._lra import Error, UsageError
    from lra._runs import Run, TrainedModel, load_run, records

# Loaded when they are asked for: the program starts without them.
_FROM = {
    "_attentions": ("Attention", "Check", "attention", "check"),
    "_data": ("Batch", "Dataset", "dataset", "generate"),
    "_lra": ("Error", "UsageError"),
    "_runs": ("Run", "TrainedModel", "load_run", "records"),
}

__all__ = [
    "Attention",
    "Batch",
    "Check",
    "Dataset",
    "Error",
    "Run",
    "TrainedModel",
    "UsageError",
    "__version__",
    "attention",
    "check",
    "dataset",
    "generate",
    "load_run",
    "records",
]


def __getattr__(name):
    for module, names in _FROM.items():
        if name in names:
            value = getattr(importlib.import_module(f"lra.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'lra' has no attribute {name!r}")


def __dir__():
    return __all__


def check_torch() -> None:
    """Raises ImportError unless _lra is for this Python and its torch is the one here."""
    python = ".".join(map(str, sys.version_info[:2]))
    if importlib.util.find_spec("lra._lra") is None:
        there = sorted(name for name in os.listdir(__path__[0]) if name.startswith("_lra."))
        built = ", ".join(name for name in there if not name.endswith(".pyi")) or "no module _lra"
        raise ImportError(
            f"lra was built for another Python than {sys.executable}, which is {python}: there is "
            f"{built}, and no _lra{sysconfig.get_config_var('EXT_SUFFIX')}; set LRA_PYTHON to a "
            f"Python of that version with torch {TORCH_VERSION}, or install lra anew with pip"
        )
    advice = f"set LRA_PYTHON to a Python {python} with torch {TORCH_VERSION}"
    # torch says so at its import; nothing here needs NumPy.
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
    # Of what an import makes nothing is garbage, and to look for it takes a part of torch's time.
    collected = gc.isenabled()
    gc.disable()
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"{sys.executable} cannot import torch ({str(error).splitlines()[0]}); lra needs torch "
            f"{TORCH_VERSION} whole: ./run check --attention python:FILE.py:Class installs the "
            f"rest; or build with LRA_CUDA=on, or {advice}"
        ) from None
    finally:
        if collected:
            gc.enable()
    found = torch.__version__.split("+")[0]
    if found != TORCH_VERSION:
        raise ImportError(
            f"lra was built for torch {TORCH_VERSION}, and {sys.executable} has torch "
            f"{torch.__version__}; {advice}, or install lra anew with pip"
        )


# The program says it in one line.
if sys.argv[:1] != ["-m"] and os.path.basename(sys.argv[0]) != "lra":
    check_torch()
