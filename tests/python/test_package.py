"""import lra: runs, records and the contract. pytest, or python3 -m unittest."""

import copy
import gc
import importlib.util
import json
import os
import pickle
import shutil
import signal
import sys
import tempfile
import threading
import time
import types
import unittest
import unittest.mock
import weakref

import lra  # first: where torch is incomplete, it says so, and the tests are skipped
import torch
from torch import nn

import lra._modules
import lra._runs
from running import program

HERE = os.path.dirname(os.path.abspath(__file__))


class IgnoresMask(nn.Module):
    def forward(self, q, k, v, mask):
        return nn.functional.scaled_dot_product_attention(q, k, v)


class Mixer(nn.Module):
    """A whole layer that keeps the contract, for one width."""

    def __init__(self, dim=16):
        super().__init__()
        self.linear = nn.Linear(dim, dim)

    def forward(self, x, mask):
        return self.linear(x.masked_fill(~mask.unsqueeze(-1), 0)).masked_fill(
            ~mask.unsqueeze(-1), 0
        )


class Interrupted(nn.Module):
    def forward(self, q, k, v, mask):
        raise KeyboardInterrupt


class Contract(unittest.TestCase):
    def test_classes_names_and_objects(self):
        found = lra.check(IgnoresMask)
        self.assertFalse(found.holds)
        self.assertIn("padding invariance", found.wrong)
        self.assertIn("padding invariance: FAILS, wrong", repr(found))
        self.assertTrue(lra.check("linear"))
        module = Mixer()
        self.assertEqual(lra.check(module, dim=16, heads=2, head_dim=8).wrong, [])
        kept = weakref.ref(module)
        del module
        gc.collect()
        self.assertIsNone(kept())

    def test_finds_what_only_training_would_meet(self):
        faulty = "python:" + os.path.join(os.path.dirname(__file__), "faulty.py") + ":"
        drops = lra.check(faulty + "DropsInEvaluation")
        self.assertIn("deterministic", drops.wrong)
        self.assertIn("with a dropout of 0.5", repr(drops))
        self.assertIn("shape and type", lra.check(faulty + "Exact").wrong)
        self.assertNotIn("deterministic", lra.check(faulty + "Noisy").wrong)

    def test_the_hint_is_of_the_fault_that_is_told(self):
        clause = next(
            c for c in lra.check(IgnoresMask).clauses if c["clause"] == "padding invariance"
        )
        self.assertIn("hide padded keys", clause["hint"])

    def test_leaves_the_generators(self):
        for what in (Mixer, "linear"):
            torch.manual_seed(7)
            state = torch.get_rng_state()
            lra.check(what, dim=16, heads=2, head_dim=8)
            self.assertTrue(torch.equal(torch.get_rng_state(), state), what)

    def test_whatever_the_caller_computes_without(self):
        for without in (torch.no_grad, torch.inference_mode):
            with without():
                self.assertTrue(lra.check("linear", dim=16, heads=2))

    def test_the_causal_form(self):
        clauses = [c["clause"] for c in lra.check("standard", causal=True).clauses]
        self.assertIn("causality", clauses)
        self.assertNotIn("causality", [c["clause"] for c in lra.check("standard").clauses])

    def test_what_is_none(self):
        for what in (None, 3, print, str, object()):
            with self.assertRaisesRegex(lra.UsageError, "a class of torch.nn.Module or an object"):
                lra.check(what)
        for wrong in (dict(dim=-3), dict(heads=0), dict(head_dim=0)):
            with self.assertRaisesRegex(lra.UsageError, f"{next(iter(wrong))} should be at least"):
                lra.check("linear", **wrong)

    def test_an_interrupt_ends_it(self):
        with self.assertRaises(KeyboardInterrupt):
            lra.check(Interrupted)

    def example(self, name):
        return "python:" + os.path.join(os.path.dirname(HERE), "examples", "python", name)

    def test_the_examples(self):
        for name in ("multihead.py:MultiheadAttention", "rotary.py:RotaryAttention"):
            found = lra.check(self.example(name), dim=16, heads=2, head_dim=8)
            self.assertTrue(found.holds, found)
            self.assertEqual(len(found.clauses), 19)

    @unittest.skipUnless(importlib.util.find_spec("nystrom_attention"), "no nystrom-attention")
    def test_a_package_that_scales_by_the_largest_of_the_batch(self):
        name = self.example("packaged.py:PackagedNystrom[landmarks=8]")
        found = lra.check(name, dim=16, heads=2, head_dim=8)
        self.assertEqual(found.wrong, ["batch invariance"], found)


