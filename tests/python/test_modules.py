"""lra._modules: how users' classes are loaded, made and called. python3 -m unittest, no more needed."""

import hashlib
import json
import os
import pathlib
import random
import sys
import tempfile
import unittest

from lra import _modules  # first: where torch is incomplete, lra says so, and the tests are skipped
import torch

FAULTY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "faulty.py")
OFFERED = dict(dim=8, heads=2, head_dim=4, max_length=16, dropout=0.5, seed=7)


def named(name, file=FAULTY, **keywords):
    return json.dumps({"file": file, "class": name, **keywords})


def made(name, file=FAULTY, **keywords):
    return _modules.make(named(name, file, **keywords), json.dumps(OFFERED))


def heads():
    q, k, v = torch.randn(3, 2, 2, 5, 4, generator=torch.Generator().manual_seed(1))
    return q, k, v, torch.tensor([[True] * 5, [True] * 2 + [False] * 3])


class Generators(unittest.TestCase):
    def test_numpys_may_be_another_than_mt19937(self):
        try:
            from numpy import random as generators
        except ImportError:
            self.skipTest("there is no NumPy")
        if not hasattr(generators, "set_bit_generator"):
            self.skipTest("NumPy is older than 1.24")
        given = generators.get_bit_generator()
        self.addCleanup(generators.set_bit_generator, given)
        for kind in (generators.MT19937, generators.PCG64, generators.Philox, generators.SFC64):
            generators.set_bit_generator(kind(3))
            kept = _modules.random_state()
            drawn = generators.rand(5).tolist()
            _modules.seed_generators(7)
            seeded = generators.rand()
            _modules.seed_generators(7)
            self.assertEqual(generators.rand(), seeded, kind)
            _modules.set_random_state(kept)
            self.assertEqual(generators.rand(5).tolist(), drawn, kind)


