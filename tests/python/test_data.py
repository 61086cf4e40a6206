"""lra.dataset and lra.generate. pytest, or python3 -m unittest."""

import copy
import os
import pickle
import signal
import sys
import tempfile
import unittest
from unittest import mock

import lra  # first: where torch is incomplete, it says so, and the tests are skipped
import torch

from running import program


class Shifted(lra.Dataset):
    def __init__(self, shift, folder):
        super().__init__(folder, "train")
        self.shift = shift

    def __getitem__(self, i):
        ids, label = super().__getitem__(i)
        return ids.long() + self.shift, label


class Data(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.made = lra.generate("listops", 40, seed=5, min_length=10, max_length=60)

    def test_samples_and_batches(self):
        self.assertEqual(len(self.made), 40)
        ids, label = self.made[3]
        self.assertEqual(ids.dtype, torch.uint8)
        self.assertTrue(10 < len(ids) < 60 and 0 <= label < 10)
        loader = torch.utils.data.DataLoader(
            self.made, batch_size=16, collate_fn=self.made.collate
        )
        batches = list(loader)
        self.assertEqual([len(batch.labels) for batch in batches], [16, 16, 8])
        batch = batches[0]
        self.assertEqual(batch.tokens.shape, batch.mask.shape)
        self.assertEqual(batch.tokens[3, : len(ids)].tolist(), ids.tolist())
        self.assertEqual(int(batch.mask[3].sum()), len(ids))
        self.assertEqual(batch.labels[3], label)
        self.assertEqual(float(batch.tokens[~batch.mask].sum()), 0)

    def test_samples_may_be_written_to(self):
        ids, _ = self.made[3]
        before = ids.tolist()
        ids.zero_()
        self.assertEqual(self.made[3][0].tolist(), before)

    def test_labels_are_the_values_of_the_expressions(self):
        functions = {
            "MIN": min,
            "MAX": max,
            "MED": lambda v: int(torch.tensor(sorted(v), dtype=torch.float64).quantile(0.5)),
            "SM": lambda v: sum(v) % 10,
        }

        def value(words):
            word = words.pop(0)
            if not word.startswith("["):
                return int(word)
            found = []
            while words[0] != "]":
                found.append(value(words))
            words.pop(0)
            return functions[word[1:]](found)

        for i in range(len(self.made)):
            words = [w for w in self.made.text(i).split() if w not in "()"]
            self.assertEqual(value(words), self.made[i][1], self.made.text(i))

    def test_depend_on_the_seed_alone(self):
        options = dict(min_length=10, max_length=60)
        same = lra.generate("listops", 40, seed=5, **options)
        other = lra.generate("listops", 40, seed=6, **options)
        texts = lambda data: [data.text(i) for i in range(len(data))]
        self.assertEqual(texts(same), texts(self.made))
        self.assertNotEqual(texts(other), texts(self.made))
        self.assertEqual(texts(pickle.loads(pickle.dumps(same))), texts(same))

    def test_are_not_those_of_prepared_data(self):
        with tempfile.TemporaryDirectory() as folder:
            words = ("--train", "40", "--dev", "5", "--test", "5", "--seed", "5")
            lengths = ("--min-length", "10", "--max-length", "60")
            program("data", "prepare", "listops", "--out", folder, *words, *lengths)
            made = {self.made.text(i) for i in range(len(self.made))}
            for split in ("train", "dev", "test"):
                data = lra.dataset(f"{folder}/listops", split)
                self.assertEqual(made & {data.text(i) for i in range(len(data))}, set())

    def test_length_cuts_and_pads(self):
        short = lra.generate("listops", 8, seed=5, length=20, min_length=10, max_length=60)
        batch = short.collate([short[i] for i in range(8)])
        self.assertEqual(batch.tokens.shape, (8, 20))

    def test_lengths_lie_above_min_length(self):
        made = lra.generate("listops", 4, seed=5, min_length=0, max_length=30)
        self.assertEqual(len(made), 4)
        with self.assertRaisesRegex(lra.UsageError, "min_length should be at least 0, not -1"):
            lra.generate("listops", 4, min_length=-1)

    def test_copies_have_what_was_set(self):
        """As what workers of a DataLoader get that are spawned."""
        made = lra.generate("listops", 4, seed=1, min_length=10, max_length=60)
        made.length, made.mask = 64, "none"
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        program(
            *("data", "prepare", "listops", "--out", folder.name, "--train", "4", "--dev", "4"),
            *("--test", "4", "--min-length", "10", "--max-length", "60"),
        )
        own = Shifted(1, os.path.join(folder.name, "listops"))
        for data in (made, own):
            for same in (copy.deepcopy(data), pickle.loads(pickle.dumps(data))):
                self.assertEqual(vars(same).keys(), vars(data).keys())
                batches = [one.collate([one[i] for i in range(4)]) for one in (data, same)]
                for part, expected in zip(*batches, strict=True):
                    self.assertTrue(torch.equal(part, expected))

    def test_damaged_data_and_renamed_folders_are_named(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        program(
            *("data", "prepare", "listops", "--out", folder.name, "--train", "4", "--dev", "4"),
            *("--test", "4", "--min-length", "10", "--max-length", "60"),
        )
        listops = os.path.join(folder.name, "listops")
        file = os.path.join(listops, "dev.safetensors")
        with open(file, "r+b") as split:
            split.seek(-1, os.SEEK_END)
            last = split.read(1)[0]
            split.seek(-1, os.SEEK_END)
            split.write(bytes([last ^ 1]))
        train = lra.dataset(listops, "train")
        self.assertEqual(len(train), 4)
        with mock.patch.object(sys.modules["lra._data"]._lra, "Data", wraps=sys.modules["lra._data"]._lra.Data) as opened:
            self.assertEqual(len(pickle.loads(pickle.dumps(train))), 4)
        self.assertIs(opened.call_args.args[-1], False, "a worker's copy is not hashed again")
        with self.assertRaisesRegex(lra.Error, "dev.safetensors has SHA-256 .* damaged"):
            lra.dataset(listops, "dev")
        other = os.path.join(folder.name, "mine")
        os.rename(listops, other)
        with self.assertRaisesRegex(lra.Error, "mine holds the data of task listops: rename it"):
            lra.dataset(other)

    def test_images(self):
        images = lra.generate("pathfinder", 4, seed=1, resolution=32)
        self.assertEqual(len(images[0][0]), 1024)

    def test_wrong_use(self):
        with self.assertRaisesRegex(lra.Error, "lra data prepare"):
            lra.dataset("no/such/listops")
        with self.assertRaisesRegex(lra.Error, "holds no prepared data; lra data prepare TASK"):
            lra.dataset("no/data")
        with self.assertRaisesRegex(lra.UsageError, "unknown task"):
            lra.generate("listop", 3)
        with self.assertRaisesRegex(lra.UsageError, "seed should be from 0"):
            lra.generate("listops", 3, seed=-1)
        with self.assertRaisesRegex(lra.UsageError, "length should be at least 1, not -3"):
            lra.generate("listops", 3, length=-3)
        with self.assertRaises(IndexError):
            self.made[40]
        with self.assertRaisesRegex(lra.UsageError, "cannot be generated"):
            lra.generate("text", 3)
        with self.assertRaisesRegex(lra.UsageError, "mqar has its labels at positions, and a Dat"):
            lra.generate("mqar", 3)
        before = signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            with self.assertRaises(KeyboardInterrupt):  # of what takes minutes
                signal.setitimer(signal.ITIMER_REAL, 0.3)
                lra.generate("pathx", 100000)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        with tempfile.TemporaryDirectory() as folder:
            words = ("data", "prepare", "mqar", "--out", folder, "--train", "2", "--dev", "2")
            program(*words, "--test", "2")
            with self.assertRaisesRegex(lra.UsageError, "lra train --task mqar trains on it"):
                lra.dataset(os.path.join(folder, "mqar"))
            with self.assertRaisesRegex(lra.Error, "holds data of mqar: give .*/mqar$"):
                lra.dataset(folder)


if __name__ == "__main__":
    unittest.main()
