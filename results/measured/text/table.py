#!/usr/bin/env python3
"""The runs on Text: python3 results/measured/text/table.py"""

import json
from pathlib import Path

HERE = Path(__file__).parent


def row(folder):
    result = json.loads((folder / "result.json").read_text())
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    dev = [line["accuracy"] for line in lines if line["split"] == "dev"]
    train = [line["accuracy"] for line in lines if line["split"] == "train" and line["step"] > result["steps"] - 1000]
    low, high = result["test"]["ci95"]
    return [
        result["attention"]["label"],
        result["protocol"],
        result["seed"],
        result["machine"]["gpu"] or "CPU",
        f"{result['best_step']:,}",
        f"{100 * result['test']['accuracy']:.2f} [{100 * low:.2f}, {100 * high:.2f}]",
        f"{100 * max(dev):.2f}",
        f"{100 * dev[-1]:.2f}",
        f"{100 * sum(train) / len(train):.1f}",
    ]


print("| attention | protocol | seed | on | best at step | test % [95 % interval] | dev % | dev % at the end | training % of the last 1,000 steps |")
print("|---|---|---:|---|---:|---:|---:|---:|---:|")
for cells in sorted(row(path.parent) for path in HERE.glob("*/result.json")):
    print("| " + " | ".join(map(str, cells)) + " |")
