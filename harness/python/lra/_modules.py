"""Users' attentions: loads their classes, makes objects of them and calls those.

Called by harness/python/python_modules.cpp, which passes options as JSON.
"""

import contextlib
import difflib
import hashlib
import importlib
import importlib.util
import inspect
import itertools
import json
import os
import sys
import threading
import types

import torch

from lra._errors import OutOfMemory, Refused, WrongUse, _told_by, _where, interrupt, interrupts_told, own_file  # noqa: F401
from lra._generators import float32_by_default, random_state, seed_generators, set_random_state  # noqa: F401
from lra._imports import as_on_disk, folder_beside, folder_of, imports_from, modules_beside
from lra._made import Made, raised_in_backward  # noqa: F401
from lra._objects import begin, fault, own_buffers
from lra._settings import settings_kept

NAMED = ("file", "class", "sha256", "imports_sha256")  # options that name the class; the others are keywords
OFFERED = ("dim", "heads", "head_dim", "max_length", "dropout", "seed")
SAID = ("lra_causal", "lra_couples_batch", "lra_inputs", "lra_length_invariant")  # by attributes of a class

_loaded: dict = {}  # (file, sha256) -> (module, modules_beside() when it was loaded)
_kept: dict = {}  # _key() -> the module that was loaded
_copying = threading.local()  # .imports: of as_loaded(), else absent or None
_registered: dict = {}  # (file, class) -> a class that was given and not named
_numbers, _lock = itertools.count(2), threading.Lock()  # of registered classes


def _path(options):
    """The file of the class's source."""
    named = options["file"]
    where = _where(options)
    if named.endswith(".py"):
        if not os.path.isfile(named):
            raise Refused(f"{where}: there is no file '{named}'")
        return os.path.abspath(named)
    if "/" in named:
        raise WrongUse(f"{where}: '{named}' should end in .py, or be the name of a module")
    try:
        found = importlib.util.find_spec(named)
    except (ImportError, ValueError):
        found = None
    if found is None or not found.origin or not found.origin.endswith(".py"):
        raise Refused(
            f"{where}: {sys.executable} finds no module '{named}' in Python; a file's name ends in .py, "
            "a package's folder stands in PYTHONPATH"
        )
    return found.origin


def _source(options):
    """(path, bytes, SHA-256) of the source; refuses another hash than was asked for."""
    path = _path(options)
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError as error:
        raise Refused(f"{_where(options)}: the file cannot be read: {error.strerror}") from None
    found = hashlib.sha256(text).hexdigest()
    wanted = options.get("sha256", "")
    if wanted and wanted != found:
        raise Refused(
            f"{_where(options)}: the file has SHA-256 {found}, not the {wanted} that was asked "
            "for; it has changed, put the old one back or start anew"
        )
    return path, text, found


def _key(file, sha256, imports):
    return file, sha256, json.dumps(imports, sort_keys=True)


@contextlib.contextmanager
def as_loaded(imports):
    """A class whose SHA-256 is given, with these of its imports, is that which was loaded, whatever is on the disk by now."""
    _copying.imports = imports
    try:
        yield
    finally:
        _copying.imports = None


def register(made):
    """The `file` of a class that has been defined already, for options that name it."""
    file = f"<{made.__module__}>"
    with _lock:
        while (file, made.__name__) in _registered:  # another thread's, of the same name
            file = f"<{made.__module__}, {next(_numbers)}>"
        _registered[file, made.__name__] = made
    if spec := getattr(sys.modules.get(made.__module__), "__file__", None):
        own_file(spec)
    return file


def forget(file, name):
    """Undoes register(): what the class holds is kept no longer."""
    _registered.pop((file, name), None)


def _load(options):
    """(class, SHA-256 of its source, of each module that this imports from beside it)."""
    if given := _registered.get((options["file"], options["class"])):
        return given, "", {}
    where, is_file = _where(options), options["file"].endswith(".py")
    if (copied := getattr(_copying, "imports", None)) is not None:
        options = {**options, "imports_sha256": copied}
        if kept := _kept.get(_key(options["file"], options.get("sha256", ""), copied)):
            return getattr(kept, options["class"]), options["sha256"], copied
    path, text, found = _source(options)
    own_file(path)
    known = _loaded.get((path, found))
    # A module that Python finds by its name stays as it was imported, and so do its hashes.
    if not known or (is_file and not as_on_disk(folder_beside(path), known[1])):
        before = set(sys.modules)
        with settings_kept(f"{where}: the file"), _told_by(where):
            if is_file:
                name = "lra_attention_" + os.path.basename(path)[:-3]
                module = types.ModuleType(name)
                module.__file__ = path
                folder = folder_beside(path)
                with imports_from(folder):
                    sys.modules[name] = module  # dataclasses look their module up
                    exec(compile(text, path, "exec"), module.__dict__)
            else:
                module = importlib.import_module(options["file"])
                folder = folder_of(module)
            beside = modules_beside(module, text, folder, set(sys.modules) - before)
        _loaded[path, found] = known = module, beside
    module, imports = known
    _kept[_key(options["file"], found, imports)] = module
    made = getattr(module, options["class"], None)
    if not (inspect.isclass(made) and issubclass(made, torch.nn.Module)):
        classes = [
            name
            for name, value in vars(module).items()
            if inspect.isclass(value)
            and issubclass(value, torch.nn.Module)
            and value.__module__ == module.__name__
        ]
        problem = "is no torch.nn.Module" if made is not None else "is not in it"
        raise WrongUse(
            f"{where}: {options['class']} {problem}; classes there: {', '.join(classes) or 'none'}"
        )
    wanted = options.get("imports_sha256", imports)
    if wanted != imports:
        files = sorted({*wanted, *imports})
        other = [file for file in files if wanted.get(file) != imports.get(file)]
        raise Refused(
            f"{where}: what the file imports from beside it, {', '.join(other)}, has another SHA-256 "
            "than was asked for; it has changed, put the old one back or start anew"
        )
    return made, found, imports


