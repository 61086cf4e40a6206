#!/usr/bin/env python3
"""The tables of README.md, from the records beside this file: python3 results/measured/regimes/table.py."""

import json
from pathlib import Path

HERE = Path(__file__).parent
STEPS = (1000, 2000, 3000, 4000)


def runs(pattern):
    for path in sorted(HERE.glob(pattern + "/result.json")):
        result = json.loads(path.read_text())
        lines = map(json.loads, (path.parent / "metrics.jsonl").read_text().splitlines())
        dev = {line["step"]: line["accuracy"] for line in lines if line["split"] == "dev"}
        low, high = result["test"]["ci95"]
        yield path.parent.name, result, dev, f"{100 * result['test']['accuracy']:.2f} [{100 * low:.2f}, {100 * high:.2f}]"


def recall(size, condition):
    print(f"**{size}, {condition}**\n\n| attention | test % [95 % interval] | dev % at step 1,000 / 2,000 / 3,000 / 4,000 |\n|---|---:|---:|")
    for _, result, dev, test in runs(f"mqar-{size}-{condition}/*"):
        print(f"| {result['attention']['label']} | {test} | " + " / ".join(f"{100 * dev[step]:.1f}" for step in STEPS) + " |")
    print()


def shortened(regime):
    print(f"**regime {regime}**\n\n| task | run | protocol | steps of batch | test % [95 % interval] | most frequent label of dev % | left it at step |\n|---|---|---|---:|---:|---:|---:|")
    for name, result, _, test in [*runs("listops/*"), *runs("text/*")]:
        if result["regime"] != regime:
            continue
        batch = result["config"]["training"]["batch"]
        steps = f"{result['steps']} of {batch}"
        if "pretrained" in result:
            steps = f"{result['pretrained']['steps']} and {steps}"
        left = result.get("left_majority_at")
        print(f"| {result['task']} | {result['attention']['label']} ({name}) | {result['protocol']} | {steps} | {test} | "
              f"{100 * result['data']['dev_majority']:.1f} | {'–' if left is None else left} |")
    print()


for size in ("64x4", "128x8"):
    for condition in ("causal", "bidirectional"):
        recall(size, condition)
for regime in ("2021", "later"):
    shortened(regime)
