"""Ranks as processes that differ, die, hang and throw: how soon the others end, with which message and status."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from cases import main  # noqa: E402

FAULT = pathlib.Path(os.environ["DLFLOW_BUILD"]) / "tests/fault"
RANKS = 3
WATCHDOG = 60  # seconds after which a test that hangs fails by its name


class Faults(unittest.TestCase):
    def run_ranks(self, how, *statuses, **environment):
        """Runs ranks of which rank 1 fails. Returns their output, standard error, and the time taken. The status is that of the
        first rank to end."""
        with tempfile.TemporaryDirectory(prefix="dlflow-faults.") as caught:
            start = time.monotonic()
            process = subprocess.Popen(["mpirun", "-np", str(RANKS), FAULT, how], text=True, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, env=os.environ | environment | {"CAUGHT": caught})
            try:
                out, err = process.communicate(timeout=WATCHDOG)
            except subprocess.TimeoutExpired:
                process.terminate()  # which mpirun passes on to all ranks
                self.fail(f"ranks of which one {how} hang: {process.communicate(timeout=WATCHDOG)}")
            seconds = time.monotonic() - start
            out += "".join(file.read_text() for file in pathlib.Path(caught).iterdir())
        self.assertIn(process.returncode, statuses, out + err)
        return out, err, seconds

    def errors(self, err):
        return [line for line in err.splitlines() if line.startswith("error: ")]

    def caught(self, out):
        """rank -> (seconds, message)"""
        return {int(rank): (float(seconds), text)
                for rank, seconds, text in re.findall(r"^rank (\d) after ([\d.]+) s: (.*)$", out, re.MULTILINE)}

    def test_subnormal_numbers_are_zero_in_all_threads_of_a_rank(self):
        self.run_ranks("subnormal", 0)

    def test_differing_calls_are_reported_on_all_ranks_with_all_versions(self):
        for how, odd in {"name": "all-reduce 'v' of 10 fp32", "shape": "all-reduce 'w' of 11 fp32",
                         "type": "all-reduce 'w' of 10 fp16", "operation": "all-reduce (max) 'w' of 10 fp32",
                         "root": "all-reduce 'w' of 10 fp32 from rank 2", "order": "barrier"}.items():
            with self.subTest(how):
                out, err, _ = self.run_ranks(how, 1, CHECKPOINT="1")  # another start would differ again
                caught = self.caught(out)
                self.assertEqual(sorted(caught), [0, 1, 2], out)
                for seconds, text in caught.values():
                    self.assertRegex(text, rf"^call 11 is not the same on all ranks: rank 1 \(node \S+\) {re.escape(odd)}; "
                                           r"ranks 0, 2 all-reduce 'w' of 10 fp32; ")
                    self.assertLess(seconds, 5)  # promised: 1
                self.assertEqual(self.errors(err), ["error: " + caught[0][1]])

    def test_a_rank_that_is_killed_after_the_reason_is_printed_adds_no_second_one(self):
        for how, statuses in {"name": {1}, "killed": {75}}.items():
            with self.subTest(how):
                out, err, _ = self.run_ranks(how, *statuses, CHECKPOINT="1", KILLED_AFTER_VERDICT="1")
                self.assertIn(0, self.caught(out), out + err)
                said = [line for line in self.errors(err) if not re.match(r"error: rank 1 \(node \S+\): killed by signal 9 ", line)]
                self.assertEqual(said, ["error: " + self.caught(out)[0][1]])

    def test_a_rank_that_dies_is_named_by_the_others_and_its_guard_names_the_signal(self):
        for how, signal in {"killed": 9, "crashed": 11}.items():
            for statuses, environment in (({75}, {"CHECKPOINT": "1"}), ({1, 128 + signal}, {})):
                with self.subTest(how=how, statuses=statuses):
                    out, err, _ = self.run_ranks(how, *statuses, **environment)
                    caught = self.caught(out)
                    self.assertTrue(caught, out + err)  # on a busy machine mpirun may be faster than one of them
                    for seconds, text in caught.values():
                        self.assertRegex(text, r"^rank 1 \(node \S+\) died: ")
                        self.assertLess(seconds, 20)  # promised: 5
                    errors = self.errors(err)
                    self.assertRegex(errors[0], r"rank 1 \(node \S+\) died: killed, crashed, or its node went down")
                    self.assertRegex(errors[-1], rf"rank 1 \(node \S+\): killed by signal {signal} ")

    def small_cgroup(self):
        """A control group of 64 MiB, or skips the test."""
        for root, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
            folder = pathlib.Path(root) / f"dlflow-fault-{os.getpid()}"
            try:
                folder.mkdir()
                self.addCleanup(folder.rmdir)
                (folder / limit).write_text("64M")
                return folder
            except OSError:
                pass
        self.skipTest("no control group can be made here")

    def test_a_rank_that_runs_out_of_memory_is_named_with_that_reason(self):
        out, err, _ = self.run_ranks("memory", 75, CHECKPOINT="1", CGROUP=str(self.small_cgroup()))
        self.assertLess(self.caught(out)[0][0], 30)
        self.assertRegex(self.errors(err)[-1], r"rank 1 \(node \S+\): killed by signal 9 \(Killed\), out of memory")

    def test_a_rank_that_ends_early_counts_as_dead(self):
        out, err, _ = self.run_ranks("exits", 1, 75, CHECKPOINT="1")  # 1: mpirun noticed, too
        self.assertRegex(self.caught(out)[0][1], r"^rank 1 \(node \S+\) died: ")
        self.assertEqual(len(self.errors(err)), 1)

    def test_a_rank_that_stops_or_hangs_is_reported_and_ended_after_the_stall_timeout(self):
        for how, text in {"stopped": "silent for", "hangs": "no progress for"}.items():
            with self.subTest(how):
                out, err, seconds = self.run_ranks(how, 75, CHECKPOINT="1", DLFLOW_STALL_TIMEOUT="2")
                self.assertGreater(seconds, 2)
                self.assertLess(seconds, 30)
                self.assertRegex(err, r"(?m)^warning: rank 1 \(node \S+\)")  # the moment before, it computed
                self.assertRegex(self.errors(err)[0], rf"rank 1 \(node \S+\): {text} 2 s.*; ranks 0, 2 wait in call \d+ \(barrier\)")

    def test_a_rank_that_goes_on_computing_is_ended_by_its_watch(self):
        out, err, seconds = self.run_ranks("throws", 1, COMPUTES="1")
        self.assertNotIn(0, self.caught(out))
        self.assertLess(seconds, 20)  # promised: 5
        self.assertRegex(self.errors(err)[0], r"rank 1 \(node \S+\): data: No such file or directory")

    def test_an_error_on_one_rank_is_printed_once(self):
        out, err, _ = self.run_ranks("throws", 1, CHECKPOINT="1")
        caught = self.caught(out)
        self.assertTrue(set(caught) <= {0, 2} and caught, out + err)  # on a busy machine mpirun may be faster than one of them
        for _, text in caught.values():
            self.assertRegex(text, r"^rank 1 \(node \S+\): data: No such file or directory")
        self.assertEqual(len(self.errors(err)), 1)


if __name__ == "__main__":
    main()
