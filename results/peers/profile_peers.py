#!/usr/bin/env python3
"""Memory and time of the attention layers of public Python packages, as `lra profile` measures its own.

    python3 -m venv peers && peers/bin/pip install -r results/peers/requirements.txt
    ./run profile --preset table1 --out t1.jsonl
    peers/bin/python results/peers/profile_peers.py --out peers.jsonl
    ./run report t1.jsonl peers.jsonl --out t1            # "here / the package" among its tables

The lines are those of `lra profile` (schema lra.profile/1) with the package in the field `package`; the attention is the one of
lra that computes the same kind of function with the same sizes. The default shapes are those of the preset table1.

Same method: a process a cell and pass, passes of one length interleaved in random order, threads pinned, inputs made beforehand,
warm-up until three calls lie within 5 % of each other, samples until the median's bootstrap interval is within 2 % or the time is
over, noisy passes repeated. What differs:
- Memory is the peak of the bytes that LibTorch's profiler reports as allocated and not yet freed during one call, above the start;
  lra counts at the allocator. Both see tensors alone, and the same ones.
- The fixed chain of operations that shows a change of the processor's clock is not run here; a pass is noisy by the time its
  threads had to wait for a processor.
- A package's layer computes what it computes: the differences in function are named at each peer below. No mask is given, since
  several packages take none; lra's own layers are given one in which every token is real.
"""

import argparse
import importlib.metadata
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

BOOTSTRAP = 1000
PRECISION = 0.02
NOISE = 0.05  # of the processors' time
WIDE = 0.1


# ---- The peers: package -> a layer [B,N,D] -> [B,N,D] that stands for an attention of lra ---------------------------------------
def torch_mha(width, heads, length, need_weights):
    """torch's own layer; with need_weights it writes the N x N matrix (and averages it over heads)."""
    import torch

    layer = torch.nn.MultiheadAttention(width, heads, batch_first=True)
    return layer, lambda x: layer(x, x, x, need_weights=need_weights)[0]


def nystrom_attention(width, heads, length):
    from nystrom_attention import NystromAttention

    layer = NystromAttention(width, dim_head=width // heads, heads=heads, num_landmarks=64, pinv_iterations=6, residual=True,
                             residual_conv_kernel=35)
    return layer, layer


def with_output(attention, width):
    """An attention of transformers has no output projection: lra's has."""
    import torch

    layer = torch.nn.ModuleDict({"attention": attention, "output": torch.nn.Linear(width, width)})
    return layer


def transformers_nystrom(width, heads, length):
    from transformers import NystromformerConfig
    from transformers.models.nystromformer.modeling_nystromformer import NystromformerSelfAttention

    config = NystromformerConfig(hidden_size=width, num_attention_heads=heads, num_landmarks=64, conv_kernel_size=35,
                                 segment_means_seq_len=length, attention_probs_dropout_prob=0.0)
    layer = with_output(NystromformerSelfAttention(config), width)
    return layer, lambda x: layer["output"](layer["attention"](x)[0])


def transformers_longformer(width, heads, length):
    import torch
    from transformers import LongformerConfig
    from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

    config = LongformerConfig(hidden_size=width, num_attention_heads=heads, attention_window=[256], num_hidden_layers=1,
                              attention_probs_dropout_prob=0.0)
    layer = with_output(LongformerSelfAttention(config, layer_id=0), width)

    def call(x):
        none = torch.zeros(x.shape[:2])  # no padding, no global token
        hidden = layer["attention"](x, attention_mask=none, is_index_masked=none.bool(), is_index_global_attn=none.bool(),
                                    is_global_attn=False)[0]
        return layer["output"](hidden)

    return layer, call


def linformer(width, heads, length):
    from linformer.linformer import LinformerSelfAttention

    layer = LinformerSelfAttention(width, length, k=256, heads=heads)
    return layer, layer


