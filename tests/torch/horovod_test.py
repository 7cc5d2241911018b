"""Horovod's interface: scripts that know nothing of dlflow, on ranks that a shell could have started.

horovod_test.py PACKAGES BUILD: the folder with the package dlflow, and the build folder, where other versions of PyTorch and the
real Horovod may be.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import forked  # noqa: E402
import python_ranks  # noqa: E402
from cases import main  # noqa: E402

PACKAGES, BUILD = (pathlib.Path(path) for path in (sys.argv.pop(1), sys.argv.pop(1)))
RANK = pathlib.Path(__file__).with_name("horovod_rank.py")
INTERFACE = PACKAGES / "dlflow/horovod/path"
os.environ.setdefault("DLFLOW_BUILD", str(BUILD))
from pypi import HOROVOD as REAL, NEWEST as PYPI, needs  # noqa: E402

sys.path.insert(0, str(PACKAGES))

try:
    import torch
except ImportError:
    torch = None


@unittest.skipUnless(torch, "python3-torch is not installed")
class Horovod(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = forked.Server(PYTHONPATH=str(INTERFACE))  # and nothing else on it
        cls.addClassCleanup(cls.server.close)

    def run_ranks(self, scenario, ranks, statuses=None, **environment):
        return self.server.run_ranks(self, RANK, scenario, ranks, statuses, **environment)

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="dlflow-horovod."))
        self.addCleanup(shutil.rmtree, self.folder)

    def test_tensors_that_ranks_submit_in_different_orders_are_reduced_correctly(self):
        for environment in ({}, {"HOROVOD_FUSION_THRESHOLD": "1000", "HOROVOD_CACHE_CAPACITY": "20", "HOROVOD_CYCLE_TIME": "0.1"}):
            with self.subTest(**environment):
                self.run_ranks("random_order", 3, **environment)

    def test_every_option_of_the_optimizer_trains_to_the_result_of_one_process(self):
        self.run_ranks("optimizers", 3)

    def test_parameters_and_optimizers_become_those_of_one_rank(self):
        self.run_ranks("states", 3)

    def test_a_disagreement_of_ranks_is_refused_on_all_with_names_and_ranks(self):
        self.run_ranks("refusals", 3)

    def test_adasum_is_the_published_formula(self):
        self.run_ranks("adasum", 4)

    def test_one_process_alone_needs_no_launcher(self):
        environment = {"RANK": "", "WORLD_SIZE": "", "MASTER_ADDR": "", "MASTER_PORT": ""}
        self.run_ranks("states_alone", 1, **environment)

    def test_a_tensor_that_a_rank_does_not_submit_is_named(self):
        limits = {"HOROVOD_STALL_CHECK_TIME_SECONDS": "1", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "4"}
        outputs = self.run_ranks("stall", 3, **limits)
        self.assertRegex(outputs[0][1], r"warning: allreduce.late has waited for \d s: rank 1 did not submit it, ranks 0, 2 did")
        for rank in (0, 2):
            self.assertRegex(outputs[rank][0], r"allreduce.never has waited for \d+ s: rank 1 did not submit it, ranks 0, 2 did; all ranks end")

    def test_a_rank_that_dies_is_named_on_all_others_within_5_s(self):
        for who in (0, 1):
            with self.subTest(rank=who):
                outputs = self.run_ranks("die", 3, {who: -9}, WHO=str(who), READY=str(self.folder / f"without-{who}"))
                for rank in {0, 1, 2} - {who}:
                    seconds, text = outputs[rank][0].split(" ", 1)
                    self.assertRegex(text, rf"rank {who} .*died")
                    self.assertLess(float(seconds), 5)

    def test_a_rank_that_ends_is_named_on_ranks_that_still_need_it(self):
        self.run_ranks("leaves", 3)

    def test_a_pass_continues_from_the_last_commit_of_one_that_lost_a_rank(self):
        checkpoints = {"DLFLOW_CHECKPOINTS": str(self.folder)}
        outputs = self.run_ranks("elastic", 3, {0: 75, 1: -9, 2: 75}, END="kill", **checkpoints)
        self.assertRegex(outputs[0][1], r"rank 1 .*died.* the next one continues from the last commit")
        self.run_ranks("elastic", 2, END="go on", **checkpoints)  # every sample of the epoch once, says the rank

    def test_a_pass_ends_after_a_commit_at_the_engines_request(self):
        checkpoints = {"DLFLOW_CHECKPOINTS": str(self.folder)}
        self.run_ranks("elastic", 2, {0: 75, 1: 75}, END="warn", **checkpoints)
        self.run_ranks("elastic", 3, END="go on", **checkpoints)
        self.assertEqual([file.name for file in self.folder.iterdir()], ["horovod-state-0"])

    def test_a_lost_rank_is_an_error_without_a_folder_for_checkpoints(self):
        outputs = self.run_ranks("elastic", 3, {0: 1, 1: -9, 2: 1}, END="kill", DLFLOW_CHECKPOINTS="")
        self.assertRegex(outputs[0][1], r"HorovodInternalError: rank 1 .*died")

    def test_ranks_with_differing_calls_are_not_restarted(self):
        outputs = self.run_ranks("elastic", 2, {0: 1, 1: 1}, END="differ", DLFLOW_CHECKPOINTS=str(self.folder))
        self.assertIn("HorovodInternalError: allreduce.differ is not the same on all ranks", outputs[0][1])

    def test_the_launcher_must_identify_the_ranks(self):
        refused = (({"OMPI_COMM_WORLD_SIZE": "4"}, "OMPI_COMM_WORLD_SIZE is 4, but WORLD_SIZE"),
                   ({"WORLD_SIZE": "2", "RANK": "0"}, "MASTER_ADDR, MASTER_PORT not set"),
                   ({"HOROVOD_CYCLE_TIME": "fast"}, "HOROVOD_CYCLE_TIME is 'fast'; it must be a number"),
                   ({"HOROVOD_TIMELINE": "file"}, "HOROVOD_TIMELINE is set, but"))
        for (_, text), (_, _, errors) in zip(refused, self.server.run(RANK, ["adasum"], [environment for environment, _ in refused])):
            self.assertIn(text, errors)

    @needs("torch")
    def test_pytorch_of_pypi_gives_the_same_results(self):
        server = forked.Server(PYPI, PYTHONPATH=str(INTERFACE), LD_LIBRARY_PATH=python_ranks.libraries_of(PYPI))
        self.addCleanup(server.close)
        server.run_ranks(self, RANK, "optimizers states random_order refusals", 2)
        checkpoints = {"DLFLOW_CHECKPOINTS": str(self.folder)}
        server.run_ranks(self, RANK, "elastic", 2, {0: 75, 1: -9}, END="kill", **checkpoints)
        server.run_ranks(self, RANK, "elastic", 2, END="go on", **checkpoints)

    @needs("horovod", REAL)
    @unittest.skipUnless(shutil.which("mpirun"), "Open MPI is not installed")
    def test_the_real_horovod_gives_the_same_results(self):
        self.run_ranks("collectives", 2, RESULTS=str(self.folder / "ours"))
        environment = {"RESULTS": str(self.folder / "real"), "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin", "HOME": str(self.folder),
                       "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
        real = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", str(REAL), "-B", str(RANK), "collectives"],
                              env=environment, text=True, capture_output=True, timeout=python_ranks.WATCHDOG)
        self.assertEqual(real.returncode, 0, real.stdout + real.stderr)
        for rank in range(2):
            ours, theirs = (torch.load(self.folder / f"{name}-{rank}") for name in ("ours", "real"))
            self.assertEqual(list(ours), list(theirs))
            for name, value in ours.items():
                with self.subTest(rank=rank, call=name):
                    self.same(value, theirs[name], exact="adasum" not in name and "trained" not in name)

    def same(self, ours, theirs, exact):
        if isinstance(ours, (list, tuple)):
            self.assertEqual(len(ours), len(theirs))
            for one, other in zip(ours, theirs):
                self.same(one, other, exact)
        elif torch.is_tensor(ours):
            self.assertEqual(ours.dtype, theirs.dtype)
            torch.testing.assert_close(ours, theirs, **({"rtol": 0, "atol": 0} if exact else {}))
        else:
            self.assertEqual(ours, theirs)


class Agreement(unittest.TestCase):
    """The coordinator's table, without ranks."""

    def table(self, size=3, threshold=1 << 20, capacity=10):
        from dlflow.horovod.agreement import Agreement
        return Agreement(size, threshold, capacity)

    def request(self, name, shape=(2,), op="sum"):
        from dlflow.horovod.agreement import Request
        return Request("allreduce", name, "float32", shape, op)

    def names(self, responses):
        """The names of requests that have come for the first time."""
        return [[request.name for _, request in response.items] for response in responses]

    def test_only_tensors_that_all_ranks_have_submitted_are_answered(self):
        table = self.table()
        for rank, names in ((0, "abc"), (1, "cb"), (2, "bca")):
            for name in names:
                table.submit(rank, self.request(name), 0)
        self.assertEqual(self.names(table.take()), [["b", "c"]])
        table.submit(1, self.request("a"), 0)
        self.assertEqual(self.names(table.take()), [["a"]])
        self.assertFalse(table.has_ready())

    def test_small_tensors_are_sent_together_up_to_the_threshold(self):
        table = self.table(size=1, threshold=100)
        for i in range(5):
            table.submit(0, self.request(f"t{i}", shape=(10,)), 0)
        table.submit(0, self.request("other", shape=(10,), op="average"), 0)
        self.assertEqual(self.names(table.take()), [["t0", "t1"], ["t2", "t3"], ["t4"], ["other"]])

    def test_a_repeated_request_is_a_number_until_it_changes(self):
        table = self.table(size=2)
        for rank in range(2):
            table.submit(rank, self.request("a"), 0)
        number = table.take()[0].items[0][0]
        for rank in range(2):
            table.submit(rank, number, 0)
        self.assertEqual(table.take()[0].items, [number])
        table.submit(0, number, 0)
        table.submit(1, self.request("a", shape=(3,)), 0)
        self.assertIn("rank 0 float32 of shape [2], sum; rank 1 float32 of shape [3], sum", table.take()[0].error)
        for rank in range(2):
            table.submit(rank, self.request("a", shape=(3,)), 0)
        self.assertEqual(table.take()[0].items, [[number, self.request("a", shape=(3,))]])

    def test_only_as_many_requests_as_the_capacity_get_numbers(self):
        table = self.table(size=1, capacity=2)
        for name in ("a", "b", "c", "allreduce.noname.1"):
            table.submit(0, self.request(name), 0)
        self.assertEqual([item[0] for item in table.take()[0].items], [0, 1, None, None])

    def test_a_waiting_tensor_is_reported_once_per_limit(self):
        table = self.table()
        table.submit(1, self.request("a"), 10)
        self.assertEqual(table.stalled(14, 5), [])
        self.assertEqual(table.stalled(16, 5), ["a has waited for 6 s: ranks 0, 2 did not submit it, rank 1 did"])
        self.assertEqual(table.stalled(17, 5), [])
        self.assertEqual(len(table.stalled(22, 5)), 1)
        self.assertEqual((table.oldest(22, 13), table.oldest(22, 12)), ("", "a has waited for 12 s: ranks 0, 2 did not submit it, rank 1 did"))


