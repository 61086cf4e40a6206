"""Exact attention with rotary positions (Su et al., 2021) and scaled_dot_product_attention."""

import torch
import torch.nn.functional as F
from torch import nn


class RotaryAttention(nn.Module):
    def __init__(self, head_dim, base=10000.0):
        super().__init__()
        rates = base ** (-torch.arange(0, head_dim, 2) / head_dim)  # [d/2]
        self.register_buffer("rates", rates, persistent=False)

    def rotate(self, x):
        """x [B,H,N,d]: the pair (x_i, x_{i+d/2}) of position n turned by n * rate_i."""
        angle = torch.arange(x.size(2), device=x.device).unsqueeze(1) * self.rates  # [N,d/2]
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)

    def forward(self, q, k, v, mask):
        """q, k, v [B,H,N,d], mask [B,N] bool (true = a token) -> [B,H,N,d]."""
        padding = ~mask[:, None, :, None]
        q, k, v = (t.masked_fill(padding, 0) for t in (q, k, v))
        # A sample of padding alone attends to its zeros.
        keys = (mask | ~mask.any(1, keepdim=True))[:, None, None, :]
        out = F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v, attn_mask=keys)
        return out.masked_fill(padding, 0)
