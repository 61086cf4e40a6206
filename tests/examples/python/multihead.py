"""PyTorch's own multi-head attention as a whole layer."""

import torch
from torch import nn


class MultiheadAttention(nn.Module):
    def __init__(self, dim, heads, dropout=0.0):
        super().__init__()
        self.attention = nn.MultiheadAttention(dim, heads, dropout=dropout, batch_first=True)

    def forward(self, x, mask):
        """x [B,N,D], mask [B,N] bool (true = a token) -> [B,N,D]."""
        padding = ~mask.unsqueeze(-1)
        x = x.masked_fill(padding, 0)
        # A sample of padding alone would be 0/0: it attends to its zeros.
        ignored = ~mask & mask.any(1, keepdim=True)
        out, _ = self.attention(x, x, x, key_padding_mask=ignored, need_weights=False)
        return out.masked_fill(padding, 0)