class Refusals(unittest.TestCase):
    """Every error is one line that begins with the class and says where in the user's file it arose."""

    def refused(self, kind, work, *parts):
        with self.assertRaises(kind) as caught:
            work()
        text = str(caught.exception)
        self.assertIs(type(caught.exception), kind, text)
        self.assertEqual(text.count("\n"), 0, text)
        for part in ("python:", *parts):
            self.assertIn(part, text)

    def test_names(self):
        check = lambda *words, **more: lambda: _modules.check(named(*words, **more))
        self.refused(_modules.Refused, check("X", "none.py"), "there is no file 'none.py'")
        self.refused(_modules.Refused, check("X", "no.such.module"), "finds no module")
        self.refused(_modules.WrongUse, check("X", "a/b"), "should end in .py")
        self.refused(_modules.WrongUse, check("Wrong"), "Wrong is not in it", "Right, Layer")
        self.refused(_modules.WrongUse, check("NoModule"), "is no torch.nn.Module")
        self.refused(_modules.Refused, check("Right", sha256="0" * 64), "that was asked for")
        self.refused(_modules.Refused, check("ThreeInputs"), "not (a, b, c)", "lra_inputs")
        self.refused(_modules.Refused, check("AnyInputs"), "not (*inputs, scale=1)", "lra_inputs")

    def test_keywords(self):
        check = lambda *words, **more: lambda: _modules.check(named(*words, **more))
        self.refused(_modules.WrongUse, check("Layer", witdh=2), "'witdh'; did you mean 'width'")
        self.refused(_modules.WrongUse, check("Right", alpha=1), "takes no keyword 'alpha'")
        for word, meant in {"True": "true", "False": "false", "None": "null"}.items():
            self.refused(_modules.WrongUse, check("Layer", width=word), f"write width={meant}")
        self.refused(_modules.WrongUse, check("NeedsGamma"), "needs gamma", "[gamma=VALUE]")

    def test_a_causal_model(self):
        make = lambda name: lambda: _modules.make(named(name), json.dumps({**OFFERED, "causal": True}))
        self.refused(_modules.WrongUse, make("Right"), "does not say lra_causal = True")
        self.assertEqual(make("Causal")()._module.causal, True)
        self.assertEqual(made("Causal")._module.causal, None)

    def test_code_that_does_not_load(self):
        with tempfile.TemporaryDirectory() as folder:
            for text, parts in (
                ("def f(:\n", ("SyntaxError", "broken.py:1")),
                ("import no_such_package\n", ("ModuleNotFoundError", "broken.py:1")),
                ("import sys\nsys.exit()\n", ("called sys.exit()", "broken.py:2")),
            ):
                file = os.path.join(folder, "broken.py")
                with open(file, "w") as out:
                    out.write(text)
                self.refused(_modules.Refused, lambda: _modules.check(named("X", file)), *parts)

    def test_the_cause_in_later_lines(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "broken.py")
            for text, parts in (
                ('raise ValueError("first\\n\\n  second\\n")\n', ("ValueError: first; second",)),
                ('raise ValueError("a" * 900 + "\\nlast")\n', ("aaa ... ", "a; last")),
                ("from . import other\n", ("ImportError: ", "as python:PACKAGE.MODULE:CLASS")),
            ):
                with open(file, "w") as out:
                    out.write(text)
                self.refused(_modules.Refused, lambda: _modules.check(named("X", file)), *parts)

    def test_what_the_code_raises(self):
        self.refused(
            _modules.Refused,
            lambda: made("InitRaises"),
            "ValueError: a bad start",
            "in __init__, faulty.py:",
            "in helper)",
        )
        call = lambda name: lambda: made(name).call(*heads())
        self.refused(_modules.Refused, call("ForwardRaises"), "RuntimeError", "in inner)")
        self.refused(_modules.Refused, call("Unprintable"), "half a \\ud800 character")
        self.refused(_modules.Refused, call("Exits"), "called sys.exit(3)", "in forward)")
        self.refused(_modules.OutOfMemory, call("OutOfMemory"), "out of memory")

    def test_what_forward_may_not_do(self):
        call = lambda name: lambda: made(name).call(*heads())
        self.refused(_modules.Refused, call("GivesTuple"), "not a tuple of 2")
        self.refused(_modules.Refused, call("GivesNone"), "not None")
        self.refused(_modules.Refused, call("MakesParameters"), "make them in __init__")
        self.refused(_modules.Refused, call("ReshapesBuffer"), "the buffer seen another shape")
        for forks in ("Forks", "ForksWorkers"):
            self.refused(_modules.Refused, call(forks), "may not fork this process", "in forward")
        call("Spawns")()
        if os.fork() == 0:  # elsewhere it may
            os._exit(0)
        os.wait()
        self.refused(_modules.Refused, lambda: made("Lazy").tensors(), "has no shape yet")

    def test_what_forward_may_not_do_outside_of_itself(self):
        def twice(name):
            attention = made(name)
            for _ in range(2):
                torch.rand(3)
                attention.call(*heads())

        with torch.random.fork_rng():
            twice("Right")
            self.refused(_modules.Refused, lambda: twice("Seeds"), "a torch.Generator of its own")
        threads = torch.get_num_threads()
        self.refused(_modules.Refused, lambda: twice("Threads"), f"threads to {threads + 1}")
        self.assertEqual(torch.get_num_threads(), threads)
        self.refused(_modules.Refused, lambda: made("KeepsExtraState"), "get_extra_state()")

    def test_what_nothing_would_train_is_refused(self):
        self.refused(_modules.Refused, lambda: made("KeepsATensor"), "it keeps Identity.scale, which is not registered")
        self.refused(_modules.Refused, lambda: made("KeepsLayers"), "it keeps KeepsLayers.layers, which is not registered")
        self.assertEqual(len(made("KeepsInOrder").tensors()), 5)

    def test_what_a_class_says_is_known(self):
        self.refused(_modules.WrongUse, lambda: made("Misspelt"), "lra_casual says nothing", "lra_causal")

    def test_a_class_says_whether_it_couples_its_batch(self):
        self.assertTrue(_modules.couples_batch(named("Coupled")))
        self.assertFalse(_modules.couples_batch(named("Right")))

    def test_an_interrupted_call_leaves_forks_allowed(self):
        attention = made("Right")
        attention._check_backward = lambda: (_ for _ in ()).throw(KeyboardInterrupt())
        with self.assertRaises(KeyboardInterrupt):
            attention.call(*heads())
        if os.fork() == 0:
            os._exit(0)
        os.wait()

    def test_no_tensor_is_of_two_objects(self):
        [(name, table, trained)] = made("SharesATable").tensors()
        self.assertEqual((name, trained), ("table", False))
        table.data = table.double()  # as to another type
        [(_, other, _)] = made("SharesATable").tensors()
        self.assertEqual(other.dtype, torch.float32)
        self.assertEqual(other.tolist(), table.tolist())
        held = made("HoldsALayer")  # whose projection is a buffer, and has to stay the one that it made
        self.assertIn("layer.projection", [name for name, _, _ in held.tensors()])
        held.call(torch.randn(2, 5, 8), heads()[3]).sum().backward()
        kept = made("SharesAParameter")
        self.assertEqual(len(kept.tensors()), 2)
        self.refused(_modules.Refused, lambda: made("SharesAParameter"), "projection.weight is that of another object")


