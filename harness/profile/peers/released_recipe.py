"""The Long Range Arena model of the Nyströmformer paper (Xiong et al., AAAI 2021) as its released code computes it, in plain PyTorch
modules: what `lra profile --scope model --peers` sets beside this project's model.

Written after the description of that code in docs/protocols.md (protocol nystromformer2021), not copied. A pre-norm encoder: embedding
and learned positions, layers of attention and of Linear-GELU-Linear, a last LayerNorm times the mask, the mean over the length, and a
head of Linear-ReLU-Linear. Attention gets q, k and v [B,H,N,d] and a mask [B,N] of ones and zeros.
"""

import math

import torch
from torch import nn


class Softmax(nn.Module):
    """Writes the N x N matrix, and drops out of it."""

    def __init__(self, heads, head_dim, length):
        super().__init__()
        self.drop = nn.Dropout(0.1)

    def forward(self, q, k, v, mask):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = torch.softmax(scores - 1e6 * (1 - mask[:, None, None, :]), dim=-1)
        return self.drop(weights) @ v


class TorchFused(nn.Module):
    """Not of the released code: torch's fused attention in the place of its softmax."""

    def __init__(self, heads, head_dim, length):
        super().__init__()

    def forward(self, q, k, v, mask):
        return nn.functional.scaled_dot_product_attention(q, k, v)


class Nystrom(nn.Module):
    def __init__(self, heads, head_dim, length, landmarks=64, kernel=35):
        super().__init__()
        self.landmarks = landmarks
        self.conv = nn.Conv2d(heads, heads, (kernel, 1), padding=(kernel // 2, 0), bias=False, groups=heads)

    @staticmethod
    def inverse(a, iterations=6):
        one = torch.eye(a.shape[-1], device=a.device)
        z = a.transpose(-1, -2) / a.sum(-2).max()
        for _ in range(iterations):
            az = a @ z
            z = 0.25 * z @ (13 * one - az @ (15 * one - az @ (7 * one - az)))
        return z

    def forward(self, q, k, v, mask):
        b, h, n, d = q.shape
        m = self.landmarks
        q = q * mask[:, None, :, None] / math.sqrt(math.sqrt(d))
        k = k * mask[:, None, :, None] / math.sqrt(math.sqrt(d))
        q_m = q.reshape(b, h, m, n // m, d).mean(dim=-2)
        k_m = k.reshape(b, h, m, n // m, d).mean(dim=-2)
        first = torch.softmax(q @ k_m.transpose(-1, -2), dim=-1)
        middle = torch.softmax(q_m @ k_m.transpose(-1, -2), dim=-1)
        last = torch.softmax(q_m @ k.transpose(-1, -2) - 1e9 * (1 - mask[:, None, None, :]), dim=-1)
        x = (first @ self.inverse(middle)) @ (last @ v)
        return x + self.conv(v * mask[:, None, :, None])


class Linformer(nn.Module):
    """One projection [H,k,N] of keys and values."""

    def __init__(self, heads, head_dim, length, projected=256):
        super().__init__()
        self.projection = nn.Parameter(0.02 * torch.randn(heads, projected, length))

    def forward(self, q, k, v, mask):
        k = self.projection @ (k * mask[:, None, :, None])
        v = self.projection @ (v * mask[:, None, :, None])
        return torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), dim=-1) @ v


class Performer(nn.Module):
    """performer-pytorch's own attention, which it is given scaled queries and keys."""

    def __init__(self, heads, head_dim, length):
        super().__init__()
        from performer_pytorch import FastAttention

        self.attention = FastAttention(head_dim, nb_features=256, causal=False)

    def forward(self, q, k, v, mask):
        root = math.sqrt(math.sqrt(q.shape[-1]))
        return self.attention(q / root, k / root * mask[:, None, :, None], v * mask[:, None, :, None])


class Linear(nn.Module):
    """elu + 1, without a denominator."""

    def __init__(self, heads, head_dim, length):
        super().__init__()

    def forward(self, q, k, v, mask):
        root = math.sqrt(math.sqrt(q.shape[-1]))
        q = (nn.functional.elu(q) + 1) / root
        k = (nn.functional.elu(k) + 1) * mask[:, None, :, None] / root
        return q @ (k.transpose(-2, -1) @ (v * mask[:, None, :, None]))


class SelfAttention(nn.Module):
    def __init__(self, attention, sizes, length):
        super().__init__()
        self.heads, self.head_dim = sizes["heads"], sizes["head_dim"]
        inner = self.heads * self.head_dim
        self.q, self.k, self.v = (nn.Linear(sizes["width"], inner) for _ in range(3))
        self.out = nn.Linear(inner, sizes["width"])
        self.attention = attention(self.heads, self.head_dim, length)

    def forward(self, x, mask):
        def split(y):
            return y.reshape(y.shape[0], y.shape[1], self.heads, self.head_dim).transpose(1, 2)

        y = self.attention(split(self.q(x)), split(self.k(x)), split(self.v(x)), mask)
        return self.out(y.transpose(1, 2).reshape(x.shape[0], x.shape[1], -1))


class Layer(nn.Module):
    def __init__(self, attention, sizes, length):
        super().__init__()
        width, drop = sizes["width"], sizes["dropout"]
        self.before_attention, self.before_feed_forward = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.drop = SelfAttention(attention, sizes, length), nn.Dropout(drop)
        self.feed_forward = nn.Sequential(nn.Linear(width, sizes["feed_forward"]), nn.GELU(), nn.Dropout(drop),
                                          nn.Linear(sizes["feed_forward"], width), nn.Dropout(drop))

    def forward(self, x, mask):
        x = x + self.drop(self.attention(self.before_attention(x), mask))
        return x + self.feed_forward(self.before_feed_forward(x))


class Model(nn.Module):
    """tokens [B,N] -> logits [B,classes]; `sizes` are the fields of a protocol's model."""

    def __init__(self, attention, sizes, length, vocabulary, classes):
        super().__init__()
        width = sizes["width"]
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        for embedding in (self.tokens, self.positions):
            nn.init.normal_(embedding.weight, std=0.02)
        self.drop = nn.Dropout(sizes["dropout"])
        self.layers = nn.ModuleList(Layer(attention, sizes, length) for _ in range(sizes["layers"]))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Sequential(nn.Linear(width, sizes["classifier"]), nn.ReLU(), nn.Linear(sizes["classifier"], classes))

    def forward(self, tokens, mask):
        x = self.drop(self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))[None])
        for layer in self.layers:
            x = layer(x, mask)
        return self.head((self.norm(x) * mask[:, :, None]).mean(dim=1))
