#!/usr/bin/env python3
"""Computes the cases of tests/fixtures/exact anew, from the released code itself, and compares.

    git clone https://github.com/google-research/long-range-arena && git -C long-range-arena checkout cd31e5c
    pip install jax==0.4.13 jaxlib==0.4.13 flax==0.3.6 'numpy<1.26' 'scipy<1.12' attrs safetensors      # Python 3.11 or older
    python tests/parity/make_exact_fixtures.py google long-range-arena tests/fixtures/exact [--write FOLDER]

    git clone https://github.com/mlpen/Nystromformer && git -C Nystromformer checkout 5689313
    git clone https://github.com/pkuzengqi/Skyformer && git -C Skyformer checkout 1a677cb
    pip install torch safetensors numpy performer-pytorch==0.15.2
    python tests/parity/make_exact_fixtures.py torch Nystromformer Skyformer tests/fixtures/exact [--write FOLDER]

Inputs are those of NAME.in.safetensors; NAME.json says which part of which file answers. Printed is the largest difference of
every tensor to NAME.expect.safetensors, relative to its largest entry; above 1e-12 the exit status is 1. --write leaves the answers
in FOLDER. What is not made here, and what is changed to run the code, stands in tests/fixtures/exact/README.md.
"""

import importlib.abc
import importlib.machinery
import json
import sys
import types
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

LIMIT = 1e-12


class Float64Source(importlib.machinery.SourceFileLoader):
    """The module's own source with float64 for float32, and -1e30 for -1e10, which float64 does not round logits away at."""

    def get_data(self, path):
        data = super().get_data(path)
        if not path.endswith(".py"):
            raise OSError("no cached bytecode")
        return data.replace(b"jnp.float32", b"jnp.float64").replace(b"-1e10", b"-1e30")


class Float64Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if not name.startswith(("lra_benchmarks", "flax.deprecated")):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = Float64Source(spec.loader.name, spec.loader.path)
        return spec


def import_google(folder):
    """jax and flax such that the released modules run: names that later versions dropped are put back."""
    import jax
    import jax._src.numpy.lax_numpy as lax_numpy
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    lax_numpy.isin = jnp.isin
    jax.lax.tie_in = lambda x, y: y
    # The custom gradients are those of a permutation, which autodiff finds by itself.
    jax.custom_transforms = lambda function: function
    jax.defvjp_all = lambda function, vjp: None
    gin = types.ModuleType("gin")
    gin.configurable = lambda function=None, **_: function if callable(function) else (lambda inner: inner)
    gin.external_configurable = lambda *_, **__: None
    sys.modules["gin"] = gin
    sys.meta_path.insert(0, Float64Finder())
    sys.path.insert(0, str(folder))
    return jax, jnp


def swap(x):
    return np.swapaxes(x, 1, 2)  # [B,H,N,d] <-> [B,N,H,d]


