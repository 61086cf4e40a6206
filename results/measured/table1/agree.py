#!/usr/bin/env python3
"""How well two profiles of one machine agree: of the cells that neither marks as noisy, the part whose time in parts of `standard`
at the same length lies within the other's 95 % interval (its cell's, divided by the same) or within 10 % of it.

    ./run profile --preset table1 --out a.jsonl && ./run profile --preset table1 --out b.jsonl
    results/measured/table1/agree.py a.jsonl b.jsonl
"""

import json
import sys


def cells(path):
    with open(path) as file:
        records = [json.loads(line) for line in file]
    own = [r for r in records if r["status"] == "ok" and not r.get("package")]
    standard = {r["length"]: r for r in own if r["attention"]["label"] == "standard"}
    return {(r["attention"]["label"], r["length"]): (r, standard[r["length"]]) for r in own}


def ratio(pair, point):
    cell, standard = pair
    value = cell["time_ms"]["median"] if point is None else cell["time_ms"]["ci95"][point]
    return value / standard["time_ms"]["median"]


def main(first, second):
    a, b = cells(first), cells(second)
    quiet = agreeing = 0
    for key in sorted(a.keys() & b.keys()):
        if key[0] == "standard":
            continue
        noisy = [r.get("noisy") for pair in (a[key], b[key]) for r in pair if r.get("noisy")]
        x, y = ratio(a[key], None), ratio(b[key], None)
        within = ratio(a[key], 0) <= y <= ratio(a[key], 1) or ratio(b[key], 0) <= x <= ratio(b[key], 1)
        agrees = within or abs(x / y - 1) <= 0.1
        if not noisy:
            quiet += 1
            agreeing += agrees
        if noisy or not agrees:
            print(f"{key[0]:42} {key[1]:5}  {x:.4g} and {y:.4g} of standard  {'agree' if agrees else 'DIFFER'}  {noisy[0] if noisy else ''}")
    print(f"{agreeing} of {quiet} quiet cells agree ({100 * agreeing / max(quiet, 1):.1f} %); {len(a.keys() & b.keys())} in both files")


if __name__ == "__main__":
    main(*sys.argv[1:])
