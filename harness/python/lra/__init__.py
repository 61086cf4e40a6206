"""The Long Range Arena: attentions, tasks and the program `lra`, from Python.

`python3 -m lra` is the program's command line. Attentions of one's own are classes of Python:
docs/python.md.
"""

import sys
import warnings

from lra._build import TORCH_VERSION, VERSION as __version__


def check_torch():
    """Raises ImportError unless the torch that _lra was built against can be loaded here."""
    python = ".".join(map(str, sys.version_info[:2]))
    advice = f"set LRA_PYTHON to a Python {python} with torch {TORCH_VERSION}"
    # torch says so at its import; nothing here needs NumPy.
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"{sys.executable} cannot import torch ({str(error).splitlines()[0]}); lra needs torch "
            f"{TORCH_VERSION} whole: build with LRA_CUDA=on, or {advice}"
        ) from None
    found = torch.__version__.split("+")[0]
    if found != TORCH_VERSION:
        raise ImportError(
            f"lra was built for torch {TORCH_VERSION}, and {sys.executable} has torch "
            f"{torch.__version__}; {advice}"
        )


if sys.argv[:1] != ["-m"]:  # python3 -m lra says it in one line
    check_torch()
