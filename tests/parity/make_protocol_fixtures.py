"""Writes tests/fixtures/schedules.json and positions.json: learning rates with a warm-up, and sinusoidal positions.

    pip install numpy jax optax==0.2.5
    python tests/parity/make_protocol_fixtures.py tests/fixtures

`constant`, `cosine` and `step` are optax's own schedules times its linear warm-up, in float64. The cosine starts after the warm-up
and has the length of the run. optax has no `rsqrt`: that one is the factors "constant * linear_warmup * rsqrt_decay" of LRA's
released code (google-research/long-range-arena, lra_benchmarks/utils/train_utils.py, create_learning_rate_scheduler):
    base_learning_rate * minimum(1, step / warmup_steps) / sqrt(maximum(step, warmup_steps))
Positions are those of its lra_benchmarks/models/layers/common_layers.py, sinusoidal_init:
    div_term = exp(arange(0, d_feature, 2) * -(log(10000.0) / d_feature))
    pe[:, 0::2] = sin(position * div_term); pe[:, 1::2] = cos(position * div_term)
"""
import json
import sys

import jax
import numpy as np
import optax

jax.config.update("jax_enable_x64", True)

EVERY, FACTOR = 7, 0.25  # of `step`


def rate(kind, lr, warmup, steps):
    ramp = optax.linear_schedule(0.0, 1.0, warmup) if warmup else optax.constant_schedule(1.0)
    if kind == "rsqrt":
        return lambda s: lr * min(1, s / warmup) / np.sqrt(max(s, warmup))
    decay = {
        "constant": optax.constant_schedule(lr),
        "cosine": optax.cosine_decay_schedule(lr, steps),
        "step": optax.exponential_decay(lr, EVERY, FACTOR, staircase=True),
    }[kind]
    start = warmup if kind == "cosine" else 0
    return lambda s: ramp(s) * decay(max(0, s - start))


cases = []
for kind in ("rsqrt", "constant", "cosine", "step"):
    for lr, warmup, steps in ((0.05, 10, 40), (5e-4, 3, 30), (0.05, 80, 50), (1e-3, 0, 20)):
        if kind == "rsqrt" and warmup == 0:
            continue
        f = rate(kind, lr, warmup, steps)
        cases.append({"kind": kind, "lr": lr, "warmup": warmup, "steps": steps, "decay_every": EVERY, "decay_factor": FACTOR,
                      "points": [float(f(s)) for s in range(steps)]})
json.dump({"optax": optax.__version__, "cases": cases}, open(sys.argv[1] + "/schedules.json", "w"))

tables = []
for rows, width in (((0, 1, 2, 17, 999, 4000, 16384), 32), ((0, 5, 2000), 6)):
    position = np.array(rows)[:, np.newaxis]
    div_term = np.exp(np.arange(0, width, 2) * -(np.log(10000.0) / width))
    table = np.zeros((len(rows), width))
    table[:, 0::2], table[:, 1::2] = np.sin(position * div_term), np.cos(position * div_term)
    tables.append({"rows": list(rows), "width": width, "values": table.tolist()})
json.dump({"numpy": np.__version__, "tables": tables}, open(sys.argv[1] + "/positions.json", "w"))