class Waits(unittest.TestCase):
    def test_a_disagreement_is_still_reported_after_the_session_has_ended(self):
        from dlflow.horovod.agreement import Request
        from dlflow.horovod.common.exceptions import HorovodInternalError
        from dlflow.horovod.session import Entry, Session
        waits = object.__new__(Session)
        waits._failure = "rank 1 left"
        for ended in (False, True):
            entry = Entry(Request("allreduce", "x", "float32", (2,)))
            entry.end("x is not the same on all ranks", session_ended=ended)
            with self.assertRaises(HorovodInternalError) as raised:
                waits.wait(entry)
            self.assertEqual(raised.exception.session_ended, ended)


@unittest.skipUnless(torch, "python3-torch is not installed")
class Devices(unittest.TestCase):
    """Tensors on a stand-in for a GPU: their memory must not be read directly, nor their values before the stream has written them."""

    def setUp(self):
        from dlflow import _cuda
        import dlflow.horovod.torch as hvd
        self.hvd, self.pinned = hvd, []
        standins = {"is_on_device": lambda tensor: isinstance(tensor, OnDevice), "when_ready": Stream,
                    "pinned": lambda count, dtype: self.pinned.append(count) or torch.empty(count, dtype=dtype),
                    "identity": lambda device: bytes(16)}
        for name, standin in standins.items():
            self.addCleanup(setattr, _cuda, name, getattr(_cuda, name))
            setattr(_cuda, name, standin)
        hvd.init()
        self.addCleanup(hvd.shutdown)

    def test_device_tensors_travel_through_pinned_memory_after_they_are_written(self):
        hvd = self.hvd
        for in_place, call in ((False, hvd.allreduce_async), (True, hvd.allreduce_async_)):
            tensor = torch.zeros(2, 3).as_subclass(OnDevice)
            result = hvd.synchronize(call(tensor, name="x", op=hvd.Sum, prescale_factor=3.0))
            self.assertIsInstance(result, OnDevice)
            self.assertEqual(result is tensor, in_place)
            self.assertEqual(result.tolist(), 2 * [3 * [21.0]])
        self.assertEqual(self.pinned, [6])  # one buffer, again and again

    def test_nccl_sums_device_tensors_if_each_rank_has_a_gpu(self):
        sums = []

        def communicator(group, device):
            made = mock.MagicMock()
            made.sum = lambda values: sums.append(values.tolist())
            return made

        with mock.patch("dlflow._cuda.identity", lambda device: b"the rank's own 1"), mock.patch("dlflow._cuda.Communicator", communicator):
            for op, dtype in ((self.hvd.Sum, torch.float32), (self.hvd.Average, torch.float16)):
                tensor = torch.zeros(2, 3, dtype=dtype).as_subclass(OnDevice)
                result = self.hvd.allreduce(tensor, name=str(dtype), op=op, prescale_factor=3.0, postscale_factor=2.0)
                self.assertEqual(result.tolist(), 2 * [3 * [42.0]])
        self.assertEqual((sums, self.pinned), ([6 * [21.0]] * 2, []))

    def test_device_tensors_are_sent_together_with_those_of_the_host(self):
        hvd = self.hvd
        away, here = torch.zeros(4).as_subclass(OnDevice), torch.ones(5)
        handles = [hvd.broadcast_async_(away, 0, "away"), hvd.broadcast_async_(here, 0, "here"), hvd.allreduce_async(here, name="sum")]
        results = [hvd.synchronize(handle).tolist() for handle in handles]
        self.assertEqual(results, [[7.0] * 4, [1.0] * 5, [1.0] * 5])

    def test_other_devices_are_refused(self):
        with self.assertRaisesRegex(ValueError, "the tensor is on meta; dlflow's Horovod interface is for tensors on CPUs and CUDA devices"):
            self.hvd.allreduce(torch.ones(2, device="meta"))


if torch:
    class OnDevice(torch.Tensor):
        def data_ptr(self):
            raise AssertionError("memory of a device is no memory of this process")

    class Stream:
        """Writes the values of a tensor when it is synchronised."""

        def __init__(self, tensor):
            self.tensor = tensor

        def synchronize(self):
            self.tensor.fill_(7)


class Places(unittest.TestCase):
    def places(self, *ranks):
        from dlflow.horovod.world import place
        about = [{"node": node, "local_rank": local} for node, local in ranks]
        return [place(rank, about)[2:] for rank in range(len(about))]

    def test_ranks_are_counted_on_their_node(self):
        self.assertEqual(self.places(("a", 0), ("a", 1), ("b", 0)), [(0, 2), (1, 2), (0, 1)])
        self.assertEqual(self.places(("a", 1), ("b", 0), ("a", 0), ("b", 0)), [(1, 2), (0, 2), (0, 2), (1, 2)])
        self.assertEqual(self.places(("a", None), ("b", None), ("a", None), ("b", None)), [(0, 2), (0, 2), (1, 2), (1, 2)])


if __name__ == "__main__":
    main()
