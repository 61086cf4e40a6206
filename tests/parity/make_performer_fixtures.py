#!/usr/bin/env python3
"""Makes tests/fixtures/attend-performer-*.safetensors: inputs, and what the package performer-pytorch answers.

    pip install torch performer-pytorch==1.1.4 setuptools safetensors numpy
    python tests/parity/make_performer_fixtures.py tests/fixtures
    pip install performer-pytorch==0.15.2       # in another environment: makes the batch-max ones
    python tests/parity/make_performer_fixtures.py tests/fixtures

The package's FastAttention computes; the projection that it drew, [m,d], is stored. All in float64.

Where it differs:
- It detaches the maximum that it subtracts in the exponent. The small number added to the exponential keeps the maximum from
  cancelling, so what comes out is not the gradient of its own output: max_gradient=detached here. The cases `detached-*` and
  detached-performer.safetensors are what the package itself gives; the gradients of the others are of its own source with
  `.detach()` taken off.
- Its key maximum is over features and positions of each sample and head. Until 1.1.1 it was over the whole tensor, and attached
  until 1.1.4: the cases `batch-max-*`, key_max=batch here, are of 0.15.2, which the released code of the Nyströmformer's LRA
  experiments ran with.
- `kernel_fn` does nothing unless `generalized_attention` is set: the case `ignored-kernel` asks it for nn.ReLU() and compares
  with kernel=softmax. The case `relu` sets both.
- FastAttention knows no mask, and its surrounding module masks v alone: padded keys stay in the denominator and in the maximum.
  With a mask it is given the real tokens of each sample alone, and its output stands at their places.
- prescale=true is how the released code of the Nyströmformer's LRA experiments calls it: q and k times d^-1/4, padded k and v
  zeroed and kept in the sums.
"""

import inspect
import sys
from importlib.metadata import version
from pathlib import Path

import torch
from attend_fixture import draw, save
from performer_pytorch import performer_pytorch as package
from torch import nn

torch.set_default_dtype(torch.float64)

VERSION = version("performer-pytorch")
PEER = f"performer-pytorch {VERSION}"


def attached_softmax_kernel():
    """The package's own softmax_kernel with the detach on its maxima taken off."""
    source = inspect.getsource(package.softmax_kernel)
    assert source.count(".detach()") == 2
    scope = dict(vars(package))
    exec(source.replace(".detach()", ""), scope)
    return scope["softmax_kernel"]


def on_real_tokens(attend, q, k, v, mask):
    """attend() on each sample's tokens alone; zero at padded positions."""
    outputs = []
    for b in range(mask.shape[0]):
        real = mask[b].nonzero().squeeze(1)
        out = attend(*(t[b : b + 1, :, real] for t in (q, k, v)))
        outputs.append(torch.zeros(q[b : b + 1].shape).index_copy(2, real, out))
    return torch.cat(outputs)


def case(path, name, seed, lengths, heads, length, width, features, options="", scale=1.0, **given):
    inputs = draw(seed, lengths, heads, length, width, scale)
    module = package.FastAttention(width, nb_features=features, **given).double().eval()

    def run(q, k, v, mask):
        if "prescale" not in options:
            return module(q, k, v) if mask.all() else on_real_tokens(module, q, k, v, mask)
        real = mask[:, None, :, None]
        return module(q * width**-0.25, torch.where(real, k * width**-0.25, 0.0), torch.where(real, v, 0.0))

    attention = f"performer[num_features={features}{options}]"
    save(path / f"{name}.safetensors", attention, PEER, inputs, run, buffers={"projection": module.projection_matrix})


def batch_max(path):
    assert "torch.max(data_dash)" in inspect.getsource(package.softmax_kernel), "the maximum of the whole tensor"
    case(path, "attend-performer-batch-max", 39, [24, 24, 24], 2, 24, 8, 16, ",key_max=batch", scale=1.5)
    case(path, "attend-performer-batch-max-padded", 40, [22, 15, 3], 2, 22, 6, 32, ",prescale=true,key_max=batch")


def main():
    path = Path(sys.argv[1])
    path.mkdir(parents=True, exist_ok=True)
    if VERSION == "0.15.2":
        return batch_max(path)
    case(path, "detached-performer", 31, [24, 24], 2, 24, 8, 16)
    detached = ",max_gradient=detached"
    case(path, "attend-performer-detached-softmax", 41, [25, 25], 2, 25, 8, 16, detached)
    case(path, "attend-performer-detached-masked", 42, [23, 14, 1], 2, 23, 6, 40, detached)
    case(path, "attend-performer-detached-large-norm", 43, [31, 30], 2, 31, 4, 7, detached, scale=3.0)
    case(path, "attend-performer-detached-prescale", 45, [22, 15, 3], 2, 22, 6, 32, ",prescale=true" + detached)
    package.softmax_kernel = attached_softmax_kernel()
    case(path, "attend-performer-softmax", 31, [24, 24], 2, 24, 8, 16)
    case(path, "attend-performer-masked", 32, [23, 14, 1], 2, 23, 6, 40)
    case(path, "attend-performer-small-norm", 33, [23, 11], 1, 23, 16, 64, scale=0.3)
    case(path, "attend-performer-large-norm", 34, [31, 30], 2, 31, 4, 7, scale=3.0)
    case(path, "attend-performer-relu", 35, [23, 15, 2], 2, 23, 6, 24, ",kernel=relu", generalized_attention=True,
         kernel_fn=nn.ReLU())
    case(path, "attend-performer-ignored-kernel", 36, [20, 9], 2, 20, 8, 16, ",kernel=softmax", kernel_fn=nn.ReLU())
    case(path, "attend-performer-prescale", 37, [22, 15, 3], 2, 22, 6, 32, ",prescale=true")
    case(path, "attend-performer-prescale-relu", 38, [27, 17], 2, 27, 6, 32, ",prescale=true,kernel=relu",
         generalized_attention=True, kernel_fn=nn.ReLU())


if __name__ == "__main__":
    main()
