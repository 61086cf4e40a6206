"""How many times faster than the fastest package, from the records beside this file: python3 results/measured/core/speedup.py [epyc]"""

import json
import math
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
MACHINE = "".join(f"-{name}" for name in sys.argv[1:])

print("| attention | mode | times as fast as the fastest package, 512 to 8192 | geometric mean | of its memory |")
print("|---|---|---:|---:|---:|")
cells = {}
for mode in ["inference", "training"]:
    records = HERE / f"{mode}{MACHINE}.jsonl"
    if not records.exists():
        continue  # not measured on that machine
    for line in records.read_text().splitlines():
        cell = json.loads(line)
        if cell["status"] != "ok":
            continue
        of_package = "python" in cell["software"]
        cells.setdefault((cell["attention"]["name"], mode), {}).setdefault(cell["length"], ([], []))[of_package].append(cell)
for (name, mode), lengths in sorted(cells.items()):
    if not all(packages for _, packages in lengths.values()):
        continue
    times, shares = [], []
    for own, packages in (lengths[length] for length in sorted(lengths)):
        fastest = min(packages, key=lambda cell: cell["time_ms"]["median"])
        times.append(fastest["time_ms"]["median"] / own[0]["time_ms"]["median"])
        shares.append(own[0]["memory_mib"]["peak"] / fastest["memory_mib"]["peak"])
    mean = math.exp(sum(math.log(time) for time in times) / len(times))
    print(f"| {name} | {mode} | {', '.join(f'{time:.1f}' for time in times)} | {mean:.1f} | {min(shares):.2f} to {max(shares):.2f} |")
