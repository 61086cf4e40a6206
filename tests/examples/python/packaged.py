"""Nyström attention of the PyPI package nystrom-attention: a peer inside the harness."""

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
        out = self.attention(x.masked_fill(padding, 0), mask=mask)
        return out.masked_fill(padding, 0)
