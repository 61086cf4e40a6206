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
import traceback
import types

import torch

from lra._generators import float32_by_default, random_state, seed_generators, set_random_state  # noqa: F401
from lra._imports import as_on_disk, folder_beside, folder_of, imports_from, modules_beside
from lra._objects import fault, own_buffers, own_modules

NAMED = ("file", "class", "sha256", "imports_sha256")  # options that name the class; the others are keywords
THREADS = "set the number of threads to {}; leave it, --threads says it"
DEFAULT_TYPE = "set torch's default type; leave it, and give `dtype` where tensors are made"
OFFERED = ("dim", "heads", "head_dim", "max_length", "dropout", "seed")
SAID = ("lra_causal", "lra_inputs", "lra_length_invariant")  # by attributes of a class

_loaded: dict = {}  # (file, sha256) -> (module, modules_beside() when it was loaded)
_registered: dict = {}  # (file, class) -> a class that was given and not named
_numbers, _lock = itertools.count(2), threading.Lock()  # of registered classes
_files: set = set()  # of users' sources: frames in other files are left out of tracebacks
_called = "python"  # the class that was called last: a backward function is probably its own
_calls = threading.local()  # .running: calls of forward that run in this thread
_interrupted = False  # by Ctrl-C, within what a user's code was asked for


def _refuse_forks(event, _):
    """A copy made within forward would go on with the training, without LibTorch's threads."""
    if getattr(_calls, "running", 0) and event in ("os.fork", "os.forkpty"):
        raise RuntimeError(
            "forward may not fork this process, whose threads a fork lacks; start processes by "
            "`subprocess` or the method `spawn`, or in __init__"
        )


sys.addaudithook(_refuse_forks)


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
    own = [frame for frame in frames if os.path.abspath(frame.filename) in _files] or frames
    return ", ".join(f"{os.path.basename(f.filename)}:{f.lineno} in {f.name}" for f in own[-4:])


def _told(error, trace=None):
    """One line: the exception, and where in the user's code it was raised."""
    if isinstance(error, SystemExit):
        text = f"called sys.exit({'' if error.code is None else repr(error.code)})"
    elif isinstance(error, SyntaxError):
        text = f"SyntaxError: {error.msg} ({os.path.basename(error.filename or '?')}:{error.lineno})"
    else:
        said = str(error).strip().split("\n")
        text = type(error).__name__ + (f": {said[0]}" if said[0] else "")
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
        global _interrupted
        _interrupted |= isinstance(error, KeyboardInterrupt)
        kind = OutOfMemory if _is_out_of_memory(error) else Refused
        raise kind(f"{where}: {_told(error)}") from None


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


def register(made):
    """The `file` of a class that has been defined already, for options that name it."""
    file = f"<{made.__module__}>"
    with _lock:
        while (file, made.__name__) in _registered:  # another thread's, of the same name
            file = f"<{made.__module__}, {next(_numbers)}>"
        _registered[file, made.__name__] = made
    if spec := getattr(sys.modules.get(made.__module__), "__file__", None):
        _files.add(os.path.abspath(spec))
    return file


def forget(file, name):
    """Undoes register(): what the class holds is kept no longer."""
    _registered.pop((file, name), None)


def _load(options):
    """(class, SHA-256 of its source, of each module that this imports from beside it)."""
    if given := _registered.get((options["file"], options["class"])):
        return given, "", {}
    path, text, found = _source(options)
    where = _where(options)
    _files.add(path)
    known, is_file = _loaded.get((path, found)), options["file"].endswith(".py")
    # A module that Python finds by its name stays as it was imported, and so do its hashes.
    if not known or (is_file and not as_on_disk(folder_beside(path), known[1])):
        before = set(sys.modules)
        with _told_by(where):
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
    if offered.get("causal") and "causal" in named:
        keywords["causal"] = True
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
    takes = list(inspect.signature(made.forward).parameters.values())[1:]
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
        f"({', '.join(map(str, takes))}); or say lra_inputs = 'heads' or 'layer' in "
        "the class"
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


def source(options_json):
    """The bytes of the source."""
    return _source(json.loads(options_json))[1]


