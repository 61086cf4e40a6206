"""Objects of users' classes, and how they are called."""

import contextlib
import sys
import threading
import weakref

import torch

from lra._errors import Refused, _told, _told_by, interrupt
from lra._objects import own_modules, untrained
from lra._settings import settings_kept

_called = "python"  # the class that was called last: a backward function is probably its own
_calls = threading.local()  # .running: calls of forward that run in this thread
_all: weakref.WeakSet = weakref.WeakSet()  # every Made


def _refuse_forks(event, _):
    """A copy made within forward would go on with the training, without LibTorch's threads."""
    if getattr(_calls, "running", 0) and event in ("os.fork", "os.forkpty"):
        raise RuntimeError(
            "forward may not fork this process, whose threads a fork lacks; start processes by "
            "`subprocess` or the method `spawn`, or in __init__"
        )


sys.addaudithook(_refuse_forks)


def take(taken):
    """Puts others in the places of tensors, {id: (tensor, the other)}, wherever objects have them.

    A copied layer computes with the tensors that were copied, as an optimizer may have those.
    """
    for made in list(_all):
        made.take(taken)


class Made:
    """An object of a user's class, and how it is called."""

    def __init__(self, module, heads, where):
        self._module = module
        self._heads = heads
        self._where = where
        self._owners = own_modules(module)
        self._named = self._persistent()
        self._given: list = []  # of the call before: buffers' copies, and their versions at its end
        self._looks = 3  # calls after which it is no longer looked at whether forward seeds
        self._random = None  # the states of torch's generator before and after the call before
        self._look()
        _all.add(self)

    def _look(self):
        self._parameters = list(self._module.parameters())
        self._buffers = [
            (owner, name, buffer)
            for owner in self._owners
            for name, buffer in owner._buffers.items()
            if buffer is not None
        ]

    def take(self, taken):
        found = False
        for owner in self._owners:
            for held in (owner._parameters, owner._buffers):
                for name, tensor in list(held.items()):
                    if id(tensor) not in taken:
                        continue
                    found, other = True, taken[id(tensor)][1]
                    if isinstance(other, torch.nn.Parameter):
                        setattr(owner, name, other)  # parts of torch that keep lists, as nn.LSTM, learn of it
                    held[name] = other
        if not found:
            return
        self._look()
        if name := untrained(self._module):
            raise Refused(
                f"{self._where}: a copy of it would go on with tensors that it keeps aside in {name}; "
                "look them up in forward, by their registered names"
            )

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
            state = torch.get_rng_state() if self._looks > 0 else None
            self._check_backward()
            with settings_kept(f"{self._where}: forward"), _told_by(self._where), self._copies_of_buffers():
                out = self._module(*inputs)
        finally:
            _calls.running -= 1
        if not isinstance(out, torch.Tensor):
            raise Refused(f"{self._where}: forward should return one tensor, not {_kind(out)}")
        if state is not None:
            self._looks -= 1
            self._check_seed(state)
        self._check_tensors()
        for owner, name, buffer in self._buffers:
            new = owner._buffers.get(name)
            if new is not buffer:
                self._keep(owner, name, buffer, new)
        return out

    def _persistent(self):
        """The names of the buffers that checkpoints hold."""
        return {
            (owner, name)
            for owner in self._owners
            for name, buffer in owner._buffers.items()
            if buffer is not None and name not in owner._non_persistent_buffers_set
        }

    def _check_tensors(self):
        """Refuses tensors that forward made: neither optimizer nor checkpoints know them."""
        now = list(self._module.parameters())
        if len(now) != len(self._parameters):
            raise Refused(
                f"{self._where}: forward made parameters, which nothing trains; make them in __init__"
            )
        if any(one is not other for one, other in zip(now, self._parameters)):
            raise Refused(
                f"{self._where}: forward put other parameters in the places of its own, which nothing "
                "trains; write into those by copy_() under torch.no_grad()"
            )
        if new := self._persistent() - self._named:
            name = min(name for _, name in new)
            raise Refused(
                f"{self._where}: forward made the buffer {name}, which no checkpoint holds; make it in "
                "__init__, or, where it can be made again, with persistent=False"
            )

    def _check_backward(self):
        """Refuses what a backward function wrote into the copy of a buffer that it was given."""
        for name, own, version in self._given:
            if own._version != version:
                raise Refused(
                    f"{self._where}: backward wrote into the buffer {name}, of which it has a copy, so "
                    "that it would be lost; write into buffers in forward"
                )

    def _check_seed(self, state):
        """Refuses a forward that seeds torch's generator, whose state was `state` before it."""
        state_now = torch.get_rng_state()
        if self._random is not None:
            began, ended = self._random
            drew = not torch.equal(state, state_now)
            if drew and not torch.equal(began, state) and torch.equal(ended, state_now):
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
            self._given = []
            for owner, name, buffer in self._buffers:
                own, version = copies.get(id(buffer), (None, 0))
                if own is None or owner._buffers.get(name) is not own:
                    continue
                owner._buffers[name] = buffer
                self._given.append((name, own, own._version))
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


def raised_in_backward(error, trace):
    """What a backward function raised, in one line."""
    if isinstance(error, KeyboardInterrupt):
        interrupt()
    return f"{_called}: {_told(error, trace)}"
