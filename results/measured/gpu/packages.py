"""Cores of public packages on a GPU, [B,2,N,32] in float32, all of them in one process: what packages.txt holds, by

    python3 packages.py FOLDER_OF_profile_peers.py cuda > packages.txt

A line is mode, package's layer, B, N, median milliseconds and the peak of what LibTorch's allocator held, MiB.
"""
import sys

sys.path.insert(0, sys.argv[1])
import profile_peers
import torch
from peer_layers import PEERS

for mode in ("inference", "training"):
    for name, (_, _, _, core) in PEERS.items():
        if core is None:
            continue
        for batch, length in ((32, 2048), (1, 8192)):
            cell = {"peer": name, "scope": "core", "mode": mode, "dtype": "float32", "length": length, "batch": batch, "heads": 2,
                    "head_dim": 32}
            found = profile_peers.measured({"cell": cell, "seconds": 0.3, "threads": 8, "device": sys.argv[2]})
            print(mode, name, batch, length, f"ms {found['time_ms']['median']:.3f} MiB {found['memory_mib']['peak']:.1f}", flush=True)
            torch.cuda.empty_cache()