class Imports(unittest.TestCase):
    """From beside a file come its own modules, as they are now."""

    SOURCE = "import torch\nfrom {0} import FACTOR\nclass A(torch.nn.Module):\n    factor = FACTOR\n"

    def factor(self, folder, name, text=None):
        file = os.path.join(folder, "mine.py")
        with open(file, "w", encoding="utf-8") as to:
            to.write(self.SOURCE.format(name) + (text or ""))
        return _modules._load({"file": file, "class": "A"})[0].factor

    def helper(self, folder, name, text):
        with open(os.path.join(folder, name + ".py"), "w", encoding="utf-8") as to:
            to.write(text)

    def test_of_the_same_name(self):
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            self.helper(one, "lra_helper", "FACTOR = 1\n")
            self.helper(other, "lra_helper", "FACTOR = 2\n")
            self.assertEqual(self.factor(one, "lra_helper"), 1)
            self.assertEqual(self.factor(other, "lra_helper"), 2)
            self.assertEqual(self.factor(one, "lra_helper", "# again\n"), 1)

    def test_changed_since(self):
        with tempfile.TemporaryDirectory() as folder:
            self.helper(folder, "lra_changed", "FACTOR = 1\n")
            self.assertEqual(self.factor(folder, "lra_changed"), 1)
            loaded = sys.modules["lra_changed"]
            self.factor(folder, "lra_changed", "# again\n")
            self.assertIs(sys.modules["lra_changed"], loaded)
            self.helper(folder, "lra_changed", "FACTOR = 123\n")
            os.utime(os.path.join(folder, "lra_changed.py"), ns=(1, 1))
            self.assertEqual(self.factor(folder, "lra_changed", "# and again\n"), 123)

    def test_a_helper_that_changed_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            self.helper(folder, "lra_alone", "FACTOR = 1\n")
            self.assertEqual(self.factor(folder, "lra_alone"), 1)
            self.helper(folder, "lra_alone", "FACTOR = 123\n")
            os.utime(os.path.join(folder, "lra_alone.py"), ns=(1, 1))
            self.assertEqual(self.factor(folder, "lra_alone"), 123)

    def test_what_functions_import_is_not_theirs(self):
        with tempfile.TemporaryDirectory() as folder:
            self.helper(folder, "lra_inner", "FACTOR = 1\n")
            self.factor(folder, "lra_inner")  # another file's, so that it is loaded
            self.assertIsNone(self.imports(folder, "def late():\n    import lra_inner\n"))
            self.assertIn("lra_inner.py", self.imports(folder, "import lra_inner\n"))

    def imports(self, folder, text):
        file = os.path.join(folder, "mine.py")
        with open(file, "w", encoding="utf-8") as to:
            to.write(text + "import torch\nclass A(torch.nn.Module):\n    def forward(self, x, mask): ...\n")
        return json.loads(_modules.check(named("A", file))).get("imports_sha256")

    def test_hashes_of_what_a_source_imports_and_that_in_turn(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "lra_beside"))
            self.helper(folder, "lra_beside/__init__", "")
            self.helper(folder, "lra_beside/one", "from . import two\n")
            self.helper(folder, "lra_beside/two", "import lra_other\n")
            self.helper(folder, "lra_other", "X = 1\n")
            self.helper(folder, "lra_unused", "X = 1\n")
            hashes = lambda *files: {
                file: hashlib.sha256(pathlib.Path(folder, file).read_bytes()).hexdigest()
                for file in files
            }
            every = hashes(
                "lra_beside/__init__.py", "lra_beside/one.py", "lra_beside/two.py", "lra_other.py"
            )
            self.assertEqual(self.imports(folder, "import lra_beside.one\n"), every)
            self.assertEqual(
                self.imports(folder, "def f(): pass\nfrom lra_beside import one\n"),
                every,
                "loaded already",
            )
            self.assertEqual(self.imports(folder, "import lra_other\n"), hashes("lra_other.py"))
            dynamic = "import importlib\nimportlib.import_module('lra_unused')\n"
            self.assertEqual(self.imports(folder, dynamic), hashes("lra_unused.py"))
            self.assertIsNone(self.imports(folder, "import random\n"))

    def test_another_hash_than_was_asked_for(self):
        with tempfile.TemporaryDirectory() as folder:
            self.helper(folder, "lra_asked", "FACTOR = 1\n")
            self.factor(folder, "lra_asked")
            file = os.path.join(folder, "mine.py")
            for hashes in ({"lra_asked.py": "0"}, {}):
                with self.assertRaisesRegex(_modules.Refused, "beside it, lra_asked.py, has another"):
                    _modules._load({"file": file, "class": "A", "imports_sha256": hashes})

    def test_installed_ones_are_not_beside(self):
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "venv/site-packages"))
            self.helper(folder, "venv/site-packages/lra_installed", "")
            path = os.path.join(folder, "venv/site-packages")
            sys.path.append(path)
            self.addCleanup(sys.path.remove, path)
            self.assertIsNone(self.imports(folder, "import lra_installed\n"))


