"""The program as the package hosts it, and its extension module. pytest, or python3 -m unittest."""

import ast
import os
import subprocess
import sys
import tempfile
import unittest

import lra  # first: where torch is incomplete, it says so, and the tests are skipped

import lra._native
from running import PACKAGE, program, started


class Program(unittest.TestCase):
    def test_is_the_command_line(self):
        self.assertTrue(started([*PACKAGE, "--version"]).startswith(f"lra {lra.__version__} "))

    def test_parts_of_a_batch_are_refused_to_a_class_that_couples_it(self):
        coupled = "python:" + os.path.join(os.path.dirname(__file__), "faulty.py") + ":Coupled"
        words = ["train", "--task", "listops", "--data", "none", "--run", "none", "--attention", coupled]
        with self.assertRaises(AssertionError) as caught:
            started([*PACKAGE, *words, "--set", "training.micro_batch=2"])
        self.assertIn(
            "lra_couples_batch = True computes with the whole batch: training.micro_batch should be 0, not 2",
            str(caught.exception),
        )

    def test_peers_are_of_the_models_that_are_theirs(self):
        peers = os.path.join(os.path.dirname(__file__), "..", "..", "harness", "profile", "peers")
        sys.path.insert(0, peers)
        try:
            from profile_peers import RECIPE, unlike_recipe
        finally:
            sys.path.remove(peers)
        sizes = {**RECIPE, "feed_forward": 128}
        model = {"inputs": 1, "labels": "samples", "objective": "classify", "sizes": sizes}
        self.assertEqual(unlike_recipe(model), "")
        self.assertIn("classifies samples", unlike_recipe({**model, "labels": "positions"}))
        self.assertIn("classifies samples", unlike_recipe({**model, "objective": "masked"}))
        self.assertIn("one sequence", unlike_recipe({**model, "inputs": 2}))
        for key, value in {"causal": True, "pooling": "cls", "feed_forward": 0}.items():
            self.assertIn(f"model.{key}=", unlike_recipe({**model, "sizes": {**sizes, key: value}}))

    def test_the_stub_names_what_the_module_has(self):
        def public(names):
            return {name for name in names if not name.startswith("_")}

        def named(body):
            names = {node.name for node in body if hasattr(node, "name")}
            return names | {node.target.id for node in body if isinstance(node, ast.AnnAssign)}

        package = os.path.dirname(lra.__file__)
        with open(os.path.join(package, "_lra.pyi"), encoding="utf-8") as file:
            stub = ast.parse(file.read()).body
        self.assertEqual(public(named(stub)), public(dir(lra._lra)))
        for node in stub:
            if isinstance(node, ast.ClassDef):
                has = vars(getattr(lra._lra, node.name))
                self.assertEqual(public(named(node.body)), public(has), node.name)

    def test_another_python_is_told_what_was_built(self):
        package = os.path.dirname(lra.__file__)
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "lra"))
            for name in os.listdir(package):
                if name.endswith(".py"):
                    os.symlink(os.path.join(package, name), os.path.join(folder, "lra", name))
            other = "_lra.cpython-30-x86_64-linux-gnu.so"
            open(os.path.join(folder, "lra", other), "w").close()
            done = subprocess.run(
                [*PACKAGE, "--version"],
                capture_output=True,
                text=True,
                env={**os.environ, "PYTHONPATH": folder},
            )
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, f"^lra: lra was built for another Python.* there is {other},")
        self.assertEqual(done.stderr.count("\n"), 1)

    def test_the_kernels_of_gpus_come_with_the_package(self):
        if "cuda off" in program("--version"):
            self.skipTest("built without CUDA")
        # A library that is there stands in for the driver, in a process of its own: it stays.
        code = """if True:
            import lra._native
            from lra import _lra

            def loaded():
                return "lra_cuda.so" in open("/proc/self/maps").read()

            print(_lra.load_cuda(_lra.__file__, "libnothing-of-this-name.so.1"), end=" ")
            print(loaded() == _lra.load_cuda(_lra.__file__), end=" ")
            print(_lra.load_cuda(_lra.__file__, "libm.so.6"), loaded())
        """
        self.assertEqual(started([sys.executable, "-c", code]), "False True True True\n")


if __name__ == "__main__":
    unittest.main()
