"""What users' files import from beside them."""

import contextlib
import importlib
import os
import sys

_folders: set = set()  # of users' files, each with a separator at its end
_stamps: dict = {}  # file of a module that these imported -> when it was changed


def _file_of(module):
    """Its path; "" of one that has none. Asked of its dictionary: some modules make up attributes."""
    path = getattr(module, "__dict__", {}).get("__file__")
    return os.path.abspath(path) if isinstance(path, str) and path else ""


def _changed_at(path):
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None


@contextlib.contextmanager
def imports_from(folder):
    """What is imported within from beside a file is its own, and as it is now.

    Modules stay loaded under their names: those of other folders of the same names, and those
    changed since, make way. Whoever imported them keeps them.
    """
    _folders.add(folder + os.sep)
    for name, module in list(sys.modules.items()):
        loaded = _file_of(module)
        if not loaded.startswith(tuple(_folders)):
            continue
        path = os.path.join(folder, *name.split("."))
        own = (path + ".py", os.path.join(path, "__init__.py"))
        if loaded in own:
            stays = _stamps.get(loaded) in (None, _changed_at(loaded))
        else:
            stays = not any(os.path.isfile(file) for file in own)
        if not stays:
            del sys.modules[name]
            _stamps.pop(loaded, None)
    if folder in sys.path:
        sys.path.remove(folder)
    sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        for module in list(sys.modules.values()):
            loaded = _file_of(module)
            if loaded.startswith(folder + os.sep):
                _stamps.setdefault(loaded, _changed_at(loaded))
