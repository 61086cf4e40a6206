"""New cases: what they are of, and their inputs, drawn from a seed."""

import numpy as np

G = "google-research/long-range-arena cd31e5c"
N = "mlpen/Nystromformer 5689313"
S = "pkuzengqi/Skyformer 1a677cb"
RELEASES = {"g": G, "n": N, "s": S}

def mixed(draw, batch, length):
    """One sample of each: no padding, behind, everywhere, before the first token, within, all but one."""
    mask = np.ones((batch, length), bool)
    for i, name in enumerate(("none", "tails", "empty", "first", "holes", "one")[:batch]):
        if name != "none" and (name != "first" or length > 2):
            mask[i] = MASKS[name](draw, 1, length)[0]
    return mask


# What masks hide of a batch of B samples of N positions: padding behind, everywhere, before, within.
MASKS = {
    "none": lambda draw, b, n: None,
    "tails": lambda draw, b, n: np.arange(n) < draw.integers(max(1, n // 3), n + 1, (b, 1)),
    "empty": lambda draw, b, n: np.arange(n) < np.append(0, draw.integers(1, n + 1, b - 1)).astype(int)[:, None],
    "first": lambda draw, b, n: (np.arange(n) > 0) & (np.arange(n) < draw.integers(max(2, n // 2), n + 1, (b, 1))),
    "holes": lambda draw, b, n: draw.random((b, n)) < 0.6,
    "mixed": mixed,
    "one": lambda draw, b, n: np.arange(n) < np.append(np.ones(1, int), np.full(b - 1, n))[:, None],
}


def draw_attention(about):
    """q, k, v, mask, grad_output and the tables that the release does not draw by itself."""
    how, options = about["draw"], about["options"]
    draw = np.random.default_rng(how["seed"])
    batch, heads, length, d = how["sizes"]
    shape = (batch, heads, length, d)
    tensors = {name: draw.standard_normal(shape) for name in ("q", "k", "v")}
    for name in ("q", "k"):
        tensors[name] = tensors[name] * how.get("scale", 1.0) + how.get("offset", 0.0)
    mask = MASKS[how["mask"]](draw, batch, length)
    release = about["case"][0]
    if mask is None and release != "g":
        mask = np.ones((batch, length), bool)
    if mask is not None:
        tensors["mask"] = mask
    tensors["grad_output"] = draw.standard_normal(shape)
    if release != "g":
        tensors["grad_output"] *= mask[:, None, :, None]
    kind = about["attention"]
    if kind == "linformer":
        rows = options["projected_length"]
        tensors["param.projection.key"] = draw.standard_normal((rows, length) if release == "g" else (heads, rows, length)) * 0.2
    elif kind == "synthesizer":
        tensors["param.r"] = draw.standard_normal((heads, length, length)) * 0.5
    elif kind == "performer" and options.get("kernel") != "relu_identity":
        tensors["param.projection"] = draw.standard_normal((options["num_features"], d))
    elif kind == "nystrom" and options["conv_kernel_size"] > 0:
        tensors["param.conv.weight"] = draw.standard_normal((heads, 1, options["conv_kernel_size"], 1)) * 0.2
    elif kind == "skyformer":
        half, real = options["num_features"] // 2, mask.sum(1, keepdims=True)
        rows = (draw.random((1, options["num_features"])) * real).astype(np.int64)
        rows[:, half:] += length
        tensors["param.landmarks"] = rows
    elif kind == "reformer":
        tensors["k"] = tensors["q"]
        if release == "n":
            shape = (heads, d, options["num_hashes"], options["num_buckets"] // 2)
            tensors["param.rotations"] = draw.standard_normal(shape)
    return {name: np.ascontiguousarray(t) for name, t in tensors.items()}


def draw_tokens(about):
    """Ids, 0 of them padding, grad_output, and features that the release draws."""
    how, sizes = about["draw"], about["sizes"]
    draw = np.random.default_rng(how["seed"])
    batch, length = how.get("batch", 6 if how["mask"] == "mixed" else 3), sizes["length"]
    tensors = {}
    for name in ("tokens1", "tokens2") if how.get("pair") else ("tokens",):
        ids = draw.integers(1, sizes["vocab"], (batch, length))
        mask = MASKS[how["mask"]](draw, batch, length)
        tensors[name] = ids if mask is None else ids * mask
    tensors["grad_output"] = draw.standard_normal((batch, sizes["classes"]))
    if about["attention"] == "performer" and about["options"].get("kernel") != "relu_identity":
        for layer in range(sizes["layers"]):
            drawn = draw.standard_normal((about["options"]["num_features"], sizes["inner"] // sizes["heads"]))
            tensors[f"projection.{layer}"] = drawn.astype(np.float32).astype(np.float64)
    return tensors


def draw_parameter(draw, name, shape):
    """Away from what they are at the start: a bias or a scale that is forgotten shows."""
    last = name.replace("/", ".").split(".")[-1]
    if last == "bias":
        return 0.1 * draw.standard_normal(shape)
    if last == "scale" or "norm" in name and last == "weight":
        return 1 + 0.1 * draw.standard_normal(shape)
    if last in ("embedding", "cls") or "word_embeddings" in name:
        return draw.standard_normal(shape)
    if last in ("pos_embedding", "lr_kernel", "random", "E") or "position_embeddings" in name:
        return 0.3 * draw.standard_normal(shape)
    fan_in = shape[0] if "/" in name else int(np.prod(shape[1:]))
    if name.endswith("out/kernel"):
        fan_in = shape[0] * shape[1]
    return draw.standard_normal(shape) / np.sqrt(fan_in)


def inputs_of(about, runner):
    if about["level"] == "attention":
        return draw_attention(about)
    tensors = draw_tokens(about)
    draw = np.random.default_rng(about["draw"]["seed"] + 1)
    for name, shape in sorted(runner.shapes(about, tensors).items()):
        tensors["param." + name] = draw_parameter(draw, name, shape).astype(np.float32)
    return tensors
