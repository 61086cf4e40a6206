"""Modules of the C++ library as torch.nn.Module."""

from typing import Any

import torch
from torch import nn

from lra import _lra, _made
from lra._errors import Refused

# On GPUs attentions run these kernels; without a driver there is nothing to load.
_lra.load_cuda(_lra.__file__)


def check_seed(seed: int) -> None:
    """Raises lra.UsageError on one that the generators do not take."""
    if not 0 <= seed < 2**64:
        raise _lra.UsageError(f"seed should be from 0 to 2**64 - 1, not {seed}")


def _never_called(self, *_, **__):
    raise _lra.Error("it is a name for tensors, never called: put hooks on the whole layer")


class Part(nn.Module):
    """A name for tensors of a C++ module, which computes as a whole."""

    forward = _never_called
    register_forward_hook = _never_called
    register_forward_pre_hook = _never_called
    register_full_backward_hook = _never_called
    register_full_backward_pre_hook = _never_called


class NativeModule(nn.Module):
    """Registers the tensors of a C++ module under their paths: they are the same tensors."""

    def __init__(self, native: Any) -> None:
        super().__init__()
        self._native = native
        self._native_mode = self.training  # of the C++ module
        # By their owners, None of this one: a reference would keep it until the next collection.
        self._places: list[tuple[nn.Module | None, str, str, torch.Tensor]] = []
        self._parts: list[tuple[nn.Module | None, str, nn.Module]] = []
        for path, tensor, trained in native.tensors():
            owner: nn.Module = self
            *folders, name = path.split(".")
            for folder in folders:
                if folder not in owner._modules:
                    part = Part()
                    owner.add_module(folder, part)
                    self._parts.append((self._unless_self(owner), folder, part))
                owner = owner._modules[folder]  # type: ignore[assignment]
            place = self._unless_self(owner)
            if trained:
                tensor._is_param = True  # to nn.Module it is a Parameter then
                owner.register_parameter(name, tensor)
                self._places.append((place, "_parameters", name, tensor))
            else:
                owner.register_buffer(name, tensor)
                self._places.append((place, "_buffers", name, tensor))

    def __copy__(self):
        # Its tensors would be those of this one, of which the C++ module has a set of its own.
        raise _lra.Error("such a layer shares its tensors with no other: use copy.deepcopy")

    def _take_places(self, native: Any) -> None:
        """In a copy: the tensors that stand in it become the native module's.

        They, and not others in their places, as whatever was copied with the layer, an optimizer
        say, has them too.
        """
        self._native = native
        self._places = []
        self._parts = []
        known = set()  # places of parts
        taken = {}  # by id: a tensor that an object of a user's class holds, and the one that is it now
        for path, tensor, trained in native.tensors():
            owner: nn.Module = self
            *folders, name = path.split(".")
            for i, folder in enumerate(folders):
                part = owner.get_submodule(folder)
                if (place_of := tuple(folders[: i + 1])) not in known:
                    known.add(place_of)
                    self._parts.append((self._unless_self(owner), folder, part))
                owner = part
            kind = "_parameters" if trained else "_buffers"
            held: dict[str, Any] = getattr(owner, kind)
            value = held[name]
            tensor.data = value.data
            tensor.requires_grad_(value.requires_grad)
            tensor.grad = value.grad
            torch._C._swap_tensor_impl(value, tensor)  # swap_tensors() asks for tensors of no other owner
            if trained:
                value._is_param = True
            self._places.append((self._unless_self(owner), kind, name, value))
            taken[id(tensor)] = tensor, value
        try:
            _made.take(taken)
        except Refused as error:
            raise _lra.Error(str(error)) from None

    def _unless_self(self, owner: nn.Module) -> nn.Module | None:
        return None if owner is self else owner

    def _keep_tensors(self) -> None:
        """The C++ module computes with its own tensors: others in their places would do nothing.

        It follows `training`, however that was set.
        """
        if torch.jit.is_tracing() or torch.compiler.is_exporting():
            raise _lra.Error(
                "such a layer cannot be traced or exported: its operators are not torch's; load "
                "its state_dict() into the same layer where it is used"
            )
        if self._native_mode != self.training:
            self.train(self.training)
        for owner, name, part in self._parts:
            if (owner or self)._modules.get(name) is not part:
                raise _lra.Error(
                    f"{name} was replaced by another module, which would do nothing; change its "
                    "tensors by copy_(), or put a layer of your own around this one"
                )
            if part.training != self.training:
                raise _lra.Error(
                    f"{name} was put into {'training' if part.training else 'evaluation'} mode "
                    "alone, which would do nothing; call train() or eval() of the whole layer"
                )
        for owner, kind, name, tensor in self._places:
            if getattr(owner or self, kind).get(name) is not tensor:
                raise _lra.Error(
                    f"{name} was replaced by another tensor, which would do nothing; copy_() into it"
                )

    def _apply(self, fn, recurse=True):
        super()._apply(fn, recurse)
        for owner, kind, name, tensor in self._places:
            place = getattr(owner or self, kind)
            moved = place[name]
            if moved is not tensor:  # buffers are replaced
                # A count of passes, which each reads: a GPU would have to be waited for.
                if name != "forwards":
                    tensor.data = moved.data
                place[name] = tensor
        return self

    def train(self, mode: bool = True):
        super().train(mode)
        self._native.train(mode)
        self._native_mode = mode
        return self
