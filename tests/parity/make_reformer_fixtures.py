#!/usr/bin/env python3
"""Makes tests/fixtures/attend-reformer-*.safetensors: inputs, and what public Reformers answer, in `lra attend`'s format.

    pip install torch transformers reformer-pytorch safetensors numpy
    python tests/parity/make_reformer_fixtures.py tests/fixtures

As make_nystrom_fixtures.py; the shared query/key vector stands in both q and k, all of its gradient is that of q, and the
rotations that the peer drew are given as param.rotations.

Where they differ, and which option stands for what:
- transformers divides a key by the root of its mean square and by √d (key_scale=rms), reformer-pytorch by its length, and then the
  logits by √d (key_scale=unit).
- transformers chooses about two buckets a chunk, reformer-pytorch one (num_buckets is given in its cases).
- transformers' layer refuses a length that is no multiple of the chunk; its model pads such a sequence and masks the rest. Such a
  case is handed to the layer so, and stored without the padding. The model would choose the buckets by the padded length, so
  num_buckets is given.
- transformers puts padded tokens into a bucket of their own, behind all others, as is done here. reformer-pytorch hashes them like
  any token: they fill chunks, and so what stands at padded positions changes which tokens see each other. No option stands for
  that: its cases have no padding, and peer-reformer-pytorch-padded.safetensors holds what two different contents of the
  padding answer, for a test that shows the difference.
- reformer-pytorch draws one rotation for the whole batch and all heads, or one for each (sample, head): with the first, the
  same table is given to every head; with the second there is one sample.
- reformer-pytorch's causal mode, its allow_duplicate_attention=False, attend_across_buckets=False and rehash_each_round=False
  are other functions; the defaults of its LSHAttention are compared.
"""

import sys
from pathlib import Path

import torch
import transformers
from attend_fixture import draw, save
from reformer_pytorch import LSHAttention
from safetensors.torch import save_file
from torch import nn
from transformers import ReformerConfig
from transformers.models.reformer.modeling_reformer import LSHSelfAttention

torch.set_default_dtype(torch.float64)

HASH_SEED = 7


class Half(nn.Module):
    """Stands for one of two projections: hands on its half of the hidden states."""

    def __init__(self, index):
        super().__init__()
        self.index = index

    def forward(self, x):
        return x.chunk(2, dim=-1)[self.index]


def shared(seed, lengths, heads, length, width, scale=1.0):
    q, _, v, mask, grad_output = draw(seed, lengths, heads, length, width, scale)
    return q, q, v, mask, grad_output


def rotations(*shape):
    """What a peer draws first after seeding torch."""
    torch.manual_seed(HASH_SEED)
    return torch.randn(shape)