class Google:
    def __init__(self, folder, fixtures):
        self.jax, self.jnp = import_google(folder)
        self.fixtures = Path(fixtures)

    def module(self, module, inputs, extra=None, suffix="", **given):
        """Runs a released module whose kernels select q, k, v out of its input, with the identity behind it."""
        jnp = self.jnp
        _, heads, _, d = inputs["q"].shape
        width = heads * d
        eye = np.eye(3 * width).reshape(3 * width, 3, heads, d)
        params = {name + suffix: {"kernel": jnp.asarray(eye[:, i])} for i, name in enumerate(("query", "key", "value"))}
        params["out"] = {"kernel": jnp.asarray(np.eye(width).reshape(heads, d, width))}
        params |= extra or {}
        mask = inputs.get("mask")
        if mask is not None:
            given["padding_mask"] = jnp.asarray(mask)[..., None]
        given["num_heads"] = heads

        def run(q, k, v):
            x = jnp.concatenate([jnp.swapaxes(t, 1, 2).reshape(t.shape[0], t.shape[2], width) for t in (q, k, v)], -1)
            out = module.call(
                params, x, qkv_features=width, out_features=width, bias=False, deterministic=True, dropout_rate=0.0, **given
            )
            return jnp.swapaxes(out.reshape(out.shape[0], out.shape[1], heads, d), 1, 2)

        return run

    def answer(self, run, inputs, extra=()):
        """Output and gradients; grad_real.* are for a grad_output of zeros at padded rows."""
        jax, jnp = self.jax, self.jnp
        leaves = [jnp.asarray(inputs[name]) for name in ("q", "k", "v")]
        leaves += [jnp.asarray(inputs["param." + name]) for name in extra]
        names = ["q", "k", "v"] + ["param." + name for name in extra]
        output, vjp = jax.vjp(run, *leaves)
        tensors = {"output": output}
        for name, gradient in zip(names, vjp(jnp.asarray(inputs["grad_output"]))):
            tensors["grad." + name] = gradient
        if "mask" in inputs and not inputs["mask"].all():
            real = inputs["grad_output"] * inputs["mask"][:, None, :, None]
            for name, gradient in zip(names, vjp(jnp.asarray(real))):
                tensors["grad_real." + name] = gradient
        return {name: np.asarray(t) for name, t in tensors.items()}

    def g_standard_padded(self, inputs, options):
        from flax.deprecated import nn

        return self.answer(self.module(nn.SelfAttention, inputs, causal_mask=False), inputs)

    def g_local_a(self, inputs, options):
        from lra_benchmarks.models.local.local_attention import LocalSelfAttention as module

        return self.answer(self.module(module, inputs, block_size=options["block"]), inputs)

    def g_longformer_even(self, inputs, options):
        from lra_benchmarks.models.longformer.longformer_attention import LongformerSelfAttention as module

        # A second, unused set of projections is for global tokens.
        unused = {"kernel": self.jnp.zeros((3 * inputs["q"].shape[1] * inputs["q"].shape[3], *inputs["q"].shape[1::2]))}
        extra = {f"{name}_global": unused for name in ("query", "key", "value")}
        run = self.module(module, inputs, extra, suffix="_sliding_window", sliding_window_size=options["window"])
        return self.answer(run, inputs)

    def sparse(self, inputs, options):
        from lra_benchmarks.models.sparse_transformer import sparse_attention as released

        block = options["block"]
        patterns = [released.Fixed1Pattern(block_size=block), released.Fixed2Pattern(block_size=block, c=options["summary"])]
        module = self.module(
            released.SparseSelfAttention, inputs, attention_patterns=patterns, use_cls_token=options["cls"] == "open"
        )
        return self.answer(module, inputs)

    g_sparse_open_a = sparse
    g_sparse_token_a = sparse

    def g_sinkhorn_a(self, inputs, options):
        from lra_benchmarks.models.sinkhorn_transformer.sinkhorn_attention import SinkhornSelfAttention as module

        _, heads, length, d = inputs["q"].shape
        blocks = length // options["block"]
        sort = {"DenseGeneral_0": {"kernel": self.jnp.ones((d, blocks))}}  # has no effect
        run = self.module(module, inputs, sort, block_size=options["block"], max_num_blocks=blocks)
        return self.answer(run, inputs)

    def g_synthesizer_a(self, inputs, options):
        from lra_benchmarks.models.synthesizer.synthesizer_attention import SynthesizerSelfAttention as module

        length = inputs["q"].shape[2]
        inputs = dict(inputs, mask=np.ones((inputs["q"].shape[0], length), bool))

        def run(q, k, v, table):
            given = {"ignore_dot_product": False, "synthesizer_mode": "random", "max_length": length}
            return self.module(module, inputs, {"random": table}, **given)(q, k, v)

        return self.answer(run, inputs, ["r"])

    def g_linformer_a(self, inputs, options):
        from lra_benchmarks.models.linformer.linformer_attention import LinformerSelfAttention as module

        def run(q, k, v, table):
            given = {"low_rank_features": options["projected_length"], "max_len": q.shape[2]}
            return self.module(module, inputs, {"lr_kernel": table.T}, **given)(q, k, v)

        return self.answer(run, inputs, ["projection.key"])

    def g_linear_negative(self, inputs, options):
        from lra_benchmarks.models.linear_transformer.linear_attention import LinearSelfAttention as module

        return self.answer(self.module(module, inputs), inputs)

    def g_performer_relu_identity(self, inputs, options):
        from flax.deprecated import nn
        from lra_benchmarks.models.performer import performer_attention as released

        function = released.make_fast_generalized_attention(inputs["q"].shape[3])
        return self.answer(self.module(nn.SelfAttention, inputs, causal_mask=False, attention_fn=function), inputs)

    def g_performer_softmax_a(self, inputs, options):
        from flax.deprecated import nn
        from lra_benchmarks.models.performer import performer_attention as released

        drawn = self.jnp.asarray(inputs["param.projection"])
        released.GaussianOrthogonalRandomMatrix.get_2d_array = lambda matrix: drawn
        function = released.make_fast_softmax_attention(inputs["q"].shape[3], nb_features=drawn.shape[0])
        return self.answer(self.module(nn.SelfAttention, inputs, causal_mask=False, attention_fn=function), inputs)

    def g_bigbird_a(self, inputs, options):
        from lra_benchmarks.models.bigbird.bigbird_attention import BigBirdSelfAttention as module

        given = {"block_size": options["block"], "num_rand_blocks": options["random_blocks"], "connectivity_seed": 0}
        return self.answer(self.module(module, inputs, **given), inputs)

    def reformer_with(self, rotations):
        """The released attention, with the rotations [d,1,5] that it draws in float32."""
        from lra_benchmarks.models.reformer import reformer_attention as released

        jax, drawn = self.jax, self.jnp.asarray(rotations)
        random = types.SimpleNamespace(**vars(jax.random))
        random.normal = lambda rng, shape: drawn.reshape(shape)
        released.jax = types.SimpleNamespace(**vars(jax))
        released.jax.random = random
        return released

    def g_reformer_a(self, inputs, options):
        jax, jnp = self.jax, self.jnp
        _, heads, length, d = inputs["q"].shape
        released = self.reformer_with(inputs["param.rotations"][0])
        # The module's own way around its attention function, without the projections before it.
        chunks = 10
        extended = length + chunks - length % chunks

        def run(q, k, v):
            pad = [(0, 0), (0, extended - length), (0, 0), (0, 0)]
            q, v = (jnp.pad(jnp.swapaxes(t, 1, 2), pad) for t in (q, v))
            attend = jax.vmap(released.lsh_attention_single_batch, in_axes=(0, 0, None, None))
            out = attend(q, v, chunks, 1).reshape(q.shape[0], extended, heads * d)[:, :length]
            return jnp.swapaxes(out.reshape(q.shape[0], length, heads, d), 1, 2)

        return self.answer(run, inputs)

    def model(self, encoder, inputs, settings, **given):
        """A whole encoder in evaluation mode: logits, and the gradients of its parameters."""
        jax, jnp = self.jax, self.jnp
        params = {"posembed_input": {}}
        pair = "tokens1" in inputs
        if pair:
            params = {"encoder": {"posembed_input": {}}}
        names = [name.removeprefix("param.") for name in inputs if name.startswith("param.")]
        for name in names:
            *folders, last = name.split("/")
            place = params
            for folder in folders:
                place = place.setdefault(folder, {})
            place[last] = jnp.asarray(inputs["param." + name].astype(np.float64))
        tokens = [jnp.asarray(inputs[name]) for name in (("tokens1", "tokens2") if pair else ("tokens",))]
        sizes = settings["sizes"]
        given |= {"vocab_size": sizes["vocab"], "emb_dim": sizes["width"], "num_heads": sizes["heads"]}
        given |= {"num_layers": sizes["layers"], "qkv_dim": sizes["inner"], "mlp_dim": sizes["feed_forward"]}
        given |= {"max_len": sizes["length"], "num_classes": sizes["classes"], "classifier": True, "train": False}
        pooling = settings["settings"]["model.pooling"]
        given["classifier_pool"] = "MEAN" if pooling == "mean" else "CLS"
        if "posembed_input/pos_embedding" in names:
            given["learn_pos_emb"] = True
        logits, vjp = jax.vjp(lambda values: encoder.call(values, *tokens, **given), params)
        (gradients,) = vjp(jnp.asarray(inputs["grad_output"].astype(np.float64)))
        answer = {"logits": np.asarray(logits)}
        for name in names:
            gradient = gradients
            for part in name.split("/"):
                gradient = gradient[part]
            answer["grad." + name] = np.asarray(gradient)
        return answer

    def m_standard(self, inputs, options, settings):
        from lra_benchmarks.models.transformer.transformer import TransformerEncoder as encoder

        return self.model(encoder, inputs, settings)

    m_standard_cls = m_standard
    m_standard_mean = m_standard

    def m_local_cls(self, inputs, options, settings):
        from lra_benchmarks.models.local.local import LocalTransformerEncoder as encoder

        return self.model(encoder, inputs, settings, block_size=options["block"])

    def m_sinkhorn_mean(self, inputs, options, settings):
        from lra_benchmarks.models.sinkhorn_transformer.sinkhorn_transformer import SinkhornTransformerEncoder as encoder

        return self.model(encoder, inputs, settings, block_size=options["block"])

    def m_sparse_pair(self, inputs, options, settings):
        from lra_benchmarks.models.sparse_transformer import sparse_attention, sparse_transformer

        block = options["block"]
        patterns = [sparse_attention.Fixed1Pattern(block_size=block)]
        patterns.append(sparse_attention.Fixed2Pattern(block_size=block, c=options["summary"]))
        encoder = sparse_transformer.SparseTransformerDualEncoder
        return self.model(encoder, inputs, settings, attention_patterns=patterns)

    def m_reformer_cls(self, inputs, options, settings):
        from lra_benchmarks.models.reformer import reformer

        self.reformer_with(load_file(self.fixtures / "g_reformer_a.in.safetensors")["param.rotations"][0])
        return self.model(reformer.ReformerEncoder, inputs, settings)


