"""The layers of public Python packages that profile_peers.py measures."""

# A maker of a layer takes the cell and returns (module, f) with f(x [B,N,D]) -> [B,N,D]; a maker of a core returns (module, shapes,
# f): f of tensors of these shapes gives the attention's result. `module` holds the parameters.
def width_of(cell):
    return cell["heads"] * cell["head_dim"]


def joined(cell, count):
    """`count` tensors [B,N,H*d], as a layer's projections make them."""
    return [(cell["batch"], cell["length"], width_of(cell))] * count


def by_head(cell, count):
    """`count` tensors [B,H,N,d]."""
    return [(cell["batch"], cell["heads"], cell["length"], cell["head_dim"])] * count


def no_parameters():
    import torch

    return torch.nn.Module()


def hand_over(layer, names, forward):
    """`forward` of a layer whose projections `names` hand over the tensors given instead of computing them."""
    import torch

    class Given(torch.nn.Module):
        tensor = None

        def forward(self, _):
            return self.tensor

    for name in names:
        setattr(layer, name, Given())

    def call(*tensors):
        for name, tensor in zip(names, tensors):
            getattr(layer, name).tensor = tensor
        return forward(tensors[0])

    return call


def torch_layer(need_weights):
    """torch's own layer; with need_weights it writes the N x N matrix (and averages it over heads)."""

    def make(cell):
        import torch

        layer = torch.nn.MultiheadAttention(width_of(cell), cell["heads"], batch_first=True)
        return layer, lambda x: layer(x, x, x, need_weights=need_weights)[0]

    return make


def torch_core(cell):
    import torch

    return no_parameters(), by_head(cell, 3), torch.nn.functional.scaled_dot_product_attention


def torch_weights_core(cell):
    """The formula as papers' code writes it."""

    def call(q, k, v):
        return (q @ k.transpose(-2, -1) / cell["head_dim"] ** 0.5).softmax(-1) @ v

    return no_parameters(), by_head(cell, 3), call


def nystrom_attention(cell):
    from nystrom_attention import NystromAttention

    layer = NystromAttention(width_of(cell), dim_head=cell["head_dim"], heads=cell["heads"], num_landmarks=64, pinv_iterations=6,
                             residual=True, residual_conv_kernel=35)
    return layer, layer


def nystrom_attention_core(cell):
    import torch

    layer, _ = nystrom_attention(cell)
    layer.to_out = torch.nn.Identity()
    return layer, [(cell["batch"], cell["length"], 3 * width_of(cell))], hand_over(layer, ["to_qkv"], layer)


def with_output(attention, width):
    """An attention of transformers has no output projection: lra's has."""
    import torch

    return torch.nn.ModuleDict({"attention": attention, "output": torch.nn.Linear(width, width)})


def transformers_nystrom_alone(cell):
    from transformers import NystromformerConfig
    from transformers.models.nystromformer.modeling_nystromformer import NystromformerSelfAttention

    return NystromformerSelfAttention(NystromformerConfig(
        hidden_size=width_of(cell), num_attention_heads=cell["heads"], num_landmarks=64, conv_kernel_size=35,
        segment_means_seq_len=cell["length"], attention_probs_dropout_prob=0.0))


def transformers_nystrom(cell):
    layer = with_output(transformers_nystrom_alone(cell), width_of(cell))
    return layer, lambda x: layer["output"](layer["attention"](x)[0])


def transformers_nystrom_core(cell):
    layer = transformers_nystrom_alone(cell)
    return layer, joined(cell, 3), hand_over(layer, ["query", "key", "value"], lambda x: layer(x)[0])


def transformers_longformer_alone(cell):
    import torch
    from transformers import LongformerConfig
    from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

    layer = LongformerSelfAttention(LongformerConfig(
        hidden_size=width_of(cell), num_attention_heads=cell["heads"], attention_window=[256], num_hidden_layers=1,
        attention_probs_dropout_prob=0.0), layer_id=0)

    def call(x):
        none = torch.zeros(x.shape[:2], device=x.device)  # no padding, no global token
        return layer(x, attention_mask=none, is_index_masked=none.bool(), is_index_global_attn=none.bool(),
                     is_global_attn=False)[0]

    return layer, call


def transformers_longformer(cell):
    attention, call = transformers_longformer_alone(cell)
    layer = with_output(attention, width_of(cell))
    return layer, lambda x: layer["output"](call(x))


