#!/usr/bin/env python3
"""Makes tests/fixtures/torchscript-*.pt: attentions as a user would save them from Python, and some that break the contract.

    pip install torch
    python tests/parity/make_torchscript_fixtures.py tests/fixtures

The right ones:
- softmax: forward(q, k, v, mask), the formula of `standard`; nothing to learn.
- linear: forward(q, k, v, mask), the formula of `linear` with a learned slope within elu, a buffer and a fixed parameter.
- mixer: forward(x, mask), a whole layer without q, k and v: every token gets a gated mean of its sample's tokens, with dropout.

As people write them: sdpa (PyTorch's function with the mask as it is), multihead (nn.MultiheadAttention(64, 2)), elu (linear attention
whose keys are multiplied by the mask), buffered (a decay per head in a buffer, and dropout of weights). None cares for samples without
tokens, for infinite numbers at padding, or for padded rows: fragile or style, not wrong.

The wrong ones, each named after the clause of the contract that catches it: wrong_shape, wrong_type, ignores_mask, leaks (across
the batch), nan (on a sample without tokens), noise. And one whose forward takes (q, k, v): signature. The tests find them
by name; one makes them anew and compares what they compute.
"""

import sys
from pathlib import Path

import torch
from torch import Tensor, nn


def softmax_weights(q: Tensor, k: Tensor, keys: Tensor) -> Tensor:
    """softmax(q kᵀ / √d) over the keys [B,N] that are true: [B,H,N,N]."""
    scores = torch.matmul(q, k.transpose(-2, -1)) / float(q.size(-1)) ** 0.5
    return torch.softmax(scores.masked_fill(keys.logical_not()[:, None, None, :], float("-inf")), dim=-1)


def nonempty(mask: Tensor) -> Tensor:
    """mask [B,N], with the rows that are false throughout made true: their softmax is finite."""
    return mask | mask.any(dim=-1, keepdim=True).logical_not()


def zeroed(x: Tensor, mask: Tensor) -> Tensor:
    return x.masked_fill(mask.logical_not()[:, None, :, None], 0.0)


class Softmax(nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        q, k, v = zeroed(q, mask), zeroed(k, mask), zeroed(v, mask)
        return zeroed(torch.matmul(softmax_weights(q, k, nonempty(mask)), v).to(q.dtype), mask)


class Slope(nn.Module):
    def __init__(self):
        super().__init__()
        self.slope = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.elu(x * self.slope) + 1


class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.feature = Slope()
        self.scale = nn.Parameter(torch.ones(1), requires_grad=False)
        self.register_buffer("floor", torch.tensor([1e-6]))

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        query = self.feature(zeroed(q, mask)) * self.scale
        key = zeroed(self.feature(zeroed(k, mask)), mask)
        state = torch.matmul(key.transpose(-2, -1), zeroed(v, mask))
        norm = torch.matmul(query, key.sum(2).unsqueeze(-1))
        return zeroed((torch.matmul(query, state) / torch.maximum(norm, self.floor)).to(q.dtype), mask)


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(1))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        padded = mask.logical_not().unsqueeze(-1)
        x = x.masked_fill(padded, 0.0)
        count = mask.sum(dim=1, keepdim=True).unsqueeze(-1).clamp(min=1)
        mean = self.dropout(x.sum(dim=1, keepdim=True) / count)
        return (torch.sigmoid(self.gate) * mean + torch.tanh(x)).masked_fill(padded, 0.0).to(x.dtype)


class Sdpa(nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])


class Multihead(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(64, 2, batch_first=True)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.attention(x, x, x, key_padding_mask=torch.logical_not(mask), need_weights=False)[0]


class Elu(nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        query = nn.functional.elu(q) + 1
        key = (nn.functional.elu(k) + 1) * mask[:, None, :, None].to(k.dtype)
        state = torch.matmul(key.transpose(-2, -1), v)
        return torch.matmul(query, state) / (torch.matmul(query, key.sum(2).unsqueeze(-1)) + 1e-6)


class Buffered(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("decay", torch.tensor([0.01, 0.1]))  # of each of two heads, a position
        self.dropout = nn.Dropout(0.1)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        position = torch.arange(q.size(2), device=q.device, dtype=q.dtype)
        distance = (position[:, None] - position[None, :]).abs()
        scores = torch.matmul(q, k.transpose(-2, -1)) / float(q.size(-1)) ** 0.5
        scores = scores - self.decay.to(q.dtype)[None, :, None, None] * distance
        scores = scores.masked_fill(torch.logical_not(mask)[:, None, None, :], float("-inf"))
        return torch.matmul(self.dropout(torch.softmax(scores, dim=-1)), v)


class WrongShape(nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return zeroed(v, mask)[..., 1:]


class WrongType(nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return zeroed(v, mask).to(torch.float32)


class IgnoresMask(nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return zeroed(torch.matmul(softmax_weights(q, k, torch.ones_like(mask)), v), mask)


class Leaks(nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        q, k, v = zeroed(q, mask), zeroed(k, mask), zeroed(v, mask)
        out = torch.matmul(softmax_weights(q / q.abs().max().clamp(min=1e-3), k, nonempty(mask)), v)
        return zeroed(out, mask)


class Nan(nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        q, k, v = zeroed(q, mask), zeroed(k, mask), zeroed(v, mask)
        return torch.matmul(softmax_weights(q, k, mask), v) * mask[:, None, :, None].to(q.dtype)


class Noise(nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return zeroed(v + 1e-3 * torch.randn_like(v), mask)


class Signature(nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return v


def main():
    path = Path(sys.argv[1])
    path.mkdir(parents=True, exist_ok=True)
    modules = {
        "softmax": Softmax(), "linear": Linear(), "mixer": Mixer(), "sdpa": Sdpa(),
        "multihead": Multihead(), "elu": Elu(), "buffered": Buffered(), "wrong_shape": WrongShape(), "wrong_type": WrongType(),
        "ignores_mask": IgnoresMask(), "leaks": Leaks(), "nan": Nan(), "noise": Noise(), "signature": Signature()}
    for name, module in modules.items():
        file = path / f"torchscript-{name}.pt"
        torch.jit.script(module).save(str(file))
        print(file.name, file.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
