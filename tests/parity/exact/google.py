"""Runs the released code of G, google-research/long-range-arena: one attention, or a whole encoder, in float64."""

import importlib
import importlib.abc
import importlib.machinery
import re
import sys
import types

import numpy as np

# Where the encoders of an attention are, and how they are called.
ENCODERS = {
    "standard": ("transformer.transformer", "Transformer"),
    "local": ("local.local", "LocalTransformer"),
    "longformer": ("longformer.longformer", "Longformer"),
    "sparse": ("sparse_transformer.sparse_transformer", "SparseTransformer"),
    "sinkhorn": ("sinkhorn_transformer.sinkhorn_transformer", "SinkhornTransformer"),
    "synthesizer": ("synthesizer.synthesizer", "Synthesizer"),
    "linformer": ("linformer.linformer", "Linformer"),
    "linear": ("linear_transformer.linear_transformer", "LinearTransformer"),
    "performer": ("performer.performer", "Performer"),
    "bigbird": ("bigbird.bigbird", "BigBird"),
    "reformer": ("reformer.reformer", "Reformer"),
}


class Float64Source(importlib.machinery.SourceFileLoader):
    """The module's own source with float64 for float32, and -1e30 for -1e10, which float64 does not round logits away at;
    widths of padding as lists, which jax.jit needs."""

    def get_data(self, path):
        data = super().get_data(path)
        if not path.endswith(".py"):
            raise OSError("no cached bytecode")
        data = data.replace(b"jnp.float32", b"jnp.float64").replace(b"-1e10", b"-1e30")
        return re.sub(rb"= jnp\.array\((\[\[0, 0\], .*\]\])\)", rb"= \1", data)


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


def released(name):
    return importlib.import_module("lra_benchmarks.models." + name)


def leaves_of(tree, prefix=""):
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from leaves_of(value, f"{prefix}{name}/")
        else:
            yield prefix + name, value


