"""Many cases of every released form, for a program to be held against: seeds, sizes, masks and scales in turn."""

import itertools

from .families import attention, model

MASKS = ("none", "mixed")


def turned(name, kind, options, sizes, masks=MASKS, seed=0, **draw):
    for i, (option, size) in enumerate(itertools.product(options, sizes)):
        for mask in masks:
            batch = 6 if mask == "mixed" else size[0]
            yield attention(f"{name}_{i}_{mask}", kind, option, (batch, *size[1:]), mask, seed + i, **draw)


SMALL = [(3, 2, 60, 8), (2, 1, 1, 4), (2, 3, 7, 5)]


def google():
    plain = [{}]
    yield from turned("g_standard", "standard", plain, SMALL + [(2, 2, 33, 16)])
    yield from turned("g_standard_large", "standard", plain, [(2, 2, 31, 8)], scale=8.0)
    blocks = [{"block": 16}, {"block": 5}, {"block": 64}, {"block": 1}]
    yield from turned("g_local", "local", blocks, [(2, 2, 60, 8), (3, 1, 64, 4), (2, 3, 15, 5), (2, 1, 1, 4)])
    yield from turned("g_local_large", "local", [{"block": 10}], [(2, 2, 60, 8)], scale=8.0)
    windows = [{"window": w} for w in (1, 2, 3, 5, 16, 17, 200)]
    yield from turned("g_longformer", "longformer", windows, [(3, 2, 50, 8), (2, 1, 1, 4)], MASKS)
    shapes = [(3, 2, 61, 8), (2, 1, 8, 4), (2, 3, 40, 5)]
    for cls in ("open", "token"):
        forms = [{"block": 10, "summary": 3, "cls": cls}, {"block": 50, "summary": 10, "cls": cls}]
        forms += [{"block": 4, "summary": 4, "cls": cls}, {"block": 1, "summary": 1, "cls": cls}]
        yield from turned(f"g_sparse_{cls}", "sparse", forms, shapes, MASKS)
    yield from turned("g_sinkhorn", "sinkhorn", [{"block": 16}], [(3, 2, 64, 8), (2, 1, 16, 4), (2, 3, 48, 5)])
    yield from turned("g_sinkhorn_b", "sinkhorn", [{"block": 5}, {"block": 1}], [(3, 2, 60, 8), (2, 1, 5, 4)])
    yield from turned("g_sinkhorn_large", "sinkhorn", [{"block": 8}], [(2, 2, 64, 8)], scale=4.0)
    yield from turned("g_synthesizer", "synthesizer", plain, [(3, 2, 40, 8), (2, 3, 7, 5), (2, 1, 1, 4)])
    ranks = [{"projected_length": k} for k in (16, 3, 64)]
    yield from turned("g_linformer", "linformer", ranks, [(3, 2, 60, 8), (2, 1, 7, 5)], MASKS)
    for scale, offset in ((1.0, 0.0), (0.01, 0.0), (6.0, 0.0), (1.0, -8.0), (1.0, 5.0)):
        label = f"{scale:g}_{offset:g}".replace(".", "").replace("-", "m")
        given = {"scale": scale, "offset": offset}
        yield from turned(f"g_linear_{label}", "linear", plain, [(3, 2, 60, 8), (2, 1, 1, 5)], ("mixed",), **given)
        relu = [{"kernel": "relu_identity"}]
        yield from turned(f"g_performer_relu_{label}", "performer", relu, [(3, 2, 60, 8), (2, 1, 3, 5)], ("mixed",), **given)
        drawn = [{"num_features": 2}, {"num_features": 9}]
        yield from turned(f"g_performer_{label}", "performer", drawn, [(3, 2, 60, 8), (2, 1, 3, 5)], ("mixed",), **given)
    random = [{"block": b, "random_blocks": r, "seed": s} for b, r, s in ((8, 3, 0), (8, 3, 5), (4, 1, 1), (4, 2, 3))]
    yield from turned("g_bigbird", "bigbird", random, [(3, 2, 96, 8), (2, 1, 101, 4), (2, 3, 130, 5)])
    few = [{"block": 8, "random_blocks": 3, "seed": 2}]
    yield from turned("g_bigbird_few", "bigbird", few, [(2, 2, n, 4) for n in (32, 40, 48, 56, 63, 64, 72)], ("mixed",))
    yield from turned("g_bigbird_long", "bigbird", [{"block": 64, "random_blocks": 3, "seed": 1}], [(1, 2, 1300, 4), (1, 1, 1025, 4)], ("tails",))
    reformers = [(3, 2, 60, 8), (2, 4, 61, 5), (2, 1, 9, 4), (1, 3, 10, 7), (2, 2, 1, 6), (1, 2, 1001, 8)]
    yield from turned("g_reformer", "reformer", plain, reformers, ("mixed",))
    yield from turned("g_reformer_large", "reformer", plain, [(2, 2, 47, 16)], ("none",), scale=3.0)


