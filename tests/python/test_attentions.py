"""lra.attention: modules of torch. pytest, or python3 -m unittest."""

import contextlib
import copy
import gc
import json
import pickle
import unittest
import weakref
from unittest import mock

import lra  # first: where torch is incomplete, it says so, and the tests are skipped
import torch
import torch.utils.checkpoint
from torch import nn

from running import program

NAMES = ["standard", "linformer", "performer", "reformer", "nystrom[num_landmarks=8]"]


def every_attention():
    built_in = [a["name"] for a in json.loads(program("list", "attentions", "--json"))]
    return [name for name in built_in if name not in ("python", "torchscript")]


def inputs(batch=2, length=24, dim=16):
    x = torch.randn(batch, length, dim, generator=torch.Generator().manual_seed(1))
    mask = torch.arange(length) < torch.tensor([length, length - 7]).unsqueeze(1)
    return x, mask


def times_gain(layer, given, result):
    return result * layer.gain


class Attentions(unittest.TestCase):
    def made(self, name="nystrom[num_landmarks=8]", **more):
        torch.manual_seed(0)
        return lra.attention(name, dim=16, heads=2, max_length=24, **more)

    def test_is_a_module_with_gradients(self):
        x, mask = inputs()
        for name in NAMES:
            with self.subTest(name):
                layer = self.made(name)
                self.assertGreater(len(list(layer.parameters())), 0)
                for parameter in layer.parameters():
                    self.assertIsInstance(parameter, nn.Parameter)
                out = layer(x, mask)
                self.assertEqual(out.shape, x.shape)
                self.assertEqual(float(out[1, -7:].detach().abs().max()), 0)
                out.sum().backward()
                grads = [parameter.grad for parameter in layer.parameters()]
                self.assertTrue(all(g is not None and g.isfinite().all() for g in grads))

    def test_standard_is_softmax_attention(self):
        layer = self.made("standard").double()
        q, k, v = torch.randn(3, 2, 2, 24, 8, dtype=torch.float64).unbind(0)
        _, mask = inputs()
        expected = nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask[:, None, None, :]
        )
        difference = (layer.attend(q, k, v, mask) - expected)[:, :, :17].abs().max()
        self.assertLess(float(difference.detach()), 1e-12)

    def test_padding_changes_nothing(self):
        x, mask = inputs()
        other = torch.where(mask.unsqueeze(-1), x, torch.full_like(x, 7))
        layer = self.made()
        self.assertTrue(torch.equal(layer(x, mask), layer(other, mask)))

    def test_an_optimizer_moves_what_it_computes_with(self):
        x, mask = inputs()
        layer = self.made()
        before = layer(x, mask).detach()
        optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1)
        layer(x, mask).square().sum().backward()
        optimizer.step()
        self.assertGreater(float((layer(x, mask) - before).detach().abs().max()), 1e-3)

    def test_state_dict_and_copies(self):
        x, mask = inputs()
        layer, other = self.made("linformer"), self.made("linformer", seed=1)
        with torch.no_grad():
            for parameter in other.parameters():
                parameter.mul_(0.5)
        self.assertFalse(torch.equal(layer(x, mask), other(x, mask)))
        other.load_state_dict(layer.state_dict())
        self.assertTrue(torch.equal(layer(x, mask), other(x, mask)))
        next(layer.parameters()).requires_grad_(False)
        random = torch.get_rng_state()
        copies = (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)))
        self.assertTrue(torch.equal(torch.get_rng_state(), random))
        for same in copies:
            self.assertTrue(torch.equal(layer(x, mask), same(x, mask)))
            self.assertFalse(next(same.parameters()).requires_grad)
            next(same.parameters()).zero_()
            self.assertFalse(torch.equal(layer(x, mask), same(x, mask)))

    def test_saved_tensors_may_lie_elsewhere(self):
        def unpack(saved):  # as from a pool that aligns less than the allocator does
            if saved.dtype != torch.uint8:
                return saved
            pool = torch.empty(saved.numel() + 128, dtype=torch.uint8)
            there = pool[80 - pool.data_ptr() % 64 :][: saved.numel()]
            self.assertEqual(there.data_ptr() % 64, 16)
            return there.copy_(saved.flatten()).view(saved.shape)

        layer, x = self.made("nystrom[num_landmarks=4]"), torch.randn(1, 40, 16, requires_grad=True)
        gradients = []
        for hooks in (contextlib.nullcontext(), torch.autograd.graph.saved_tensors_hooks(lambda x: x, unpack)):
            with hooks:
                out = layer(x)
            gradients.append(torch.autograd.grad(out.square().sum(), x)[0])
        self.assertTrue(torch.equal(*gradients))

    def test_a_dropout_that_is_not_read_is_refused(self):
        for name, hint in (("standard", r"'standard\[dropout=0.1\]'"), ("nystrom", "leave it out")):
            with self.assertRaisesRegex(lra.UsageError, f"{name} does not read dropout=0.1; .*{hint}"):
                lra.attention(name, dim=16, heads=2, dropout=0.1)
        lra.attention("mega[z=8,hidden=8]", dim=16, heads=2, dropout=0.1)

    def test_computed_again_within_a_backward_pass(self):
        again = lambda layer, *of: torch.utils.checkpoint.checkpoint(layer, *of, use_reentrant=False)
        x, mask = inputs()
        x.requires_grad_()
        layer = self.made("standard[dropout=0.5]")
        gradients = []
        for call in (layer, lambda *of: again(layer, *of)):
            torch.manual_seed(3)
            gradients.append(torch.autograd.grad(call(x, mask).square().sum(), x)[0])
        self.assertTrue(torch.equal(*gradients))
        # It would be another function than the one whose result was given.
        for name in ("reformer[redraw=forward]", "performer[redraw_interval=2]"):
            with self.assertRaisesRegex(lra.Error, "a second time within a backward pass"):
                again(self.made(name), x, mask).sum().backward()

    def test_a_state_dict_of_drawn_tables_says_their_seed(self):
        x, mask = inputs()
        for name in ("reformer", "bigbird[block=4]", "skyformer", "performer[redraw_interval=1]"):
            with self.subTest(name):
                seed = 2**63 + 5
                layer, same = (self.made(name, seed=seed).eval() for _ in range(2))
                held = layer.state_dict()
                with torch.no_grad():
                    next(same.parameters()).add_(1)
                same.load_state_dict(held)
                self.assertTrue(torch.equal(layer(x, mask), same(x, mask)))
                with self.assertRaisesRegex(lra.Error, f"made with 6.*seed={seed}"):
                    self.made(name, seed=6).load_state_dict(held)
                same.load_state_dict({k: v for k, v in held.items() if k != "_extra_state"})
                self.assertIs(type(pickle.loads(pickle.dumps(layer))), type(layer))
        for name in ("linear", "performer", "linformer"):
            self.assertNotIn("_extra_state", self.made(name).state_dict(), name)

    def test_tables_that_no_seed_decides_load_into_any_layer(self):
        x, mask = inputs()
        for name in (
            "reformer_tay2020",
            "bigbird[block=4,seed=7]",
            "bigbird[block=4,random_blocks=0]",
        ):
            with self.subTest(name):
                layer, other = (self.made(name, seed=seed).eval() for seed in (1, 2))
                other.load_state_dict(layer.state_dict())
                self.assertTrue(torch.equal(layer(x, mask), other(x, mask)))
                before = {**layer.state_dict(), "_extra_state": torch.tensor(1)}  # an older dict
                other.load_state_dict(before)

    def test_a_published_pattern_is_of_the_layer(self):
        x, mask = inputs()
        name = "bigbird[block=2,random_blocks=1,random_range=16]"
        outputs = []
        for number in (0, 0, 1):
            torch.manual_seed(1)
            outputs.append(self.made(name, layer=number).eval()(x, mask))
        self.assertTrue(torch.equal(outputs[0], outputs[1]))
        self.assertFalse(torch.equal(outputs[0], outputs[2]))
        first = self.made(name, seed=5).state_dict()
        self.made(name, seed=6).load_state_dict(first)
        with self.assertRaisesRegex(lra.Error, "from its layer: this layer was made with 1, .* with 0"):
            self.made(name, layer=1).load_state_dict(first)
        before = {**first, "_extra_state": torch.tensor(2**60)}  # of when all had the number 0
        self.made(name).load_state_dict(before)
        with self.assertRaisesRegex(lra.Error, "make it by lra.attention.*layer=0"):
            self.made(name, layer=1).load_state_dict(before)
        with self.assertRaisesRegex(lra.UsageError, "layer should be at least 0, not -1"):
            self.made(name, layer=-1)

    def test_a_subclass_refuses_another_seed_too(self):
        class Own(lra.Attention):
            pass

        first, other = (Own("reformer", dim=16, heads=2, seed=seed) for seed in (1, 2))
        with self.assertRaisesRegex(lra.Error, "made with 2.*seed=1"):
            other.load_state_dict(first.state_dict())
        with self.assertRaisesRegex(lra.UsageError, "name should be text, as .* a class of your own is"):
            lra.attention(torch.nn.Linear, dim=64, heads=2)
        with self.assertRaisesRegex(lra.UsageError, "dropout should be at least 0"):
            Own("linear", dim=16, heads=2, dropout=5.0)

    def test_a_subclass_may_have_a_state_of_its_own(self):
        class Own(lra.Attention):
            def get_extra_state(self):
                return {"mine": 1}

            def set_extra_state(self, state):
                self.given = state

        first, same, other = (Own("reformer", dim=16, heads=2, seed=seed) for seed in (1, 1, 2))
        same.load_state_dict(first.state_dict())
        self.assertEqual(same.given, {"mine": 1})
        with self.assertRaisesRegex(lra.Error, "made with 2.*seed=1"):
            other.load_state_dict(first.state_dict())

    def test_follows_training_however_that_is_set(self):
        """As PyTorch Lightning does: it puts back each module's flag."""
        x, mask = inputs()
        net = nn.Sequential(self.made("standard[dropout=0.5]"))
        drops = lambda layer: not torch.equal(layer(x, mask), layer(x, mask))
        modes = {name: module.training for name, module in net.named_modules()}
        net.eval()
        self.assertFalse(drops(net[0]))
        for name, module in net.named_modules():
            module.training = modes[name]
        self.assertTrue(drops(net[0]))
        net[0].training = False
        self.assertFalse(drops(net[0]))
        self.assertFalse(drops(copy.deepcopy(net[0])))

    def test_parts_are_names_for_tensors(self):
        x, mask = inputs()
        layer = self.made("linear")
        for hook in ("forward_hook", "forward_pre_hook", "full_backward_hook"):
            with self.assertRaisesRegex(lra.Error, "put hooks on the whole layer"):
                getattr(layer.query, f"register_{hook}")(print)
        layer.query.eval()
        with self.assertRaisesRegex(lra.Error, "query was put into evaluation mode alone"):
            layer(x, mask)
        layer.train()(x, mask)

    def test_negated_views_are_their_values(self):
        """LibTorch's z.conj().imag holds the opposite numbers, and a bit that says so."""
        layer = lra.attention("standard", dim=2, heads=2)
        q, k, v = (torch.randn(1, 2, 9, 1, dtype=torch.complex64).conj().imag for _ in range(3))
        self.assertTrue(q.is_neg())
        plain = [t.resolve_neg().clone() for t in (q, k, v)]
        self.assertTrue(torch.equal(layer.attend(q, k, v), layer.attend(*plain)))

    def test_a_shallow_copy_is_refused_and_changes_nothing(self):
        x, mask = inputs()
        layer = self.made("linear")
        before = layer(x, mask)
        with self.assertRaisesRegex(lra.Error, "use copy.deepcopy"):
            copy.copy(layer)
        self.assertTrue(torch.equal(layer(x, mask), before))

    def test_copies_keep_what_was_added(self):
        class Own(lra.Attention):
            pass

        globals()["Own"] = Own  # where pickle finds it
        Own.__qualname__ = "Own"
        layer = Own("linear", dim=16, heads=2, head_dim=8, max_length=64, dropout=0.0, bias=True, seed=0)
        layer.gain = nn.Parameter(torch.full((1,), 2.0))
        layer.note = "mine"
        layer.register_forward_hook(times_gain)
        layer.eval()
        x, mask = inputs()
        layer(x, mask).sum().backward()
        expected = layer(x, mask)
        for same in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            self.assertIs(type(same), Own)
            self.assertEqual(list(same.state_dict()), list(layer.state_dict()))
            self.assertEqual((same.note, same.training), ("mine", False))
            self.assertTrue(torch.equal(same(x, mask), expected))
            for own, copied in zip(layer.parameters(), same.parameters(), strict=True):
                self.assertIsInstance(copied, nn.Parameter)
                self.assertTrue(torch.equal(own, copied))
                self.assertNotEqual(own.data_ptr(), copied.data_ptr())

    def test_no_samples(self):
        for name in every_attention():
            layer = self.made(name)
            x = torch.zeros(0, 9, 16, requires_grad=True)
            y = layer(x)
            self.assertEqual(y.shape, x.shape, name)
            y.sum().backward()
            self.assertEqual(x.grad.shape, x.shape, name)

    def test_what_stands_at_padding_reaches_no_gradient(self):
        x, _ = inputs()
        mask = torch.ones(x.shape[:2], dtype=torch.bool)
        mask[0, x.shape[1] // 2 :] = False
        mask[1, 3] = False
        for name in every_attention():
            for dtype in (torch.float32, torch.float64):
                found = []
                for value in (0.0, float("nan")):
                    layer = self.made(name).to(dtype)
                    layer.eval()
                    layer.load_state_dict(found[0][0].state_dict() if found else layer.state_dict())
                    given = x.to(dtype).masked_fill(~mask.unsqueeze(-1), value)
                    layer(given.requires_grad_(), mask).sum().backward()
                    found.append((layer, [p.grad for p in layer.parameters()]))
                for zero, nan in zip(found[0][1], found[1][1], strict=True):
                    if zero is not None:
                        self.assertTrue(torch.equal(zero, nan), (name, dtype))

    def test_a_count_of_passes_stays_on_the_cpu(self):
        """As it is read in each pass; copies stand for tensors on a GPU."""
        for name in ("performer[redraw_interval=2]", "reformer[redraw=forward]"):
            layer = self.made(name)
            before = layer.state_dict()  # kept, as freed memory would be taken again
            layer._apply(torch.clone)
            after = layer.state_dict()
            stayed = {key for key in before if before[key].data_ptr() == after[key].data_ptr()}
            self.assertEqual(stayed, {"redraw.forwards"}, name)

    def test_wrong_numbers(self):
        for wrong in (
            {"dim": 0},
            {"heads": 0},
            {"heads": -2},
            {"head_dim": 0},
            {"max_length": 0},
            {"dropout": 1.5},
            {"dropout": -1},
            {"seed": -1},
            {"seed": 2**64},
        ):
            with self.assertRaisesRegex(lra.UsageError, next(iter(wrong)), msg=wrong):
                lra.attention("linear", **({"dim": 16, "heads": 2} | wrong))

    def test_float16_is_refused(self):
        x, mask = inputs()
        for name in ("linear", "fnet"):
            with self.assertRaisesRegex(lra.Error, "float32, float64 or bfloat16"):
                self.made(name).half()(x.half(), mask)
        layer, heads = self.made("linear"), torch.randn(2, 2, 11, 8)
        with torch.autocast("cpu", torch.float16):
            for call in (lambda: layer(x, mask), lambda: layer.attend(heads, heads, heads, mask)):
                with self.assertRaisesRegex(lra.Error, "no autocast to float16"):
                    call()

    def test_lives_in_a_model(self):
        model = nn.ModuleDict({"norm": nn.LayerNorm(16), "mixer": self.made()})
        self.assertTrue(all(p.dtype == torch.float64 for p in model.double().parameters()))
        x, mask = inputs()
        self.assertEqual(model["mixer"](x.double(), mask).dtype, torch.float64)
        self.assertIn("mixer.", " ".join(model.state_dict()))

    def test_dropout_is_for_training(self):
        x, mask = inputs()
        layer = self.made("standard[dropout=0.5]")
        self.assertFalse(torch.equal(layer(x, mask), layer(x, mask)))
        layer.eval()
        self.assertTrue(torch.equal(layer(x, mask), layer(x, mask)))
        layer.train()
        torch.manual_seed(3)
        first = layer(x, mask)
        torch.manual_seed(3)
        self.assertTrue(torch.equal(layer(x, mask), first))

    def test_replaced_parts_are_refused(self):
        x, mask = inputs()
        for layer in (self.made(), copy.deepcopy(self.made())):
            layer.mine = nn.Linear(2, 2)
            layer(x, mask)
            layer.mine = nn.Linear(3, 3)
            layer(x, mask)
            own, layer.query = layer.query, nn.Linear(16, 16)
            with self.assertRaisesRegex(lra.Error, "query was replaced by another module"):
                layer(x, mask)
            layer.query = own
            layer(x, mask)
            del layer.query
            with self.assertRaisesRegex(lra.Error, "query was replaced"):
                layer(x, mask)

    def test_is_not_traced(self):
        with self.assertRaisesRegex(lra.Error, "cannot be traced"):
            torch.jit.trace(self.made("linear"), inputs(), check_trace=False)

    def test_is_freed_where_nothing_holds_it(self):
        layer = self.made("performer")
        layer(*inputs())
        gc.disable()
        try:
            held = [weakref.ref(layer), weakref.ref(next(layer.parameters()))]
            del layer
            self.assertEqual([one() for one in held], [None, None])
        finally:
            gc.enable()

    def test_an_export_is_refused_and_leaves_the_layer(self):
        layer, x = self.made("linear"), inputs()
        before = layer(*x)
        with self.assertRaisesRegex(lra.Error, "cannot be traced or exported"):
            torch.export.export(layer, x)
        self.assertTrue(torch.equal(layer(*x), before))

    def test_dropout_is_not_captured(self):
        # On a GPU alone, for which this stands in: the check comes before anything is computed.
        class OnGpu:
            is_cuda = True

        layer = self.made("sparse[dropout=0.1,block=8,summary=4]")
        with mock.patch("torch.cuda.is_current_stream_capturing", lambda: True):
            with self.assertRaisesRegex(lra.Error, "dropout cannot be captured in a CUDA graph"):
                layer._check_capture(OnGpu())
            self.made("sparse[block=8,summary=4]")._check_capture(OnGpu())
            layer.eval()._check_capture(OnGpu())

    def test_replaced_tensors_are_refused(self):
        layer = self.made()
        state = {name: tensor.clone() for name, tensor in layer.state_dict().items()}
        layer.load_state_dict(state, assign=True)
        with self.assertRaisesRegex(lra.Error, "was replaced by another tensor"):
            layer(*inputs())

    def test_wrong_use(self):
        with self.assertRaisesRegex(lra.UsageError, "did you mean 'nystrom'"):
            self.made("nystrm")
        with self.assertRaisesRegex(lra.UsageError, "unknown key 'landmarks_'"):
            self.made("nystrom[landmarks_=3]")
        with self.assertRaisesRegex(lra.UsageError, "dim=15 cannot be shared by heads=2"):
            lra.attention("standard", dim=15, heads=2)
        with self.assertRaisesRegex(lra.Error, "mask"):
            self.made()(inputs()[0], torch.ones(2, 3, dtype=torch.bool))


if __name__ == "__main__":
    unittest.main()
