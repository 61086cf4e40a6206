"""How many times faster than the fastest package, from the records beside this file.

`~`: one of the two cells is noisy, or of means one of all. With --peak also how many times were possible: if the attention's products, counted as
three times as many with their gradients, ran at that rate and nothing else took time.
"""

import argparse
import json
import math
import pathlib

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("machine", nargs="?", help="epyc or avx2; without it, the first machine's records")
parser.add_argument("--peak", type=float, help="what the processor's multiply-adds reach, GFLOP/s: the peak that lra_bench prints")
options = parser.parse_args()
HERE = pathlib.Path(__file__).parent
MACHINE = "" if options.machine is None else f"-{options.machine}"


def geometric_mean(values):
    return math.exp(sum(math.log(value) for value in values) / len(values))


def marked(value, noisy):
    return f"{'~' if noisy else ''}{value:.1f}"


print("| attention | mode | times as fast as the fastest package, 512 to 8192 | geometric mean | of its memory |", end="")
print(f" possible at {options.peak:g} GFLOP/s | geometric mean |" if options.peak else "")
print("|---|---|---:|---:|---:|", end="")
print("---:|---:|" if options.peak else "")
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
    times, shares, possible, noisy = [], [], [], []
    for own, packages in (lengths[length] for length in sorted(lengths)):
        fastest = min(packages, key=lambda cell: cell["time_ms"]["median"])
        times.append(fastest["time_ms"]["median"] / own[0]["time_ms"]["median"])
        noisy.append(any(cell.get("noisy") for cell in (fastest, own[0])))
        shares.append(own[0]["memory_mib"]["peak"] / fastest["memory_mib"]["peak"])
        if options.peak:
            gflop = own[0]["flops"] * (3 if mode == "training" else 1) / 1e9
            possible.append(fastest["time_ms"]["median"] / 1e3 * options.peak / gflop)
    row = [name, mode, ", ".join(map(marked, times, noisy)), marked(geometric_mean(times), any(noisy)), f"{min(shares):.2f} to {max(shares):.2f}"]
    if options.peak:
        row += [", ".join(f"{time:.1f}" for time in possible), f"{geometric_mean(possible):.1f}"]
    print(f"| {' | '.join(row)} |")
