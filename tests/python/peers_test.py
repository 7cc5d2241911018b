"""How benches judge peers: which ones are refused and why, which kernels of a BLAS count, and that a ratio compares with the best proven
peer."""

import contextlib
import io
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "bench"), str(SOURCE / "tests/support")]

import cases  # noqa: E402
import parity  # noqa: E402
import peers  # noqa: E402
import training  # noqa: E402


def said(gflops, error=1e-6, version="2.15.0+cu132"):
    return {"version": version, "gflops": gflops, "error": error}


DDP = peers.Peer("DDP", pathlib.Path("/opt/python"))


class Refusal(unittest.TestCase):
    def test_a_peer_needs_seventy_percent_of_onednns_sgemm(self):
        self.assertIsNone(peers.refusal(said(70), onednn=100))
        self.assertEqual(peers.refusal(said(5), onednn=100), "its sgemm does 5 GFLOP/s, 5% of oneDNN's 100, less than 70%")

    def test_wrong_products_are_refused_at_any_speed(self):
        self.assertEqual(peers.refusal(said(200, error=0.5), onednn=100), "its products of matrices are wrong by 0.5")

    def test_a_peer_that_cannot_be_measured_is_refused_with_its_own_error(self):
        self.assertEqual(peers.refusal({"failure": "ModuleNotFoundError: No module named 'torch'"}, onednn=100),
                         "ModuleNotFoundError: No module named 'torch'")


class Judgement(unittest.TestCase):
    def test_the_fastest_correct_kernels_count(self):
        prescott, skylake, broken = {}, {"OPENBLAS_CORETYPE": "SkylakeX"}, {"OPENBLAS_CORETYPE": "Zen"}
        peer, line = peers.judge(DDP, [(prescott, said(32)), (skylake, said(147)), (broken, said(160, error=3))], onednn=169)
        self.assertEqual(peer, peers.Peer("DDP 2.15", DDP.python, environment=skylake, compiles=True))
        self.assertEqual(line, "# DDP, PyTorch 2.15.0+cu132 of /opt/python: sgemm 147 GFLOP/s with OPENBLAS_CORETYPE=SkylakeX, "
                               "87% of oneDNN's 169")

    def test_settings_that_gain_nothing_are_not_used(self):
        peer, _ = peers.judge(DDP, [({}, said(100)), ({"OPENBLAS_CORETYPE": "Haswell"}, said(102))], onednn=120)
        self.assertEqual(peer.environment, {})

    def test_an_excluded_peer_is_named(self):
        peer, line = peers.judge(DDP, [({}, said(5)), ({"OPENBLAS_CORETYPE": "Haswell"}, {"failure": "ended with status -4"})], onednn=100)
        self.assertIsNone(peer)
        self.assertEqual(line, "# left out: DDP of /opt/python: its sgemm does 5 GFLOP/s, 5% of oneDNN's 100, less than 70%")


