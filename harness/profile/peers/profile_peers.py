#!/usr/bin/env python3
"""Attention layers of public Python packages, measured for `lra profile` between its own cells.

    python3 -m venv peers && peers/bin/pip install -r harness/profile/peers/requirements.txt
    PATH=$PWD/peers/bin:$PATH ./run profile --preset table1 --peers harness/profile/peers/profile_peers.py --out t1.jsonl
    ./run report t1.jsonl --out t1                        # "here / the package" among its tables

`lra profile` plans, orders, repeats, merges and writes; this program measures one pass of one cell in a process of its own, as
`lra profile` has its own cells measured: inputs made beforehand, threads pinned, the address space limited, warm-up until three calls
lie within 5 % of each other, samples until the median's bootstrap interval is within 2 % or the time is over. What differs:
- Memory is the peak of the bytes that LibTorch's profiler reports as allocated and not yet freed during one call, above the start;
  lra counts at the allocator. Both see tensors alone, and the same ones. On a GPU both ask LibTorch's allocator.
- The fixed chain of operations that shows a change of the processor's clock is not run here; a pass is noisy by the time its
  threads had to wait for a processor.
- Denormal numbers are kept, as Python's torch has it; lra takes them for zero.
- A package computes what it computes: the differences in function are named at each peer (peer_layers.py). No mask is given, since several
  packages take none; lra's own attentions are given one in which every token is real.
- In scope `model` the peer is the released recipe's whole model (released_recipe.py) in the sizes of the protocol, with a training
  step of cross-entropy, backward and torch's AdamW; tokens are random and all real.
- In scope `core`, q, k and v are given in the layout that the package itself has them in after its projections; a package that is a
  layer alone has its projections replaced by what hands them over, so that its own code computes.

    profile_peers.py --list             what is here, as JSON
    profile_peers.py --child REQUEST    measures one pass and writes a line of a profile, of which lra takes the measurement
"""

import argparse
import importlib.metadata
import json
import os
import resource
import sys
import time
from pathlib import Path

from peer_layers import PEERS, joined

BOOTSTRAP = 1000
PRECISION = 0.02
MOST_SAMPLES = 300
NOISE = 0.05  # of the time for which threads ran or were ready to
ARENA = 128 << 20  # what the C library may reserve of the address space for a thread
DTYPES = ["float32", "bfloat16", "float64"]


# ---- The peers -----------------------------------------------------------------------------------------------------------------
# Name -> (attention of lra, package, distribution on PyPI that it needs, its class in released_recipe.py)
MODELS = {
    "released-softmax": ("standard", "released-recipe 2021", "torch", "Softmax"),
    "released-on-fused": ("standard", "released-recipe-on-torch-fused 2021", "torch", "TorchFused"),
    "released-nystrom": ("nystrom", "released-recipe 2021", "torch", "Nystrom"),
    "released-linformer": ("linformer", "released-recipe 2021", "torch", "Linformer"),
    "released-performer": ("performer", "released-recipe 2021", "performer-pytorch", "Performer"),
    "released-linear": ("linear", "released-recipe 2021", "torch", "Linear"),
}
# What a model has to be for the released recipe's to stand beside it.
RECIPE = {"block": "transformer", "dropout_kind": "plain", "encoder": "embedding", "positions": "learned", "norm": "pre",
          "norm_kind": "layer", "pooling": "mean", "head": "mlp", "attention_bias": True, "gelu": "exact", "causal": False}


def version_of(distribution):
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def peer_list():
    """What is installed, and what is not and how to get it."""
    entries = []
    known = [(peer, attention, None, distribution, ["core", "module"] if core else ["module"], DTYPES if core else ["float32"])
             for peer, (attention, distribution, _, core) in PEERS.items()]
    known += [(peer, attention, package, distribution, ["model"], ["float32"])
              for peer, (attention, package, distribution, _) in MODELS.items()]
    for peer, attention, package, distribution, scopes, dtypes in known:
        absent = [name for name in dict.fromkeys(["torch", "numpy", distribution]) if version_of(name) is None]
        if absent:
            entries.append({"peer": peer, "missing": f"{' and '.join(absent)} not installed: pip install -r "
                                                     f"{Path(__file__).parent}/requirements.txt"})
        else:
            entries.append({"peer": peer, "attention": attention, "package": package or f"{distribution} {version_of(distribution)}",
                            "scopes": scopes, "dtypes": dtypes})
    return entries


