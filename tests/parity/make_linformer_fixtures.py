#!/usr/bin/env python3
"""Makes tests/fixtures/attend-linformer-*.safetensors: inputs, and what the package linformer answers.

    pip install torch linformer==0.2.3 safetensors numpy
    python tests/parity/make_linformer_fixtures.py tests/fixtures

The package's LinformerSelfAttention computes; its linear layers alone are replaced by the identity. All in float64.

Where it differs:
- Its projections proj_k, proj_v are [N,k]: the transposes of projection.key, projection.value [k,N].
- It knows no mask. It is given k and v with padded rows zeroed, which is what the mask does here.
- It has one projection for all heads (sharing=headwise). sharing=none and heads_only run it head by head, each with a
  projection of its own.
- Its share_kv makes v the same as k besides sharing the projection. sharing=key_value and heads_only give it one parameter as
  both proj_k and proj_v instead, so that k and v stay apart.
"""

import sys
from pathlib import Path

import torch
from attend_fixture import draw, save
from linformer.linformer import LinformerSelfAttention
from torch import nn

torch.set_default_dtype(torch.float64)


class Part(nn.Module):
    """Stands for one of three projections: hands on its third of the hidden states."""

    def __init__(self, index):
        super().__init__()
        self.index = index

    def forward(self, x):
        return x.chunk(3, dim=-1)[self.index]


def peer(q, k, v, key, value):
    """q, k, v [B,H,N,d], key and value [k,N] -> [B,H,N,d]"""
    batch, heads, length, width = q.shape
    module = LinformerSelfAttention(heads * width, length, k=key.shape[0], heads=heads).double().eval()
    module.to_q, module.to_k, module.to_v, module.to_out = Part(0), Part(1), Part(2), nn.Identity()
    del module.proj_k, module.proj_v
    module.proj_k, module.proj_v = key.T, value.T  # functions of the leaves, so that gradients reach them
    x = torch.cat([t.transpose(1, 2).flatten(2) for t in (q, k, v)], dim=-1)
    return module(x).unflatten(-1, (heads, width)).transpose(1, 2)


def case(path, name, sharing, seed, lengths, heads, length, width, projected, scale=1.0):
    inputs = draw(seed, lengths, heads, length, width, scale)
    per_head = sharing in ("none", "heads_only")
    shape = (heads, projected, length) if per_head else (projected, length)
    # Of a size at which the weights of the softmax are neither even nor all on one key.
    parameters = {"projection.key": torch.randn(shape) * length**-0.5}
    if sharing in ("headwise", "none"):
        parameters["projection.value"] = torch.randn(shape) * length**-0.5

    def run(q, k, v, mask, **given):
        key = given["projection.key"]
        value = given.get("projection.value", key)
        k, v = (torch.where(mask[:, None, :, None], t, 0.0) for t in (k, v))
        if not per_head:
            return peer(q, k, v, key, value)
        return torch.cat([peer(q[:, [h]], k[:, [h]], v[:, [h]], key[h], value[h]) for h in range(heads)], dim=1)

    attention = f"linformer[projected_length={projected},sharing={sharing}]"
    save(path / f"attend-linformer-{name}.safetensors", attention, "linformer 0.2.3", inputs, run, parameters)


def main():
    path = Path(sys.argv[1])
    path.mkdir(parents=True, exist_ok=True)
    case(path, "headwise", "headwise", 21, [23, 16, 5], 2, 23, 6, 8)
    case(path, "none", "none", 22, [19, 19, 7], 2, 19, 6, 6)
    case(path, "key-value", "key_value", 23, [31, 30], 2, 31, 4, 5)
    case(path, "heads-only", "heads_only", 24, [20, 11], 3, 20, 4, 4)
    case(path, "longer-than-n", "headwise", 25, [9, 4, 1], 2, 9, 4, 16)  # more rows than positions
    case(path, "large-logits", "headwise", 26, [37, 13], 1, 37, 8, 8, scale=4.0)


if __name__ == "__main__":
    main()
