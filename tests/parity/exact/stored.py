"""The cases that are stored beside the first 25: what each adds. Small, as they lie in the repository."""

from functools import partial

from .families import attention, model

MIXED = (6, 2, 21, 3)  # one sample of each kind of padding
small = partial(model, width=8)
learned = {"positions": "learned"}


def all_cases():
    yield from google()
    yield from google_models()
    yield from papers("n")
    yield from papers("s")


def google():
    yield attention("g_standard_mixed", "standard", {}, MIXED, "mixed", 1, "every kind of padding in one batch")
    yield attention("g_standard_large", "standard", {}, (2, 2, 17, 4), "first", 2, "logits far from each other", scale=8.0)
    yield attention("g_local_divides", "local", {"block": 7}, MIXED, "mixed", 3, "N divides: a whole block is appended")
    yield attention("g_local_short", "local", {"block": 16}, (3, 1, 11, 3), "empty", 4, "N less than a block")
    yield attention("g_longformer_odd", "longformer", {"window": 5}, MIXED, "mixed", 5, "an odd window: as far to both sides")
    yield attention("g_longformer_one", "longformer", {"window": 1}, (2, 2, 9, 3), "tails", 6, "a window of the position alone")
    options = {"block": 6, "summary": 2}
    yield attention("g_sparse_open_mixed", "sparse", options | {"cls": "open"}, MIXED, "mixed", 7, "an open position that is padding")
    yield attention("g_sparse_token_mixed", "sparse", options | {"cls": "token"}, MIXED, "mixed", 8, "causal, rows that see padding alone")
    yield attention("g_sinkhorn_mixed", "sinkhorn", {"block": 7}, MIXED, "mixed", 9, "every kind of padding")
    yield attention("g_sinkhorn_one_block", "sinkhorn", {"block": 12}, (3, 2, 12, 3), "holes", 10, "one block")
    yield attention("g_synthesizer_mixed", "synthesizer", {}, (6, 2, 15, 3), "mixed", 11, "every kind of padding")
    yield attention("g_linformer_wide", "linformer", {"projected_length": 16}, (2, 2, 7, 3), "tails", 12, "more rows than positions")
    yield attention("g_linear_small", "linear", {}, (2, 2, 21, 3), "tails", 13, "queries and keys near zero", scale=0.01)
    relu = {"kernel": "relu_identity"}
    yield attention("g_performer_relu_large", "performer", relu, (2, 3, 13, 5), "tails", 14, "large queries and keys", scale=6.0)
    features = {"num_features": 2, "kernel": "softmax"}
    yield attention("g_performer_guard", "performer", features, (3, 2, 21, 4), "none", 15, "denominators under the guard", scale=6.0)
    blocks = {"block": 4, "random_blocks": 2, "seed": 3}
    yield attention("g_bigbird_mixed", "bigbird", blocks, (6, 2, 30, 2), "mixed", 16, "N does not divide; seed of another layer")
    yield attention("g_reformer_heads", "reformer", {}, (2, 4, 33, 5), "tails", 17, "rotations as the release draws them; rows over two heads")


def google_models():
    """Whole encoders."""
    drawn = {"kernel": "softmax", "num_features": 2}
    yield small("m_linformer_cls", "linformer", {"projected_length": 16}, 20, "cls", "mixed", 31, "unmasked padding; a table of N + 1")
    yield small("m_linear_mean", "linear", {}, 21, "mean", "mixed", 32, "unmasked padding", **learned)
    yield small("m_performer_cls", "performer", {"kernel": "relu_identity"}, 20, "cls", "mixed", 33, "unmasked padding")
    yield small("m_performer_drawn", "performer", drawn, 20, "cls", "mixed", 34, "features drawn by layer", heads=1)
    yield small("m_longformer_mean", "longformer", {"window": 6}, 24, "mean", "mixed", 35, "an even window", **learned)
    yield small("m_synthesizer_cls", "synthesizer", {}, 15, "cls", "mixed", 36, "a table of N + 1")
    options = {"block": 6, "summary": 2}
    yield small("m_sparse_mean", "sparse", options | {"cls": "token"}, 20, "mean", "mixed", 37, "plain causal pattern")
    yield small("m_bigbird_cls", "bigbird", {"block": 4, "random_blocks": 3}, 39, "cls", "mixed", 38, "a seed of each layer's own")
    yield small("m_reformer_mean", "reformer", {}, 31, "mean", "mixed", 39, "rotations as the release draws them")
    yield small("m_local_pair", "local", {"block": 50}, 60, "first", "first", 40, "the first byte pooled, some of them padding", pair=True)
    yield small("m_linear_pair_mean", "linear", {}, 20, "mean", "mixed", 41, "the pair's mean", pair=True)
    yield small("m_sinkhorn_pair", "sinkhorn", {"block": 50}, 100, "first", "holes", 42, "a head of three layers", pair=True, batch=2)


