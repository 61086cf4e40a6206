"""The table of docs/measured.md on runs of 200 steps, from the records beside this file: python3 results/measured/steps-200/table.py"""

import json
import pathlib

HERE = pathlib.Path(__file__).parent
STANDS_FOR = {"Image": "Image (JPEG)", "Retrieval": "Retrieval (synthetic stand-in)"}
CHANCE = {"image": 10}


def mean_loss(steps):
    return sum(step["loss"] for step in steps) / len(steps)


print("| task, attention | batch, in parts of | train loss, first → last 50 steps | test % [95 % interval] | dev % | chance |")
print("|---|---:|---:|---:|---:|---:|")
for task in ["text", "retrieval", "image", "pathfinder", "pathx"]:
    for attention in ["nystrom", "standard"]:
        run = HERE / task / attention
        result = json.loads((run / "result.json").read_text())
        steps = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        losses = [step for step in steps if step["split"] == "train"]
        training = result["config"]["training"]
        test, dev = result["test"], result["dev"]
        low, high = (100 * end for end in test["ci95"])
        title = {"pathx": "Path-X"}.get(task, task.capitalize())
        parts = training["micro_batch"] or training["batch"]
        print(f"| {STANDS_FOR.get(title, title)}, {attention} | {training['batch']}, {parts} | "
              f"{mean_loss(losses[:5]):.4f} → {mean_loss(losses[-5:]):.4f} | "
              f"{100 * test['accuracy']:.2f} [{low:.2f}, {high:.2f}] | "
              f"{100 * dev['accuracy']:.2f} | {CHANCE.get(task, 50)} |")