class Google:
    SOURCE = "google-research/long-range-arena"

    def __init__(self, folder):
        self.jax, self.jnp = import_google(folder)

    def runs(self, about):
        return about["source"].startswith(self.SOURCE)

    def answer(self, about, inputs):
        return self.model(about, inputs) if about["level"] == "model" else self.attention(about, inputs)

    # ---- One attention --------------------------------------------------------------------------

    def attention(self, about, inputs):
        """Output and gradients; grad_real.* are for a grad_output of zeros at padded rows."""
        jax, jnp = self.jax, self.jnp
        run, tables = getattr(self, about["attention"])(inputs, about["options"])
        names = ["q", "k", "v"] + ["param." + name for name in tables]
        given = {"grad.": inputs["grad_output"]}
        if "mask" in inputs and not inputs["mask"].all():
            given["grad_real."] = inputs["grad_output"] * inputs["mask"][:, None, :, None]

        def both(leaves, gradients):
            output, vjp = jax.vjp(run, *leaves)
            return output, [vjp(gradient) for gradient in gradients]

        leaves, gradients = ([jnp.asarray(t) for t in part] for part in ((inputs[n] for n in names), given.values()))
        output, found = jax.jit(both)(leaves, gradients)
        tensors = {"output": output}
        for prefix, values in zip(given, found):
            tensors |= {prefix + name: value for name, value in zip(names, values)}
        return {name: np.asarray(t) for name, t in tensors.items()}

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
        if mask is None and given.pop("needs_mask", False):
            mask = np.ones(inputs["q"].shape[::2], bool)
        given.pop("needs_mask", None)
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

    def standard(self, inputs, options):
        from flax.deprecated import nn

        return self.module(nn.SelfAttention, inputs, causal_mask=False), []

    def local(self, inputs, options):
        module = released("local.local_attention").LocalSelfAttention
        return self.module(module, inputs, needs_mask=True, block_size=options["block"]), []

    def longformer(self, inputs, options):
        module = released("longformer.longformer_attention").LongformerSelfAttention
        # A second, unused set of projections is for global tokens.
        unused = {"kernel": self.jnp.zeros((3 * inputs["q"].shape[1] * inputs["q"].shape[3], *inputs["q"].shape[1::2]))}
        extra = {f"{name}_global": unused for name in ("query", "key", "value")}
        return self.module(
            module, inputs, extra, suffix="_sliding_window", sliding_window_size=options["window"], needs_mask=True
        ), []

    def patterns(self, options):
        sparse, block = released("sparse_transformer.sparse_attention"), options["block"]
        return [sparse.Fixed1Pattern(block_size=block), sparse.Fixed2Pattern(block_size=block, c=options["summary"])]

    def sparse(self, inputs, options):
        module, cls = released("sparse_transformer.sparse_attention").SparseSelfAttention, options["cls"] == "open"
        return self.module(module, inputs, attention_patterns=self.patterns(options), use_cls_token=cls), []

    def sinkhorn(self, inputs, options):
        _, heads, length, d = inputs["q"].shape
        blocks = length // options["block"]
        sort = {"DenseGeneral_0": {"kernel": self.jnp.ones((d, blocks))}}  # has no effect
        module = released("sinkhorn_transformer.sinkhorn_attention").SinkhornSelfAttention
        return self.module(module, inputs, sort, block_size=options["block"], max_num_blocks=blocks), []

    def synthesizer(self, inputs, options):
        length = inputs["q"].shape[2]
        module = released("synthesizer.synthesizer_attention").SynthesizerSelfAttention

        def run(q, k, v, table):
            given = {"ignore_dot_product": False, "synthesizer_mode": "random", "max_length": length, "needs_mask": True}
            return self.module(module, inputs, {"random": table}, **given)(q, k, v)

        return run, ["r"]

    def linformer(self, inputs, options):
        module = released("linformer.linformer_attention").LinformerSelfAttention

        def run(q, k, v, table):
            given = {"low_rank_features": options["projected_length"], "max_len": q.shape[2]}
            return self.module(module, inputs, {"lr_kernel": table.T}, **given)(q, k, v)

        return run, ["projection.key"]

    def linear(self, inputs, options):
        return self.module(released("linear_transformer.linear_attention").LinearSelfAttention, inputs), []

    def performer(self, inputs, options):
        from flax.deprecated import nn

        width = inputs["q"].shape[3]
        if options.get("kernel") == "relu_identity":
            function = released("performer.performer_attention").make_fast_generalized_attention(width)
        else:
            features = self.drawn_features(inputs["param.projection"])
            function = released("performer.performer_attention").make_fast_softmax_attention(width, nb_features=features)
        return self.module(nn.SelfAttention, inputs, causal_mask=False, attention_fn=function), []

    def drawn_features(self, *projections):
        """The features [m,d] that the release draws, of one layer after the other: twice a layer, when it is made and when it runs."""
        module, drawn = released("performer.performer_attention"), [self.jnp.asarray(p) for p in projections]
        calls = iter(range(10**6))
        module.GaussianOrthogonalRandomMatrix.get_2d_array = lambda matrix: drawn[next(calls) // 2 % len(drawn)]
        return drawn[0].shape[0]

    def bigbird(self, inputs, options):
        module = released("bigbird.bigbird_attention").BigBirdSelfAttention
        given = {"block_size": options["block"], "num_rand_blocks": options["random_blocks"]}
        return self.module(module, inputs, needs_mask=True, connectivity_seed=options.get("seed", 0), **given), []

    def released_reformer(self, rotations=None):
        """The released attention. `rotations` [d,1,5] stand for those that it draws, which are float32 here too."""
        module, jax = released("reformer.reformer_attention"), self.jax
        random = types.SimpleNamespace(**vars(jax.random))
        if rotations is not None:
            random.normal = lambda rng, shape: self.jnp.asarray(rotations).reshape(shape)
        else:
            random.normal = lambda rng, shape: jax.random.normal(rng, shape, np.float32).astype(np.float64)
        module.jax = types.SimpleNamespace(**vars(jax))
        module.jax.random = random
        return module

    def reformer(self, inputs, options):
        jax, jnp = self.jax, self.jnp
        _, heads, length, d = inputs["q"].shape
        given = inputs.get("param.rotations")
        module = self.released_reformer(None if given is None else given[0])
        # The module's own way around its attention function, without the projections before it.
        chunks = 10
        extended = length + chunks - length % chunks

        def run(q, k, v):
            pad = [(0, 0), (0, extended - length), (0, 0), (0, 0)]
            q, v = (jnp.pad(jnp.swapaxes(t, 1, 2), pad) for t in (q, v))
            attend = jax.vmap(module.lsh_attention_single_batch, in_axes=(0, 0, None, None))
            out = attend(q, v, chunks, 1).reshape(q.shape[0], extended, heads * d)[:, :length]
            return jnp.swapaxes(out.reshape(q.shape[0], length, heads, d), 1, 2)

        return run, []

    # ---- A whole encoder ------------------------------------------------------------------------

    def encoder(self, about, inputs):
        """The class, its inputs, and what it is called with."""
        sizes, options, attention = about["sizes"], about["options"], about["attention"]
        pair = "tokens1" in inputs
        file, name = ENCODERS[attention]
        encoder = getattr(released(file), name + ("DualEncoder" if pair else "Encoder"))
        given = {"vocab_size": sizes["vocab"], "emb_dim": sizes["width"], "num_heads": sizes["heads"]}
        given |= {"num_layers": sizes["layers"], "qkv_dim": sizes["inner"], "mlp_dim": sizes["feed_forward"]}
        given |= {"max_len": sizes["length"], "num_classes": sizes["classes"], "classifier": True, "train": False}
        given["classifier_pool"] = "MEAN" if about["settings"]["model.pooling"] == "mean" else "CLS"
        if about["settings"].get("model.positions") == "learned" or "param.posembed_input/pos_embedding" in inputs:
            given["learn_pos_emb"] = True
        if attention == "sparse":
            given["attention_patterns"] = self.patterns(options)
        elif "block" in options and not pair:
            given["block_size"] = options["block"]
        elif "window" in options and not pair:
            given["sliding_window_size"] = options["window"]
        if options.get("kernel") == "softmax":
            layers = [inputs[f"projection.{layer}"] for layer in range(sizes["layers"])]
            given |= {"attention_fn_cls": "softmax", "attention_fn_kwargs": {"nb_features": self.drawn_features(*layers)}}
        if attention == "reformer":
            given_rotations = inputs.get("rotations")
            self.released_reformer(given_rotations)
        tokens = [self.jnp.asarray(inputs[name]) for name in (("tokens1", "tokens2") if pair else ("tokens",))]
        return encoder, tokens, given

    def shapes(self, about, inputs):
        """Names and shapes of the encoder's parameters."""
        encoder, tokens, given = self.encoder(about, inputs)
        from flax.deprecated import nn

        def init():
            with nn.stochastic(self.jax.random.PRNGKey(0)):
                return encoder.init(self.jax.random.PRNGKey(0), *tokens, **given)[1]

        params = self.jax.eval_shape(init)
        return {name: value.shape for name, value in leaves_of(params)}

    def model(self, about, inputs):
        """Logits of evaluation mode, and the gradients of the encoder's parameters."""
        jax, jnp = self.jax, self.jnp
        encoder, tokens, given = self.encoder(about, inputs)
        params = {"encoder": {"posembed_input": {}}} if "tokens1" in inputs else {"posembed_input": {}}
        names = [name.removeprefix("param.") for name in inputs if name.startswith("param.")]
        for name in names:
            *folders, last = name.split("/")
            place = params
            for folder in folders:
                place = place.setdefault(folder, {})
            place[last] = jnp.asarray(inputs["param." + name].astype(np.float64))

        def both(params, gradient):
            logits, vjp = jax.vjp(lambda values: encoder.call(values, *tokens, **given), params)
            return logits, vjp(gradient)[0]

        logits, gradients = jax.jit(both)(params, jnp.asarray(inputs["grad_output"].astype(np.float64)))
        answer = {"logits": np.asarray(logits)}
        answer |= {"grad." + name: np.asarray(value) for name, value in leaves_of(gradients)}
        return answer
