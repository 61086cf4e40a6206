"""Copies of layers whose class's file is another by then. pytest, or python3 -m unittest."""

import copy
import os
import pickle
import subprocess
import sys
import tempfile
import unittest

import lra  # first: where torch is incomplete, it says so, and the tests are skipped
import torch

SOURCE = """import torch
import beside


class Scales(torch.nn.Module):
    lra_inputs = "layer"

    def __init__(self, dim):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((dim,), {factor}))

    def forward(self, x, mask):
        return x * self.weight * {factor} * beside.FACTOR * mask.unsqueeze(-1)
"""


def write(folder, factor, beside=1.0):
    for name, text in (("own.py", SOURCE.format(factor=factor)), ("beside.py", f"FACTOR = {beside}\n")):
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)


class CopiedFiles(unittest.TestCase):
    def setUp(self):
        before, self.made = os.getcwd(), tempfile.TemporaryDirectory()
        self.addCleanup(self.made.cleanup)
        self.addCleanup(os.chdir, before)
        self.folder = self.made.name
        os.chdir(self.folder)
        write(self.folder, 2.0)
        self.layer = lra.attention("python:own.py:Scales", dim=4, heads=2)
        self.x = torch.randn(1, 3, 4)

    def test_a_copy_is_of_the_class_that_was_loaded(self):
        expected, pickled = self.layer(self.x), pickle.dumps(self.layer)
        write(self.folder, 3.0)
        for made in (copy.deepcopy(self.layer), pickle.loads(pickled), copy.deepcopy(copy.deepcopy(self.layer))):
            self.assertTrue(torch.equal(made(self.x), expected))
            self.assertEqual(made.options, self.layer.options)
            self.assertEqual(made.name, self.layer.name)
        other = lra.attention("python:own.py:Scales", dim=4, heads=2)
        self.assertNotEqual(other.options["sha256"], self.layer.options["sha256"])
        self.assertTrue(torch.equal(copy.deepcopy(other)(self.x), other(self.x)))
        write(self.folder, 2.0, beside=5.0)
        changed = lra.attention("python:own.py:Scales", dim=4, heads=2)
        self.assertFalse(torch.equal(changed(self.x), expected))
        self.assertTrue(torch.equal(copy.deepcopy(self.layer)(self.x), expected))
        with tempfile.TemporaryDirectory() as elsewhere:
            os.chdir(elsewhere)
            self.addCleanup(os.chdir, self.folder)
            self.assertTrue(torch.equal(copy.deepcopy(self.layer)(self.x), expected))

    def test_another_process_refuses_another_file(self):
        with open("layer.pkl", "wb") as file:
            pickle.dump(self.layer, file)
        script = "import lra, pickle; print(pickle.load(open('layer.pkl', 'rb')).name)"

        def loaded():
            return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)

        self.assertEqual(loaded().stdout, "python:own.py:Scales\n")
        write(self.folder, 3.0)
        self.assertIn("that was asked for; it has changed", loaded().stderr)
        write(self.folder, 2.0, beside=5.0)
        self.assertIn("what the file imports from beside it, beside.py, has another SHA-256", loaded().stderr)

    def test_options_and_folders_may_speak_of_hashes(self):
        folder = os.path.join(self.folder, "k sha256=1")
        os.mkdir(folder)
        write(folder, 2.0)
        layer = lra.attention("python:k sha256=1/own.py:Scales", dim=4, heads=2)
        expected = layer(self.x)
        write(folder, 3.0)
        self.assertTrue(torch.equal(copy.deepcopy(layer)(self.x), expected))


if __name__ == "__main__":
    unittest.main()