class Torch:
    def __init__(self, nystromformer, skyformer):
        import torch

        self.torch = torch
        torch.set_default_dtype(torch.float64)
        self.nystromformer, self.skyformer = Path(nystromformer) / "LRA/code", Path(skyformer) / "src/models"

    def load(self, path):
        scope = {"__name__": path.stem}
        exec(compile(path.read_text(), str(path), "exec"), scope)
        return types.SimpleNamespace(**scope)

    def answer(self, run, inputs, extra=()):
        torch = self.torch
        tensors = {name: torch.from_numpy(t.copy()) for name, t in inputs.items()}
        names = ["q", "k", "v"] + ["param." + name for name in extra]
        leaves = [tensors[name].requires_grad_() for name in names]
        mask = tensors["mask"].double()
        output = run(*leaves[:3], mask, tensors) * mask[:, None, :, None]
        gradients = torch.autograd.grad(output, leaves, tensors["grad_output"])
        answer = {"output": output.detach().numpy()}
        return answer | {"grad." + name: gradient.numpy() for name, gradient in zip(names, gradients)}

    def n_nystrom_prefix(self, inputs, options):
        _, heads, length, d = inputs["q"].shape
        config = {"head_dim": d, "num_head": heads, "num_landmarks": options["num_landmarks"], "seq_len": length}
        config["conv_kernel_size"] = options["conv_kernel_size"]
        module = self.load(self.nystromformer / "attention_nystrom.py").NystromAttention(config)

        def run(q, k, v, mask, tensors):
            del module.conv.weight
            module.conv.weight = tensors["param.conv.weight"]
            return module(q, k, v, mask)

        return self.answer(run, inputs, ["conv.weight"])

    def n_performer(self, inputs, options):
        torch = self.torch
        config = {"head_dim": inputs["q"].shape[3], "rp_dim": options["num_features"], "kernel_type": "relu"}
        module = self.load(self.nystromformer / "attention_performer.py").PerformerAttention(config)
        module.attn_fn.projection_matrix = torch.from_numpy(inputs["param.projection"])
        return self.answer(lambda q, k, v, mask, tensors: module(q, k, v, mask), inputs)

    def s_linformer(self, inputs, options):
        torch = self.torch
        _, heads, length, d = inputs["q"].shape
        config = {"num_head": heads, "head_dim": d, "linformer_k": options["projected_length"], "max_seq_len": length}
        module = self.load(self.skyformer / "attention_linformer.py").LinformerAttention(config | {"device": "cpu"})
        module.E = torch.nn.Parameter(torch.from_numpy(inputs["param.projection.key"]))
        return self.answer(lambda q, k, v, mask, tensors: module(q, k, v, mask), inputs)

    def s_skyformer_a(self, inputs, options):
        torch = self.torch
        _, _, length, d = inputs["q"].shape
        config = {"head_dim": d, "max_seq_len": length, "nb_features": options["num_features"], "accumulation": 1}
        config |= {"sampling_factor": 1, "sketched_kernel": "kernel_RS_RBF", "no_projection": False, "device": "cpu"}
        for name in ("models", "models.attention", "config"):  # imports every attention, and uses none
            sys.modules[name] = types.ModuleType(name)
        sys.modules["models.attention"].SoftmaxAttention = sys.modules["config"].Config = None
        module = self.load(self.skyformer / "attention_skyformer.py").Skyformer(config)
        rows = torch.from_numpy(inputs["param.landmarks"])[:, None, :]
        module.uniform_sketching = lambda *_: (rows, torch.ones(rows.shape))
        # The release scales by 32^-1/4 whatever the head's width; the stored case by d^-1/4.
        scale = (32 / d) ** 0.25
        return self.answer(lambda q, k, v, mask, tensors: module(q * scale, k * scale, v, mask), inputs)


