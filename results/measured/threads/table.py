#!/usr/bin/env python3
"""The tables of docs/measured.md: one head of one sample on one and two threads (threads-1.jsonl,
threads-2.jsonl), and shared by more, simulated (simulated.json)."""
import json
import pathlib

HERE = pathlib.Path(__file__).parent


def milliseconds(threads: int) -> dict[tuple[str, int], float]:
    """Median of each attention and length."""
    lines = (HERE / f"threads-{threads}.jsonl").read_text().splitlines()
    cells = [json.loads(line) for line in lines]
    return {(c["attention"]["label"], c["length"]): c["time_ms"]["median"] for c in cells}


one, two = milliseconds(1), milliseconds(2)
print("| attention | positions | one thread, ms | two threads, ms | times as fast |")
print("|---|---:|---:|---:|---:|")
for (name, positions), alone in sorted(one.items()):
    shared = two[name, positions]
    print(f"| {name} | {positions} | {alone:.2f} | {shared:.2f} | {alone / shared:.1f} |")
print()

RUNS = json.loads((HERE / "simulated.json").read_text())["benchmarks"]
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
