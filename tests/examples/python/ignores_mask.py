"""A planted fault: the mask is not used, so results depend on padding. `lra check` says so."""

import torch.nn.functional as F
from torch import nn


class IgnoresMask(nn.Module):
    def forward(self, q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v)
