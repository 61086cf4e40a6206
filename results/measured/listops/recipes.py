"""lra-2026 against lra-strict, five seeds each of ListOps: means on dev and test in %, exact rank-sum tests (uncorrected), and
Fisher's exact test of how many seeds learned, from the records beside this file."""

import itertools
import json
import math
from pathlib import Path

HERE = Path(__file__).parent


def runs(name):
    return [json.loads((HERE / f"{name}-seed-{seed}" / "result.json").read_text()) for seed in range(1, 6)]


def rank_sum(a, b):
    both = a + b
    ranks = [sum(y < x for y in both) + (sum(y == x for y in both) + 1) / 2 for x in both]
    sums = [sum(chosen) for chosen in itertools.combinations(ranks, len(a))]
    middle, seen = sum(ranks) * len(a) / len(both), sum(ranks[: len(a)])
    return sum(abs(s - middle) >= abs(seen - middle) - 1e-9 for s in sums) / len(sums)


def fisher(a, b, n):
    def weight(x):
        return math.comb(n, x) * math.comb(n, a + b - x)

    ways = [weight(x) for x in range(max(0, a + b - n), min(n, a + b) + 1)]
    return sum(w for w in ways if w <= weight(a)) / sum(ways)


for attention in ("nystrom", "linformer", "performer", "reformer", "linear"):
    strict, searched = runs(attention), runs(f"{attention}-2026")
    parts = []
    for split in ("dev", "test"):
        a, b = ([run[split]["accuracy"] for run in side] for side in (strict, searched))
        parts.append(f"{split} {20 * sum(a):.2f} and {20 * sum(b):.2f}, p {rank_sum(a, b):.3f}")
    learned = [sum(run["left_majority_at"] is not None for run in side) for side in (strict, searched)]
    print(f"{attention}: {'; '.join(parts)}; learned {learned[0]} and {learned[1]} of 5, p {fisher(*learned, 5):.3f}")
