#!/usr/bin/env python3
"""Makes tests/fixtures/mixer-*.safetensors: rows x, and what public state-space layers answer.

    pip install torch safetensors numpy scipy transformers==4.57.6 && pip install --no-deps s5-pytorch==0.2.1 lru-pytorch==0.1.3 jaxtyping einops
    python tests/parity/make_mixer_fixtures.py tests/fixtures

Each holds x [1,N,D], param.NAME as the variant of the metadata names them, grad_output, expected.output and
expected.grad.* of x and of every parameter.

How the peers differ from each other, and from the papers:
- s5-pytorch keeps all states and takes y = Re(C x): it is given half of them and 2 C. It computes in complex64, whatever it is
  given, so its fixtures are compared at 1e-5.
- lru-pytorch's direct term is a dense matrix: it is given the diagonal one, whose gradient is the diagonal of its own.
- Both take a sequence without padding.
- transformers' Mega gives x + gate (h - x), whose x is taken away again; its norm is left out, as the layer here is given
  normed rows. Its moving average casts to float32, and is cached in evaluation: it is in training, without dropout.
"""

import sys
from pathlib import Path

import torch
from LRU_pytorch import LRU
from s5.s5_model import S5SSM
from safetensors.torch import save_file
from transformers.models.deprecated.mega.configuration_mega import MegaConfig
from transformers.models.deprecated.mega.modeling_mega import MegaMovingAverageGatedAttention

WIDTH = 6


def save(folder, name, attention, peer, inputs, run):
    """Runs the peer, run(x [N,D], **parameters) -> [N,D]."""
    leaves = {key: value.detach().clone().requires_grad_() for key, value in inputs.items()}
    parameters = {key: value for key, value in leaves.items() if key != "x"}
    output = run(leaves["x"], **parameters)
    grad_output = torch.randn_like(output)
    gradients = torch.autograd.grad(output, list(leaves.values()), grad_output)
    tensors = {"grad_output": grad_output[None], "expected.output": output.detach()[None]}
    for (key, leaf), gradient in zip(leaves.items(), gradients):
        stored, found = leaf.detach(), gradient
        if key == "x":
            stored, found = stored[None], found[None]
        tensors[key if key == "x" else f"param.{key}"] = stored
        tensors[f"expected.grad.{key if key == 'x' else f'param.{key}'}"] = found
    tensors = {key: value.contiguous() for key, value in tensors.items()}
    path = folder / f"mixer-{name}.safetensors"
    save_file(tensors, path, metadata={"attention": attention, "peer": peer})
    print(path.name, attention, f"{sum(t.numel() * t.element_size() for t in tensors.values()) / 1024:.0f} KiB")


def replace(module, name, value):
    del module._parameters[name]
    setattr(module, name, value)


def s5_case(folder, name, length, states, bidirectional, discretisation):
    torch.manual_seed(length)
    directions = 2 if bidirectional else 1
    inputs = {
        "x": torch.randn(length, WIDTH),
        "transition": torch.stack([-torch.rand(states) - 0.1, -10 * torch.rand(states)], -1),
        "b": torch.randn(states, WIDTH, 2),
        "c": torch.randn(directions, WIDTH, states, 2),
        "log_step": torch.log(0.001 + 0.1 * torch.rand(states)),
        "skip": torch.randn(WIDTH),
    }

    def run(x, transition, b, c, log_step, skip):
        eye = torch.eye(states, dtype=torch.complex64)
        peer = S5SSM(eye[0], eye, eye, WIDTH, states, 0.001, 0.1, bcInit="dense", bidir=bidirectional,
                     discretization=discretisation)
        replace(peer, "Lambda", torch.view_as_complex(transition))
        replace(peer, "B", b)
        replace(peer, "C", 2 * torch.cat([torch.view_as_complex(one) for one in c], -1))
        replace(peer, "D", skip)
        replace(peer, "log_step", log_step)
        return peer(x)

    spec = f"s5[state={2 * states},bidirectional={str(bidirectional).lower()},discretisation={discretisation}]"
    save(folder, f"s5-{name}", spec, "s5-pytorch 0.2.1", inputs, run)


