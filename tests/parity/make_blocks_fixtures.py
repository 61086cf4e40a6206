#!/usr/bin/env python3
"""Makes tests/fixtures/attend-longformer-*.safetensors and attend-bigbird-*.safetensors: inputs, and what transformers answers.

    pip install torch transformers==5.23.0 safetensors numpy
    python tests/parity/make_blocks_fixtures.py tests/fixtures

LongformerSelfAttention and BigBirdBlockSparseAttention compute; their projections alone hand on q, k and v. All in float64.

Where they differ:
- LongformerSelfAttention takes its softmax in float32 whatever the type of the rest, which would limit the comparison to 1e-7: the
  dtype is taken off that call. It projects queries, keys and values of global tokens on their own: the same here. It needs an N
  that its window divides.
- BigBirdBlockSparseAttention draws random blocks in training only. In evaluation its table is zero throughout, so that block 0
  counts 1 + r times for every other query (the case `evaluation`); the others run in training mode, which has no dropout of its
  own. The table [H,N/b-2,r] has no rows for the first and last block, which see all: here these rows are -1.
- Its random blocks come from the first 2r + 5 blocks alone where there are more than those; ours from all. The model around it
  falls back to full attention at N <= (5 + 2r) b; the layer itself does not, nor does ours.
"""

import sys
from pathlib import Path

import torch
import transformers
from attend_fixture import draw, save
from torch import nn
from transformers import BigBirdConfig, LongformerConfig
from transformers.models.big_bird.modeling_big_bird import BigBirdBlockSparseAttention, BigBirdModel
from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

torch.set_default_dtype(torch.float64)

PEER = f"transformers {transformers.__version__}"


class Given(nn.Module):
    """Stands for a projection: hands on what it is told, whatever it is given."""

    tensor = None

    def forward(self, _):
        return self.tensor.clone()  # the peer divides its queries in place


def split(x, heads):
    """[B,N,H*d] -> [B,H,N,d]"""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def scattered(inputs):
    """Every third position padded as well."""
    q, k, v, mask, grad_output = inputs
    mask = mask & (torch.arange(mask.shape[1]) % 3 != 1)
    return q, k, v, mask, grad_output * mask[:, None, :, None]


def longformer(path, name, inputs, window, global_tokens):
    heads, length, width = inputs[0].shape[1:]
    config = LongformerConfig(
        hidden_size=heads * width, num_attention_heads=heads, attention_window=[window], attention_probs_dropout_prob=0.0)
    module = LongformerSelfAttention(config, layer_id=0).double().eval()
    parts = ("query", "key", "value", "query_global", "key_global", "value_global")
    for part in parts:
        setattr(module, part, Given())

    def run(q, k, v, mask):
        q, k, v = (t.permute(2, 0, 1, 3).flatten(2) for t in (q, k, v))  # [N,B,H*d]
        attention_mask = torch.zeros(mask.shape)
        attention_mask[:, :global_tokens] = 10000
        attention_mask[~mask] = -10000
        is_global = attention_mask > 0
        # The peer projects the global tokens' queries alone, those of a sample one after the other: [most,B,H*d].
        first = (~is_global).int().argsort(dim=1, stable=True)[:, : int(is_global.sum(1).max())]
        q_global = q.gather(0, first.T[:, :, None].expand(-1, -1, q.shape[2]))
        for part, tensor in zip(parts, (q, k, v, q_global, k, v)):
            getattr(module, part).tensor = tensor
        softmax = nn.functional.softmax
        nn.functional.softmax = lambda x, dim, dtype=None: softmax(x, dim=dim)
        try:
            out = module(
                torch.zeros(mask.shape + (heads * width,)), attention_mask=attention_mask, is_index_masked=attention_mask < 0,
                is_index_global_attn=is_global, is_global_attn=bool(is_global.any()))[0]
        finally:
            nn.functional.softmax = softmax
        return split(out, heads)

    save(path / f"attend-longformer-{name}.safetensors", f"longformer[window={window},global_tokens={global_tokens}]",
         f"{PEER} LongformerSelfAttention", inputs, run)


def bigbird(path, name, inputs, block, random_blocks, seed, training=True):
    heads, length, width = inputs[0].shape[1:]
    config = BigBirdConfig(
        hidden_size=heads * width, num_attention_heads=heads, block_size=block, num_random_blocks=random_blocks,
        max_position_embeddings=length, attention_probs_dropout_prob=0.0)
    module = BigBirdBlockSparseAttention(config, seed=seed).double().train(training)
    module.query, module.key, module.value = Given(), Given(), Given()
    tables = []
    draw_table = module._bigbird_block_rand_mask_with_head

    def kept(**given):
        tables.append(draw_table(**given))
        return tables[-1]

    module._bigbird_block_rand_mask_with_head = kept

    def run(q, k, v, mask):
        for part, tensor in zip((module.query, module.key, module.value), (q, k, v)):
            part.tensor = tensor.transpose(1, 2).flatten(2)
        blocked, band, from_mask, to_mask = BigBirdModel.create_masks_for_block_sparse_attn(mask.double(), block)
        out = module(
            torch.zeros(mask.shape + (heads * width,)), band_mask=band, from_mask=from_mask, to_mask=to_mask,
            from_blocked_mask=blocked, to_blocked_mask=blocked)[0]
        return split(out, heads)

    run(*inputs[:4])  # for the table, which the seed makes the same again
    table = torch.stack([torch.from_numpy(rows).long() for rows in tables[0]])  # [H,N/b-2,r]
    assert bool(table.any()) == training
    table = nn.functional.pad(table, (0, 0, 1, 1), value=-1)
    save(path / f"attend-bigbird-{name}.safetensors", f"bigbird[block={block},random_blocks={random_blocks}]",
         f"{PEER} BigBirdBlockSparseAttention", inputs, run, buffers={"random_blocks": table})


def main():
    path = Path(sys.argv[1])
    path.mkdir(parents=True, exist_ok=True)
    longformer(path, "band", draw(1, [48, 31], 2, 48, 4), 8, 0)
    longformer(path, "scattered", scattered(draw(2, [48, 40], 2, 48, 4)), 12, 0)
    longformer(path, "global", draw(3, [48, 30, 2], 2, 48, 4), 8, 3)  # the third sample has fewer tokens than that
    longformer(path, "global-scattered", scattered(draw(4, [40, 33], 2, 40, 4)), 4, 5)
    longformer(path, "large-logits", draw(5, [40, 25], 1, 40, 8, scale=3.0), 20, 1)
    bigbird(path, "full-length", draw(6, [64, 64], 2, 64, 4), 4, 3, seed=1)
    bigbird(path, "padded", draw(7, [60, 33], 2, 60, 4), 4, 2, seed=2)
    bigbird(path, "scattered", scattered(draw(8, [66, 50], 2, 66, 4)), 6, 1, seed=3)
    bigbird(path, "large-logits", draw(9, [64, 41], 2, 64, 4, scale=3.0), 8, 1, seed=4)
    bigbird(path, "evaluation", draw(10, [64, 45], 2, 64, 4), 8, 2, seed=5, training=False)


if __name__ == "__main__":
    main()
