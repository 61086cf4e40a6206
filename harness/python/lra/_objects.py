"""What objects of a user's class hold. A model has one a layer, and trying what attentions promise makes more of them, of
other types, so that no tensor may be of two."""

import collections
import functools
import itertools
import os
import sys
import types

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from lra._errors import is_own

_objects = itertools.count()
_holders = WeakTensorKeyDictionary()  # parameter -> the object that it was first seen in


def extra_state(module):
    """The class of a part that keeps state which no checkpoint holds; None where none does."""
    for part in module.modules():
        own = type(part).get_extra_state is not torch.nn.Module.get_extra_state
        if own and not type(part).__module__.startswith("lra."):
            return type(part).__name__
    return None


def own_modules(module):
    """Its parts but for layers of lra and theirs, which compute with the tensors that they made."""
    of_lra = {
        part
        for layer in module.modules()
        if any(base.__module__.startswith("lra.") for base in type(layer).__mro__)
        for part in layer.modules()
    }
    return [part for part in module.modules() if part not in of_lra]


def _held(value):
    """What a container holds, or a function or an object of the user's; nothing of all else."""
    if isinstance(value, (list, tuple, set, frozenset, collections.deque)):
        return list(value)
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, types.MethodType):
        return [value.__self__]
    if isinstance(value, types.FunctionType):
        within = [cell.cell_contents for cell in value.__closure__ or () if cell != types.CellType()]
        return [*within, *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    if isinstance(value, type):
        return []
    source = getattr(sys.modules.get(type(value).__module__), "__file__", None)
    own = type(value).__module__ == "__main__" or (source and is_own(os.path.abspath(source)))
    if not own:
        return []
    slots = [base.__dict__.get("__slots__", ()) for base in type(value).__mro__]
    names = [name for of in slots for name in ((of,) if isinstance(of, str) else of)]
    return [*getattr(value, "__dict__", {}).values(), *(getattr(value, name, None) for name in names)]


def untrained(module):
    """The place of a tensor that asks for gradients, or of a layer with such, which the object keeps aside; None where there
    is none."""
    known = {id(parameter) for parameter in module.parameters()}
    of_torch, seen = vars(torch.nn.Module()), set()

    def is_aside(value):
        waits = [value]
        while waits:
            value = waits.pop()
            if id(value) in seen:
                continue
            if isinstance(value, torch.nn.Module):
                waits.extend(value.parameters())
            elif isinstance(value, torch.Tensor):
                # What was computed from parameters is no leaf, as a weight that a norm of it stands for.
                if value.requires_grad and value.is_leaf and id(value) not in known:
                    return True
            elif held := _held(value):
                seen.add(id(value))
                waits.extend(held)
        return False

    for part in own_modules(module):
        for name, value in vars(part).items():
            if name not in of_torch and is_aside(value):
                return f"{type(part).__name__}.{name}"
    return None


def own_buffers(module):
    """Gives the object copies of its buffers: a table of the file, registered by each object, would be one tensor of all, and
    change with the first that is moved."""
    copies = {}
    for owner in own_modules(module):
        for name, buffer in owner._buffers.items():
            if buffer is not None:
                owner._buffers[name] = copies.setdefault(id(buffer), (buffer, buffer.detach().clone()))[1]


def begin():
    """The number of an object, which those that its constructor makes come after."""
    return next(_objects)


def shared_parameter(module, this):
    """The name of a parameter that an object from before this one was seen to have; None where there is none."""
    for name, tensor in module.named_parameters():
        if _holders.setdefault(tensor, this) < this:
            return name
        _holders[tensor] = this  # of one that it made and holds
    return None


def fault(module, this):
    """What an object may not hold, and what to do; None where it holds nothing of the kind. this: its begin()."""
    if part := extra_state(module):
        return (
            f"{part} keeps state by get_extra_state(), which checkpoints do not hold; keep it in buffers, by "
            "register_buffer()"
        )
    if name := untrained(module):
        return (
            f"it keeps {name}, which is not registered, so that nothing trains it and no checkpoint has it; make it a "
            "torch.nn.Parameter, and a list of layers a torch.nn.ModuleList"
        )
    if name := shared_parameter(module, this):
        return (
            f"parameter {name} is that of another object of the class too, so that layers would train one tensor; make it "
            "in __init__"
        )
    return None