def lru_case(folder, name, length, states):
    torch.manual_seed(length)
    torch.set_default_dtype(torch.float64)
    inputs = {
        "x": torch.randn(length, WIDTH),
        "nu": torch.log(torch.rand(states)),
        "theta": torch.log(6.28 * torch.rand(states)),
        "gamma": -torch.rand(states),
        "b": torch.randn(states, WIDTH, 2),
        "c": torch.randn(1, WIDTH, states, 2),
        "skip": torch.randn(WIDTH),
    }

    def run(x, nu, theta, gamma, b, c, skip):
        peer = LRU(WIDTH, WIDTH, states)
        replace(peer, "nu_log", nu)
        replace(peer, "theta_log", theta)
        replace(peer, "gamma_log", gamma)
        replace(peer, "B", torch.view_as_complex(b))
        replace(peer, "C", torch.view_as_complex(c[0]))
        replace(peer, "D", torch.diag(skip))
        return peer(x)

    save(folder, f"lru-{name}", f"lru[state={states}]", "lru-pytorch 0.1.3", inputs, run)
    torch.set_default_dtype(torch.float32)


def mega_case(folder, name, length, attention, chunk=0, truncation=0, bidirectional=True):
    torch.manual_seed(length)
    modes, z, hidden = 3, 4, 10
    channels = 2 * WIDTH if bidirectional else WIDTH
    inputs = {"x": torch.randn(length, WIDTH)}
    inputs |= {key: torch.randn(channels, modes) for key in ("delta", "alpha", "beta", "gamma")}
    inputs |= {"omega": torch.randn(WIDTH), "scale": torch.randn(2, z), "shift": torch.randn(2, z),
               "distance_bias": torch.randn(2 * (chunk or length) - 1)}
    for key, rows, columns in (("value", hidden, WIDTH), ("mixed", 2 * WIDTH + z + hidden, WIDTH), ("hidden", WIDTH, hidden)):
        inputs |= {f"{key}.weight": torch.randn(rows, columns) / columns**0.5, f"{key}.bias": torch.randn(rows)}

    def run(x, **given):
        peer = MegaMovingAverageGatedAttention(MegaConfig(
            hidden_size=WIDTH, intermediate_size=hidden, ema_projection_size=modes, shared_representation_size=z,
            bidirectional=bidirectional, truncation=truncation or None, use_chunking=chunk > 0, chunk_size=chunk or -1,
            max_positions=chunk or length, attention_activation=attention, relative_positional_bias="simple", dropout_prob=0,
            hidden_dropout_prob=0, attention_probs_dropout_prob=0))
        peer.norm = torch.nn.Identity()
        for key, name in (("delta", "damping_factor"), ("alpha", "decay_factor"), ("beta", "ema_expansion_matrix")):
            replace(peer.ema_gate, name, given[key].unsqueeze(-1))
        replace(peer.ema_gate, "kernel_projection_matrix", given["gamma"])
        replace(peer.ema_gate, "residual_weight", given["omega"])
        replace(peer, "qk_weight", given["scale"])
        replace(peer, "qk_bias", given["shift"])
        replace(peer.rel_pos_bias, "rel_pos_bias", given["distance_bias"])
        for key, layer in (("value", peer.v_proj), ("mixed", peer.mx_proj), ("hidden", peer.h_proj)):
            replace(layer, "weight", given[f"{key}.weight"])
            replace(layer, "bias", given[f"{key}.bias"])
        peer.train()
        return peer(x.unsqueeze(1))[0].squeeze(1) - x

    spec = (f"mega[ema={modes},z={z},hidden={hidden},attention={attention},chunk={chunk},truncation={truncation},"
            f"bidirectional={str(bidirectional).lower()}]")
    save(folder, f"mega-{name}", spec, "transformers 4.57.6 MegaMovingAverageGatedAttention", inputs, run)


def main():
    folder = Path(sys.argv[1])
    s5_case(folder, "one-way", 37, 8, bidirectional=False, discretisation="zoh")
    s5_case(folder, "two-ways", 48, 5, bidirectional=True, discretisation="zoh")
    s5_case(folder, "bilinear", 20, 4, bidirectional=False, discretisation="bilinear")
    lru_case(folder, "short", 33, 7)
    lru_case(folder, "one", 1, 20)
    mega_case(folder, "softmax", 19, "softmax")
    mega_case(folder, "chunks", 24, "softmax", chunk=8, truncation=5)
    mega_case(folder, "laplace", 17, "laplace", bidirectional=False)


if __name__ == "__main__":
    main()
