#!/usr/bin/env python3
"""The tables of README.md, from the records beside this file: python3 results/measured/regimes/table.py."""

import json
from pathlib import Path

STEPS = (1000, 2000, 3000, 4000)

for condition in ("causal", "bidirectional"):
    print(f"**{condition}**\n\n| attention | test % [95 % interval] | dev % at step 1,000 / 2,000 / 3,000 / 4,000 |\n|---|---:|---:|")
    for run in sorted(Path(__file__).parent.glob(f"mqar-64x4-{condition}/*/result.json")):
        result = json.loads(run.read_text())
        lines = map(json.loads, (run.parent / "metrics.jsonl").read_text().splitlines())
        dev = {line["step"]: line["accuracy"] for line in lines if line["split"] == "dev"}
        test = result["test"]
        low, high = test["ci95"]
        print(f"| {result['attention']['label']} | {100 * test['accuracy']:.2f} [{100 * low:.2f}, {100 * high:.2f}] | "
              + " / ".join(f"{100 * dev[step]:.1f}" for step in STEPS) + " |")
    print()