def _keywords(made, options, offered):
    """What the constructor is called with; refuses keywords that it does not take."""
    where = _where(options)
    given = {key: value for key, value in options.items() if key not in NAMED}
    if made.__init__ is torch.nn.Module.__init__:
        parameters = {}
    else:
        parameters = dict(inspect.signature(made).parameters)
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    named = {
        name: p
        for name, p in parameters.items()
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    }
    for key, value in given.items():
        if value in ("True", "False", "None"):  # words to JSON, and a word is true
            meant = {"True": "true", "False": "false", "None": "null"}[value]
            raise WrongUse(f"{where}: {key}={value} would be a word; write {key}={meant}")
        if key not in named and not takes_any:
            near = difflib.get_close_matches(key, named, 1)
            hint = f"; did you mean '{near[0]}'?" if near else "."
            raise WrongUse(
                f"{where}: its constructor takes no keyword '{key}'{hint} It takes: "
                f"{', '.join(named) or 'none'}"
            )
    keywords = {name: offered[name] for name in OFFERED if name in named}
    if "causal" in named and (offered.get("causal") or named["causal"].default is inspect.Parameter.empty):
        keywords["causal"] = bool(offered.get("causal"))
    keywords.update(given)
    missing = [n for n, p in named.items() if p.default is p.empty and n not in keywords]
    if missing:
        raise WrongUse(
            f"{where}: its constructor needs {', '.join(missing)}; give it in brackets, as "
            f"[{missing[0]}=VALUE] (offered unasked: {', '.join(OFFERED)})"
        )
    return keywords


def _takes_heads(made, where):
    """Whether forward takes (q, k, v, mask); False: (x, mask)."""
    said = getattr(made, "lra_inputs", None)
    if said is not None:
        if said not in ("heads", "layer"):
            raise Refused(f"{where}: lra_inputs should be 'heads' or 'layer', not {said!r}")
        return said == "heads"
    bound = isinstance(inspect.getattr_static(made, "forward"), (staticmethod, classmethod))
    takes = list(inspect.signature(made.forward).parameters.values())[0 if bound else 1 :]
    parameters = [p for p in takes if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in parameters if p.default is p.empty]
    for count in (len(needed), len(parameters)):
        if count in (2, 4):
            return count == 4
    for count in (4, 2):
        if len(parameters) > count and "mask" in parameters[count - 1].name:
            return count == 4
    raise Refused(
        f"{where}: forward should take (q, k, v, mask) or (x, mask), not "
        f"{inspect.Signature(takes)}; or say lra_inputs = 'heads' or 'layer' in the class"
    )


def check(options_json):
    """The options with the SHA-256 of the source, and of its imports if it has any, as JSON."""
    options = json.loads(options_json)
    made, found, imports = _load(options)
    _takes_heads(made, _where(options))
    keywords = _keywords(made, options, dict.fromkeys(OFFERED))
    if "dropout" in keywords:  # of its own: protocols have none for attentions of Python
        options.setdefault("dropout", 0.0)
    hashes = {"imports_sha256": imports} if imports else {}
    return json.dumps({**options, "sha256": found, **hashes})


def couples_batch(options_json):
    """Whether the class says that the samples of a batch depend on each other."""
    return bool(getattr(_load(json.loads(options_json))[0], "lra_couples_batch", False))


def source(options_json):
    """The bytes of the source."""
    return _source(json.loads(options_json))[1]


def make(options_json, offered_json):
    """An object of the class."""
    options, offered = json.loads(options_json), json.loads(offered_json)
    where = _where(options)
    made = _load(options)[0]
    for name in dir(made):
        if name.startswith("lra_") and name not in SAID and not callable(getattr(made, name)):
            raise WrongUse(f"{where}: {name} says nothing; a class may say {', '.join(SAID)}")
    if offered.get("causal") and not getattr(made, "lra_causal", False):
        raise WrongUse(
            f"{where}: the model is causal, and the class does not say lra_causal = True, by which "
            "no position reads later ones; say so, or give model.causal=false"
        )
    keywords = _keywords(made, options, offered)
    this, before, cpu = begin(), random_state(), torch.random.get_rng_state()
    try:
        seed_generators(offered["seed"])
        torch.random.default_generator.manual_seed(offered["seed"])
        with settings_kept(f"{where}: __init__"), _told_by(where):
            module = made(**keywords)
    finally:
        torch.random.set_rng_state(cpu)
        set_random_state(before)
    if "_modules" not in vars(module):
        raise Refused(f"{where}: __init__ does not call super().__init__(); call it first")
    if text := fault(module, this):
        raise Refused(f"{where}: {text}")
    own_buffers(module)
    return Made(module, _takes_heads(made, where), where)
