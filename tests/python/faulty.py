"""Attentions that go wrong, for test_modules.py and tests/harness/commands/python_test.cpp."""

import multiprocessing
import os
import random
import subprocess
import sys

import lra
import torch
from torch import nn


class Right(nn.Module):
    """Zeroes padding, and that is all."""

    def forward(self, q, k, v, mask):
        return v.masked_fill(~mask[:, None, :, None], 0)


class Layer(nn.Module):
    def __init__(self, dim, width=8, bias=True):
        super().__init__()
        self.linear = nn.Linear(dim, dim, bias=bias)
        self.shape = (dim, width)

    def forward(self, x, mask=None):
        return self.linear(x)


class Causal(nn.Module):
    """The mean of what has been seen so far."""

    lra_causal = True

    def __init__(self, causal=None):
        super().__init__()
        self.causal = causal

    def forward(self, q, k, v, mask):
        seen = mask[:, None, :, None]
        v = v.masked_fill(~seen, 0)
        total = v.cumsum(2) if self.causal else v.sum(2, keepdim=True).expand_as(v)
        return (total / (1 + seen.sum(2, keepdim=True))).masked_fill(~seen, 0)


class DropsInEvaluation(nn.Module):
    """Its dropout stays on in evaluation."""

    def __init__(self, dropout):
        super().__init__()
        self.dropout = dropout

    def forward(self, q, k, v, mask):
        v = nn.functional.dropout(v, self.dropout)
        return v.masked_fill(~mask[:, None, :, None], 0)


class Exact(nn.Module):
    """A parameter of float64, which float32 cannot be multiplied by."""

    def __init__(self, head_dim):
        super().__init__()
        self.weight = nn.Parameter(torch.eye(head_dim, dtype=torch.float64))

    def forward(self, q, k, v, mask):
        return (v @ self.weight).masked_fill(~mask[:, None, :, None], 0)


class Complex(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("phases", torch.ones(3, dtype=torch.complex64))

    def forward(self, q, k, v, mask):
        return v.masked_fill(~mask[:, None, :, None], 0)


class Noisy(nn.Module):
    """Draws from Python's generator and from torch's, and replaces a buffer."""

    def __init__(self, head_dim, dropout):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(head_dim, head_dim) / head_dim**0.5)
        self.register_buffer("mean", torch.zeros(head_dim))
        self.dropout = nn.Dropout(dropout)

    def forward(self, q, k, v, mask):
        padding = ~mask[:, None, :, None]
        v = v.masked_fill(padding, 0)
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * v.detach().mean((0, 1, 2))
            v = v * (1 + 0.1 * random.random())
        out = self.dropout((v - self.mean) @ self.weight).cumsum(2) / 64
        return out.masked_fill(padding, 0)


class NeedsGamma(Right):
    def __init__(self, gamma):
        super().__init__()


class InitRaises(Right):
    def __init__(self):
        super().__init__()
        self.helper()

    def helper(self):
        raise ValueError("a bad start")


class ForwardRaises(Right):
    def forward(self, q, k, v, mask):
        return self.inner(q)

    def inner(self, q):
        return q + q[:, :, :, :3]


class NoGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        raise KeyError("no gradient today")


class BackwardRaises(Right):
    def forward(self, q, k, v, mask):
        return super().forward(q, k, NoGradient.apply(v), mask)


class GivesTuple(Right):
    def forward(self, q, k, v, mask):
        return v, None


class GivesNone(Right):
    def forward(self, q, k, v, mask):
        pass


class Seeds(Right):
    def forward(self, q, k, v, mask):
        torch.manual_seed(3)
        return super().forward(q, k, v, mask) * torch.rand(())


class Threads(Right):
    def forward(self, q, k, v, mask):
        torch.set_num_threads(torch.get_num_threads() + 1)
        return super().forward(q, k, v, mask)


class KeepsExtraState(Right):
    def get_extra_state(self):
        return 1


class KeepsATensor(Right):
    def __init__(self):
        super().__init__()
        self.inner = nn.Identity()
        self.inner.scale = torch.ones(3, requires_grad=True)