def main():
    words = sys.argv[1:]
    out = Path(words[words.index("--write") + 1]) if "--write" in words else None
    if out is not None:
        words = words[: words.index("--write")]
    runner = Google(*words[1:]) if words[0] == "google" else Torch(*words[1:3])
    folder, worst = Path(words[-1]), 0.0
    made = sorted(path.stem for path in folder.glob("*.json") if hasattr(runner, path.stem))
    for case in made:
        settings = json.loads((folder / f"{case}.json").read_text())
        inputs = load_file(folder / f"{case}.in.safetensors")
        given = (inputs, settings["options"], settings) if settings["level"] == "model" else (inputs, settings["options"])
        answer = getattr(runner, case)(*given)
        expected = load_file(folder / f"{case}.expect.safetensors")
        for name in sorted(expected):
            theirs = expected[name]
            ours = answer[name].reshape(theirs.shape)
            difference = np.abs(ours - theirs).max() / max(np.abs(theirs).max(), 1e-300)
            worst = max(worst, difference if np.isfinite(difference) else np.inf)
            print(f"{case:28} {name:24} {difference:.1e}")
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            save_file({name: answer[name].reshape(t.shape) for name, t in expected.items()}, out / f"{case}.expect.safetensors")
    print(f"{len(made)} cases, largest difference {worst:.1e}")
    return 0 if worst <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
