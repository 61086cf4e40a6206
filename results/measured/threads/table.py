#!/usr/bin/env python3
"""The tables of docs/measured.md: one head of one sample on two threads before and after threads share
a head (before-2.jsonl, threads-2.jsonl), on one (threads-1.jsonl), and on more, simulated; on Intel, and
on AMD (-epyc), where other attentions came to be shared."""
import json
import pathlib

HERE = pathlib.Path(__file__).parent


def medians(name: str) -> dict[tuple[str, int], tuple[float, str]]:
    """Milliseconds of each attention and length, and as a word: ~ where the record says noisy."""
    cells = [json.loads(line) for line in (HERE / name).read_text().splitlines()]
    found = {}
    for cell in cells:
        median = cell["time_ms"]["median"]
        word = f"{'~' if 'noisy' in cell else ''}{median:.2f}"
        found[cell["attention"]["label"], cell["length"]] = median, word
    return found


for machine in ("", "-epyc"):
    before, shared, alone = (medians(f"{name}{machine}.jsonl") for name in ("before-2", "threads-2", "threads-1"))
    print("| attention | positions | before, two threads, ms | now, two threads | times as fast | now, one thread |")
    print("|---|---:|---:|---:|---:|---:|")
    for cell in sorted(before):
        ratio = before[cell][0] / shared[cell][0]
        print(f"| {cell[0]} | {cell[1]} | {before[cell][1]} | {shared[cell][1]} | {ratio:.1f} | {alone[cell][1]} |")
    print()

RUNS = [run for name in ("simulated", "simulated-epyc") for run in json.loads((HERE / f"{name}.json").read_text())["benchmarks"]]
speedups: dict[tuple[str, str], dict[int, float]] = {}
for run in RUNS:
    if run["aggregate_name"] != "median":
        continue
    _, attention, direction, positions, threads, _ = run["run_name"].split("/")
    row = speedups.setdefault((f"{attention}, {direction}", positions[2:]), {})
    row[int(threads.split(":")[1])] = run["speedup"]
counts = sorted(next(iter(speedups.values())))
print("| operator | positions |", " | ".join(f"{n} threads" for n in counts), "|")
print("|---|---:|" + "---:|" * len(counts))
for (name, positions), row in sorted(speedups.items(), key=lambda item: (item[0][0], int(item[0][1]))):
    print(f"| {name} | {positions} |", " | ".join(f"{row[n]:.1f}" for n in counts), "|")