def models():
    kinds = [("standard", {}), ("linformer", {"projected_length": 16}), ("linear", {}), ("local", {"block": 16})]
    kinds += [("performer", {"kernel": "relu_identity"}), ("performer", {"kernel": "softmax", "num_features": 2})]
    kinds += [("longformer", {"window": 16}), ("synthesizer", {}), ("reformer", {})]
    kinds += [("bigbird", {"block": 8, "random_blocks": 3})]
    seed = 0
    for (kind, options), pooling, positions in itertools.product(kinds, ("cls", "mean"), ("sinusoidal", "learned")):
        for length, mask in ((61, "mixed"), (80, "none")):
            seed += 1
            name = f"m_{kind}_{seed}_{pooling}_{positions}"
            yield model(name, kind, options, length, pooling, mask, seed, positions=positions, heads=1 + seed % 2)
    for cls, pooling in (("open", "cls"), ("token", "mean")):
        for positions in ("sinusoidal", "learned"):
            seed += 1
            options = {"block": 16, "summary": 4, "cls": cls}
            yield model(f"m_sparse_{seed}_{pooling}_{positions}", "sparse", options, 61, pooling, "mixed", seed, positions=positions)
    for positions in ("sinusoidal", "learned"):
        seed += 1
        yield model(f"m_sinkhorn_{seed}_mean", "sinkhorn", {"block": 16}, 64, "mean", "mixed", seed, positions=positions)
    pairs = kinds[:3] + [("local", {"block": 50}), kinds[4], ("longformer", {"window": 512}), kinds[7], kinds[8]]
    pairs += [("bigbird", {"block": 64, "random_blocks": 3}), ("sinkhorn", {"block": 50})]
    for (kind, options), pooling in itertools.product(pairs, ("first", "mean")):
        seed += 1
        length = {"bigbird": 450, "sinkhorn": 100}.get(kind, 60)
        yield model(f"m_{kind}_pair_{seed}_{pooling}", kind, options, length, pooling, "mixed", seed, pair=True)
    for pooling in ("first", "mean"):  # a pair's encoders take the open form whatever is pooled
        seed += 1
        options = {"block": 16, "summary": 4, "cls": "open"}
        yield model(f"m_sparse_pair_{seed}_{pooling}", "sparse", options, 61, pooling, "mixed", seed, pair=True)


def papers(release):
    seed = 100
    masks = ("none", "mixed", "one")
    yield from turned(f"{release}_softmax", "softmax", [{}], [(3, 2, 60, 8), (2, 1, 1, 4)], masks, seed)
    if release == "n":
        yield from turned("n_linear", "linear", [{}], [(3, 2, 60, 8), (2, 1, 1, 4), (2, 3, 7, 5)], masks, seed)
        yield from turned("n_linear_negative", "linear", [{}], [(2, 2, 20, 8)], masks, seed, offset=-8.0)
    landmarks = [(60, 12), (64, 32), (64, 64), (64, 1), (33, 11), (8, 8), (64, 16)]
    for conv in (0, 3, 35) if release == "n" else (0,):
        for init in ("original", "per_head"):
            for length, m in landmarks:
                options = {"num_landmarks": m, "conv_kernel_size": conv}
                options |= {"init": "per_head"} if init == "per_head" else {}
                name = f"{release}_nystrom_{conv}_{init}_{length}_{m}"
                yield from turned(name, "nystrom", [options], [(3, 2, length, 8)], masks, seed + m)
    for scale in (1.0, 0.01, 5.0):
        label = f"{scale:g}".replace(".", "")
        features = [{"num_features": m} for m in (24, 1, 64)]
        yield from turned(f"{release}_performer_{label}", "performer", features, [(3, 2, 40, 8), (2, 1, 3, 5)], masks, seed, scale=scale)
    ranks = [{"projected_length": k} for k in (16, 3)]
    yield from turned(f"{release}_linformer", "linformer", ranks, [(3, 2, 40, 8), (2, 1, 7, 5)], masks, seed)
    if release == "n":
        hashes = [{"num_hashes": h, "chunk_length": 64, "num_buckets": 4} for h in (1, 2, 4)]
        yield from turned("n_reformer", "reformer", hashes, [(2, 2, 128, 8)], ("mixed",), seed)
        hashes = [{"num_hashes": 2, "chunk_length": 64, "num_buckets": 8}]
        yield from turned("n_reformer_b", "reformer", hashes, [(2, 1, 256, 8)], ("mixed",), seed)
    else:
        features = [{"num_features": m} for m in (16, 2, 32)]
        for scale in (1.0, 0.05, 4.0):
            label = f"{scale:g}".replace(".", "")
            yield from turned(f"s_skyformer_{label}", "skyformer", features, [(3, 2, 40, 8), (2, 1, 9, 32)], ("mixed",), seed, scale=scale)
        plans = [(16, 256, 3), (8, 128, 3), (4, 64, 2), (8, 96, 3), (8, 80, 1)]
        plans += [(16, 1024, 3), (64, 1024, 3), (64, 2048, 3), (64, 4096, 3)]
        for block, length, random in plans:
            reach = 1024 if length in (1024, 3072, 4096) else (2 * random + 5) * block
            options = {"block": block, "random_blocks": random, "seed": 42, "random_range": reach}
            size = (1, 2, length, 4) if length >= 1024 else (3, 2, length, 8)
            masks_here = MASKS if length < 1024 else ("tails",)
            yield from turned(f"s_bigbird_{length}_{block}_{random}", "bigbird", [options], [size], masks_here, seed)
    for kind, options in (
        ("softmax", {}),
        ("linear", {}),
        ("nystrom", {"num_landmarks": 8, "conv_kernel_size": 0 if release == "s" else 5}),
        ("performer", {"num_features": 12}),
        ("linformer", {"projected_length": 8}),
        ("bigbird", {"block": 4, "random_blocks": 1, "seed": 42, "random_range": 28}),
    ):
        if (kind, release) in (("linear", "s"), ("bigbird", "n")):
            continue
        # What is over a whole batch, ours takes over both inputs: docs/protocols.md.
        pairs = (False,) if kind in ("nystrom", "performer") else (False, True)
        for mask, pair in itertools.product(MASKS, pairs):
            seed += 1
            name = f"m{release}_{kind}_{seed}_{mask}" + "_pair" * pair
            yield model(name, kind, options, 64, "mean", mask, seed, positions="learned", pair=pair)


def all_cases():
    yield from google()
    yield from models()
    yield from papers("n")
    yield from papers("s")
