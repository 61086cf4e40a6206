#!/usr/bin/env python3
"""Makes tests/fixtures/attend-*.safetensors: inputs, and what public implementations answer, in `lra attend`'s format.

    pip install torch transformers nystrom-attention safetensors numpy
    python tests/parity/make_nystrom_fixtures.py tests/fixtures

A fixture holds the input of `lra attend` (q, k, v [B,H,N,d], mask [B,N], param.conv.weight [H,1,K,1], grad_output) and, under
`expected.`, the peer's output and gradients, all in float64. Its metadata names the attention to compare, with the options that
reproduce the peer, and the peer. The peers' own code computes: their projections alone are replaced by the identity.

Where they differ from each other, and which option stands for what:
- transformers masks padded keys in the last softmax only: padded positions enter landmarks and convolution (padding=ignored).
  Its `inv_coeff_init_option=True` reads a key that its configuration does not have, so the exact initialisation is reached
  here by setting the module's own field (init=per_matrix); the default takes the maximum over the batch (init=global).
- nystrom-attention averages real tokens (padding=masked), takes its maxima over the batch (init=global) and pads the sequence in
  front to a multiple of the landmarks; such a case is stored with that padding in place. eps=0: its 1e-8 in the divisor of
  the means would limit the comparison. A segment of padding alone gets a uniform row in its A, which changes every output; here
  it is left out. So its cases have none.
- Rows of padded queries are whatever falls out in the peers and zero here: grad_output is zero there, and the test compares the
  other rows.
"""

import math
import sys
from pathlib import Path

import nystrom_attention
import torch
import transformers
from nystrom_attention import NystromAttention
from safetensors.torch import save_file
from torch import nn
from transformers import NystromformerConfig
from transformers.models.nystromformer.modeling_nystromformer import NystromformerSelfAttention

torch.set_default_dtype(torch.float64)


class Part(nn.Module):
    """Stands for one of three projections: hands on its third of the hidden states."""

    def __init__(self, index):
        super().__init__()
        self.index = index

    def forward(self, x):
        return x.chunk(3, dim=-1)[self.index]


def draw(seed, lengths, heads, length, width, scale=1.0, front=0):
    """q, k, v [B,H,N,d], mask [B,N], grad_output; the first `front` positions and those after a sample's length are padding."""
    torch.manual_seed(seed)
    batch = len(lengths)
    q, k, v = (torch.randn(batch, heads, length, width) * s for s in (scale, scale, 1.0))
    position = torch.arange(length)
    mask = (position >= front) & (position < front + torch.tensor(lengths).unsqueeze(1))
    grad_output = torch.randn(batch, heads, length, width) * mask[:, None, :, None]
    return q, k, v, mask, grad_output


def merged(q, k, v):
    """[B,H,N,d] x 3 -> [B,N,3*H*d], as a layer's projections would give them."""
    return torch.cat([t.transpose(1, 2).flatten(2) for t in (q, k, v)], dim=-1)


def fixture(path, name, attention, peer, inputs, run, conv_weight=None):
    q, k, v, mask, grad_output = inputs
    leaves = {"q": q.requires_grad_(), "k": k.requires_grad_(), "v": v.requires_grad_()}
    if conv_weight is not None:
        leaves["param.conv.weight"] = conv_weight
    output = run(q, k, v, mask)  # [B,H,N,d]
    assert output.dtype == torch.float64 and torch.isfinite(output).all()
    gradients = torch.autograd.grad(output, list(leaves.values()), grad_output)
    tensors = {key: leaf.detach() for key, leaf in leaves.items()}
    tensors |= {"mask": mask, "grad_output": grad_output, "expected.output": output.detach()}
    tensors |= {f"expected.grad.{key}": gradient for key, gradient in zip(leaves, gradients)}
    tensors = {key: tensor.contiguous() for key, tensor in tensors.items()}
    save_file(tensors, path / f"attend-{name}.safetensors", metadata={"attention": attention, "peer": peer})
    print(name, attention, f"{sum(t.numel() * t.element_size() for t in tensors.values()) / 1024:.0f} KiB")