class Runs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.data, cls.run_folder = (os.path.join(cls.folder.name, n) for n in ("data", "runs/x"))
        program(
            *("data", "prepare", "listops", "--out", cls.data, "--train", "96", "--dev", "40"),
            *("--test", "50", "--min-length", "10", "--max-length", "60"),
        )
        cls.trained(cls.run_folder)

    @classmethod
    def trained(cls, folder, *more, attention="linear", dtype="float32"):
        settings = (
            "input.length=64",
            "training.steps=8",
            "training.batch=8",
            "training.evaluate_every=4",
            "training.log_every=2",
            "schedule.warmup=2",
            *more,
        )
        program(
            *("train", "--task", "listops", "--attention", attention, "--data", cls.data),
            *("--run", folder, "--threads", "1", "--dtype", dtype),
            *(word for setting in settings for word in ("--set", setting)),
        )

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_a_run_computes_what_its_record_says(self):
        run = lra.load_run(self.run_folder)
        evaluated = run.evaluate()
        self.assertEqual(evaluated["correct"], run.result["test"]["correct"])
        self.assertEqual(evaluated["count"], 50)

        data = run.dataset()
        self.assertEqual(len(data), 50)
        batch = data.collate([data[i] for i in range(50)])
        self.assertEqual(batch.tokens.shape, (50, 64))
        with torch.no_grad():
            logits = run.model(batch.tokens, batch.mask)
        correct = int((logits.argmax(1) == batch.labels).sum())
        self.assertEqual(correct, evaluated["correct"])
        self.assertTrue(torch.equal(run.model(batch.tokens), logits))  # id 0 is padding
        steps = run.metrics
        self.assertEqual(len(steps), 6)  # four lines of training, two of dev

    def test_the_inputs_of_a_run_are_those_it_had(self):
        folder = os.path.join(self.folder.name, "other inputs")
        self.trained(folder, "input.cut=20", "input.brackets=drop", "evaluation.dev=test")
        run = lra.load_run(folder)
        kept, dropped = lra.dataset(os.path.join(self.data, "listops"), "test"), run.dataset("dev")
        self.assertEqual((dropped.split, len(dropped)), ("test", 50))  # dev has 40
        self.assertEqual(dropped.vocabulary, kept.vocabulary - 1)
        self.assertTrue(any("]" in kept.text(i) for i in range(50)))
        self.assertFalse(any(c in dropped.text(i) for i in range(50) for c in "]()"))
        for data in (dropped, pickle.loads(pickle.dumps(dropped))):
            batch = data.collate([data[i] for i in range(50)])
            self.assertEqual(batch.tokens.shape, (50, 64))
            self.assertEqual(int(batch.mask.sum(1).max()), 20)
            with torch.no_grad():
                logits = run.model(batch.tokens, batch.mask)
            rows = run.evaluate("dev")["predictions"]
            rows = rows.to_dict("records") if hasattr(rows, "to_dict") else rows
            predicted = dict((row["index"], row["predicted"]) for row in rows)
            found = logits.argmax(1).tolist()
            self.assertEqual([predicted[i] for i in range(50)], found)
        with self.assertRaisesRegex(lra.UsageError, "keep or drop, not 'lose'"):
            lra.Dataset(os.path.join(self.data, "listops"), "test", brackets="lose")
        with self.assertRaisesRegex(lra.UsageError, "length, nonzero or none"):
            lra.Dataset(os.path.join(self.data, "listops"), "test", mask="lenght")

    def test_an_id_of_0_may_be_a_token(self):
        with tempfile.TemporaryDirectory() as folder:
            counts = ("--train", "32", "--dev", "8", "--test", "8")
            program("data", "prepare", "mqar", "--out", folder, *counts, "--set", "length=64")
            program(
                *("train", "--task", "mqar", "--attention", "linear", "--protocol", "recall"),
                *("--data", folder, "--run", os.path.join(folder, "run"), "--threads", "1"),
                *("--set", "training.steps=2", "--set", "schedule.warmup=1"),
                *("--set", "input.length=64", "--set", "training.batch=8"),
            )
            run = lra.load_run(os.path.join(folder, "run"))
            tokens = torch.arange(64).repeat(2, 1) % 3
            with torch.no_grad():
                logits = run.model(tokens), run.model(tokens, torch.ones_like(tokens) > 0)
            self.assertTrue(torch.equal(*logits))

    def test_a_run_in_bfloat16_computes_in_it(self):
        folder = os.path.join(self.folder.name, "bfloat16")
        self.trained(folder, dtype="bfloat16")
        run = lra.load_run(folder)
        data = run.dataset()
        batch = data.collate([data[i] for i in range(50)])
        with torch.no_grad():
            logits = run.model(batch.tokens, batch.mask)
        self.assertEqual(logits.dtype, torch.float32)
        rows = run.evaluate()["predictions"]
        rows = rows.to_dict("records") if hasattr(rows, "to_dict") else rows
        confidence = logits.softmax(1).max(1).values
        for row in rows:
            self.assertAlmostEqual(row["confidence"], float(confidence[row["index"]]), delta=2e-5)

    def test_evaluations_repeat_and_leave_the_generators(self):
        folder = os.path.join(self.folder.name, "draws")
        self.trained(folder, attention="reformer[redraw=forward,chunk_length=4]")
        run = lra.load_run(folder)
        torch.manual_seed(3)
        random = torch.get_rng_state()
        losses = {run.evaluate()["loss"] for _ in range(3)}
        self.assertEqual(len(losses), 1)
        self.assertTrue(torch.equal(torch.get_rng_state(), random))

    def test_evaluations_of_threads_leave_the_generators(self):
        runs = [lra.load_run(self.run_folder) for _ in range(2)]
        torch.manual_seed(3)
        before = torch.get_rng_state()
        threads = [threading.Thread(target=lambda run=run: [run.evaluate() for _ in range(8)]) for run in runs]
        threads.append(threading.Thread(target=lambda: lra.check("linear", dim=8, heads=2)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertTrue(torch.equal(torch.get_rng_state(), before))

    def test_ctrl_c_ends_an_evaluation(self):
        run = lra.load_run(self.run_folder)
        run.evaluate()
        lines = ["[MAX 1 2 ]"] * 3000
        begin = time.monotonic()
        run.predict(lines)
        whole = time.monotonic() - begin
        begin = time.monotonic()
        handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            with self.assertRaises(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, 0.001)
                run.predict(lines * 10)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, handler)
        self.assertLess(time.monotonic() - begin, 5 * whole)
        self.assertEqual(run.evaluate()["count"], 50)

    def test_other_data_and_damaged_files_are_named(self):
        other = os.path.join(self.folder.name, "of another seed")
        program(
            *("data", "prepare", "listops", "--out", other, "--train", "96", "--dev", "40", "--seed", "5"),
            *("--test", "50", "--min-length", "10", "--max-length", "60"),
        )
        with self.assertRaisesRegex(lra.Error, "is of other data .fingerprint"):
            lra.load_run(self.run_folder, data=other, checkpoint=None).dataset()
        copied = os.path.join(self.folder.name, "damaged")
        shutil.copytree(self.run_folder, copied)
        with open(os.path.join(copied, "metrics.jsonl"), "a") as file:
            file.write("{\n")
        run = lra.load_run(copied, checkpoint=None)
        with self.assertRaisesRegex(lra.Error, "metrics.jsonl, line 7: "):
            run.metrics
        os.remove(os.path.join(copied, "metrics.jsonl"))
        with self.assertRaisesRegex(lra.Error, "metrics.jsonl is missing"):
            run.metrics
        with open(os.path.join(copied, "result.json"), "w") as file:
            file.write("{")
        with self.assertRaisesRegex(lra.Error, "result.json is damaged: "):
            lra.load_run(copied, checkpoint=None)

    def test_a_run_without_a_checkpoint_has_its_log(self):
        folder = os.path.join(self.folder.name, "diverged")
        with self.assertRaises(AssertionError):  # the program's status
            self.trained(folder, "optimizer.lr=1e30")
        with self.assertRaisesRegex(lra.Error, "ended as diverged before it had one .*not finite"):
            lra.load_run(folder)
        run = lra.load_run(folder, checkpoint=None)
        self.assertEqual(run.result["status"], "diverged")
        self.assertEqual(run.config["training"]["steps"], 8)
        self.assertEqual(len(run.dataset()), 50)
        self.assertIn("no checkpoint", repr(run))
        for use in (lambda: run.model, lambda: run.step, run.evaluate):
            with self.assertRaisesRegex(lra.UsageError, "opened without a checkpoint"):
                use()
        with self.assertRaisesRegex(lra.Error, "is not a run folder"):
            lra.load_run(self.data, checkpoint=None)

    def test_records(self):
        row = self.only_row()
        self.assertEqual((row["task"], row["attention"]), ("listops", "linear"))
        self.assertIsInstance(row["test_correct"], int)
        with self.assertRaisesRegex(lra.UsageError, "runs, profiles, fidelity or where"):
            lra.records(self.run_folder, kind="run")

    def test_what_is_text_stays_text(self):
        self.assertEqual(self.only_row()["regime"], "2021")
        self.assertIsInstance(self.only_row()["parameters"], int)
        texts = {"regime": "2021", "protocol": "1e3", "attention": "true", "fingerprint": "12e4"}
        row = {**texts, "reason": "", "seed": "2021", "synthetic": "true", "test_accuracy": ""}
        found = lra._runs._typed([row])[0]
        self.assertEqual({key: found[key] for key in texts}, texts)
        rest = {"reason": None, "seed": 2021, "synthetic": True, "test_accuracy": None}
        self.assertEqual({key: found[key] for key in rest}, rest)

    def test_every_column_of_records_is_text_or_holds_numbers(self):
        numbers = """
            seed test_accuracy test_correct test_count ci95_low ci95_high dev_accuracy best_step
            steps parameters seconds steps_per_second tokens_per_second peak_memory_mib synthetic
            majority dev_majority left_majority_at total_steps total_samples total_seconds batch
            heads head_dim threads length peak_memory analytic_memory parameters_memory
            optimizer_memory process_peak time time_ci95_low time_ci95_high samples passes flops
            least_bytes roofline_gflops roofline_gbps experiment budget_value trials layer mean sd
            median worst time_ms peak_mib step_ms calls ms share bytes gflops gbps roofline_share
            others evaluation_peak_memory_mib data_memory_mib sample_majority dev_sample_majority
            measured_from recipe never_left_majority superseded
        """.split()
        for kind in ("runs", "profiles", "fidelity", "where"):
            headers, _, _ = lra._lra.records([self.run_folder], kind)
            self.assertEqual(set(headers) - set(numbers) - lra._runs._TEXTS, set(), kind)
        self.assertEqual(lra._runs._TEXTS & set(numbers), set())

    def only_row(self):
        rows = lra.records(self.run_folder)
        rows = rows.to_dict("records") if hasattr(rows, "to_dict") else rows
        self.assertEqual(len(rows), 1)
        return rows[0]

    def test_cells_of_records(self):
        cells = {"true": True, "false": False, "": None, "7": 7, "-3": -3, "0.5": 0.5, "1e-5": 1e-5}
        for text in ("2024_01_05", "nan", "infinity", " 7", "1e", "True", "."):
            cells[text] = text
        for text, value in cells.items():
            found = lra._runs._value(text)
            self.assertEqual((type(found), found), (type(value), value), text)

    def test_records_of_where_a_step_goes(self):
        size = "--attentions linear --lengths 64 --batch 2 --heads 1 --head-dim 8 --seconds 0.01"
        out = os.path.join(self.data, "where.jsonl")
        program("profile", "--where", "--scope", "model", *size.split(), "--out", out)
        rows = lra.records(out, kind="where")
        rows = rows.to_dict("records") if hasattr(rows, "to_dict") else rows
        self.assertEqual({row["attention"] for row in rows}, {"linear"})
        self.assertGreater(sum(row["ms"] for row in rows), 0)

    def test_pandas_is_used_where_it_is_there(self):
        pandas = types.ModuleType("pandas")
        pandas.DataFrame = tuple
        for there, kind in ((pandas, tuple), (None, list)):
            with unittest.mock.patch.dict(sys.modules, pandas=there):
                rows = lra.records(self.run_folder)
            self.assertIs(type(rows), kind)
            self.assertEqual(rows[0]["attention"], "linear")

    def test_the_data_of_a_run(self):
        train = lra.dataset(os.path.join(self.data, "listops"), split="train")
        self.assertEqual(len(train), 96)
        self.assertEqual(repr(train), "<listops train: 96 samples of 10 classes>")

    def test_is_the_runs_whatever_the_caller_computes_in(self):
        run = lra.load_run(self.run_folder)
        loss = run.evaluate()["loss"]
        with torch.autocast("cpu", torch.bfloat16):
            self.assertEqual(run.evaluate()["loss"], loss)
        torch.set_default_dtype(torch.float64)
        self.addCleanup(torch.set_default_dtype, torch.float32)
        self.assertEqual(lra.load_run(self.run_folder, device=torch.device("cpu")).evaluate()["loss"], loss)
        self.assertEqual(lra.check("linear").wrong, [])
        layer = lra.attention("reformer_tay2020", dim=8, heads=2, max_length=16)
        self.assertIs(layer(torch.randn(1, 16, 8)).dtype, torch.float64)

    def test_stays_where_it_is(self):
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.folder.name)
        run = lra.load_run("runs/x", data="data")
        os.chdir(before)
        self.assertEqual(len(run.metrics), 6)
        self.assertEqual(len(run.dataset()), 50)
        with self.assertRaisesRegex(lra.Error, "open the run again"):
            copy.deepcopy(run.model)

    def test_predicts_of_lines_what_it_says_of_its_data(self):
        run = lra.load_run(self.run_folder)
        said = run.evaluate()["predictions"]
        with tempfile.TemporaryDirectory() as out:
            program("data", "export", self.data, "--out", out)
            with open(os.path.join(out, "listops/basic_test.tsv"), encoding="utf-8") as file:
                lines = [line.split("\t")[0] for line in file][1:]
        random = torch.random.get_rng_state()
        rows = run.predict(lines)
        self.assertTrue(torch.equal(torch.random.get_rng_state(), random))
        for row in said:
            del row["label"]
        self.assertEqual(rows, said)
        self.assertEqual(len(run.predict([lines[0].encode()])), 1)
        with self.assertRaisesRegex(lra.Error, "^line 2: the expression is empty"):
            run.predict([lines[0], ""])
        with self.assertRaisesRegex(TypeError, "not one alone"):
            run.predict(lines[0])

    def test_wrong_use(self):
        with self.assertRaisesRegex(lra.Error, "is not a run folder"):
            lra.load_run(self.data)


if __name__ == "__main__":
    unittest.main()