class KeepsLayers(Right):
    def __init__(self):
        super().__init__()
        self.layers = {"all": [nn.Linear(2, 2)]}


class KeepsInOrder(Right):
    """What is registered may stand elsewhere too."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 2)])
        self.normed = torch.nn.utils.weight_norm(nn.Linear(2, 2))
        self.order = [self.layers[0], self.layers[0].weight, torch.ones(3), nn.ReLU()]
        self.order.append(self.order)
        object.__setattr__(self, "same", nn.Sequential(self.layers[0]))


class Misspelt(Right):
    lra_casual = True


TABLE, PROJECTION = torch.arange(8.0), torch.nn.Linear(4, 4)


class SharesATable(Right):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", TABLE)
        self.register_buffer("again", TABLE)


class HoldsALayer(torch.nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.layer = lra.attention("performer[num_features=8]", dim=dim, heads=heads)

    def forward(self, x, mask):
        return self.layer(x, mask)


class SharesAParameter(Right):
    def __init__(self):
        super().__init__()
        self.projection = PROJECTION


class WrongShape(Right):
    def forward(self, q, k, v, mask):
        return v[:, :, 1:]


class WrongType(Right):
    def forward(self, q, k, v, mask):
        return super().forward(q, k, v, mask).half()


class WrongDevice(Right):
    def forward(self, q, k, v, mask):
        return super().forward(q, k, v, mask).to("meta")


class MakesParameters(Right):
    def forward(self, q, k, v, mask):
        if not hasattr(self, "scale"):
            self.scale = nn.Parameter(torch.ones(()))
        return v * self.scale


class ReshapesBuffer(Right):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, q, k, v, mask):
        self.seen = torch.zeros(2)
        return v


class Lazy(Right):
    def __init__(self):
        super().__init__()
        self.linear = nn.LazyLinear(3)


class Exits(Right):
    def forward(self, q, k, v, mask):
        sys.exit(3)


class Forks(Right):
    def forward(self, q, k, v, mask):
        os.fork()
        return v


class ForksWorkers(Right):
    def forward(self, q, k, v, mask):
        with multiprocessing.get_context("fork").Pool(1) as pool:
            pool.map(abs, [1])
        return v


class Spawns(Right):
    def forward(self, q, k, v, mask):
        subprocess.run(["true"], check=True)
        return super().forward(q, k, v, mask)


class Prints(Right):
    def forward(self, q, k, v, mask):
        print("printed by forward")
        return super().forward(q, k, v, mask)


class BreaksPromise(Right):
    lra_length_invariant = True

    def forward(self, q, k, v, mask):
        """A mean over all positions, padded ones too."""
        mean = v.masked_fill(~mask[:, None, :, None], 0).mean(2, keepdim=True)
        return mean.masked_fill(~mask[:, None, :, None], 0).expand_as(v).contiguous()


class Coupled(Right):
    lra_couples_batch = True

    def forward(self, q, k, v, mask):
        out = super().forward(q, k, v, mask)
        return out / out.abs().amax().clamp_min(1)


class OutOfMemory(Right):
    def forward(self, q, k, v, mask):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")


class AnyInputs(Right):
    def forward(self, *inputs, scale=1):
        return inputs[0]


class ThreeInputs(Right):
    def forward(self, a, b, c):
        return a


class Said(Right):
    lra_inputs = "layer"

    def forward(self, a, b, c=None, d=None):
        return a


class NoModule:
    pass


class SetsThreads(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.set_num_threads(torch.get_num_threads() + 1)

    def forward(self, x, mask):
        return x


class SetsThreadsAndRaises(SetsThreads):
    def __init__(self):
        super().__init__()
        raise ValueError("no")


class SetsType(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.set_default_dtype(torch.float64)

    def forward(self, x, mask):
        return x


class Unprintable(torch.nn.Module):
    def forward(self, q, k, v, mask):
        raise ValueError("half a \ud800 character")


class NoSuper(torch.nn.Module):
    def __init__(self):
        self.width = 1

    def forward(self, x, mask):
        return x
