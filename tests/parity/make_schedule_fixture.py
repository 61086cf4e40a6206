"""Writes tests/fixtures/one_cycle.json: learning rate and beta1 of torch's own OneCycleLR at every step.

Usage: make_schedule_fixture.py OUT.json        (needs torch==2.11.0)
"""
import json
import sys
import warnings

import torch

warnings.simplefilter("ignore")  # stepping a schedule without its optimizer
cases = []
for steps, warmup, lr in ((50, 10, 1e-4), (20, 2, 5e-4), (12, 4, 1e-3), (100, 99, 1e-4)):
    parameter = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = torch.optim.AdamW([parameter], lr=lr, betas=(0.9, 0.999))
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=lr, pct_start=warmup / steps, anneal_strategy="linear", total_steps=steps)
    points = []
    for _ in range(steps):
        group = optimizer.param_groups[0]
        points.append([group["lr"], group["betas"][0]])
        optimizer.step()
        if len(points) < steps:
            schedule.step()
    cases.append({"steps": steps, "warmup": warmup, "lr": lr, "points": points})
json.dump({"torch": torch.__version__, "cases": cases}, open(sys.argv[1], "w"))