def performer(width, heads, length):
    from performer_pytorch import SelfAttention

    layer = SelfAttention(width, heads=heads, dim_head=width // heads, nb_features=256, causal=False)
    return layer, layer


def reformer(width, heads, length):
    from reformer_pytorch import LSHSelfAttention

    layer = LSHSelfAttention(width, heads=heads, bucket_size=64, n_hashes=2, causal=False)
    return layer, layer


# Name -> (attention of lra, its options as lra writes them in a label, distribution on PyPI, maker)
PEERS = {
    "torch": ("standard", "", "torch", lambda w, h, n: torch_mha(w, h, n, False)),
    "torch-weights": ("standard", "[implementation=materialized]", "torch", lambda w, h, n: torch_mha(w, h, n, True)),
    "nystrom-attention": ("nystrom", "", "nystrom-attention", nystrom_attention),
    "transformers-nystrom": ("nystrom", "", "transformers", transformers_nystrom),
    "transformers-longformer": ("longformer", "", "transformers", transformers_longformer),
    "linformer": ("linformer", "", "linformer", linformer),
    "performer-pytorch": ("performer", "", "performer-pytorch", performer),
    "reformer-pytorch": ("reformer", "", "reformer-pytorch", reformer),
}


# ---- One pass, in a process of its own --------------------------------------------------------------------------------------
def waited_seconds():
    """Seconds for which this process's threads were ready and had to wait for a processor."""
    total = 0
    for task in Path("/proc/self/task").iterdir():
        try:
            total += int((task / "schedstat").read_text().split()[1])
        except OSError:
            pass  # it has just ended
    return total * 1e-9


def bootstrap_precision(samples):
    import numpy

    samples = numpy.asarray(samples)
    draw = numpy.random.default_rng(0).integers(0, len(samples), (BOOTSTRAP, len(samples)))
    medians = numpy.median(samples[draw], axis=1)
    median = numpy.median(samples)
    low, high = numpy.quantile(medians, [0.025, 0.975])
    return max(high - median, median - low) / median


def peak_bytes(call):
    """The highest sum of bytes allocated and not freed during one call."""
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        call()
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    live = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    return peak


def run_pass(cell):
    import torch

    torch.set_num_threads(cell["threads"])
    torch.manual_seed(0)
    width = cell["heads"] * cell["head_dim"]
    layer, forward = PEERS[cell["peer"]][3](width, cell["heads"], cell["length"])
    training = cell["mode"] == "training"
    layer.train(training)
    x = torch.randn(cell["batch"], cell["length"], width, requires_grad=training)
    gradient = torch.randn(cell["batch"], cell["length"], width)

    def call():
        if not training:
            with torch.no_grad():
                forward(x)
            return
        forward(x).backward(gradient)
        x.grad = None
        layer.zero_grad(set_to_none=True)

    def timed():
        begin = time.perf_counter_ns()
        call()
        return (time.perf_counter_ns() - begin) / 1e6

    seconds = cell["seconds"]
    begin = time.perf_counter()
    calls = [timed(), timed()]
    while len(calls) < 3 or max(calls[-3:]) > 1.05 * min(calls[-3:]):
        if time.perf_counter() - begin > seconds / 3:
            break
        calls.append(timed())
    samples = []
    waited, begin = waited_seconds(), time.perf_counter()
    look = 6
    while True:
        samples.append(round(timed(), 6))
        passed = time.perf_counter() - begin
        if len(samples) >= 300 or passed > seconds:
            break
        if len(samples) >= look and passed > 0.05:
            look = len(samples) + (len(samples) + 3) // 4
            if bootstrap_precision(samples) <= PRECISION:
                break
    others = min(max((waited_seconds() - waited) / (time.perf_counter() - begin) / cell["threads"], 0), 1)
    status = Path("/proc/self/status").read_text()
    peak = peak_bytes(call)
    state = list(layer.parameters()) + list(layer.buffers())
    one_pass = {"samples": len(samples), "warm_up": len(calls), "others": others}
    if others > NOISE:
        one_pass["noisy"] = f"others took {100 * others:.0f} % of the processors"
    return {"samples": samples, "pass": one_pass, "peak": peak / 2**20,
            "parameters": sum(t.numel() * t.element_size() for t in state) / 2**20,
            "process_peak": int(status.split("VmHWM:")[1].split()[0]) / 1024}


# ---- All cells ----------------------------------------------------------------------------------------------------------------
def machine():
    processor = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            processor = line.split(":", 1)[1].strip()
            break
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return {"processor": processor, "cores": len(os.sched_getaffinity(0)), "memory_gib": round(memory, 1), "gpu": None}


def idle_processors(count):
    """Those of ours that are used least, watched for a moment."""

    def busy():
        ticks = {}
        for line in Path("/proc/stat").read_text().splitlines():
            word, *values = line.split()
            if word.startswith("cpu") and word != "cpu":
                user, nice, system, _idle, _wait, irq, soft, steal = map(int, values[:8])
                ticks[int(word[3:])] = user + nice + system + irq + soft + steal
        return ticks

    before = busy()
    time.sleep(0.1)
    after = busy()
    allowed = sorted(os.sched_getaffinity(0), key=lambda p: (after.get(p, 0) - before.get(p, 0), p))
    return sorted(allowed[:count])


def median_over_passes(passes):
    import numpy

    value = float(numpy.median([numpy.median(p) for p in passes]))
    generator = numpy.random.default_rng(0)
    drawn = []
    arrays = [numpy.asarray(p) for p in passes]
    for _ in range(BOOTSTRAP):
        chosen = [arrays[i] for i in generator.integers(0, len(arrays), len(arrays))]
        drawn.append(numpy.median([numpy.median(a[generator.integers(0, len(a), len(a))]) for a in chosen]))
    low, high = numpy.quantile(drawn, [0.025, 0.975])
    return value, [min(value, float(low)), max(value, float(high))]


class Cell:
    def __init__(self, peer, length, options, processors):
        self.request = {"peer": peer, "length": length, "batch": options.batch, "heads": options.heads,
                        "head_dim": options.head_dim, "mode": options.mode, "threads": options.threads,
                        "seconds": options.seconds / options.passes}
        self.options, self.processors = options, processors
        self.status, self.reason, self.passes = "ok", "", []

    def quiet(self):
        return [p for p in self.passes if "noisy" not in p["pass"]]

    def done(self):
        wanted = self.options.passes
        if self.status != "ok" or len(self.passes) >= 2 * wanted:
            return True
        return len(self.quiet()) >= wanted and not self.noisy()

    def used(self):
        passes = self.quiet() if len(self.quiet()) >= self.options.passes else self.passes
        return [p["samples"] for p in passes]

    def noisy(self):
        if len(self.passes) < self.options.passes:
            return f"only {len(self.passes)} of {self.options.passes} passes"
        if len(self.quiet()) < self.options.passes:
            return next(p["pass"]["noisy"] for p in self.passes if "noisy" in p["pass"])
        value, (low, high) = median_over_passes(self.used())
        precision = max(high - value, value - low) / value
        return f"the interval is ±{100 * precision:.0f} %" if precision > WIDE else ""

    def measure(self):
        threads = str(self.options.threads)
        environment = dict(os.environ, OMP_NUM_THREADS=threads, OMP_PROC_BIND="true", OMP_DYNAMIC="false",
                           OMP_PLACES=",".join(f"{{{p}}}" for p in self.processors))
        try:
            child = subprocess.run([sys.executable, __file__, "--child", json.dumps(self.request)], env=environment,
                                   capture_output=True, text=True, timeout=self.options.timeout,
                                   preexec_fn=lambda: os.sched_setaffinity(0, self.processors))
        except subprocess.TimeoutExpired:
            self.fail("timeout", f"took longer than {self.options.timeout} s")
            return
        if child.returncode != 0:
            said = (child.stderr.strip().splitlines() or [""])[-1]
            oom = child.returncode == -9 or "MemoryError" in said or "not enough memory" in said
            self.fail("oom" if oom else "crash", said or f"exit status {child.returncode}")
            return
        self.passes.append(json.loads(child.stdout.splitlines()[-1]))

    def fail(self, status, reason):
        if not self.passes:
            self.status, self.reason = status, reason
            return
        # It ran before: what it has must do.
        self.options.passes, self.reason = min(self.options.passes, len(self.passes)), ""

    def record(self):
        name, label, distribution, _ = PEERS[self.request["peer"]]
        version = importlib.metadata.version(distribution)
        line = {"schema": "lra.profile/1", "attention": {"name": name, "label": name + label, "options": {}},
                "length": self.request["length"], "batch": self.request["batch"], "heads": self.request["heads"],
                "head_dim": self.request["head_dim"], "scope": "module", "mode": self.request["mode"], "dtype": "float32",
                "device": "cpu", "status": self.status, "reason": self.reason, "package": f"{distribution} {version}"}
        if self.passes:
            value, interval = median_over_passes(self.used())
            flat = sorted(s for p in self.used() for s in p)
            line["time_ms"] = {"median": value, "min": flat[0], "ci95": interval,
                               "samples": [s for p in self.passes for s in p["samples"]],
                               "passes": [p["pass"] for p in self.passes]}
            line["memory_mib"] = {key: max(p[key] for p in self.passes) for key in ("peak", "parameters", "process_peak")}
            if self.noisy():
                line["noisy"] = self.noisy()
        line |= {"threads": self.options.threads,
                 "method": {"seconds": self.options.seconds, "passes": self.options.passes, "pinned": self.processors},
                 "machine": machine(),
                 "software": {"python": sys.version.split()[0], "torch": importlib.metadata.version("torch"),
                              distribution: version}}
        return json.dumps(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="JSONL file to write")
    parser.add_argument("--peers", default=",".join(PEERS), help="comma list of " + ", ".join(PEERS))
    parser.add_argument("--lengths", default="512,1024,2048,4096,8192")
    parser.add_argument("--mode", choices=["inference", "training"], default="inference")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--head-dim", type=int, default=64)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=3, help="of samples a cell, over its passes")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=600, help="seconds of a process")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(run_pass(json.loads(options.child))))
        return
    if not options.out:
        parser.error("--out is required: the JSONL file to write")
    peers = options.peers.split(",")
    for peer in peers:
        if peer not in PEERS:
            parser.error(f"unknown peer '{peer}'; valid: {', '.join(PEERS)}")
        try:
            importlib.metadata.version(PEERS[peer][2])
        except importlib.metadata.PackageNotFoundError:
            parser.error(f"{PEERS[peer][2]} is not installed here: pip install -r {Path(__file__).parent}/requirements.txt")
    processors = idle_processors(options.threads)
    cells = []
    order = random.Random(0)
    for length in map(int, options.lengths.split(",")):
        block = [Cell(peer, length, argparse.Namespace(**vars(options)), processors) for peer in peers]
        cells += block
        while todo := [cell for cell in block if not cell.done()]:
            order.shuffle(todo)
            for cell in todo:
                cell.measure()
                if cell.done():
                    print(cell.request["peer"], length, cell.status, cell.reason or cell.noisy(), file=sys.stderr)
                partial = Path(options.out + ".partial")
                partial.write_text("".join(c.record() + "\n" for c in cells if c.passes or c.status != "ok"))
                partial.replace(options.out)


if __name__ == "__main__":
    main()
