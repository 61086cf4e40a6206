#!/usr/bin/env python3
"""Runs the released code on the cases of tests/fixtures/exact and compares; makes new cases; holds the program to them.

    git clone https://github.com/google-research/long-range-arena && git -C long-range-arena checkout cd31e5c
    pip install jax==0.4.13 jaxlib==0.4.13 flax==0.3.6 'numpy<1.26' 'scipy<1.12' attrs safetensors      # Python 3.11 or older
    RUNNER="google long-range-arena"

    git clone https://github.com/mlpen/Nystromformer && git -C Nystromformer checkout 5689313
    git clone https://github.com/pkuzengqi/Skyformer && git -C Skyformer checkout 1a677cb
    pip install torch safetensors numpy einops && pip install --no-deps performer-pytorch==0.15.2 axial-positional-embedding local-attention==1.2.2
    pip install --no-deps transformers==3.3.1 --target transformers-3.3.1; pip install requests tqdm filelock packaging
    RUNNER="papers Nystromformer Skyformer transformers-3.3.1"                        # without the last: no reformer

    python tests/parity/make_exact_fixtures.py $RUNNER check tests/fixtures/exact     # the stored answers anew
    python tests/parity/make_exact_fixtures.py $RUNNER new tests/fixtures/exact       # the cases of exact/stored.py
    python tests/parity/make_exact_fixtures.py $RUNNER sweep sweep                    # the hundreds of exact/sweep.py
    python tests/parity/make_exact_fixtures.py attend build/release/bin/lra sweep     # the program on a folder of cases
    LRA_TEST_RELEASED=$PWD/sweep build/release/harness_tests --gtest_filter='*Released*'   # the same in one process

check prints the largest difference of every tensor to NAME.expect.safetensors, relative to its largest entry, and exits with 1 where
one is above 1e-12; attend prints it by attention, and exits with 1 above 1e-8. What is changed to run the released code, and what
does not run, stands in tests/fixtures/exact/README.md.
"""

import json
import re
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
from exact import cases, ours, stored, sweep
from safetensors.numpy import load_file, save_file


def runner_of(words):
    """The released code, and the words behind those that name it."""
    if words[0] == "google":
        from exact.google import Google

        return Google(words[1]), words[2:]
    from exact.papers import Papers

    folders = words[1 : words.index(next(w for w in words if w in ("check", "new", "sweep")))]
    return Papers(*folders), words[1 + len(folders) :]


def read(folder, name):
    about = json.loads((folder / f"{name}.json").read_text())
    return about, load_file(folder / f"{name}.in.safetensors"), load_file(folder / f"{name}.expect.safetensors")


def check(runner, folder):
    worst, count = 0.0, 0
    for path in sorted(folder.glob("*.json")):
        about, inputs, expected = read(folder, path.stem)
        if not runner.runs(about):
            print(f"{path.stem:28} not run here")
            continue
        answer, count = runner.answer(about, inputs), count + 1
        for name, theirs in sorted(expected.items()):
            found = ours.difference(answer[name].reshape(theirs.shape), theirs, ours.scale(about, expected, name))
            worst = max(worst, found)
            print(f"{path.stem:28} {name:24} {found:.1e}")
    print(f"{count} cases, largest difference {worst:.1e}")
    return worst <= 1e-12


def write(about, inputs, expected, folder):
    """A name and its form on one line."""
    text = re.sub(r'\[\n\s+("[^"]*"),\n\s+("[^"]*")\n\s+\]', r"[\1, \2]", json.dumps(about, indent=1))
    (folder / f"{about['case']}.json").write_text(text + "\n")
    for kind, tensors in (("in", inputs), ("expect", expected)):
        tensors = {name: np.ascontiguousarray(t) for name, t in tensors.items()}
        save_file(tensors, folder / f"{about['case']}.{kind}.safetensors")


def make(runner, abouts, folder):
    """Cases that the released code refuses are named, and left out."""
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for about in abouts:
        if not runner.runs(about):
            continue
        try:
            inputs = cases.inputs_of(about, runner)
            expected = runner.answer(about, inputs)
        except Exception as error:  # whatever the released code throws
            print(f"{about['case']}: the release gives {type(error).__name__}: {str(error).splitlines()[0][:120]}")
            continue
        if about["level"] == "model":
            names = [name.removeprefix("param.") for name in inputs if name.startswith("param.")]
            about["ours"]["names"] = ours.names_of(about, names)
        if cancelled := ours.cancelled(expected):
            about["cancels"] = cancelled
        write(about, inputs, expected, folder)
        count += 1
    print(f"{count} cases in {folder}")
    return True


def attend(program, folder):
    rows = defaultdict(list)
    for path in sorted(folder.glob("*.json")):
        about, inputs, expected = read(folder, path.stem)
        try:
            found = ours.differences(program, about, inputs, expected)
        except RuntimeError as error:
            found = {str(error): np.inf}
        name, difference = max(found.items(), key=lambda item: item[1])
        if difference > 1e-8:
            print(f"{path.stem}: {name} {difference:.1e}")
        rows[about["level"], about["source"].split("/")[0], about["attention"]].append(difference)
    for row, found in sorted(rows.items()):
        print(f"{' '.join(row):50} {len(found):4} cases, largest difference {max(found):.1e}")
    return max(map(max, rows.values())) <= 1e-8


def main():
    words = sys.argv[1:]
    if words[0] == "attend":
        return 0 if attend(words[1], Path(words[2])) else 1
    runner, (action, folder) = runner_of(words)
    if action == "check":
        return 0 if check(runner, Path(folder)) else 1
    listed = stored.all_cases() if action == "new" else sweep.all_cases()
    return 0 if make(runner, listed, Path(folder)) else 1


if __name__ == "__main__":
    sys.exit(main())
