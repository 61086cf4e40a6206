#!/usr/bin/env python3
"""Table 3 of the Nyströmformer paper as regenerated: the table of README.md beside this file, from a report of the
records, REPORT of `./run report results/measured/listops results/measured/text --out REPORT`:
python3 results/measured/paper/table.py REPORT."""

import csv
import json
import sys
from pathlib import Path

PUBLISHED = Path(__file__).parents[2] / "published" / "nystromformer2021.json"
# Heading, protocol, and what is overridden: as it stands, and of the further seeds.
ONE, MORE = "", "training.evaluate_every=250"
COLUMNS = (
    ("`nystromformer2021`", "nystromformer2021", ONE),
    ("`nystromformer2021`, more seeds", "nystromformer2021", MORE),
    ("`lra-strict`", "lra-strict", ONE),
    ("`lra-strict`, more seeds", "lra-strict", MORE),
    ("`lra-2026`, more seeds", "lra-2026", ONE),
)


def rows(report, name):
    return list(csv.DictReader((Path(report) / name).read_text().splitlines()))


def cell(found):
    if not found:
        return "–"
    if not found["accuracy_percent"]:
        return found["other_statuses"]
    text = f"{float(found['accuracy_percent']):.2f} [{float(found['ci95_low']):.2f}, {float(found['ci95_high']):.2f}]"
    seeds = int(found["runs"]) + int(found["diverged"])
    if seeds > 1:
        text += f", learned {found['runs_learned']}/{seeds}"
    return text


def processor(machine):
    return machine.split(",")[0].replace("(R)", "").removesuffix(" Processor")


def hours(runs, task, attention):
    """The shortest run of the whole recipe on processors alone, whatever it ran beside."""
    spent = [
        (float(run["seconds"]) / 3600, f"`{run['protocol']}`, {processor(run['machine'])}")
        for run in runs
        if (run["task"], run["attention"], run["status"]) == (task, attention, "ok") and "NVIDIA" not in run["machine"]
    ]
    return "{:.1f} ({})".format(*min(spent)) if spent else "–"


def main(report):
    accuracies, runs = rows(report, "accuracy.csv"), rows(report, "runs.csv")
    table = json.loads(PUBLISHED.read_text())["accuracy"]
    print("| task | attention | published | " + " | ".join(heading for heading, _, _ in COLUMNS) + " | hours |")
    print("|---|---|---:|" + "---:|" * len(COLUMNS) + "---:|")
    for number, task in enumerate(table["tasks"]):
        measured = False
        for row in table["rows"]:
            attention = row["variant"].split("[")[0]
            found = [
                next(
                    (
                        a
                        for a in accuracies
                        if (a["protocol"], a["task"], a["attention"], a["synthetic"]) == (protocol, task, attention, "false")
                        and a["overridden"] == overridden
                    ),
                    None,
                )
                for _, protocol, overridden in COLUMNS
            ]
            if any(found):
                measured = True
                cells = " | ".join(map(cell, found))
                print(f"| {task} | {attention} | {row['values'][number]:.2f} | {cells} | {hours(runs, task, attention)} |")
        if not measured:
            print(f"| {task} | all | | " + " | ".join(["not measured"] * len(COLUMNS)) + " | |")


if len(sys.argv) != 2:
    sys.exit(__doc__)
main(sys.argv[1])
