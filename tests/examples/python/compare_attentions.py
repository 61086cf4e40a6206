# %% [markdown]
# Three attentions in a model of one's own, on ListOps, with a plot of what they learn:
#     python3 compare_attentions.py [STEPS]
# Writes compare_attentions.png where matplotlib is installed.

# %%
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader

import lra

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 300
torch.manual_seed(0)

# %% Expressions of 20 to 100 tokens; the same seed makes the same samples everywhere.
train = lra.generate("listops", 20000, seed=1, min_length=20, max_length=100, length=128)
test = lra.generate("listops", 1000, seed=2, min_length=20, max_length=100, length=128)
print(train, test.text(0)[:60], "...", sep="\n")


# %% A layer with its norms and feed-forward block; the attention is whatever is named.
class Layer(nn.Module):
    def __init__(self, attention: str, dim: int = 64, heads: int = 2) -> None:
        super().__init__()
        self.attention = lra.attention(attention, dim=dim, heads=heads, max_length=128)
        self.norms = nn.ModuleList([nn.LayerNorm(dim), nn.LayerNorm(dim)])
        self.feed_forward = nn.Sequential(
            nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)
        )

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norms[0](x), mask)
        out: torch.Tensor = x + self.feed_forward(self.norms[1](x))
        return out


class Classifier(nn.Module):
    def __init__(
        self, attention: str, data: lra.Dataset, dim: int = 64, layers: int = 2
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(data.vocabulary, dim)
        self.positions = nn.Parameter(0.02 * torch.randn(128, dim))
        self.layers = nn.ModuleList(Layer(attention, dim) for _ in range(layers))
        self.head = nn.Linear(dim, data.classes)

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x: torch.Tensor = self.tokens(tokens) + self.positions
        for layer in self.layers:
            x = layer(x, mask)
        weights = mask.unsqueeze(-1).to(x.dtype)
        logits: torch.Tensor = self.head((x * weights).sum(1) / weights.sum(1))
        return logits


# %%
def losses_of(attention: str) -> list[float]:
    torch.manual_seed(0)
    model = Classifier(attention, train)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses: list[float] = []
    began = time.time()
    loader = DataLoader(train, batch_size=32, shuffle=True, collate_fn=train.collate)
    while len(losses) < STEPS:
        for batch in loader:
            loss = nn.functional.cross_entropy(model(batch.tokens, batch.mask), batch.labels)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # torch declares no types for it
            optimizer.step()
            losses.append(loss.item())
            if len(losses) == STEPS:
                break
    seconds = time.time() - began
    model.eval()
    right = 0
    with torch.no_grad():
        for batch in DataLoader(test, batch_size=100, collate_fn=test.collate):
            right += (model(batch.tokens, batch.mask).argmax(1) == batch.labels).sum().item()
    print(f"{attention}: {100 * right / len(test):.1f} % of the test, {seconds:.0f} s")
    return losses


curves = {name: losses_of(name) for name in ("standard", "linear", "nystrom[num_landmarks=32]")}

# %%
try:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
except ImportError:
    print("no matplotlib: no plot")
else:
    for name, losses in curves.items():
        mean = torch.tensor(losses).unfold(0, min(20, len(losses)), 1).mean(1)
        plt.plot(mean, label=name)
    plt.xlabel("step")
    plt.ylabel("training loss, mean of 20 steps")
    plt.legend()
    plt.savefig("compare_attentions.png", dpi=150)
    print("compare_attentions.png")
