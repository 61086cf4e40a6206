"""Nyström attention of the PyPI package nystrom-attention: a peer inside the harness.

`lra check` finds that it mixes the samples of a batch.
"""

import torch
from nystrom_attention import NystromAttention
from torch import nn


class PackagedNystrom(nn.Module):
    def __init__(self, dim, heads, head_dim, landmarks=64):
        super().__init__()
        self.attention = NystromAttention(
            dim=dim, heads=heads, dim_head=head_dim, num_landmarks=landmarks
        )

    def forward(self, x, mask):
        """x [B,N,D], mask [B,N] bool (true = a token) -> [B,N,D]."""
        padding = ~mask.unsqueeze(-1)
        x = x.masked_fill(padding, 0)
        if x.dtype == torch.bfloat16:  # the package multiplies by an identity of float32
            wide = {name: p.float() for name, p in self.attention.named_parameters()}
            out = torch.func.functional_call(self.attention, wide, (x.float(), mask)).to(x.dtype)
        else:
            out = self.attention(x, mask=mask)
        return out.masked_fill(padding, 0)