class Proof(unittest.TestCase):
    """With programs that print what PyTorch would print."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="dlflow-peers.")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        without = {name: value for name, value in os.environ.items() if name != "OPENBLAS_CORETYPE"}  # of the shell
        for patch in mock.patch.object(peers, "of_onednn", lambda: 100.0), mock.patch.dict(os.environ, without, clear=True):
            patch.start()
            self.addCleanup(patch.stop)

    def program(self, script):
        path = self.folder / f"python{len(list(self.folder.iterdir()))}"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    def proven(self, *programs):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            found = peers.proven((None, "Haswell"), [peers.Peer("DDP", program) for program in programs])
        return found, printed.getvalue()

    def test_a_slow_installation_is_tried_with_other_kernels(self):
        program = self.program('g=30; [ "$OPENBLAS_CORETYPE" != Haswell ] || g=85\n'
                               'echo "{\\"version\\": \\"1.13.0\\", \\"gflops\\": $g, \\"error\\": 0}"')
        found, _ = self.proven(program)
        self.assertEqual(found, [peers.Peer("DDP 1.13", program, environment={"OPENBLAS_CORETYPE": "Haswell"})])

    def test_more_blas_threads_in_the_shell_do_not_admit_a_slow_peer(self):
        program = self.program('g=60; [ "$OPENBLAS_NUM_THREADS$MKL_NUM_THREADS$OMP_NUM_THREADS" = 111 ] || g=120\n'
                               'echo "{\\"version\\": \\"1.13.0\\", \\"gflops\\": $g, \\"error\\": 0}"')
        for name in peers.ONE_THREAD:
            with self.subTest(name=name), mock.patch.dict(os.environ, {name: "2"}):
                found, printed = self.proven(program)
                self.assertEqual(found, [])
                self.assertIn("60% of oneDNN's 100", printed)
        self.assertEqual(DDP.training_environment, peers.HUGE_PAGES | peers.ONE_THREAD)

    def test_a_bench_of_one_pytorch_ends_if_that_is_slow(self):
        for gflops, ends in ((69, True), (71, False)):
            program = self.program(f'echo \'{{"version": "1.13.0", "gflops": {gflops}, "error": 0}}\'')
            with contextlib.redirect_stdout(io.StringIO()) as printed, (self.assertRaises(SystemExit) if ends else contextlib.nullcontext()):
                peers.require_proven(program)
            self.assertIn(f"sgemm does {gflops} GFLOP/s" if ends else f"sgemm {gflops} GFLOP/s", printed.getvalue())

    def test_missing_and_slow_peers_are_excluded_by_name(self):
        slow = self.program('echo \'{"version": "1.13.0", "gflops": 5, "error": 0}\'')
        broken = self.program("echo 'Traceback' >&2; echo 'ImportError: libcudart.so.13' >&2; exit 1")
        found, printed = self.proven(slow, broken, self.folder / "none")
        self.assertEqual(found, [])
        self.assertEqual(printed.splitlines(), [
            f"# left out: DDP of {slow}: its sgemm does 5 GFLOP/s, 5% of oneDNN's 100, less than 70%",
            f"# left out: DDP of {broken}: ImportError: libcudart.so.13",
            f"# left out: DDP of {self.folder}/none: {self.folder}/none: No such file or directory"])


class Report(unittest.TestCase):
    ROUNDS = [{"DDP": 10, "Horovod": 20, "exact": 40, "fast": 50, "fast, 1 rank": 25},
              {"DDP": 30, "Horovod": 10, "exact": 45, "fast": 60, "fast, 1 rank": 30},
              {"DDP": 20, "Horovod": 16, "exact": 50, "fast": 50, "fast, 1 rank": 50}]

    def test_a_ratio_compares_each_round_with_its_best_peer(self):
        self.assertEqual(training.report("mlp", self.ROUNDS, ["DDP", "Horovod"], ranks=2), [
            "mlp (batch 64 per rank): DDP 20 (10-30), Horovod 16 (10-20), exact 45 (40-50), fast 50 (50-60), fast, 1 rank 30 (25-50)",
            "  exact to the best peer 2.00 (1.50-2.50), fast 2.50 (2.00-2.50)",
            "  exact to fast 0.80 (0.75-1.00)",
            "  scaling efficiency, 1 to 2 ranks: 1.00 (0.50-1.00)"])

    def test_there_is_no_ratio_without_a_proven_peer(self):
        self.assertEqual(training.report("mlp", self.ROUNDS, [], ranks=2)[1], "  no ratio to a peer: none is proven here")

    def test_convolutional_networks_are_measured_in_both_layouts(self):
        names = [name for name, _, _ in peers.ways([DDP], "lenet")]
        self.assertEqual(names, ["DDP", "DDP, channels last"])
        self.assertEqual([name for name, _, _ in peers.ways([DDP], "mlp")], ["DDP"])

    def test_pytorch_2_is_also_measured_with_torch_compile(self):
        compiling, _ = peers.judge(DDP, [({}, said(100))], onednn=120)
        self.assertEqual([(name, flags) for name, _, flags in peers.ways([compiling], "lenet")][2:],
                         [("DDP 2.15, compiled", ("--compile", "--channels-last"))])
        self.assertEqual([(name, flags) for name, _, flags in peers.ways([compiling], "gpt-small")][1:],
                         [("DDP 2.15, compiled", ("--compile",))])

    def test_horovod_is_measured_in_its_own_layout(self):
        horovod = peers.Peer("Horovod", pathlib.Path("/opt/python"), ("--horovod",))
        self.assertEqual([name for name, _, _ in peers.ways([horovod], "lenet")], ["Horovod"])


class Parity(unittest.TestCase):
    def test_means_agree_within_one_deviation_of_either_framework(self):
        figures = {"dlflow": [0.80, 0.82, 0.84], "PyTorch": [0.70, 0.80, 0.90], "TensorFlow": [0.85, 0.86, 0.87]}
        self.assertEqual(parity.compare(figures), ["  dlflow and PyTorch differ by 0.0200, 0.20 standard deviations: agree",
                                                   "  dlflow and TensorFlow differ by 0.0400, 2.00 standard deviations: DIFFER"])


if __name__ == "__main__":
    cases.main()
