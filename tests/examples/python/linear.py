"""Linear attention (Katharopoulos et al., 2020) with a feature map that has its own backward."""

import torch
from torch import nn


class EluFeatures(torch.autograd.Function):
    """elu(x) + 1, whose gradient is min(elu(x) + 1, 1)."""

    @staticmethod
    def forward(ctx, x):
        features = x.clamp_max(0).exp() + x.clamp_min(0)
        ctx.save_for_backward(features)
        return features

    @staticmethod
    def backward(ctx, grad):
        (features,) = ctx.saved_tensors
        return grad * features.clamp_max(1)


class LinearAttention(nn.Module):
    """The same function as lra's `linear`."""

    lra_length_invariant = True  # of a sample that is padded further, nothing changes

    def __init__(self):
        super().__init__()
        self.register_buffer("least", torch.tensor(1e-30))  # of a denominator

    def forward(self, q, k, v, mask):
        """q, k, v [B,H,N,d], mask [B,N] bool (true = a token) -> [B,H,N,d]."""
        padding = ~mask[:, None, :, None]
        q, k, v = (t.masked_fill(padding, 0) for t in (q, k, v))
        query = EluFeatures.apply(q)
        key = EluFeatures.apply(k).masked_fill(padding, 0)
        state = key.transpose(-2, -1) @ v  # [B,H,d,d]
        norm = query @ key.sum(2).unsqueeze(-1)  # [B,H,N,1]
        out = query @ state / torch.maximum(norm, self.least.to(norm.dtype))
        return out.masked_fill(padding, 0).to(v.dtype)