def papers(release):
    """Attentions and whole models of N and S."""
    seed = 50 if release == "n" else 70
    full = {"num_landmarks": 21, "conv_kernel_size": 0}
    yield attention(f"{release}_softmax_mixed", "softmax", {}, MIXED, "mixed", seed, "every kind of padding")
    some = full | {"num_landmarks": 7}
    yield attention(f"{release}_nystrom_mixed", "nystrom", some, MIXED, "mixed", seed + 1, "no convolution; an empty sample counts in the scale")
    yield attention(f"{release}_nystrom_full", "nystrom", full, MIXED, "mixed", seed + 2, "as many landmarks as positions: softmax")
    features = {"num_features": 9, "kernel": "softmax"}
    yield attention(f"{release}_performer_mixed", "performer", features, MIXED, "mixed", seed + 3, "a key maximum over the batch")
    yield attention(f"{release}_performer_large", "performer", features, (2, 2, 21, 3), "tails", seed + 4, "features that vanish", scale=5.0)
    yield attention(f"{release}_linformer_mixed", "linformer", {"projected_length": 5}, MIXED, "mixed", seed + 5, "a table by head")
    if release == "n":
        hashes = {"num_hashes": 2, "chunk_length": 64, "num_buckets": 4}
        yield attention("n_reformer_b", "reformer", hashes, (2, 2, 128, 2), "tails", seed + 8, "more rounds of other draws")
        yield attention("n_linear_mixed", "linear", {}, MIXED, "mixed", seed + 6, "no normaliser")
        own = some | {"conv_kernel_size": 5, "init": "per_head"}
        yield attention("n_nystrom_matrix", "nystrom", own, MIXED, "mixed", seed + 7, "a scale of each matrix's own")
    else:
        yield attention("s_skyformer_wide", "skyformer", {"num_features": 8}, (3, 1, 12, 32), "tails", seed + 6, "heads of the release's own width")
        blocks = {"block": 4, "random_blocks": 2, "seed": 42, "random_range": 36}
        yield attention("s_bigbird_mixed", "bigbird", blocks, (6, 2, 48, 2), "mixed", seed + 7, "a plan of fewer blocks; every kind of padding")
        blocks = {"block": 64, "random_blocks": 3, "seed": 42, "random_range": 1024}
        yield attention("s_bigbird_1024", "bigbird", blocks, (1, 2, 1024, 1), "tails", seed + 8, "N 1024: blocks that are drawn though seen count twice")
    landmarks = {"num_landmarks": 6, "conv_kernel_size": 5 if release == "n" else 0}
    yield small(f"m{release}_softmax", "softmax", {}, 24, "mean", "mixed", seed + 10, "mean over the padded length", **learned)
    yield small(f"m{release}_nystrom", "nystrom", landmarks, 24, "mean", "mixed", seed + 11, "one scale for the batch", **learned)
    yield small(f"m{release}_linformer", "linformer", {"projected_length": 5}, 24, "mean", "mixed", seed + 12, "whose tables they are", **learned)
    yield small(f"m{release}_performer", "performer", features, 24, "mean", "mixed", seed + 13, "a key maximum over the batch", **learned)
    yield small(f"m{release}_pair", "softmax", {}, 24, "mean", "mixed", seed + 14, "the pair's head of four", **learned, pair=True)
