"""lra.attention: the attentions of the C++ library as layers. lra.check: the contract."""

import contextlib
import copy
import inspect
import json
import operator
import re
from typing import Any

import torch
from torch import nn

from lra import _lra, _modules
from lra._generators import exclusive
from lra._native import NativeModule, check_seed


class Attention(NativeModule):
    """A self-attention layer: projections to q, k and v, the attention, and the projection back.

    Its fused kernels run where they can (CPUs: float32, and bfloat16 under autocast). The
    global generator of torch draws its weights at the start, and its dropout.
    """

    def __init__(
        self,
        name: str,
        *,
        dim: int,
        heads: int,
        head_dim: int | None = None,
        max_length: int = 4096,
        dropout: float = 0.0,
        bias: bool = True,
        seed: int | None = None,
        layer: int = 0,
        causal: bool = False,
    ) -> None:
        """As lra.attention()."""
        sizes = {"dim": dim, "heads": heads, "head_dim": head_dim, "max_length": max_length}
        for argument, value in {**sizes, "layer": layer, "seed": seed}.items():
            if value is not None and not _is_integer(value):
                raise _lra.UsageError(f"{argument} should be an integer, not {value!r}")
        for argument, size in sizes.items():
            if size is not None and size < 1:
                raise _lra.UsageError(f"{argument} should be at least 1, not {size}")
        if not 0 <= dropout < 1:
            raise _lra.UsageError(f"dropout should be at least 0 and less than 1, not {dropout}")
        if layer < 0:
            raise _lra.UsageError(f"layer should be at least 0, not {layer}")
        if seed is None:
            seed = int(torch.randint(2**63 - 1, (), device="cpu"))
        check_seed(seed)
        if head_dim is None:
            if dim % heads != 0:
                raise _lra.UsageError(
                    f"dim={dim} cannot be shared by heads={heads} evenly; give head_dim"
                )
            head_dim = dim // heads
        context = dict(
            dim=dim,
            heads=heads,
            head_dim=head_dim,
            max_length=max_length,
            dropout=dropout,
            bias=bias,
            seed=seed,
            layer=layer,
            causal=causal,
        )
        with _modules.interrupts_told():
            native = _lra.Attention(attention=name, **context)
        super().__init__(native)
        # Some variants make their tensors in float32, whatever torch's default type.
        if (default := torch.get_default_dtype()) != torch.float32:
            self.to(default)
        self.name = name
        self._context = context
        # It draws tables beside its tensors: state_dict() holds what decides them, too.
        self._drawn_by = self._drawn(self._native)

    @property
    def options(self) -> dict[str, Any]:
        """Every option in effect, as the records of the program hold them."""
        return json.loads(self._native.options())

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """x [B,N,D], mask [B,N] bool (true = a token; None: all) -> [B,N,D].

        Rows of padded positions are zero, and what stands there changes nothing.
        """
        self._keep_tensors()
        self._check_repeat()
        if not isinstance(x, torch.Tensor):
            raise _lra.Error(f"x should be a tensor [B,N,D], not {type(x).__name__}")
        self._check_capture(x)
        if x.dim() != 3:
            raise _lra.Error(f"x should be [B,N,D], not {list(x.shape)}")
        self._check_autocast(x)
        with self._interrupts():
            return self._native.forward(x, _mask(x, 1, mask))

    def attend(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The attention without projections: q, k, v [B,H,N,d], mask [B,N] bool -> [B,H,N,d].

        reformer's keys are its queries: it reads no k, which gets no gradient.
        """
        self._keep_tensors()
        if not isinstance(q, torch.Tensor):
            raise _lra.Error(f"q should be a tensor [B,H,N,d], not {type(q).__name__}")
        self._check_capture(q)
        self._check_repeat()
        if q.dim() != 4:
            raise _lra.Error(f"q should be [B,H,N,d], not {list(q.shape)}")
        heads, head_dim = self._context["heads"], self._context["head_dim"]
        if (q.shape[1], q.shape[3]) != (heads, head_dim):
            raise _lra.Error(f"q should be of {heads} heads of {head_dim}, [B,{heads},N,{head_dim}], not {list(q.shape)}")
        self._check_autocast(q)
        with self._interrupts():
            return self._native.attend(q, k, v, _mask(q, 2, mask))

    def _check_autocast(self, x: torch.Tensor) -> None:
        device = x.device.type
        if torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) == torch.float16:
            raise _lra.Error(
                f"{self.name} takes no autocast to float16; give torch.autocast dtype=torch.bfloat16"
            )

    def _interrupts(self):
        """Ctrl-C in a class of the user's is a KeyboardInterrupt to the caller, too."""
        own = self.name.startswith("python:")
        return _modules.interrupts_told() if own else contextlib.nullcontext()

    def _check_capture(self, x: torch.Tensor) -> None:
        """Kernels of ours get the seed of a dropout from the host: a replay would have the same."""
        if not (self.training and x.is_cuda and torch.cuda.is_current_stream_capturing()):
            return
        own = any("dropout" in name and value for name, value in self.options.items())
        if own or self._context.get("dropout"):
            raise _lra.Error(
                f"{self.name} with dropout cannot be captured in a CUDA graph: every replay would "
                "drop the same; leave its dropout out, or call eval()"
            )

    def _check_repeat(self) -> None:
        """A pass that draws tables anew is another function than the one whose gradient it gives."""
        if "redraw" in self._modules and torch._C._current_graph_task_id() != -1:
            raise _lra.Error(
                f"{self.name} draws its tables anew as it goes: it cannot be computed a second time "
                "within a backward pass (activation checkpointing); leave its redraw options out"
            )

    def extra_repr(self) -> str:
        return ", ".join([repr(self.name)] + [f"{k}={v}" for k, v in self._context.items()])

    def __reduce__(self):
        left_out = ("_native", "_native_mode", "_places", "_parts")
        state = {k: v for k, v in self.__dict__.items() if k not in left_out}
        if self.name.startswith("python:"):  # whose file may be another by then
            pinned, imports = _pinned(self.name, self.options)
            return _remake, (type(self), self.name, self._context, pinned, imports), state
        return _remake, (type(self), self.name, self._context), state

    def __setstate__(self, state):
        native = self._native  # of _remake()
        super().__setstate__(state)
        self._take_places(native)
        native.train(self.training)
        self._native_mode = self.training
        self._drawn_by = self._drawn(native)

    def _seed_key(self) -> str:
        """That of nn.Module's extra state, unless a subclass has one of its own."""
        own = type(self).get_extra_state is not nn.Module.get_extra_state
        return "_seed" if own else "_extra_state"

    def _drawn(self, native) -> str:
        """What decides the tables that it draws: "seed", "layer", or "" where nothing does."""
        return "seed" if "redraw" in self._modules else native.tables_from()

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        key, own = prefix + self._seed_key(), self._context.get(self._drawn_by)
        if self._drawn_by == "seed":
            destination[key] = torch.tensor(own if own < 2**63 else own - 2**64)
        elif self._drawn_by == "layer":
            destination[key] = torch.tensor([own])  # [1], as older dicts hold a seed, []

    def _load_from_state_dict(self, state_dict, prefix, local, strict, missing, unexpected, errors):
        key, by, own = prefix + self._seed_key(), self._drawn_by, self._context.get(self._drawn_by)
        given = own
        if by == "seed" and key in state_dict:  # older dicts lack it
            given = int(state_dict[key]) % 2**64
        elif by == "layer" and key in state_dict:
            given = int(state_dict[key][0]) if state_dict[key].dim() == 1 else 0
        if given != own:
            raise _lra.Error(
                f"{self.name} draws tables from its {by}: this layer was made with {own}, and what "
                f"is loaded with {given}; make it by lra.attention(..., {by}={given})"
            )
        super()._load_from_state_dict(
            state_dict, prefix, local, strict, missing, unexpected, errors
        )
        # Earlier dicts hold the seed of every layer with tables.
        if (by or self._native.drawn_tables()) and key in unexpected:
            unexpected.remove(key)


SeededAttention = Attention  # to older pickles


def _mask(x: torch.Tensor, axis: int, mask: torch.Tensor | None) -> torch.Tensor:
    if mask is None:
        mask = torch.ones(x.shape[0], x.shape[axis], dtype=torch.bool, device=x.device)
    if not isinstance(mask, torch.Tensor):
        raise _lra.Error(f"mask should be a bool tensor [B,N], not {type(mask).__name__}")
    return mask


def _is_integer(value) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def _pinned(name, options):
    """The name of a user's class with the SHA-256 of its source, and those of what it imports."""
    start = len("python:") + len(options["file"])
    named, bracket, given = name[start:].partition("[")
    if not re.search(r"(^|,)\s*sha256\s*=", given):
        name = f"{name[:start]}{named}[sha256={options['sha256']}{',' if bracket else ']'}{given}"
    return name, options.get("imports_sha256", {})


def _remake(cls, name, context, pinned="", imports=None):
    """pinned, imports: _pinned() of a user's class; older pickles lack them."""
    made = cls.__new__(cls)
    with torch.random.fork_rng(devices=[]), _modules.as_loaded(imports):  # the weights drawn here do not stay
        Attention.__init__(made, pinned or name, **context)
    return made


def attention(
    name: str,
    *,
    dim: int,
    heads: int,
    head_dim: int | None = None,
    max_length: int = 4096,
    dropout: float = 0.0,
    bias: bool = True,
    seed: int | None = None,
    layer: int = 0,
    causal: bool = False,
) -> Attention:
    """A layer of the attention that `name` names, as "nystrom[num_landmarks=64]".

    dim: D, the width of x. heads: H. head_dim: d, by default dim // heads. max_length: the longest
    N; some attentions have parameters for it. dropout: the model's, which `mega` reads; that of
    others is an option, "standard[dropout=0.1]", and an error here. bias: of the projections, where
    there are some. seed: of random projections, hashes, patterns and Linformer's tables;
    without it they differ from layer to layer, by torch's global generator, from which the weights
    are drawn. Of attentions that draw tables besides (reformer, bigbird, skyformer, performer that
    redraws) state_dict() holds it, and a layer of another seed refuses to load that. layer: its number
    in a model, from which `bigbird[random_range=...]` draws in the place of the seed, as published.
    causal: no position reads later ones; an error of attentions without such a form. Raises lra.UsageError on an unknown
    name or option, and on a number out of range.
    """
    if not isinstance(name, str):
        raise _lra.UsageError(
            'name should be text, as "nystrom" or "python:my.py:MyAttention", not '
            f"{name!r}; a class of your own is a module already"
        )
    return Attention(
        name,
        dim=dim,
        heads=heads,
        head_dim=head_dim,
        max_length=max_length,
        dropout=dropout,
        bias=bias,
        seed=seed,
        layer=layer,
        causal=causal,
    )


class Check:
    """What lra.check found.

    holds: whether all clauses hold. wrong, fragile, style: the names of those that do not, by
    grade. clauses: a dict each, with `clause`, `promise`, `holds`, `measured` and, where it failed,
    `grade` and `hint`. Printed, it is a line a clause.
    """

    def __init__(self, name: str, record: dict[str, Any]) -> None:
        self.name = name
        self.holds: bool = record["holds"]
        self.wrong: list[str] = record["wrong"]
        self.fragile: list[str] = record["fragile"]
        self.style: list[str] = record["style"]
        self.clauses: list[dict[str, Any]] = record["clauses"]

    def __bool__(self) -> bool:
        return self.holds

    def __repr__(self) -> str:
        lines = []
        for clause in self.clauses:
            if clause["holds"]:
                lines.append(f"{clause['clause']}: holds ({clause['measured']})")
            else:
                lines.append(f"{clause['clause']}: FAILS, {clause['grade']} ({clause['measured']})")
                lines.append(f"  hint: {clause['hint']}")
        held = sum(clause["holds"] for clause in self.clauses)
        lines.append(f"{self.name}: {held} of {len(self.clauses)} clauses tried hold")
        return "\n".join(lines)


def check(
    attention: str | type[nn.Module] | nn.Module,
    *,
    dim: int | None = None,
    heads: int | None = None,
    head_dim: int | None = None,
    protocol: str = "lra-strict",
    task: str | None = None,
    causal: bool = False,
    device: str | torch.device = "cpu",
) -> Check:
    """Tries the contract on an attention, as `lra check` does. Generators are left as they were.

    attention: a name, a class as docs/python.md describes it, or an object, of which copies are
    tried: then dim, heads and head_dim have to be those that it was made for. They are the
    protocol's by default; dim is heads times head_dim if one of these is given. task: tries too
    whether each token can change the answer of the protocol's model for it. causal: tries its
    causal form, whose position i reads no later one. Calls of several threads wait for each other, as
    it seeds torch's global generators. Raises lra.UsageError on what is none of these, and on a size
    below 1.
    """
    for argument, size in {"dim": dim, "heads": heads, "head_dim": head_dim}.items():
        if size is not None and size < 1:
            raise _lra.UsageError(f"{argument} should be at least 1, not {size}")
    own_class = registered = ""
    attention = getattr(attention, "_orig_mod", attention)  # of torch.compile
    is_module = inspect.isclass(attention) and issubclass(attention, nn.Module)
    if not (isinstance(attention, (str, nn.Module)) or is_module):
        raise _lra.UsageError(
            "attention should be a name, a class of torch.nn.Module or an object of one, not "
            f"{attention!r}"
        )
    if isinstance(attention, nn.Module):
        attention = _copies_of(attention)
    if inspect.isclass(attention):
        own_class = attention.__name__
        name = registered = _modules.register(attention)
    else:
        name = attention
    try:
        # The clauses on gradients ask for them, whatever the caller computes without.
        with (
            exclusive,
            torch.inference_mode(False),
            torch.enable_grad(),
            _modules.float32_by_default(),
            _modules.interrupts_told(),
        ):
            record = _lra.check(
                attention=name,
                own_class=own_class,
                dim=dim or 0,
                heads=heads or 0,
                head_dim=head_dim or 0,
                protocol=protocol,
                task=task or "",
                causal=causal,
                device=str(device),
            )
    finally:
        _modules.forget(registered, own_class)
    return Check(own_class or name, json.loads(record))


def _copies_of(module: nn.Module) -> type[nn.Module]:
    """A class whose objects are copies of the module."""
    try:
        copy.deepcopy(module)
    except Exception as error:
        said = str(error).split("\n")[0]
        kept = ": it was called, and keeps a tensor of that call; keep it detached" if "deepcopy protocol" in said else ""
        raise _lra.UsageError(
            f"{type(module).__name__} cannot be copied ({type(error).__name__}: {said}){kept}. Give the class, or a fresh object"
        ) from None

    class Copy(type(module)):  # type: ignore[misc]
        def __new__(cls):
            return copy.deepcopy(module)

        def __init__(self):
            raise AssertionError("__new__ makes an object of another class")

    Copy.__name__ = type(module).__name__
    Copy.__module__ = type(module).__module__
    return Copy
