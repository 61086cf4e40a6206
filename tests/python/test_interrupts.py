"""Ctrl-C in what Python asks of the library. pytest, or python3 -m unittest."""

import os
import sys
import tempfile
import unittest

import lra  # first: where torch is incomplete, it says so, and the tests are skipped

from running import program, started

# Interrupted at any moment the call says so, and has left the generators as they were. In a process
# of its own, which must not end of it.
SCRIPT = """if True:
    import random, signal, sys
    import lra, torch
    torch.set_num_threads(1)
    run, own = sys.argv[1:]
    sys.path.insert(0, own)
    from faulty import Layer
    opened = lra.load_run(run)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    calls = {
        "check": lambda: lra.check("linear"),
        "check own": lambda: lra.check(Layer),
        "load_run": lambda: lra.load_run(run),
        "evaluate": lambda: opened.evaluate(),
    }
    for name, call in calls.items():
        call()  # what is loaded once
        random.seed(1)
        torch.manual_seed(1)
        before = random.getstate(), torch.get_rng_state().tolist()
        for delay in (0.003, 0.01, 0.03, 0.05, 0.08, 0.11):
            try:
                # Again where Python ignores the first, as in what a weak reference calls.
                signal.setitimer(signal.ITIMER_REAL, delay, 2)
                while True:
                    call()
            except KeyboardInterrupt:
                signal.signal(signal.SIGALRM, signal.SIG_IGN)
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, signal.default_int_handler)
            assert (random.getstate(), torch.get_rng_state().tolist()) == before, (name, delay)
        print(name)
"""


class Interrupts(unittest.TestCase):
    def test_are_told_and_leave_the_generators(self):
        with tempfile.TemporaryDirectory() as folder:
            data, run = (os.path.join(folder, name) for name in ("data", "run"))
            program(
                *("data", "prepare", "listops", "--out", data, "--train", "64", "--dev", "32"),
                *("--test", "64", "--min-length", "10", "--max-length", "60"),
            )
            settings = ("input.length=64", "training.steps=2", "training.batch=8")
            more = ("training.evaluate_every=2", "schedule.warmup=1")
            program(
                *("train", "--task", "listops", "--attention", "linear", "--data", data),
                *("--run", run, "--threads", "1"),
                *(word for setting in (*settings, *more) for word in ("--set", setting)),
            )
            here = os.path.dirname(os.path.abspath(__file__))
            printed = started([sys.executable, "-c", SCRIPT, run, here])
        self.assertEqual(printed.split("\n")[:-1], ["check", "check own", "load_run", "evaluate"])


if __name__ == "__main__":
    unittest.main()
