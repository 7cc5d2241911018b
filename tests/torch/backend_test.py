"""The backend "dlflow" of torch.distributed, on ranks that a shell could have started."""

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import forked  # noqa: E402
from cases import main  # noqa: E402
from python_ranks import run_ranks  # noqa: E402

RANK = pathlib.Path(__file__).with_name("rank.py")
NAMES_GLOO = pathlib.Path(__file__).with_name("replace_rank.py")

try:
    import torch
except ImportError:
    torch = None


@unittest.skipUnless(torch, "python3-torch is not installed")
class Backend(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = forked.Server()
        cls.addClassCleanup(cls.server.close)

    def run_ranks(self, scenario, ranks, statuses=None, memories=None, **environment):
        return self.server.run_ranks(self, RANK, scenario, ranks, statuses, memories, **environment)

    def run_all(self, scenario, *sizes, **environment):
        for ranks in sizes:
            with self.subTest(ranks=ranks):
                self.run_ranks(scenario, ranks, **environment)

    def test_every_type_is_reduced_by_every_operation(self):
        self.run_all("reductions", 3)

    def test_the_same_calls_as_on_gloo_leave_the_same_tensors(self):
        self.run_all("against_gloo", 1, 2)

    def test_ranks_without_shared_memory_get_the_same_results(self):
        self.run_ranks("against_gloo", 3, memories=["a", "b", "a"])

    def test_operations_that_gloo_lacks_give_the_defined_result(self):
        self.run_all("others", 1, 3)

    def test_tensors_on_a_gpu_that_ranks_share_travel_through_pinned_memory(self):
        self.run_all("gpus_shared", 2)
        self.run_all("gpus_shared_others", 2)

    def test_nccl_makes_collectives_if_each_rank_has_a_gpu(self):
        self.run_all("gpus_apart", 1, 2)

    def test_groups_are_left_when_no_thread_can_start(self):
        from dlflow.torch import backend

        left = []

        class Group:
            def leave(self, linger):
                left.append(linger)

        with mock.patch.dict(backend._groups, {1: Group(), 2: Group()}, clear=True):
            starts = "_start_joinable_thread" if sys.version_info >= (3, 13) else "_start_new_thread"
            with mock.patch(f"threading.{starts}", side_effect=RuntimeError("can't create new thread at interpreter shutdown")):
                backend._leave_all()
        self.assertEqual(left, [backend.LINGER] * 2)

    def test_a_work_without_a_wait_does_not_hold_up_later_ones(self):
        self.run_all("unused_work", 2)

    def test_a_timeout_set_for_a_group_applies_to_later_works(self):
        self.run_all("limits", 2)

    def test_concurrent_works_complete_their_futures(self):
        self.run_all("asynchronous", 2)

    def test_ranks_can_have_subgroups_and_start_again(self):
        self.run_all("groups", 4)

    def test_invalid_arguments_are_refused_with_rank_and_sizes(self):
        self.run_all("refusals", 2)

    def test_ddp_on_2_and_4_ranks_trains_to_the_result_of_one_process(self):
        with tempfile.TemporaryDirectory() as folder:
            trained = {}
            for ranks, scenario in ((1, "one_process"), (2, "ddp"), (4, "ddp")):
                file = pathlib.Path(folder) / str(ranks)
                self.run_ranks(scenario, ranks, PARAMETERS=str(file))
                trained[ranks] = torch.load(file)
            for ranks in (2, 4):
                for one, many in zip(trained[1], trained[ranks]):
                    # The mean of gradients is rounded in another order, in six steps.
                    torch.testing.assert_close(many, one, rtol=1e-5, atol=1e-6)

    def test_compressed_sums_and_residuals_add_up_to_all_gradients(self):
        self.run_all("compressed", 2, 3)

    def test_compression_continues_from_a_saved_state(self):
        self.run_all("compressed_state", 2)

    def test_invalid_settings_of_compression_are_refused(self):
        self.run_all("compressed_refusals", 1)

    def test_differing_calls_are_reported_on_all_ranks_within_5_s(self):
        for rank, (out, err) in enumerate(self.run_ranks("differ", 3)):
            self.assertRegex(out, r"rank 1 \(node \S+\) all-reduce of 11 fp32; ranks 0, 2 all-reduce of 10 fp32", err)

    def test_a_rank_that_dies_is_named_on_all_others_within_5_s(self):
        for environment in ({}, {"WITH_CHILD": "1"}):
            with self.subTest(**environment):
                outputs = self.run_ranks("die", 3, {1: -9}, **environment)
                for rank in (0, 2):
                    seconds, text = outputs[rank][0].split(" ", 1)
                    self.assertIn("rank 1 (node ", text)
                    self.assertLess(float(seconds), 5)

    def test_a_rank_that_dies_during_backward_raises_an_exception_on_the_others(self):
        for _ in range(3):
            outputs = self.run_ranks("die_in_backward", 3, {1: -9})
            self.assertEqual([out.splitlines()[-1] for out, _ in outputs[::2]], ["ended"] * 2)

    def profiled(self, ranks, steps, asked=6):
        """The measurements of a script with the given number of steps, and the output of the ranks."""
        with tempfile.TemporaryDirectory() as cache:
            printed = self.run_ranks("profiled", ranks, STEPS=str(steps), DLFLOW_PROFILE_STEPS=str(asked), DLFLOW_CACHE=cache)
            files = list(pathlib.Path(cache).glob("measurements/*"))
            self.assertLessEqual(len(files), 1)
            return (json.loads(files[0].read_text()) if files else None), printed

    def test_steps_of_a_script_are_measured(self):
        # After the sum in the middle of 20 steps the longest run without another is of 14; of 10 steps it is of 4, of which one is the first.
        for ranks, steps, measured in ((1, 20, 6), (2, 20, 6), (2, 10, 4)):
            with self.subTest(ranks=ranks, steps=steps):
                measurement, _ = self.profiled(ranks, steps)
                self.assertEqual((measurement["format"], measurement["source"], measurement["compute"]), ("dlflow measurement 1", "dlflow.torch", "fp32"))
                self.assertEqual(measurement["model"], hashlib.sha256(RANK.read_bytes()).hexdigest())
                self.assertEqual(measurement["parameters_bytes"], 4 * (600 * 500 + 500 * 300))
                [point] = measurement["points"]
                self.assertEqual((point["ranks"], point["nodes"], point["batch"]), (ranks, 1, None))
                self.assertLessEqual(abs(point["steps"] - measured), 1)
                self.assertEqual([bucket["bytes"] for bucket in point["buckets"]], [4 * 500 * 300, 4 * 600 * 500])
                first, last = (bucket["ready_s"] for bucket in point["buckets"])
                self.assertTrue(0.01 < first < last < point["step_s"], point)
                self.assertTrue(0 < point["communication_wait_s"] < point["step_s"] - 0.01, point)
                self.assertAlmostEqual(point["other_s"] + point["communication_wait_s"], point["step_s"])
                self.assertTrue(point["step_low_s"] <= point["step_s"] <= point["step_high_s"], point)
                self.assertEqual([entry["bytes"] for entry in measurement["network"]], [1024 * 4**i for i in range(8)] if ranks > 1 else [])

    def test_a_script_without_steps_has_no_measurement(self):
        measurement, printed = self.profiled(1, 0)
        self.assertIsNone(measurement)

    def test_an_invalid_profile_or_timeline_is_refused(self):
        for text, reason in (("0", "'0' is not a whole number from 1 to 1000"), ("many", "'many' is not a whole number"), ("5", "give a folder in DLFLOW_CACHE")):
            with mock.patch.dict(os.environ, DLFLOW_PROFILE_STEPS=text, DLFLOW_CACHE=""), self.assertRaisesRegex(ValueError, reason):
                from dlflow.torch import profile
                profile.asked_for(None)
        with mock.patch.dict(os.environ, DLFLOW_TIMELINE="all"), self.assertRaisesRegex(ValueError, "DLFLOW_TIMELINE: 'all' is not a whole number from 1 to 1000"):
            from dlflow.torch import timeline
            timeline.of_process(0)

    def spans(self, steps, asked):
        """Of each of two ranks of that script, the spans of its timeline: (row, name, begin, end, bytes), and when it began."""
        with tempfile.TemporaryDirectory() as folder:
            self.run_ranks("profiled", 2, STEPS=str(steps), DLFLOW_TIMELINE=str(asked), DLFLOW_METRICS=f"{folder}/metrics.jsonl")
            self.assertEqual(sorted(os.listdir(folder)), ["timeline-1.json", "timeline.json"])
            timelines = [json.loads(pathlib.Path(folder, name).read_text()) for name in ("timeline.json", "timeline-1.json")]
        for rank, timeline in enumerate(timelines):
            self.assertEqual({event["pid"] for event in timeline["traceEvents"]}, {rank})
            self.assertLess(0, time.time() - timeline["otherData"]["began_at"])
        return [[(event["tid"], event["name"], event["ts"], event["ts"] + event["dur"], event.get("args", {}).get("bytes"))
                 for event in timeline["traceEvents"] if event["ph"] == "X"] for timeline in timelines]

    def test_a_timeline_has_the_collectives_of_a_script_and_where_it_waited(self):
        first, other = 4 * 600 * 500, 4 * 500 * 300  # PyTorch makes one bucket of them in the first step
        for steps, asked, seen, sums in ((4, 5, 3, [first + other] + [other, first] * 3 + [28]), (14, 2, 2, [other, first] * 2)):
            for spans in self.spans(steps, asked):
                self.assertEqual([size for row, name, *_, size in spans if (row, name) == (2, "all_reduce")], sums)
                self.assertEqual([name for row, name, *_ in spans if row == 0], ["step"] * seen)
                for _, _, begin, end, _ in [span for span in spans if span[0] == 0]:
                    waits = [min(until, end) - since for row, _, since, until, _ in spans if row == 3 and begin <= since < end]
                    self.assertTrue(0 < sum(waits) < end - begin - 10_000, (waits, begin, end))  # microseconds: the script sleeps for 10 ms
                self.assertLessEqual({name for row, name, *_ in spans if row == 3}, {name for row, name, *_ in spans if row == 2})

    def python(self, *arguments, **environment):
        return subprocess.run([sys.executable, "-B", *arguments], env=os.environ | environment, text=True, capture_output=True)

    def test_the_package_may_be_imported_before_pytorch(self):
        registered = "import torch; assert hasattr(torch.distributed.Backend, 'DLFLOW')"
        for first in ("import dlflow.torch", "from dlflow.torch import exact", "import torch, dlflow.torch"):
            with self.subTest(first):
                done = self.python("-c", f"{first}; {registered}")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
        done = self.python("-m", "dlflow.torch.weights", "--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_runtime_library_that_cannot_be_loaded_breaks_no_import_of_pytorch(self):
        broken = {"DLFLOW_RUNTIME_LIBRARY": "/nowhere/libdlflow_runtime.so"}
        done = self.python("-W", "error", "-c", "import torch; print(torch.ones(2).sum().item())", **broken)
        self.assertEqual((done.returncode, done.stdout), (0, "2.0\n"), done.stderr)
        if hasattr(torch, "_import_device_backends"):  # since 2.5
            self.assertRegex(done.stderr, r'dlflow: warning: there is no backend "dlflow".*: /nowhere/libdlflow_runtime.so cannot be loaded')
        self.assertIn("/nowhere/libdlflow_runtime.so cannot be loaded", self.python("-c", "import dlflow.torch", **broken).stderr)

    def test_a_script_for_gloo_gets_dlflows_backend_if_its_environment_sets_it(self):
        told = {out for out, _ in run_ranks(self, sys.executable, [NAMES_GLOO], 2, DLFLOW_REPLACE_GLOO="1")}
        self.assertEqual(told, {"dlflow 2.0\n"})

    def test_only_gloo_is_replaced_in_a_requested_backend(self):
        from dlflow.torch.in_place_of_gloo import backend_for

        self.assertEqual([backend_for(name) for name in ("gloo", "GLOO", None, "nccl", "cpu:gloo,cuda:nccl")],
                         ["dlflow", "dlflow", "dlflow", "nccl", "cpu:dlflow,cuda:nccl"])

    def test_ranks_that_just_end_print_no_errors(self):
        for scenario in ("ends", "ends_late"):
            for out, err in self.run_ranks(scenario, 2):
                self.assertEqual((out, err), ("ended\n", ""))


if __name__ == "__main__":
    main()
