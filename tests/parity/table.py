#!/usr/bin/env python3
"""Prints how far every variant is from the public implementations it is held against, as a Markdown table.

    pip install numpy safetensors
    python tests/parity/table.py build/release/bin/lra tests/fixtures

Runs `lra attend` on every tests/fixtures/attend-*.safetensors in float64 and in float32 (the peers computed in float64) and takes,
over the fixtures of a variant and a peer, the largest deviation of the output on real rows and that of any gradient, each relative
to the largest value of the peer's tensor. The test program holds the same fixtures to 1e-10 and 1e-4 (tests/harness/commands/parity_test.cpp).
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

PREFIX = "expected."


def deviations(program, path, attention, dtype):
    """(of the output, of the gradients)"""
    tensors = load_file(path)
    inputs = {
        key: value.astype(dtype) if value.dtype == numpy.float64 else value
        for key, value in tensors.items()
        if not key.startswith(PREFIX)
    }
    with tempfile.TemporaryDirectory() as folder:
        given, answer = Path(folder, "in.safetensors"), Path(folder, "out.safetensors")
        save_file(inputs, given)
        subprocess.run(
            [program, "attend", "--attention", attention, "--input", given, "--output", answer], check=True
        )
        ours = load_file(answer)
    real = tensors["mask"][:, None, :, None]
    output, gradient = 0.0, 0.0
    for key, theirs in tensors.items():
        if not key.startswith(PREFIX):
            continue
        name = key[len(PREFIX) :]
        mine = ours[name].astype(numpy.float64)
        if name == "output":
            mine, theirs = mine * real, theirs * real
        error = float(abs(mine - theirs).max() / abs(theirs).max()) if abs(theirs).max() > 0 else float(abs(mine).max())
        if name == "output":
            output = max(output, error)
        else:
            gradient = max(gradient, error)
    return output, gradient


def main():
    program, folder = sys.argv[1], Path(sys.argv[2])
    rows = {}
    for path in sorted(folder.glob("attend-*.safetensors")):
        with safe_open(path, "np") as file:
            metadata = file.metadata()
        attention, peer = metadata["attention"], metadata["peer"]
        row = rows.setdefault((attention.split("[")[0], peer), [0, 0, 0, 0, 0])
        row[0] += 1
        for i, dtype in ((1, numpy.float64), (3, numpy.float32)):
            for j, error in enumerate(deviations(program, path, attention, dtype)):
                row[i + j] = max(row[i + j], error)
    print("| variant | peer | fixtures | float64: output | gradients | float32: output | gradients |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for (variant, peer), (count, *errors) in sorted(rows.items()):
        print(f"| {variant} | {peer} | {count} | " + " | ".join(f"{error:.1e}" for error in errors) + " |")


if __name__ == "__main__":
    main()
