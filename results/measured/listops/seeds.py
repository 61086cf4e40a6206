"""The tables of further seeds of ListOps in docs/measured.md, from the records NAME-seed-N beside this file:
python3 seeds.py nystrom linformer ..."""
import json
import statistics
import sys
from pathlib import Path

HERE = Path(__file__).parent

print("| attention | seed | on | leaves the majority at step | best at | dev % | test % [95 % interval] |\n|---|---:|---|---:|---:|---:|---:|")
for attention in sys.argv[1:] or sorted({record.name.rsplit("-seed-")[0] for record in HERE.glob("*-seed-*")}):
    means, learned = [], 0
    for record in sorted(HERE.glob(f"{attention}-seed-*/result.json")):
        run = json.loads(record.read_text())
        test, dev, left = run["test"], run["dev"], run["left_majority_at"]
        low, high = test["ci95"]
        means.append(100 * test["accuracy"])
        learned += left is not None
        print(
            f"| {attention} | {run['seed']} | {run['machine'].get('gpu') or 'CPU'} | {f'{left:,}' if left else 'never'} | {run['best_step']:,} | {100 * dev['accuracy']:.2f} "
            f"| {100 * test['accuracy']:.2f} [{100 * low:.2f}, {100 * high:.2f}] |"
        )
    if len(means) > 1:
        print(f"| {attention} | all {len(means)} | | learned {learned}/{len(means)} | | | {statistics.mean(means):.2f}, standard deviation {statistics.stdev(means):.2f} |")
