"""Runs the released code of N, mlpen/Nystromformer, and S, pkuzengqi/Skyformer: one attention, or a whole model, in float64."""

import importlib.util
import sys
import types
from pathlib import Path

import numpy as np

N, S = "mlpen/Nystromformer", "pkuzengqi/Skyformer"


class Papers:
    def __init__(self, nystromformer, skyformer, transformers=None):
        import torch

        self.torch = torch
        torch.set_default_dtype(torch.float64)
        self.folders = {N: Path(nystromformer) / "LRA/code", S: Path(skyformer) / "src/models"}
        self.loaded = {}
        self.transformers = transformers
        # Packages that are imported and, in what runs here, not used.
        for name in ("models", "config", "models.attention_unused"):
            sys.modules[name] = types.ModuleType(name)
        sys.modules["config"].Config = None
        sys.modules["models"].__path__ = []
        self.stand_in("transformers.models.big_bird.modeling_big_bird", BigBirdConfig=None)
        if transformers is not None:
            self.import_transformers(transformers)

    def stand_in(self, name, **contents):
        parts = name.split(".")
        for i in range(1, len(parts) + 1):
            module = sys.modules.setdefault(".".join(parts[:i]), types.ModuleType(".".join(parts[:i])))
            if not hasattr(module, "__path__"):
                module.__path__ = []
        vars(sys.modules[name]).update(contents)

    def import_transformers(self, folder):
        """transformers 3.3.1's modeling_reformer, without its package's __init__, which does not import beside today's torch."""
        sys.modules["transformers"].__path__ = [str(Path(folder) / "transformers")]
        sys.modules["transformers"].__version__ = "3.3.1"

    def runs(self, about):
        if not about["source"].startswith((N, S)):
            return False
        return about["attention"] != "reformer" or self.transformers is not None

    def load(self, release, stem):
        """A file of the release, with casts to float64 for those to float32, and nothing computed twice to save memory."""
        key = (release, stem)
        if key not in self.loaded:
            path = self.folders[release] / f"{stem}.py"
            module = types.ModuleType(("models." if release == S else "") + stem)
            sys.modules[module.__name__] = module
            text = path.read_text().replace(".float()", ".double()").replace("dtype = torch.float,", "dtype = torch.double,")
            text = text.replace("checkpoint(self.attn, ", "self.attn(")
            exec(compile(text, str(path), "exec"), vars(module))
            self.loaded[key] = module
        return self.loaded[key]

    def answer(self, about, inputs):
        release = N if about["source"].startswith(N) else S
        return (self.model if about["level"] == "model" else self.attention)(release, about, inputs)

    # ---- One attention --------------------------------------------------------------------------

    def attention(self, release, about, inputs):
        torch = self.torch
        tensors = {name: torch.from_numpy(t.copy()) for name, t in inputs.items()}
        run, tables = getattr(self, about["attention"])(release, tensors, about["options"])
        names = ["q", "k", "v"] + ["param." + name for name in tables]
        shared = about["attention"] == "reformer"  # one tensor is queries and keys
        leaves = [tensors[name].requires_grad_() for name in names]
        mask = tensors["mask"].double()
        if shared:
            output = run(leaves[0], leaves[0], leaves[2], mask) * mask[:, None, :, None]
        else:
            output = run(*leaves[:3], mask) * mask[:, None, :, None]
        gradients = torch.autograd.grad(output, leaves, tensors["grad_output"], allow_unused=True)
        answer = {"output": output.detach().numpy()}
        for name, leaf, gradient in zip(names, leaves, gradients):
            answer["grad." + name] = (torch.zeros_like(leaf) if gradient is None else gradient).numpy()
        return answer

    def config(self, release, tensors, options):
        _, heads, length, d = tensors["q"].shape
        config = {"head_dim": d, "num_head": heads, "max_seq_len": length, "seq_len": length, "device": "cpu"}
        config |= {"attention_dropout": 0.0, "transformer_dim": heads * d}
        return config | self.options(options)

    def options(self, options):
        """The release's words for ours."""
        words = {"num_features": "rp_dim", "projected_length": "linformer_k", "num_hashes": "num_hash"}
        words |= {"random_blocks": "num_random_blocks", "block": "block_size", "seed": "random_seed"}
        config = {words.get(name, name): value for name, value in options.items()}
        if options.get("conv_kernel_size") == 0:
            del config["conv_kernel_size"]
        if options.get("init") == "per_head":
            config |= {"inv_coeff_init_option": True, "inv_init_coeff_option": "per head"}
        return config | {"kernel_type": "relu"}

    def softmax(self, release, tensors, options):
        return self.load(release, "attention").SoftmaxAttention(self.config(release, tensors, options)), []

    def linear(self, release, tensors, options):
        return self.load(release, "attention_linear").LinearAttention(self.config(release, tensors, options)), []

    def nystrom(self, release, tensors, options):
        module = self.load(release, "attention_nystrom").NystromAttention(self.config(release, tensors, options))
        if not module.use_conv:
            return module, []
        del module.conv.weight
        module.conv.weight = tensors["param.conv.weight"]
        return module, ["conv.weight"]

    def performer(self, release, tensors, options):
        self.load_performer(release)
        module = self.load(release, "attention_performer").PerformerAttention(self.config(release, tensors, options))
        module.attn_fn.projection_matrix = tensors["param.projection"]
        return module, []

    def load_performer(self, release):
        if release == S:
            self.stand_in("fast_transformers")
            self.load(S, "performer")

    def linformer(self, release, tensors, options):
        module = self.load(release, "attention_linformer").LinformerAttention(self.config(release, tensors, options))
        self.load(release, "attention_linformer").LinformerAttention.projection_matrix = None
        module._parameters.pop("E", None)
        module.E = tensors["param.projection.key"]
        return module, ["projection.key"] if release == N else []  # S's is no parameter on a GPU

    def bigbird(self, release, tensors, options):
        return self.load(release, "attention_bigbird").BigBirdAttention(self.config(release, tensors, options)), []

    def skyformer(self, release, tensors, options):
        torch = self.torch
        _, _, _, d = tensors["q"].shape
        config = self.config(release, tensors, options) | {"nb_features": options["num_features"], "accumulation": 1}
        config |= {"sampling_factor": 1, "sketched_kernel": "kernel_RS_RBF", "no_projection": False}
        self.load(release, "attention")
        module = self.load(release, "attention_skyformer").Skyformer(config)
        rows = tensors["param.landmarks"][:, None, :]
        module.uniform_sketching = lambda *_: (rows, torch.ones(rows.shape))
        # The release scales by 32^-1/4 whatever the head's width; ours by d^-1/4.
        scale = (32 / d) ** 0.25
        return lambda q, k, v, mask: module(q * scale, k * scale, v, mask), []

    def reformer(self, release, tensors, options):
        """LSHSelfAttention behind projections that are the identity; rotations [H,d,num_hashes,num_buckets/2] stand for those drawn."""
        torch = self.torch
        _, heads, length, d = tensors["q"].shape
        layer = lambda: types.SimpleNamespace(weight=torch.nn.Parameter(torch.eye(2 * heads * d)[: heads * d]))
        layers = [layer(), layer(), layer()]
        layers[2].weight = torch.nn.Parameter(torch.eye(2 * heads * d)[heads * d :])
        config = self.config(release, tensors, options) | {"transformer_dim": 2 * heads * d}
        module = self.load(release, "attention_reformer").LSHAttention(config, *layers).double().eval()
        drawn = tensors["param.rotations"]

        def run(q, k, v, mask):
            x = torch.cat([t.transpose(1, 2).reshape(t.shape[0], length, heads * d) for t in (q, v)], -1)
            randn, torch.randn = torch.randn, lambda *_, **__: drawn
            try:
                out = module(x, mask)
            finally:
                torch.randn = randn
            return out.reshape(q.shape[0], length, heads, d).transpose(1, 2)

        return run, []

    # ---- A whole model --------------------------------------------------------------------------

    def model(self, release, about, inputs):
        """Logits of evaluation mode, and the gradients of the parameters."""
        torch = self.torch
        tensors = {name: torch.from_numpy(t.copy()) for name, t in inputs.items()}
        module, tokens = self.module(release, about, inputs)
        parameters = dict(module.named_parameters())
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(tensors["param." + name].double())
        tokens = [tensors[name] for name in tokens]
        encoded = [module.model(part, part.ne(0).double()) for part in tokens]
        logits = module.seq_classifer(*encoded)
        gradients = torch.autograd.grad(logits, list(parameters.values()), tensors["grad_output"], allow_unused=True)
        answer = {"logits": logits.detach().numpy()}
        for name, gradient in zip(parameters, gradients):
            if gradient is not None:
                answer["grad." + name] = gradient.numpy()
        return answer

    def module(self, release, about, inputs):
        """The model, in evaluation mode, and the names of its inputs."""
        sizes = about["sizes"]
        pair = "tokens1" in inputs
        config = {"embedding_dim": sizes["width"], "transformer_dim": sizes["width"], "vocab_size": sizes["vocab"]}
        config |= {"transformer_hidden_dim": sizes["feed_forward"], "head_dim": sizes["inner"] // sizes["heads"]}
        config |= {"num_head": sizes["heads"], "num_layers": sizes["layers"], "max_seq_len": sizes["length"]}
        config |= {"seq_len": sizes["length"], "num_classes": sizes["classes"], "dropout_prob": 0.0, "device": "cpu"}
        config |= {"attention_dropout": 0.0, "pooling_mode": "MEAN", "tied_weights": False, "mixed_precision": False}
        config |= {"attention_grad_checkpointing": False, "attn_type": about["attention"]} | self.options(about["options"])
        for stem in ["attention", f"attention_{about['attention']}"]:
            if about["attention"] == "performer":
                self.load_performer(release)
            if stem != "attention_softmax":
                self.load(release, stem)
        if about["attention"] == "linformer":
            self.load(release, "attention_linformer").LinformerAttention.projection_matrix = None
        self.load(release, "model" if release == N else "model_transformer")
        wrapper = self.load(release, "model_wrapper" if release == N else "model_LRA")
        module = (wrapper.ModelForSCDual if pair else wrapper.ModelForSC)(config).double().eval()
        if about["attention"] == "performer":
            for layer in range(sizes["layers"]):
                attention = getattr(module.model, f"transformer_{layer}").mha.attn
                attention.attn_fn.projection_matrix = self.torch.from_numpy(inputs[f"projection.{layer}"].copy())
        return module, ["tokens1", "tokens2"] if pair else ["tokens"]

    def shapes(self, about, inputs):
        module, _ = self.module(N if about["source"].startswith(N) else S, about, inputs)
        return {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}