class Made:
    """An object of a user's class, and how it is called."""

    def __init__(self, module, heads, where):
        self._module = module
        self._heads = heads
        self._where = where
        self._parameters = len(list(module.parameters()))
        self._looks = 3  # calls after which it is no longer looked at what forward leaves behind
        self._random = None  # the states of torch's generator before and after the call before
        self._buffers = [
            (owner, name, buffer)
            for owner in own_modules(module)
            for name, buffer in owner._buffers.items()
            if buffer is not None
        ]

    def takes_heads(self):
        return self._heads

    def length_invariant(self):
        """Whether the class promises that padding a sample further changes nothing."""
        return bool(getattr(self._module, "lra_length_invariant", False))

    def tensors(self):
        """[(path, tensor, whether it is trained)]; a tensor of two names under the first."""
        found, known = [], set()
        for place, owner in self._module.named_modules():
            own = [(n, p, p is not None and p.requires_grad) for n, p in owner._parameters.items()]
            own += [(n, b, False) for n, b in owner._buffers.items()]
            for name, tensor, trained in own:
                if tensor is None or id(tensor) in known:
                    continue
                if tensor.is_complex():
                    raise Refused(
                        f"{self._where}: {name} is complex, which checkpoints do not hold; keep "
                        "torch.view_as_real() of it, and use torch.view_as_complex()"
                    )
                if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
                    raise Refused(
                        f"{self._where}: parameter {name} has no shape yet; lazy modules cannot "
                        "be trained here, give them their sizes"
                    )
                known.add(id(tensor))
                found.append((f"{place}.{name}" if place else name, tensor, trained))
        return found

    def train(self, on):
        with _told_by(self._where):
            self._module.train(on)

    def call(self, *inputs):
        global _called
        _called = self._where
        _calls.running = getattr(_calls, "running", 0)
        try:
            _calls.running += 1
            before = self._outside() if self._looks > 0 else None
            with _told_by(self._where), self._copies_of_buffers():
                out = self._module(*inputs)
        finally:
            _calls.running -= 1
        if not isinstance(out, torch.Tensor):
            raise Refused(f"{self._where}: forward should return one tensor, not {_kind(out)}")
        if before is not None:
            self._looks -= 1
            self._check_outside(before)
            if len(list(self._module.parameters())) != self._parameters:
                raise Refused(
                    f"{self._where}: forward made parameters, which nothing trains; make them in "
                    "__init__"
                )
        for owner, name, buffer in self._buffers:
            new = owner._buffers.get(name)
            if new is not buffer:
                self._keep(owner, name, buffer, new)
        return out

    @staticmethod
    def _outside():
        return torch.get_num_threads(), torch.get_rng_state()

    def _check_outside(self, before):
        """Refuses what forward changed outside of itself."""
        (threads, state), (threads_now, state_now) = before, self._outside()
        if threads_now != threads:
            torch.set_num_threads(threads)
            raise Refused(f"{self._where}: forward {THREADS.format(threads_now)}")
        if self._random is not None:
            began, ended = self._random
            if not torch.equal(began, state) and torch.equal(ended, state_now):
                raise Refused(
                    f"{self._where}: forward seeds torch's global generator, by which the model's "
                    "dropout repeats itself at every step; draw from a torch.Generator of its own"
                )
        self._random = state, state_now

    @contextlib.contextmanager
    def _copies_of_buffers(self):
        """While there are gradients forward sees copies, as autograd may save what it reads."""
        copies = {}  # of a buffer by its id: modules may share one; and the buffer's version
        if torch.is_grad_enabled():
            for owner, name, buffer in self._buffers:
                version = 0 if buffer.is_inference() else buffer._version
                own, _ = copies.setdefault(id(buffer), (buffer.clone(), version))
                owner._buffers[name] = own
        try:
            yield
        finally:
            for owner, name, buffer in self._buffers:
                own, version = copies.get(id(buffer), (None, 0))
                if own is None or owner._buffers.get(name) is not own:
                    continue
                owner._buffers[name] = buffer
                # What x.data writes has no version: a copy counts unless the buffer was written.
                untouched = not buffer.is_inference() and buffer._version == version
                if own._version > 0 or untouched:
                    self._keep(owner, name, buffer, own)

    def _keep(self, owner, name, buffer, new):
        """A buffer that forward replaced: checkpoints hold the tensor that it was."""
        if new is None or new.shape != buffer.shape:
            raise Refused(
                f"{self._where}: forward gave the buffer {name} another shape; keep its shape"
            )
        with torch.no_grad():
            buffer.copy_(new)
        owner._buffers[name] = buffer


def _kind(value):
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return "None" if value is None else f"a {type(value).__name__}"


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
    before, cpu = random_state(), torch.random.get_rng_state()
    threads, default = torch.get_num_threads(), torch.get_default_dtype()
    try:
        seed_generators(offered["seed"])
        torch.random.default_generator.manual_seed(offered["seed"])
        with _told_by(where):
            module = made(**keywords)
    finally:
        set_to = torch.get_num_threads(), torch.get_default_dtype()
        if set_to[0] != threads:
            torch.set_num_threads(threads)
        torch.set_default_dtype(default)
        torch.random.set_rng_state(cpu)
        set_random_state(before)
    if set_to[0] != threads:
        raise Refused(f"{where}: __init__ {THREADS.format(set_to[0])}")
    if set_to[1] != default:
        raise Refused(f"{where}: __init__ {DEFAULT_TYPE}")
    if "_modules" not in vars(module):
        raise Refused(f"{where}: __init__ does not call super().__init__(); call it first")
    if text := fault(module):
        raise Refused(f"{where}: {text}")
    own_buffers(module)
    return Made(module, _takes_heads(made, where), where)


def raised_in_backward(error, trace):
    """What a backward function raised, in one line."""
    global _interrupted
    _interrupted |= isinstance(error, KeyboardInterrupt)
    return f"{_called}: {_told(error, trace)}"
