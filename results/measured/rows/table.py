"""Times of training steps before and after, from the metrics.jsonl beside this file (a line a step).

Median of the steps 6 to 40 of a run, median and range of three runs: ms, and their ratio; then the same under nystromformer2021.
"""
import json
import statistics
from pathlib import Path

HERE = Path(__file__).parent


def step_ms(path):
    seconds = [json.loads(line)["seconds"] for line in path.open()]
    steps = [1000 * (b - a) for a, b in zip(seconds[5:], seconds[6:])]
    return statistics.median(steps)


def table(prefix, attentions):
    print("| attention | before, ms | now | times as fast |\n|---|---:|---:|---:|")
    for attention in attentions:
        runs = {when: sorted(step_ms(p) for p in HERE.glob(f"{prefix}{when}-{attention}-*.jsonl")) for when in ("before", "after")}
        cells = [f"{statistics.median(r):.0f} [{r[0]:.0f}, {r[-1]:.0f}]" for r in runs.values()]
        ratio = statistics.median(runs["before"]) / statistics.median(runs["after"])
        print(f"| {attention} | {cells[0]} | {cells[1]} | {ratio:.2f} |")


table("", ("nystrom", "linformer", "performer", "linear"))
print()
table("released-", ("nystrom", "performer"))  # under nystromformer2021