def with_transformers(path, name, seed, lengths, heads, length, width, chunk, hashes, buckets=0, before=1, after=0, scale=1.0):
    """buckets 0: as the peer chooses them."""
    config = ReformerConfig(
        hidden_size=heads * width, num_attention_heads=heads, attention_head_size=width, attn_layers=["lsh"],
        num_hashes=hashes, num_buckets=buckets or None, lsh_attn_chunk_length=chunk, lsh_num_chunks_before=before,
        lsh_num_chunks_after=after, lsh_attention_probs_dropout_prob=0.0, is_decoder=False, hash_seed=HASH_SEED,
        max_position_embeddings=length)
    module = LSHSelfAttention(config).double().eval()
    module.query_key, module.value = Half(0), Half(1)
    missing = -length % chunk if length > chunk else 0

    def run(q, k, v, mask):
        x = torch.cat([t.transpose(1, 2).flatten(2) for t in (q, v)], dim=-1)  # [B,N,2*H*d]
        x = nn.functional.pad(x, (0, 0, 0, missing))
        out = module(x, attention_mask=nn.functional.pad(mask, (0, missing))).hidden_states
        # The layer has no k: its gradient is zero.
        return out[:, :length].unflatten(-1, (heads, -1)).transpose(1, 2) + 0 * k

    inputs = shared(seed, lengths, heads, length, width, scale)
    run(*inputs[:4])  # the module chooses its buckets by the first input
    table = {}
    if length > chunk:
        factors = [module.num_buckets] if isinstance(module.num_buckets, int) else module.num_buckets
        table = {"rotations": rotations(heads, width, hashes, sum(factors) // 2)}
    options = f"chunk_length={chunk},num_hashes={hashes},num_buckets={buckets},chunks_before={before},chunks_after={after}"
    save(path / f"attend-reformer-transformers-{name}.safetensors", f"reformer[{options}]",
         f"transformers {transformers.__version__}", inputs, run, buffers=table)


def lucidrains(chunk, hashes, per_head=False):
    return LSHAttention(bucket_size=chunk, n_hashes=hashes, random_rotations_per_head=per_head).double().eval()


def lucidrains_options(length, chunk, hashes):
    return f"reformer[chunk_length={chunk},num_hashes={hashes},num_buckets={length // chunk},key_scale=unit]"


def with_lucidrains(path, name, seed, batch, heads, length, width, chunk, hashes, per_head=False, scale=1.0):
    module = lucidrains(chunk, hashes, per_head)
    assert not per_head or batch == 1
    table = rotations(heads if per_head else 1, width, hashes, length // chunk // 2).expand(heads, -1, -1, -1)

    def run(q, k, v, mask):
        torch.manual_seed(HASH_SEED)
        out = module(q.flatten(0, 1), v.flatten(0, 1))[0]
        return out.unflatten(0, (batch, heads)) + 0 * k

    save(path / f"attend-reformer-pytorch-{name}.safetensors", lucidrains_options(length, chunk, hashes), "reformer-pytorch",
         shared(seed, [length] * batch, heads, length, width, scale), run, buffers={"rotations": table})


def padded_lucidrains(path, seed, heads, length, real, width, chunk, hashes):
    """Two samples, equal but for what stands at their padded positions; the peer answers differently at real ones."""
    module = lucidrains(chunk, hashes)
    q, _, v, mask, _ = shared(seed, [real, real], heads, length, width)
    q, v = (torch.where(mask[:, None, :, None], t[:1], t) for t in (q, v))
    table = rotations(1, width, hashes, length // chunk // 2).expand(heads, -1, -1, -1)
    torch.manual_seed(HASH_SEED)
    out = module(q.flatten(0, 1), v.flatten(0, 1), input_mask=mask.repeat_interleave(heads, 0))[0]
    tensors = {"q": q, "k": q, "v": v, "mask": mask, "param.rotations": table, "expected.output": out.view_as(q)}
    tensors = {key: tensor.clone().contiguous() for key, tensor in tensors.items()}
    save_file(tensors, path / "peer-reformer-pytorch-padded.safetensors",
              metadata={"attention": lucidrains_options(length, chunk, hashes), "peer": "reformer-pytorch"})


def main():
    path = Path(sys.argv[1])
    path.mkdir(parents=True, exist_ok=True)
    with_transformers(path, "full", 1, [48, 48], 2, 48, 4, 8, 2)
    with_transformers(path, "padded", 2, [40, 25, 1], 2, 40, 4, 8, 2)
    with_transformers(path, "one-hash", 3, [40, 23], 1, 40, 8, 4, 1, before=0)
    with_transformers(path, "wide-window", 4, [36, 20], 2, 36, 6, 6, 3, before=2, after=1)
    with_transformers(path, "factorised", 5, [64, 41], 1, 64, 4, 2, 2)  # 64 buckets: 8 x 8
    with_transformers(path, "one-chunk", 6, [21, 13, 1], 1, 21, 8, 32, 2)
    with_transformers(path, "two-chunks", 7, [16, 11], 2, 16, 8, 8, 3, after=1)  # windows wrap onto themselves
    with_transformers(path, "odd-length", 8, [53, 34], 2, 53, 4, 8, 2, buckets=6)
    with_transformers(path, "large-logits", 9, [40, 33], 1, 40, 8, 5, 4, scale=8.0)
    with_lucidrains(path, "full", 10, 2, 2, 48, 4, 8, 2)
    with_lucidrains(path, "per-head", 11, 1, 3, 48, 6, 8, 4, per_head=True)
    with_lucidrains(path, "one-hash", 12, 2, 1, 40, 8, 5, 1)
    with_lucidrains(path, "two-chunks", 13, 2, 2, 32, 4, 16, 2)
    with_lucidrains(path, "large-logits", 14, 1, 2, 48, 8, 6, 8, scale=8.0)
    padded_lucidrains(path, 15, 2, 48, 29, 4, 8, 2)


if __name__ == "__main__":
    main()
