#!/usr/bin/env python3
"""What the logs of runs without a result say: python3 results/measured/interrupted.py RUN_FOLDER..."""

import json
import sys
from pathlib import Path


def row(run):
    lines = [json.loads(line) for line in (Path(run) / "metrics.jsonl").read_text().splitlines()]
    dev = [line for line in lines if line["split"] == "dev"]
    train = [line for line in lines if line["split"] == "train"]
    last = lines[-1]["step"]
    best = max(dev, key=lambda line: line["accuracy"])
    losses = [line["loss"] for line in train if line["step"] > last - 500]
    percent = [f"{100 * line['accuracy']:.2f}" for line in (best, dev[-1], min(dev, key=lambda line: line["accuracy"]))]
    return [Path(run).name, last, len(dev), percent[0], best["step"], percent[1], percent[2], f"{sum(losses) / len(losses):.3f}"]


print("| run | steps | evaluations | best dev % | at step | last dev % | lowest dev % | train loss of the last 500 steps |")
print("|---|---:|---:|---:|---:|---:|---:|---:|")
for run in sys.argv[1:]:
    print("| " + " | ".join(map(str, row(run))) + " |")
