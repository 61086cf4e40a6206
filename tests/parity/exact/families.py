"""Which attention of which release a case is of, in the release's words and in ours."""

from .cases import G, N, RELEASES, S

# Attention of a release -> its file, and what it does with padding.
FILES = {
    "g": {
        "standard": "models/transformer/transformer.py",
        "local": "models/local/local_attention.py",
        "longformer": "models/longformer/longformer_attention.py",
        "sparse": "models/sparse_transformer/sparse_attention.py",
        "sinkhorn": "models/sinkhorn_transformer/sinkhorn_attention.py",
        "synthesizer": "models/synthesizer/synthesizer_attention.py",
        "linformer": "models/linformer/linformer_attention.py",
        "linear": "models/linear_transformer/linear_attention.py",
        "performer": "models/performer/performer_attention.py",
        "bigbird": "models/bigbird/bigbird_attention.py",
        "reformer": "models/reformer/reformer_attention.py",
    },
    "n": {"softmax": "attention.py"},
    "s": {"softmax": "attention.py"},
}
FOLDERS = {"g": "lra_benchmarks/", "n": "LRA/code/", "s": "src/models/"}
PROTOCOLS = {"g": "tay2020", "n": "nystromformer2021", "s": "skyformer2021"}
UNMASKED = ("linformer", "linear", "performer", "reformer")  # of G


def spec(name, options):
    words = ",".join(f"{key}={value}" for key, value in options.items())
    return f"{name}[{words}]" if words else name


def ours_of(release, kind, options):
    """The task whose protocol means it so, and what `--attention` says."""
    task, name, said = "listops", kind, dict(options)
    if kind == "softmax":
        name = "standard"
    if kind == "sparse" and said.pop("cls") == "token":
        task = "pathfinder"
    if said.pop("kernel", None) == "relu_identity":
        task, said = "text", {}
    if said.get("conv_kernel_size") == 0 and release == "s":
        del said["conv_kernel_size"]
    if said.get("init") == "per_head":
        said["init"] = "per_matrix"
    return {"protocol": PROTOCOLS[release], "task": task, "attention": spec(name, said)}


def source_of(release, kind):
    file = FILES[release].get(kind, f"attention_{kind}.py")
    return f"{RELEASES[release]} {FOLDERS[release]}{file}"


def attention(name, kind, options, sizes, mask="tails", seed=0, exercises="", **draw):
    """sizes: B, H, N, d."""
    release = name[0]
    settings = {}
    if release == "g":
        settings = {"input.mask": "none"} if kind in UNMASKED else {"model.padded_rows": "uniform"}
    return {
        "case": name,
        "level": "attention",
        "source": source_of(release, kind),
        "exercises": exercises,
        "attention": kind,
        "options": options,
        "settings": settings,
        "ours": ours_of(release, kind, options),
        "tolerance": 1e-08,
        "draw": {"seed": seed, "sizes": list(sizes), "mask": mask} | draw,
    }


def model(name, kind, options, length, pooling, mask="tails", seed=0, exercises="", positions="sinusoidal", heads=2, **more):
    """A whole model, of small sizes. `more`: width, pair, batch."""
    release = name[1] if name[1] != "_" else "g"
    width = more.pop("width", 16)
    sizes = {"vocab": width, "width": width, "heads": heads, "layers": 2, "inner": width}
    sizes |= {"feed_forward": width * 3 // 2, "classes": 4, "length": length}
    settings = {"model.pooling": pooling, "model.positions": positions}
    pair = more.pop("pair", False)
    ours = ours_of(release, kind, options)
    sets = [f"model.width={sizes['width']}", f"model.heads={heads}", f"model.head_dim={sizes['inner'] // heads}"]
    sets += [f"model.layers={sizes['layers']}"]
    sets += [f"model.{key}={sizes['feed_forward']}" for key in ("feed_forward", "classifier")]
    if pair:
        ours["task"] = "retrieval"
    if release == "g":
        sets += [f"model.pooling={pooling}", f"model.positions={positions}"]
        if kind == "sinkhorn":
            sets.append(f"model.head={'mlp' if pair else 'linear'}")
    return {
        "case": name,
        "level": "model",
        "source": source_of(release, kind),
        "exercises": exercises,
        "attention": kind,
        "options": options,
        "settings": settings,
        "ours": ours | {"set": sets},
        "tolerance": 1e-08,
        "sizes": sizes,
        "draw": {"seed": seed, "mask": mask, "pair": pair} | more,
    }