class Buffered(torch.nn.Module):
    """Scales v by a buffer, then replaces it, and counts its calls in place in another."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(1))
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, q, k, v, mask):
        out = v * self.scale
        self.calls += 1
        self.scale = 0.5 * self.scale + v.detach().mean()
        return out


class Averages(Buffered):
    """Writes its buffers by their data, as code that keeps autograd out of it does."""

    def forward(self, q, k, v, mask):
        out = v * self.scale.clone()  # autograd knows nothing of what follows
        self.calls.data.add_(1)
        self.scale.data = 0.5 * self.scale + v.detach().mean()
        return out


class BuffersOfModules(unittest.TestCase):
    def test_may_change_after_autograd_has_saved_them(self):
        for made in (Buffered, Averages):
            with self.subTest(made.__name__):
                self.change(made)

    def change(self, made):
        file = _modules.register(made)
        self.addCleanup(_modules.forget, file, made.__name__)
        options = json.dumps({"file": file, "class": made.__name__})
        made = _modules.make(options, json.dumps({"seed": 0}))
        before = {name: tensor for name, tensor, _ in made.tensors()}
        # The second call starts from what the first one left.
        for calls, scale, after in ((1, 1.0, 2.5), (2, 2.5, 3.25)):
            v = torch.full((1, 1, 3, 2), 2.0, requires_grad=True)
            mask = torch.ones(1, 3, dtype=torch.bool)
            made.call(v.detach(), v.detach(), v, mask).sum().backward()
            self.assertTrue(torch.equal(v.grad, torch.full_like(v, scale)))
            self.assertEqual((float(before["calls"]), float(before["scale"])), (calls, after))
            for name, tensor, _ in made.tensors():
                self.assertIs(tensor, before[name])


class Objects(unittest.TestCase):
    def test_check_adds_the_hash_of_the_source(self):
        with open(FAULTY, "rb") as file:
            expected = hashlib.sha256(file.read()).hexdigest()
        self.assertEqual(json.loads(_modules.check(named("Layer", width=3)))["sha256"], expected)
        self.assertEqual(json.loads(_modules.check(named("Layer", width=3)))["width"], 3)
        with open(FAULTY, "rb") as file:
            self.assertEqual(_modules.source(named("Layer")), file.read())

    def test_a_class_of_a_package(self):
        with tempfile.TemporaryDirectory() as folder:
            package = os.path.join(folder, "lra_test_package")
            os.mkdir(package)
            with open(os.path.join(package, "__init__.py"), "w"):
                pass
            with open(os.path.join(package, "parts.py"), "w") as out:
                out.write("width = 5\n")
            with open(os.path.join(package, "mine.py"), "w") as out:
                out.write(
                    "import torch\nfrom .parts import width\n"
                    "class Mine(torch.nn.Module):\n"
                    "    def forward(self, q, k, v, mask):\n        return v * width\n"
                )
            sys.path.insert(0, folder)
            self.addCleanup(sys.path.remove, folder)
            checked = json.loads(_modules.check(named("Mine", "lra_test_package.mine")))
            with open(os.path.join(package, "mine.py"), "rb") as file:
                self.assertEqual(checked["sha256"], hashlib.sha256(file.read()).hexdigest())
            _, _, v, _ = heads()
            out = made("Mine", file="lra_test_package.mine").call(*heads())
            self.assertTrue(torch.equal(out, v * 5))
            # It stays as it was imported: so does what is said of it.
            with open(os.path.join(package, "parts.py"), "w") as changed:
                changed.write("width = 6\n")
            again = json.loads(_modules.check(named("Mine", "lra_test_package.mine")))
            self.assertEqual(again["imports_sha256"], checked["imports_sha256"])

    def test_forms_of_forward(self):
        for name, expected in (("Right", True), ("Layer", False), ("Said", False)):
            self.assertEqual(made(name).takes_heads(), expected, name)

    def test_keywords_are_offered_by_name_and_brackets_win(self):
        self.assertEqual(made("Layer")._module.shape, (8, 8))
        self.assertEqual(made("Layer", dim=6, width=3)._module.shape, (6, 3))
        self.assertIsNone(made("Layer", bias=False)._module.linear.bias)

    def test_dropout_is_none_unless_given(self):
        options = lambda **given: json.loads(_modules.check(named("Noisy", **given)))
        self.assertEqual(options()["dropout"], 0.0)
        self.assertEqual(options(dropout=0.25)["dropout"], 0.25)
        self.assertNotIn("dropout", json.loads(_modules.check(named("Right"))))
        given = json.dumps(options())
        made_of = _modules.make(given, json.dumps({**OFFERED, "dropout": 0.1}))
        self.assertEqual(made_of._module.dropout.p, 0.0)

    def test_complex_tensors_are_refused(self):
        with self.assertRaisesRegex(_modules.Refused, "phases is complex"):
            made("Complex").tensors()

    def test_tensors_are_the_modules_own(self):
        module = made("Noisy")
        found = {path: (tensor, trained) for path, tensor, trained in module.tensors()}
        self.assertEqual(set(found), {"weight", "mean"})
        self.assertIs(found["weight"][0], module._module.weight)
        self.assertEqual([found["weight"][1], found["mean"][1]], [True, False])

    def test_a_replaced_buffer_is_kept_in_its_tensor(self):
        module = made("Noisy")
        before = module._module.mean
        module.call(*heads())
        self.assertIs(module._module.mean, before)
        self.assertGreater(float(before.abs().max()), 0)

    def test_constructors_leave_threads_and_types(self):
        threads = torch.get_num_threads()
        for name, said in (
            ("SetsThreads", f"__init__ set the number of threads to {threads + 1}"),
            ("SetsThreadsAndRaises", "ValueError: no"),
            ("SetsType", "__init__ set torch's default type"),
            ("NoSuper", r"call super\(\).__init__\(\) first|does not call super"),
        ):
            with self.assertRaisesRegex(_modules.Refused, f"{name}: .*{said}"):
                made(name)
            self.assertEqual(torch.get_num_threads(), threads)
            self.assertIs(torch.get_default_dtype(), torch.float32)

    def test_a_class_is_made_in_the_callers_type(self):
        made("Layer")  # its file has tensors of its own: they are of the type at its first use
        torch.set_default_dtype(torch.float64)
        self.addCleanup(torch.set_default_dtype, torch.float32)
        self.assertIs(made("Layer")._module.linear.weight.dtype, torch.float64)

    def test_one_type_is_that_of_all_threads(self):
        torch.set_default_dtype(torch.float64)
        self.addCleanup(torch.set_default_dtype, torch.float32)
        first, second = _modules.float32_by_default(), _modules.float32_by_default()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        self.assertIs(torch.get_default_dtype(), torch.float32)
        second.__exit__(None, None, None)
        self.assertIs(torch.get_default_dtype(), torch.float64)

    def test_classes_of_one_name_stay_apart(self):
        first, other = (type("Same", (torch.nn.Module,), {}) for _ in range(2))
        names = [_modules.register(made) for made in (first, other)]
        self.assertNotEqual(*names)
        for name, expected in zip(names, (first, other), strict=True):
            self.assertIs(_modules._registered[name, "Same"], expected)
            _modules.forget(name, "Same")

    def test_constructors_draw_by_the_seed_and_leave_no_trace(self):
        random.seed(1)
        torch.manual_seed(1)
        expected = random.random(), torch.rand(1)
        random.seed(1)
        torch.manual_seed(1)
        a = made("Noisy")._module.weight
        torch.rand(5)
        b = made("Noisy")._module.weight
        self.assertTrue(torch.equal(a, b))
        random.seed(1)
        torch.manual_seed(1)
        made("Noisy")
        self.assertEqual((random.random(), torch.rand(1)), expected)

    def test_random_state_comes_back(self):
        random.seed(3)
        random.gauss(0, 1)  # half of a pair is kept for later
        state = _modules.random_state()
        expected = [random.random(), random.gauss(0, 1)]
        _modules.set_random_state(state)
        self.assertEqual([random.random(), random.gauss(0, 1)], expected)

    def test_train_and_eval(self):
        module = made("Noisy")
        module.train(False)
        before = module._module.mean.clone()
        module.call(*heads())
        self.assertTrue(torch.equal(module._module.mean, before))


if __name__ == "__main__":
    unittest.main()