def split(x, heads):
    """[B,N,H*d] -> [B,H,N,d]"""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def with_transformers(path, name, seed, lengths, heads, length, width, landmarks, kernel, init, scale=1.0):
    config = NystromformerConfig(
        hidden_size=heads * width, num_attention_heads=heads, num_landmarks=landmarks, segment_means_seq_len=length,
        conv_kernel_size=kernel or 1, attention_probs_dropout_prob=0.0)
    # The module knows None as no convolution; newer configuration classes refuse it.
    config.__dict__["conv_kernel_size"] = kernel
    inputs = draw(seed, lengths, heads, length, width, scale)
    module = NystromformerSelfAttention(config).double().eval()
    module.query, module.key, module.value = Part(0), Part(1), Part(2)
    if init == "per_matrix":
        module.init_option = "exact"

    def run(q, k, v, mask):
        bias = torch.zeros(mask.shape)[:, None, None, :].masked_fill(~mask[:, None, None, :], -1e9)
        return split(module(merged(q, k, v), attention_mask=bias)[0], heads)

    options = f"num_landmarks={landmarks},conv_kernel_size={kernel or 0},init={init},padding=ignored"
    fixture(path, f"transformers-{name}", f"nystrom[{options}]", f"transformers {transformers.__version__}", inputs, run,
            module.conv.weight if kernel else None)


def with_lucidrains(path, name, seed, lengths, heads, length, width, landmarks, kernel, iterations=6, front=0, scale=1.0):
    inputs = draw(seed, lengths, heads, length, width, scale, front)
    module = NystromAttention(
        dim=heads * width, dim_head=width, heads=heads, num_landmarks=landmarks, pinv_iterations=iterations,
        residual=kernel > 0, residual_conv_kernel=kernel or 1, eps=0.0).double().eval()
    module.to_qkv, module.to_out = nn.Identity(), nn.Identity()

    def run(q, k, v, mask):
        # The peer puts `front` positions before the sequence itself; here they are there already, and zeros to it.
        x = module(merged(q, k, v)[:, front:], mask=mask[:, front:])
        return split(nn.functional.pad(x, (0, 0, front, 0)), heads)

    options = f"num_landmarks={landmarks},conv_kernel_size={kernel},pinv_iterations={iterations},init=global,padding=masked"
    fixture(path, f"lucidrains-{name}", f"nystrom[{options}]", "nystrom-attention", inputs, run,
            module.res_conv.weight if kernel else None)


def with_torch(path, name, seed, lengths, heads, length, width, scale=1.0):
    """torch.nn.MultiheadAttention with identity projections, one sample a call where lengths differ."""
    inputs = draw(seed, lengths, heads, length, width, scale)
    size = heads * width
    module = nn.MultiheadAttention(size, heads, bias=False, batch_first=True).double().eval()
    with torch.no_grad():
        module.in_proj_weight.copy_(torch.eye(size).repeat(3, 1))
        module.out_proj.weight.copy_(torch.eye(size))

    def run(q, k, v, mask):
        q, k, v = (t.transpose(1, 2).flatten(2) for t in (q, k, v))
        return split(module(q, k, v, key_padding_mask=~mask, need_weights=True)[0], heads)

    fixture(path, f"torch-{name}", "standard", f"torch {torch.__version__} MultiheadAttention", inputs, run)


def main():
    path = Path(sys.argv[1])
    path.mkdir(parents=True, exist_ok=True)
    # transformers: N a multiple of the landmarks.
    with_transformers(path, "global", 1, [32, 20, 5], 2, 32, 8, 8, 7, "global")
    with_transformers(path, "per-matrix", 2, [32, 20, 5], 2, 32, 8, 8, 7, "per_matrix")
    with_transformers(path, "no-conv", 3, [64, 64], 2, 64, 4, 16, None, "per_matrix")
    with_transformers(path, "large-logits", 4, [40, 33], 1, 40, 8, 5, 35, "global", scale=2.5)
    with_transformers(path, "full", 5, [16, 9], 2, 16, 8, 16, 5, "global")  # as many landmarks as positions: exact attention
    # nystrom-attention
    with_lucidrains(path, "full-length", 6, [40, 40], 2, 40, 8, 8, 33)
    with_lucidrains(path, "padded", 7, [32, 31, 29], 2, 32, 8, 8, 7)  # in segments of 4: the last has a token in each
    with_lucidrains(path, "no-conv", 8, [60, 51], 2, 60, 4, 5, 0)
    with_lucidrains(path, "iterations", 9, [36, 35], 1, 36, 8, 6, 3, iterations=3)
    with_lucidrains(path, "front-padded", 10, [46, 44], 2, 48, 8, 8, 5, front=2)  # 46 tokens, 8 landmarks
    # torch
    with_torch(path, "softmax", 11, [29, 20, 1], 2, 29, 8)
    with_torch(path, "softmax-large-logits", 12, [29, 13], 1, 29, 8, scale=3.0)


if __name__ == "__main__":
    main()
