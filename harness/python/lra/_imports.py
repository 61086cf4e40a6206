"""What users' files import from beside them."""

import ast
import contextlib
import hashlib
import importlib
import os
import sys
import sysconfig

KEPT, KEPT_IMPORTS = "attention.py", "attention_imports"  # in a run's folder

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


def _installed(path, folder):
    """Whether a file of the folder came with Python or by its package manager."""
    library = sysconfig.get_paths()["stdlib"] + os.sep
    if path.startswith(library) and not folder.startswith(library):
        return True
    parts = path[len(folder) :].split(os.sep)
    return "site-packages" in parts or "dist-packages" in parts


def folder_beside(path):
    """Where a source has the modules of its own: beside it, or where a run keeps both."""
    folder, name = os.path.split(path)
    kept = os.path.join(folder, KEPT_IMPORTS)
    return kept if name == KEPT and os.path.isdir(kept) else folder


def folder_of(module):
    """Where a module that was found by its name has its own: its package; "": among others'."""
    top = sys.modules[module.__name__.partition(".")[0]]
    if places := list(getattr(top, "__path__", ())):
        return os.path.abspath(places[0])
    folder = os.path.dirname(_file_of(top))
    return "" if _installed(folder, "") else folder


def _run_at_once(node):
    """What of a syntax tree runs where the source does: not what stands in functions."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield child
            yield from _run_at_once(child)


def _names_in(text, package):
    """What may be the name of a module among what a source of that package imports."""
    for node in _run_at_once(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")[: len(package.split(".")) + 1 - node.level]
            base = ".".join((parts if node.level else []) + [node.module or ""]).strip(".")
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def modules_beside(module, text, folder, more=()):
    """{path: SHA-256} of the modules of `folder` that a loaded module imports, and those in turn.

    text: its source. By what the sources say, as modules may be loaded already; `more`: names of
    those imported in other ways. Paths are as seen from the folder; "" is no folder.
    """
    own, waits = _file_of(module), list(more)
    found: dict = {}

    def follow(module, text):
        package = getattr(module, "__package__", None) or ""
        waits.extend(_names_in(text, package))
        waits.append(package)

    follow(module, text)
    while waits and folder:
        name = waits.pop()
        if "." in name:
            waits.append(name.rpartition(".")[0])
        path = _file_of(sys.modules.get(name))
        beside = path.startswith(folder + os.sep) and path.endswith(".py")
        if not beside or path == own or path in found or _installed(path, folder):
            continue
        with open(path, "rb") as file:
            source = file.read()
        found[path] = hashlib.sha256(source).hexdigest()
        follow(sys.modules[name], source)
    return {os.path.relpath(path, folder): found[path] for path in sorted(found)}


def as_on_disk(folder, beside):
    """Whether the modules of a folder, as modules_beside() has them, are what they were."""
    for name, known in beside.items():
        try:
            with open(os.path.join(folder, name), "rb") as file:
                if hashlib.sha256(file.read()).hexdigest() != known:
                    return False
        except OSError:
            return False
    return True
