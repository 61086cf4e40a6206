"""What users' code may leave behind: tensors, settings of the process, copies of layers."""

import copy
import os
import pickle
import re
import tempfile
import threading
import unittest

import lra
import torch
from torch import nn

HEAD = """
import collections
import functools
import torch
from torch import nn

def base(q, k, v, mask):
    return v.masked_fill(~mask[:, None, :, None], 0)
"""

CLASSES = """
class MakesBuffer(nn.Module):
    def forward(self, q, k, v, mask):
        if not hasattr(self, "ema"):
            self.register_buffer("ema", torch.zeros(3))
        return base(q, k, v, mask)

class MakesTable(nn.Module):
    def forward(self, q, k, v, mask):
        if not hasattr(self, "table"):
            self.register_buffer("table", torch.zeros(3), persistent=False)
        return base(q, k, v, mask)

class MakesLate(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, q, k, v, mask):
        self.calls += 1
        if self.calls == 5:
            self.gate = nn.Parameter(torch.zeros(1))
        return base(q, k, v, mask)

class Replaces(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(1))

    def forward(self, q, k, v, mask):
        self.w = nn.Parameter(self.w.detach().clamp(-2, 2))
        return base(q, k, v * self.w, mask)

class Counted(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, seen):
        ctx.seen = seen
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        ctx.seen.add_(1)
        return grad, None

class CountsBackward(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, q, k, v, mask):
        return base(q, k, Counted.apply(v, self.seen), mask)

class Helper:
    def __init__(self, d):
        self.layer = nn.Linear(d, d)

class KeepsHelper(nn.Module):
    def __init__(self, head_dim):
        super().__init__()
        self.helper = Helper(head_dim)

    def forward(self, q, k, v, mask):
        return base(q, k, self.helper.layer(v), mask)

class KeepsClosure(nn.Module):
    def __init__(self, head_dim):
        super().__init__()
        layer = nn.Linear(head_dim, head_dim)
        self.f = lambda x: layer(x)

    def forward(self, q, k, v, mask):
        return base(q, k, self.f(v), mask)

class KeepsPartial(nn.Module):
    def __init__(self, head_dim):
        super().__init__()
        self.f = functools.partial(torch.matmul, nn.Parameter(torch.eye(head_dim)))

    def forward(self, q, k, v, mask):
        return base(q, k, v, mask)

class KeepsDefault(nn.Module):
    def __init__(self, head_dim):
        super().__init__()
        self.f = lambda x, layer=nn.Linear(head_dim, head_dim): layer(x)

    def forward(self, q, k, v, mask):
        return base(q, k, self.f(v), mask)

class KeepsQueue(nn.Module):
    def __init__(self, head_dim):
        super().__init__()
        self.queue = collections.deque([nn.Linear(head_dim, head_dim)])

    def forward(self, q, k, v, mask):
        return base(q, k, v, mask)

class Slots:
    __slots__ = "layer"

class KeepsSlots(nn.Module):
    def __init__(self, head_dim):
        super().__init__()
        self.slots = Slots()
        self.slots.layer = nn.Linear(head_dim, head_dim)

    def forward(self, q, k, v, mask):
        return base(q, k, v, mask)

class Drops(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.1)

    def forward(self, q, k, v, mask):
        return base(q, k, self.drop(v), mask)

class NeedsCausal(nn.Module):
    lra_causal = True

    def __init__(self, causal):
        super().__init__()
        self.said = causal

    def forward(self, q, k, v, mask):
        return base(q, k, v, mask)

class Options(nn.Module):
    def __init__(self, learn=False):
        super().__init__()

    def forward(self, q, k, v, mask):
        return base(q, k, v, mask)

class OnlyNamed(nn.Module):
    def forward(self, q, k, v, *, mask):
        return base(q, k, v, mask)

class AsksHelper(nn.Module):
    def forward(self, q, k, v, mask):
        import beside_helper
        return beside_helper.inner(v)
"""


