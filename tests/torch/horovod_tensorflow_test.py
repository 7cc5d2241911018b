"""Horovod's interface for TensorFlow 2 and Keras, with scripts that do not use dlflow, on 1, 2 and 3 ranks."""

import json
import os
import pathlib
import resource
import shutil
import socket
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import python_ranks  # noqa: E402
from cases import main  # noqa: E402
from pypi import BUILD, NEWEST, TENSORFLOW, needs  # noqa: E402
from ports import free_port  # noqa: E402

RANK = pathlib.Path(__file__).with_name("horovod_tensorflow_rank.py")
INTERFACE = BUILD / "python/dlflow/horovod/path"
TRAININGS = "tape fit same_rate"


class Case(unittest.TestCase):
    def run_ranks(self, scenarios, ranks, python):
        """The output of rank 0; the others must print the same."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="dlflow-horovod."))
        self.addCleanup(shutil.rmtree, folder)
        outputs = python_ranks.run_ranks(self, str(python), [RANK, *scenarios.split()], ranks, limit=400, PYTHONPATH=str(INTERFACE), FOLDER=str(folder),
                                         TF_CPP_MIN_LOG_LEVEL="2", CUDA_VISIBLE_DEVICES="", KERAS_BACKEND="tensorflow", TF_ENABLE_ONEDNN_OPTS="0")
        results = [json.loads(out.splitlines()[-1]) for out, _ in outputs]
        for other in results[1:]:
            self.assertEqual(other, results[0])
        return results[0]

    def same(self, got, expected, places=4):
        for scenario, values in expected.items():
            for name, value in values.items():
                for one, other in zip(*[values if isinstance(values, list) else [values] for values in (got[scenario][name], value)]):
                    self.assertAlmostEqual(one, other, places, (scenario, name))


class TensorFlow(Case):
    @needs("tensorflow", TENSORFLOW)
    def test_scripts_learn_the_same_from_a_global_batch_as_one_rank(self):
        alone = self.run_ranks(f"{TRAININGS} collectives", 1, TENSORFLOW)
        self.assertLess(alone["same_rate"]["losses"][-1], 0.9 * alone["same_rate"]["losses"][0])
        alone.pop("fit")  # its rate depends on the number of ranks
        for ranks, further in ((2, "momentum refusals"), (3, "collectives")):
            self.same(self.run_ranks(f"{TRAININGS} {further}", ranks, TENSORFLOW), {**alone, further.split()[0]: {}})
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"{used.ru_utime + used.ru_stime:.0f} s of CPU")

    @needs("tensorflow", NEWEST)
    def test_keras_3_gives_the_same_results(self):
        self.run_ranks("fit momentum", 2, NEWEST)


class Meeting(unittest.TestCase):
    """Ranks meet without PyTorch."""

    def meet(self, port, size, *ranks):
        from dlflow.horovod.world import _Sockets
        heard = {}

        def tell(rank):
            try:
                heard[rank] = _Sockets("127.0.0.1", port).tell_all(rank, size, {"is": rank})
            except ValueError as error:
                heard[rank] = str(error)
        threads = [threading.Thread(target=tell, args=(rank,)) for rank in ranks]
        for thread in threads:
            thread.start()
        return heard, threads

    def test_all_ranks_get_the_values_of_each_rank_repeatedly_and_beside_other_connections(self):
        port = free_port()
        for _ in range(2):
            heard, threads = self.meet(port, 3, 2, 1)
            stop = threading.Event()
            stranger = threading.Thread(target=self.disturb, args=(port, stop))
            stranger.start()
            more, others = self.meet(port, 3, 0)
            for thread in threads + others:
                thread.join()
            stop.set()
            stranger.join()
            self.assertEqual({**heard, **more}, {rank: [{"is": 0}, {"is": 1}, {"is": 2}] for rank in range(3)})

    @staticmethod
    def disturb(port, stop):
        for text in (b"GET / HTTP/1.0\r\n\r\n", b"\0\0\0\1x", b"\0\0\0\x07[9,\"x\"]", b""):
            if stop.wait(0.01):
                return
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=1) as end:
                    end.sendall(text)
            except OSError:
                continue

    def test_a_missing_rank_is_named(self):
        from dlflow.horovod.world import _Sockets
        patience, _Sockets.PATIENCE = _Sockets.PATIENCE, 0.5
        self.addCleanup(setattr, _Sockets, "PATIENCE", patience)
        port = free_port()
        heard, threads = self.meet(port, 3, 0, 1)
        for thread in threads:
            thread.join()
        self.assertIn(f"rank 2 did not come to 127.0.0.1:{port} within 0.5 s", heard[0])
        self.assertIn(f"rank 1 cannot reach rank 0 at 127.0.0.1:{port}", heard[1])


if __name__ == "__main__":
    main()
