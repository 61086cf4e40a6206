"""`lra attend` on a case, and what its parameters are called there."""

import subprocess
import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

# How a released parameter becomes ours.
FORMS = {
    "same": lambda x: x,
    "kernel": lambda x: x.reshape(x.shape[0], -1).T,  # [in, ...]
    "out": lambda x: x.reshape(-1, x.shape[-1]).T,  # [H,d,out]
    "transposed": lambda x: x.T,
    "squeezed": lambda x: x.squeeze(),
}


def google_name(name, head):
    """(our name, form) of a parameter of G; None for one that ours leaves out. `head` are the names of the head's kernels."""
    name = name.removeprefix("encoder/")
    whole = {
        "Embed_0/embedding": ("tokens.weight", "same"),
        "posembed_input/pos_embedding": ("positions.weight", "squeezed"),
        "encoder_norm/scale": ("final_norm.weight", "same"),
        "encoder_norm/bias": ("final_norm.bias", "same"),
        "cls": ("cls", "squeezed"),
    }
    if name in whole:
        return whole[name]
    kind, form = (".bias", "same") if name.endswith("/bias") else (".weight", "kernel" if name.endswith("/kernel") else "same")
    if not name.startswith("encoderblock_"):  # of the head: layers in their order, with a ReLU between
        return f"classifier.{2 * head.index(name.split('/')[0])}{kind}", form
    number, part = name.removeprefix("encoderblock_").split("/")[0], name.split("/", 1)[1]
    if "_global/" in part or part.startswith("SinkhornAttention") and "DenseGeneral" in part:
        return None  # projections for global tokens, and the sorting net: without effect
    layer = f"layer{number}_"
    for found, ours in {"LayerNorm_0/": "attention_norm", "LayerNorm_2/": "feed_forward_norm"}.items():
        if part.startswith(found):
            return layer + ours + kind, form
    for found, ours in {"/Dense_0/": "feed_forward.0", "/Dense_1/": "feed_forward.3"}.items():
        if found in part:
            return layer + ours + kind, form
    if part.endswith("lr_kernel"):
        return layer + "attention.projection.key", "transposed"
    if part.endswith("/random"):
        return layer + "attention.r", "same"
    if part.split("/")[1] == "out":
        return layer + "attention.output.weight", "out"
    which = part.split("/")[1].removesuffix("_sliding_window")
    if which == "query" and part.startswith("Reformer"):
        which = "query_key"
    return f"{layer}attention.{which}.weight", form


def papers_name(name):
    """(our name, form) of a parameter of N or S."""
    if name.startswith("seq_classifer.mlpblock."):
        return name.replace("seq_classifer.mlpblock", "classifier"), "same"
    name = name.removeprefix("model.").removeprefix("embeddings.")
    plain = {"word_embeddings": "tokens", "position_embeddings": "positions", "norm": "final_norm"}
    first, rest = name.split(".", 1)
    if first in plain:
        return f"{plain[first]}.{rest}", "same"
    layer = f"layer{first.removeprefix('transformer_')}_"
    parts = {"norm1": "attention_norm", "norm2": "feed_forward_norm", "mlpblock": "feed_forward", "mha.W_q": "attention.query"}
    parts |= {"mha.W_k": "attention.key", "mha.W_v": "attention.value", "mha.ff": "attention.output"}
    parts |= {"mha.attn.E": "attention.projection.key", "mha.attn.conv": "attention.conv"}
    for theirs, ours in parts.items():
        if rest == theirs or rest.startswith(theirs + "."):
            return layer + ours + rest.removeprefix(theirs), "same"
    raise KeyError(name)


def names_of(about, parameters):
    """Released name -> [our name, form], for NAME.json."""
    if about["source"].startswith("google-research"):
        bare = {name.removeprefix("encoder/").split("/")[0] for name in parameters}
        head = [name for name in ("mlp", "mlp2", "logits") if name in bare]
        found = {name: google_name(name, head) for name in parameters}
    else:
        found = {name: papers_name(name) for name in parameters}
    return {name: list(ours) for name, ours in sorted(found.items()) if ours is not None}


def our_inputs(about, inputs):
    """The case's inputs as `lra attend` takes them."""
    if about["level"] != "model":
        return inputs
    given, names = {}, about["ours"]["names"]
    for name, value in inputs.items():
        if name.startswith("projection."):
            given[f"param.layer{name.removeprefix('projection.')}_attention.projection"] = value
        elif name == "positions":
            given["param.fixed_positions"] = value
        elif not name.startswith("param."):
            given[name] = value
        elif name.removeprefix("param.") in names:
            ours, form = names[name.removeprefix("param.")]
            given["param." + ours] = np.ascontiguousarray(FORMS[form](value))
    return given


def command(about):
    ours = about["ours"]
    words = ["--attention", ours["attention"]]
    for key in ("protocol", "task"):
        words += [f"--{key}", ours[key]] if key in ours else []
    for setting in ours.get("set", []):
        words += ["--set", setting]
    return words + (["--scope", "model"] if about["level"] == "model" else [])


def attend(program, about, inputs):
    with tempfile.TemporaryDirectory() as folder:
        given, answer = Path(folder, "in.safetensors"), Path(folder, "out.safetensors")
        save_file(our_inputs(about, inputs), given)
        words = [program, "attend", *command(about), "--input", given, "--output", answer]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command(about))}: {done.stderr.strip()[:400]}")
        return load_file(answer)


def largest(tensors):
    return max(np.abs(t).max(initial=0) for t in tensors)


def cancelled(expected):
    """Names of the tensors whose terms cancel, so that only rounding is left of them: the gradient of a key's bias under a softmax."""
    return sorted(name for name, tensor in expected.items() if largest([tensor]) <= 1e-14 * largest(expected.values()))


def scale(about, expected, name):
    """What differences of a tensor are relative to: its largest entry; where its terms cancel a millionth of the largest of all."""
    return 1e-6 * largest(expected.values()) if name in about.get("cancels", ()) else max(largest([expected[name]]), 1e-300)


def difference(ours, theirs, scale):
    """The largest, relative to `scale`."""
    found = np.abs(ours - theirs).max(initial=0) / scale
    return float(found) if np.isfinite(found) else np.inf


def differences(program, about, inputs, expected):
    """Tensor -> difference of ours to the released code's."""
    ours, found = attend(program, about, inputs), {}
    if about["level"] == "model":
        names = about["ours"]["names"]
        for name, theirs in expected.items():
            if name == "logits":
                found[name] = difference(ours[name], theirs, scale(about, expected, name))
            elif name.removeprefix("grad.") in names:
                renamed, form = names[name.removeprefix("grad.")]
                if "grad.param." + renamed in ours:  # a table that is not trained has none
                    found[name] = difference(ours["grad.param." + renamed], FORMS[form](theirs), scale(about, expected, name))
        compared = {"logits"} | {"grad.param." + names[n.removeprefix("grad.")][0] for n in found if n != "logits"}
        for name in set(ours) - compared:
            found[f"({name}: not compared)"] = np.inf
        return found
    real = None
    if "grad_real.q" in expected:
        zeroed = dict(inputs, grad_output=inputs["grad_output"] * inputs["mask"][:, None, :, None])
        real = attend(program, about, zeroed)
    for name, theirs in expected.items():
        answer, key = (real, name.replace("grad_real.", "grad.")) if name.startswith("grad_real.") else (ours, name)
        if key in answer or not name.startswith("grad.param."):
            found[name] = difference(answer[key], theirs.reshape(answer[key].shape), scale(about, expected, name))
    return found