# ---- One pass ------------------------------------------------------------------------------------------------------------------
def ready_seconds():
    """Seconds for which this process's threads ran, and were ready and had to wait for a processor."""
    ran = waited = 0
    for task in Path("/proc/self/task").iterdir():
        try:
            one = (task / "schedstat").read_text().split()
        except OSError:
            continue  # it has just ended
        ran += int(one[0])
        waited += int(one[1])
    return ran * 1e-9, waited * 1e-9


def status_kib(name):
    return int(Path("/proc/self/status").read_text().split(name + ":")[1].split()[0])


def limit_address_space(limit, threads):
    """As lra does: what does not fit is refused, before the kernel has to kill."""
    resource.setrlimit(resource.RLIMIT_AS, (status_kib("VmSize") * 1024 + limit + (threads + 1) * ARENA, resource.RLIM_INFINITY))


def bootstrap_precision(samples):
    import numpy

    samples = numpy.asarray(samples)
    draw = numpy.random.default_rng(0).integers(0, len(samples), (BOOTSTRAP, len(samples)))
    medians = numpy.median(samples[draw], axis=1)
    median = numpy.median(samples)
    low, high = numpy.quantile(medians, [0.025, 0.975])
    return max(high - median, median - low) / median


def peak_bytes(call, device):
    """The highest sum of bytes allocated and not freed during one call."""
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        call()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        call()
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    live = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    return peak


class Unsupported(RuntimeError):
    """What is asked for is another model than the package's."""


def unlike_recipe(model):
    """Why the released recipe's model is not the one that a cell asks for; "" where it is."""
    sizes = model["sizes"]
    if model["inputs"] != 1:
        return "the released recipe's model is here for tasks of one sequence alone"
    if model["labels"] != "samples" or model["objective"] != "classify":
        return "the released recipe's model classifies samples alone"
    other = [f"model.{key}={json.dumps(sizes[key]).strip(chr(34))}" for key, value in RECIPE.items() if sizes[key] != value]
    if sizes["feed_forward"] == 0:
        other.append("model.feed_forward=0")
    return f"the released recipe's model has no {', '.join(other)}" if other else ""


def prepared_model(cell, device):
    """The released recipe's model, and a forward pass or a training step of it."""
    import released_recipe
    import torch

    model = cell["model"]
    if unlike := unlike_recipe(model):
        raise Unsupported(unlike)
    training = cell["mode"] == "training"
    attention = getattr(released_recipe, MODELS[cell["peer"]][3])
    module = released_recipe.Model(attention, model["sizes"], cell["length"], model["vocabulary"], model["classes"])
    module.to(device).train(training)
    tokens = torch.randint(1, model["vocabulary"], (cell["batch"], cell["length"]), device=device)
    labels = torch.randint(0, model["classes"], (cell["batch"],), device=device)
    mask = torch.ones(tokens.shape, device=device)
    if not training:
        def infer():
            with torch.no_grad():
                module(tokens, mask)

        return module, infer

    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4)

    def step():
        torch.nn.functional.cross_entropy(module(tokens, mask), labels).backward()
        optimizer.step()
        optimizer.zero_grad()

    return module, step


def prepared(cell, device):
    """The module of a cell, and a call of it with nothing left to make."""
    import torch

    torch.manual_seed(0)
    if cell["scope"] == "model":
        return prepared_model(cell, device)
    training, dtype = cell["mode"] == "training", getattr(torch, cell["dtype"])
    _, _, make_layer, make_core = PEERS[cell["peer"]]
    if cell["scope"] == "core":
        module, shapes, forward = make_core(cell)
    else:
        module, forward = make_layer(cell)
        shapes = joined(cell, 1)
    if dtype != torch.float32:
        module.to(dtype)  # of float32 too it would drop the imaginary parts of complex parameters
    module.to(device).train(training)
    inputs = [torch.randn(shape, dtype=dtype, device=device, requires_grad=training) for shape in shapes]

    if not training:
        def infer():
            with torch.no_grad():
                forward(*inputs)

        return module, infer

    with torch.no_grad():
        gradient = torch.randn_like(forward(*inputs))

    def train():
        forward(*inputs).backward(gradient)
        module.zero_grad(set_to_none=True)
        for tensor in inputs:
            tensor.grad = None

    return module, train