def transformers_longformer_core(cell):
    """Its code has the positions in front, and scales the queries in place: a copy for it."""
    layer, forward = transformers_longformer_alone(cell)
    call = hand_over(layer, ["query", "key", "value"], lambda x: forward(x.transpose(0, 1)))
    return layer, [(cell["length"], cell["batch"], width_of(cell))] * 3, lambda q, k, v: call(q.clone(), k, v)


def linformer(cell):
    from linformer.linformer import LinformerSelfAttention

    layer = LinformerSelfAttention(width_of(cell), cell["length"], k=256, heads=cell["heads"])
    return layer, layer


def linformer_core(cell):
    import torch

    layer, _ = linformer(cell)
    layer.to_out = torch.nn.Identity()
    return layer, joined(cell, 3), hand_over(layer, ["to_q", "to_k", "to_v"], layer)


def performer(cell):
    from performer_pytorch import SelfAttention

    layer = SelfAttention(width_of(cell), heads=cell["heads"], dim_head=cell["head_dim"], nb_features=256, causal=False)
    return layer, layer


def performer_core(cell):
    from performer_pytorch import FastAttention

    layer = FastAttention(cell["head_dim"], nb_features=256, causal=False)
    return layer, by_head(cell, 3), layer


def reformer(cell):
    from reformer_pytorch import LSHSelfAttention

    layer = LSHSelfAttention(width_of(cell), heads=cell["heads"], bucket_size=64, n_hashes=2, causal=False)
    return layer, layer


def reformer_core(cell):
    """Queries are the keys, as in lra's."""
    from reformer_pytorch import LSHAttention

    layer = LSHAttention(bucket_size=64, n_hashes=2, causal=False)
    return layer, [(cell["batch"] * cell["heads"], cell["length"], cell["head_dim"])] * 2, lambda qk, v: layer(qk, v)[0]


def s5(cell):
    """All 64 states, of which lra computes half; a sequence at a time, which vmap makes a batch of."""
    import torch
    from s5.s5_model import S5SSM

    states, width = 64, width_of(cell)
    transition = torch.complex(torch.full((states,), -0.5), -torch.pi * torch.arange(states))
    eye = torch.eye(states, dtype=torch.complex64)
    layer = S5SSM(transition, eye, eye, width, states, 0.001, 0.1, bcInit="dense", bidir=True)
    return layer, torch.vmap(layer)


def lru(cell):
    """A loop of Python over samples and positions; its direct term is a dense matrix."""
    from LRU_pytorch import LRU

    layer = LRU(width_of(cell), width_of(cell), 128)
    return layer, layer


def mega(cell):
    """With its norm, and the gate between its result and x; positions come first."""
    from transformers.models.deprecated.mega.configuration_mega import MegaConfig
    from transformers.models.deprecated.mega.modeling_mega import MegaMovingAverageGatedAttention

    layer = MegaMovingAverageGatedAttention(MegaConfig(
        hidden_size=width_of(cell), intermediate_size=128, ema_projection_size=16, shared_representation_size=64, bidirectional=True,
        use_chunking=False, max_positions=cell["length"], attention_activation="softmax", relative_positional_bias="simple",
        dropout_prob=0, hidden_dropout_prob=0, attention_probs_dropout_prob=0))
    return layer, lambda x: layer(x.transpose(0, 1))[0].transpose(0, 1)


# Name -> (attention of lra with the same sizes, distribution on PyPI, maker of the layer, maker of the core or None)
PEERS = {
    "torch": ("standard", "torch", torch_layer(need_weights=False), torch_core),
    "torch-weights": ("standard[implementation=materialized]", "torch", torch_layer(need_weights=True), torch_weights_core),
    "nystrom-attention": ("nystrom", "nystrom-attention", nystrom_attention, nystrom_attention_core),
    "transformers-nystrom": ("nystrom", "transformers", transformers_nystrom, transformers_nystrom_core),
    "transformers-longformer": ("longformer", "transformers", transformers_longformer, transformers_longformer_core),
    "linformer": ("linformer", "linformer", linformer, linformer_core),
    "performer-pytorch": ("performer", "performer-pytorch", performer, performer_core),
    "reformer-pytorch": ("reformer", "reformer-pytorch", reformer, reformer_core),
    "s5-pytorch": ("s5", "s5-pytorch", s5, None),
    "lru-pytorch": ("lru", "lru-pytorch", lru, None),
    "transformers-mega": ("mega", "transformers", mega, None),
}