class OwnCode(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.file = self.write("own.py", HEAD + CLASSES)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as out:
            out.write(text)
        return path

    def layer(self, name, file=None, **more):
        return lra.attention(f"python:{file or self.file}:{name}", dim=8, heads=2, **more)

    def refused(self, text, work):
        with self.assertRaisesRegex(lra.Error, text):
            work()

    def steps(self, name, count=6):
        layer, x = self.layer(name), torch.randn(2, 5, 8)
        for _ in range(count):
            layer(x).square().sum().backward()
        return layer

    def test_tensors_that_forward_makes(self):
        self.refused("made the buffer ema, which no checkpoint holds", lambda: self.steps("MakesBuffer"))
        self.refused("made parameters, which nothing trains", lambda: self.steps("MakesLate"))
        self.refused("other parameters in the places of its own", lambda: self.steps("Replaces"))
        self.steps("MakesTable")

    def test_buffers_that_backward_writes(self):
        self.refused("backward wrote into the buffer seen", lambda: self.steps("CountsBackward"))
        layer, x = self.layer("CountsBackward"), torch.randn(2, 5, 8)
        with torch.no_grad():
            for _ in range(4):
                layer(x)
        layer(x).sum().backward()
        self.refused("backward wrote into the buffer seen", lambda: layer(x))

    def test_layers_kept_aside(self):
        for name, kept in (
            ("KeepsHelper", "helper"),
            ("KeepsClosure", "f"),
            ("KeepsPartial", "f"),
            ("KeepsDefault", "f"),
            ("KeepsQueue", "queue"),
            ("KeepsSlots", "slots"),
        ):
            self.refused(f"keeps {name}.{kept}, which is not registered", lambda: self.layer(name))

    def test_settings_of_the_process(self):
        passes = "class A(nn.Module):\n    def forward(self, q, k, v, mask):\n        {}\n        return base(q, k, v, mask)\n"
        for statement, told, get in (
            ("torch.set_default_dtype(torch.float64)", "set torch's default type", torch.get_default_dtype),
            (
                "torch.set_float32_matmul_precision('medium')",
                "set torch's precision of float32 products",
                torch.get_float32_matmul_precision,
            ),
            (
                "torch.backends.cuda.matmul.fp32_precision = 'tf32'",
                "set torch's precision of float32 products",
                lambda: torch.backends.cuda.matmul.fp32_precision,
            ),
            (
                "torch.set_autocast_enabled('cpu', True)",
                "switched autocast",
                lambda: torch.is_autocast_enabled("cpu"),
            ),
            ("torch.set_grad_enabled(False)", "switched gradients", torch.is_grad_enabled),
        ):
            before = get()
            top = self.write("top.py", HEAD + statement + "\n" + passes.format("pass"))
            self.refused(f"the file {told}", lambda: self.layer("A", top))
            self.assertEqual(get(), before)
            within = self.write("within.py", HEAD + passes.format(statement))
            self.refused(f"forward {told}", lambda: self.layer("A", within)(torch.randn(1, 5, 8)))
            self.assertEqual(get(), before)
            raises = self.write("raises.py", HEAD + passes.format(statement + "; raise ValueError('bad')"))
            self.refused("ValueError: bad", lambda: self.layer("A", raises)(torch.randn(1, 5, 8)))
            self.assertEqual(get(), before)

    def test_a_precision_that_torch_s_old_setting_does_not_know(self):
        before = torch.backends.cuda.matmul.fp32_precision
        torch.backends.cuda.matmul.fp32_precision = "tf32"
        try:
            self.steps("Drops", 1)
            self.assertEqual(torch.backends.cuda.matmul.fp32_precision, "tf32")
        finally:
            torch.backends.cuda.matmul.fp32_precision = before

    def test_dropout_is_not_taken_for_a_seed(self):
        layer, x = self.layer("Drops"), torch.randn(2, 5, 8)
        layer(x).sum().backward()
        layer.eval()
        layer(x)

    def test_a_constructor_that_needs_causal(self):
        self.layer("NeedsCausal")
        self.layer("NeedsCausal", causal=True)
        self.refused("does not say lra_causal", lambda: self.layer("Drops", causal=True))

    def test_options_that_are_almost_json(self):
        for text in ("[False]", ".5", "5.", "+5", "0x10", "{a:1}"):
            self.refused(f"learn={re.escape(text)} is no JSON; write", lambda: self.layer(f"Options[learn={text}]"))
        for text in ("word", "[1]", '"1"', "-0.5", '".5"', '"{name}"', "1_000"):
            self.layer(f"Options[learn={text}]")

    def test_errors_name_their_place(self):
        self.refused(r"not \(q, k, v, \*, mask\)", lambda: self.layer("OnlyNamed"))
        self.write("beside_helper.py", "def inner(v):\n    raise ValueError('bad')\n")
        self.refused("beside_helper.py:2 in inner", lambda: self.layer("AsksHelper")(torch.randn(1, 5, 8)))


COPIED = """
import lra

class Learns(nn.Module):
    def __init__(self, head_dim):
        super().__init__()
        self.w = nn.Parameter(torch.randn(head_dim))
        self.fixed = nn.Parameter(torch.ones(head_dim), requires_grad=False)
        self.register_buffer("shift", torch.zeros(head_dim))

    def forward(self, q, k, v, mask):
        return base(q, k, v * self.w * self.fixed + self.shift, mask)

class Recurs(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, mask):
        return self.out(self.rnn(x.masked_fill(~mask[..., None], 0))[0]).masked_fill(~mask[..., None], 0)

class Nests(nn.Module):
    def __init__(self, dim, heads, max_length):
        super().__init__()
        path = __file__
        self.inner = lra.attention(f"python:{path}:Learns", dim=dim, heads=heads, max_length=max_length)
        self.linear = lra.attention("linear", dim=dim, heads=heads)

    def forward(self, x, mask):
        return self.inner(x, mask) + self.linear(x, mask)

class KeepsAside(nn.Module):
    def __init__(self, head_dim):
        super().__init__()
        self.w = nn.Parameter(torch.randn(head_dim))
        self.aside = [self.w]

    def forward(self, q, k, v, mask):
        return base(q, k, v * self.aside[0], mask)
"""


class Copies(unittest.TestCase):
    def test_an_optimizer_copied_with_a_layer_trains_the_copy(self):
        class Trainer:
            def __init__(self, model):
                self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                self.model = model

        x = torch.randn(2, 6, 8)

        def losses(trainer):
            found = []
            for _ in range(3):
                loss = trainer.model(x).square().mean()
                trainer.optimizer.zero_grad()
                loss.backward()
                trainer.optimizer.step()
                found.append(loss.item())
            return found

        for name in ("linear", "nystrom[num_landmarks=2]", "reformer[chunk_length=4]"):
            trainer = Trainer(nn.Sequential(lra.attention(name, dim=8, heads=2, max_length=8)))
            pair = copy.deepcopy((trainer.model, trainer.optimizer))
            first = Trainer(pair[0])
            first.optimizer = pair[1]
            others = [copy.deepcopy(trainer), first]
            together = pickle.loads(pickle.dumps((trainer.model, trainer.optimizer)))
            others.append(Trainer(together[0]))
            others[2].optimizer = together[1]
            expected = losses(trainer)
            self.assertLess(expected[2], expected[0])
            for other in others:
                self.assertEqual(losses(other), expected, name)

    def test_a_layer_of_a_class_of_ones_own_trains_in_a_copy(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "copied.py")
            with open(path, "w") as file:
                file.write(HEAD + COPIED)
            x = torch.randn(4, 12, 8)
            for name in ("Learns", "Recurs", "Nests"):
                made = lra.attention(f"python:{path}:{name}", dim=8, heads=2, max_length=24)
                made(x).square().mean().backward()
                expected = {name: p.grad.clone() for name, p in made.named_parameters()}
                for copied in (
                    copy.deepcopy(made),
                    copy.deepcopy(copy.deepcopy(made)),
                    pickle.loads(pickle.dumps(made)),
                    copy.deepcopy(made).double(),
                ):
                    copied.zero_grad()
                    copied(x.to(next(copied.parameters()).dtype)).square().mean().backward()
                    for at, parameter in copied.named_parameters():
                        gradient = torch.zeros(()) if parameter.grad is None else parameter.grad.float()
                        self.assertTrue(torch.allclose(gradient, expected[at], atol=1e-6), f"{name} {at}")
                copied.load_state_dict({k: torch.zeros_like(v) for k, v in copied.state_dict().items()})
                self.assertEqual(float(copied(x.double()).detach().abs().max()), 0, name)
                self.assertEqual(lra.check(made, dim=8, heads=2).wrong, [], name)
            kept = lra.attention(f"python:{path}:KeepsAside", dim=8, heads=2)
            with self.assertRaisesRegex(lra.Error, "tensors that it keeps aside in KeepsAside.aside"):
                copy.deepcopy(kept)

    def test_tied_parameters_stay_tied(self):
        class Tied(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = lra.attention("linear", dim=8, heads=2)
                self.bias = self.layer.output.bias

            def forward(self, x):
                return self.layer(x) + self.bias

        made = Tied()
        for other in (copy.deepcopy(made), copy.deepcopy(made).to(torch.float64)):
            self.assertEqual(len(list(other.parameters())), len(list(made.parameters())))
            self.assertIs(other.bias, other.layer.output.bias)
            other(torch.randn(1, 4, 8, dtype=other.bias.dtype)).sum().backward()
            self.assertEqual(float(other.bias.grad.sum()), 2 * 4 * 8)

    def test_gradients_go_with_a_copy(self):
        layer, x = lra.attention("linear", dim=8, heads=2), torch.randn(2, 5, 8)
        layer(x).square().mean().backward()
        other = copy.deepcopy(layer)
        self.assertTrue(torch.equal(other.query.weight.grad, layer.query.weight.grad))
        other(x).square().mean().backward()
        self.assertTrue(torch.allclose(other.query.weight.grad, 2 * layer.query.weight.grad))


class Layers(unittest.TestCase):
    def test_a_causal_form(self):
        x = torch.randn(1, 6, 8)
        layer = lra.attention("standard", dim=8, heads=2, causal=True)
        later = x.clone()
        later[:, 4:] += 1
        self.assertTrue(torch.allclose(layer(x)[:, :4], layer(later)[:, :4]))
        self.assertFalse(torch.allclose(layer(x)[:, 4:], layer(later)[:, 4:]))
        self.assertTrue(torch.equal(copy.deepcopy(layer)(x), layer(x)))
        with self.assertRaisesRegex(lra.UsageError, "bidirectional=true has no effect in its causal form"):
            lra.attention("s5[bidirectional=true]", dim=8, heads=2, causal=True)
        with self.assertRaisesRegex(lra.UsageError, "no causal form"):
            lra.attention("linformer", dim=8, heads=2, causal=True)

    def test_the_default_type_is_that_of_all_tensors(self):
        torch.set_default_dtype(torch.float64)
        try:
            for name in ("linear", "performer", "s4d", "s5", "lru"):
                layer = lra.attention(name, dim=8, heads=2, max_length=8)
                floating = {p.dtype for p in layer.state_dict().values() if p.is_floating_point()}
                self.assertEqual(floating, {torch.float64}, name)
                self.assertEqual(layer(torch.randn(1, 5, 8)).dtype, torch.float64)
        finally:
            torch.set_default_dtype(torch.float32)

    def test_attend_takes_the_heads_that_it_was_made_for(self):
        layer = lra.attention("linear", dim=8, heads=2)
        with self.assertRaisesRegex(lra.Error, r"2 heads of 4, \[B,2,N,4\], not \[1, 3, 5, 4\]"):
            layer.attend(*torch.randn(3, 1, 3, 5, 4))


class Checks(unittest.TestCase):
    def test_threads_wait_for_each_other(self):
        class Plain(nn.Module):
            def forward(self, q, k, v, mask):
                return v.masked_fill(~mask[:, None, :, None], 0)

        found = []
        check = lambda: found.append(str(lra.check(Plain, dim=16, heads=2, head_dim=8)).count("holds ("))
        check()
        expected = found.pop()
        self.assertGreater(expected, 5)
        threads = [threading.Thread(target=check) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [expected] * 3)

    def test_an_object_that_keeps_what_it_computed(self):
        class Saves(nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = nn.Parameter(torch.ones(()))

            def forward(self, q, k, v, mask):
                self.last = (v * self.scale).masked_fill(~mask[:, None, :, None], 0)
                return self.last

        used = Saves()
        used(*torch.randn(3, 1, 2, 5, 4), torch.ones(1, 5, dtype=torch.bool))
        with self.assertRaisesRegex(lra.UsageError, "Saves cannot be copied .* keep it detached"):
            lra.check(used, dim=8, heads=2, head_dim=4)
        used = Saves()
        used.lock = threading.Lock()
        with self.assertRaisesRegex(lra.UsageError, r"Saves cannot be copied \(TypeError: cannot pickle"):
            lra.check(used, dim=8, heads=2, head_dim=4)


if __name__ == "__main__":
    unittest.main()