def measured(request):
    """One pass of a cell: what a line of a profile says of it."""
    import torch

    cell, seconds, device = request["cell"], request["seconds"], torch.device(request["device"])
    module, call = prepared(cell, device)

    def wait():
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    # As between our own calls: the second level cache holds none of the operands.
    flush_bytes = request.get("flush_bytes", 0) if device.type == "cuda" else 0
    flushed = torch.empty(flush_bytes, dtype=torch.uint8, device=device)

    def timed():
        if flush_bytes:
            flushed.zero_()
        wait()
        begin = time.perf_counter_ns()
        call()
        wait()
        return (time.perf_counter_ns() - begin) / 1e6

    calls = [timed()]
    begin = time.perf_counter()
    calls.append(timed())
    while len(calls) < 3 or max(calls[-3:]) > 1.05 * min(calls[-3:]):
        if time.perf_counter() - begin > seconds / 3:
            break
        calls.append(timed())
    samples = []
    before, begin = ready_seconds(), time.perf_counter()
    look = 6
    while True:
        samples.append(round(timed(), 6))
        passed = time.perf_counter() - begin
        if passed > seconds or (len(samples) >= MOST_SAMPLES and passed > 0.05):
            break
        if len(samples) >= look and passed > 0.05:
            look = len(samples) + (len(samples) + 3) // 4
            if bootstrap_precision(samples) <= PRECISION:
                break
    ran, waited = (now - then for now, then in zip(ready_seconds(), before))
    others = min(max(waited / (ran + waited), 0), 1) if ran + waited > 0 else 0
    process_peak = status_kib("VmHWM") / 1024  # before the profiler adds its own
    one_pass = {"samples": len(samples), "warm_up": len(calls), "others": others}
    if others > NOISE:
        one_pass["noisy"] = f"others took {100 * others:.0f} % of the processors' time"
    state = list(module.parameters()) + list(module.buffers())
    # lra recomputes the median and its interval over all passes.
    return {"time_ms": {"median": sorted(samples)[len(samples) // 2], "samples": samples, "passes": [one_pass]},
            "memory_mib": {"peak": peak_bytes(call, device) / 2**20, "process_peak": process_peak,
                           "parameters": sum(t.numel() * t.element_size() for t in state) / 2**20}}


def run_child(request):
    cell = request["cell"]
    if request["processors"]:
        os.sched_setaffinity(0, request["processors"])  # before the first thread
    import torch

    torch.set_num_threads(request["threads"])
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False  # as in lra
    line = {"schema": "lra.profile/1", "attention": {"name": cell["attention"], "label": cell["attention"], "options": {}},
            "status": "ok", "reason": "", "device": request["device"],
            "software": {"python": sys.version.split()[0], "torch": torch.__version__, cell["package"].split()[0]: cell["package"].split()[1]}}
    line |= {key: cell[key] for key in ("length", "batch", "heads", "head_dim", "scope", "mode", "dtype")}
    if request["memory_limit"] > 0 and request["device"] == "cpu":
        limit_address_space(request["memory_limit"], request["threads"])
    try:
        line |= measured(request)
    except (RuntimeError, MemoryError) as error:
        text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        oom = isinstance(error, MemoryError) or any(
            words in text for words in ("can't allocate memory", "bad_alloc", "CUDA out of memory", "CUBLAS_STATUS_ALLOC_FAILED"))
        status = "unsupported" if isinstance(error, Unsupported) else "oom" if oom else "crash"
        line |= {"status": status, "reason": f"out of memory: {text}" if oom else text}
    return line


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--list", action="store_true", help="what is here, as JSON")
    what.add_argument("--child", metavar="REQUEST", help="measure one pass of a cell, as lra profile asks for it")
    options = parser.parse_args()
    print(json.dumps(peer_list() if options.list else run_child(json.loads(options.child))))


if __name__ == "__main__":
    main()
