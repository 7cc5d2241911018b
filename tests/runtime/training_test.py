"""dlflow-train and dlflow-evaluate as a launcher sees them: exit status, files, and the state after a kill."""

import collections
import csv
import json
import os
import re
import signal
import subprocess
import time
import unittest

from training_case import BIN, HAS_AMX, ROOT, TrainingCase


class Training(TrainingCase):
    def test_a_killed_run_ends_with_the_bits_of_one_that_was_not(self):
        whole, killed = self.folder("whole"), self.folder("killed")
        summary = self.train(whole, 2, DLFLOW_CHECKPOINT_EVERY="3 steps")
        self.assertEqual(summary["ranks"], 2)
        self.assertGreater(summary["accuracy"], 0.9)

        for step in (3, 9, 15):  # twice in the first epoch, once in the second
            self.kill_at(killed, 2, step)
        self.train(killed, 2, DLFLOW_CHECKPOINT_EVERY="3 steps")
        self.assertEqual(self.bits(killed), self.bits(whole))

    def test_ranks_train_without_enough_shared_memory_and_report_it_once(self):
        folder = self.folder("shm", epochs=1, model="m.yaml")
        (folder / "m.yaml").write_text("name: m\ninput: [784]\nlayers:\n  - linear: {features: 2000}\n  - relu\n  - linear: {features: 10}\n")
        small = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", 'mount -t tmpfs -o size=16m none /dev/shm && exec "$@"', "sh"]
        if subprocess.run([*small, "true"], capture_output=True).returncode != 0:
            self.skipTest("this kernel lets nobody make user namespaces")
        done = subprocess.run([*small, "mpirun", "-np", "2", BIN / "dlflow-train", "with.json"], cwd=folder, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        notes = re.findall(r"^note: the ranks of this node share [\d.]+ MiB of memory without /dev/shm, which has [\d.]+ MiB free$", done.stderr, re.M)
        self.assertEqual(len(notes), 1, done.stderr)  # Open MPI 5 adds a report of its own

    def test_every_optimizer_trains(self):
        rates = {"sgd": 0.05, "adam": 0.002, "adamw": 0.002, "lars": 2, "lamb": 0.01}
        for optimizer, rate in rates.items():
            with self.subTest(optimizer=optimizer):
                folder = self.folder(optimizer, optimizer={"kind": optimizer}, lr=rate, validation=200,
                                     weight_decay=1e-4, label_smoothing=0.1, clip_norm=5, warmup_epochs=0.5)
                self.assertGreaterEqual(self.train(folder, 2)["accuracy"], 0.95)

    def test_a_killed_compressed_run_ends_with_the_bits_of_one_that_was_not(self):
        settings = {"precision": {"reduction": "fast"},
                    "gradients": {"compression": "mstopk", "density": 0.05, "warmup_epochs": 1, "aggregation": "all-gather"}}
        whole, killed = self.folder("whole", **settings), self.folder("killed", **settings)
        summary = self.train(whole, 2, DLFLOW_CHECKPOINT_EVERY="3 steps")
        self.assertGreater(summary["accuracy"], 0.9)
        self.kill_at(killed, 2, 9)
        self.train(killed, 2, DLFLOW_CHECKPOINT_EVERY="3 steps")
        self.assertEqual(self.bits(killed), self.bits(whole))
        unsent = [(folder / "checkpoints/latest/compression.safetensors").read_bytes() for folder in (killed, whole)]
        self.assertEqual(*unsent)

    def test_a_signal_saves_and_exits_75(self):
        for ranks, signal_number in ((1, signal.SIGTERM), (1, signal.SIGUSR1), (2, signal.SIGUSR1)):
            with self.subTest(ranks=ranks, signal=signal_number):
                folder = self.folder("stopped", epochs=50)
                process = self.start(folder, ranks, DLFLOW_CHECKPOINT_EVERY="4 steps")
                self.wait_for_step(folder, process, 4)
                process.send_signal(signal_number)
                _, errors = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 75, errors)
                self.assertFalse((folder / "metrics.json").exists())

    def test_a_job_continues_after_a_long_suspension(self):
        folder = self.folder("suspended", epochs=3)
        process = self.start(folder, 3, DLFLOW_CHECKPOINT_EVERY="4 steps", DLFLOW_STALL_TIMEOUT="2")
        self.wait_for_step(folder, process, 4)
        self.signal_ranks(folder, signal.SIGSTOP)
        time.sleep(4)
        self.signal_ranks(folder, signal.SIGCONT)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, errors)

    def test_evaluation_gives_the_checkpoints_own_metrics(self):
        trained = self.folder("trained", epochs=1)
        self.train(trained, 2)
        results = []
        for ranks, batch in ((1, 500), (2, 32)):
            folder = self.folder("evaluate")
            (folder / "with.json").write_text(json.dumps(
                {"checkpoint": str(trained / "checkpoints/latest"), "data": str(self.data), "batch": batch}))
            status, output, errors = self.run_to_end(folder, ranks, "dlflow-evaluate")
            self.assertEqual(status, 0, errors)
            results.append(json.loads((folder / "metrics.json").read_text()))
            self.assertIn(f"accuracy {results[-1]['accuracy']:.4f}", output)
            self.assertIn(f"f1 {results[-1]['f1']:.4f}", output)
            rows = [line.split(",") for line in (folder / "confusion.csv").read_text().splitlines()]
            self.assertEqual(rows[0], ["label"] + [str(label) for label in range(10)])
            for label, row in enumerate(rows[1:]):
                counts = [int(count) for count in row[1:]]
                self.assertAlmostEqual(results[-1][f"accuracy_of_{label}"], counts[label] / sum(counts))
        self.assertEqual(results[0]["samples"], 500)
        self.assertEqual(results[0]["accuracy"], results[1]["accuracy"])
        self.assertAlmostEqual(results[0]["loss"], results[1]["loss"], places=5)  # the batches differ

    def test_accuracies_of_classes_are_named_after_the_classes(self):
        data = self.new_data(300)
        classes = ["T-shirt/top", "trouser, long", 'a "bag"'] + [f"{i}th" for i in range(3, 10)]
        (data / "classes.txt").write_text("\n".join(classes) + "\n")
        folder = self.folder("named", epochs=1, data=str(data))
        self.train(folder, 1)
        (folder / "with.json").write_text(json.dumps({"checkpoint": "checkpoints/latest", "data": str(data)}))
        status, output, errors = self.run_to_end(folder, 1, "dlflow-evaluate")
        self.assertEqual(status, 0, errors)
        summary = json.loads((folder / "metrics.json").read_text())
        accuracies = {key: value for key, value in summary.items() if key.startswith("accuracy_of_")}
        names = ["T_shirt_top", "trouser_long", "a_bag"] + [f"{i}th" for i in range(3, 10)]
        self.assertEqual(sorted(accuracies), sorted("accuracy_of_" + name for name in names))
        self.assertRegex(output, rf"(?m)^0 T-shirt/top +\d+ +{accuracies['accuracy_of_T_shirt_top']:.4f}")
        with open(folder / "confusion.csv", newline="") as file:
            head, *rows = csv.reader(file)
        self.assertEqual(head, ["label"] + classes)
        self.assertEqual([row[0] for row in rows], classes)
        counts = [int(count) for count in rows[0][1:]]
        self.assertAlmostEqual(counts[0] / sum(counts), accuracies["accuracy_of_T_shirt_top"])

    def test_a_frozen_layer_above_a_trained_one_computes_no_gradient_of_its_weight(self):
        model = ("name: m\ninput: [1, 28, 28]\nlayers:\n  - conv2d: {name: a, channels: 16, kernel: 3}\n  - relu\n"
                 "  - conv2d: {name: b, channels: 16, kernel: 5}\n  - relu\n  - conv_transpose2d: {name: c, channels: 16, kernel: 2, stride: 2}\n"
                 "  - global_avg_pool\n  - linear: {name: d, features: 16}\n  - relu\n  - linear: {name: e, features: 10}\n")
        data = self.new_data(64)
        passes = {}
        for freeze in ([], ["b", "c", "d"]):
            folder = self.folder("frozen", data=str(data), model="model.yaml", epochs=1, batch=32, validation=0, **({"freeze": freeze} if freeze else {}))
            (folder / "model.yaml").write_text(model)
            status, output, errors = self.run_to_end(folder, 1, DNNL_VERBOSE="1")
            self.assertEqual(status, 0, errors)
            lines = [line.split(",") for line in output.splitlines() if ",exec," in line]
            passes[len(freeze)] = collections.Counter(next(word for word in line if word.startswith("backward")) + " " + line[line.index("exec") + 2]
                                                      for line in lines if any(word.startswith("backward") for word in line))
        self.assertEqual(passes[0]["backward_weights convolution"], 2 * 3, passes)  # a, b and c in each of two steps; b is not 3x3, so oneDNN computes it
        self.assertEqual(passes[3]["backward_weights convolution"], 2 * 1, passes)
        self.assertEqual(passes[0]["backward_weights inner_product"] - passes[3]["backward_weights inner_product"], 2, passes)
        self.assertEqual(passes[0]["backward_data convolution"], passes[3]["backward_data convolution"], passes)

    def test_bf16_is_used_only_on_processors_that_are_faster_with_it(self):
        usual, rough = self.folder("fp32"), self.folder("bf16", precision={"compute": "bf16"})
        self.train(usual, 2)
        status, _, errors = self.run_to_end(rough, 2)
        self.assertEqual(status, 0, errors)
        self.assertEqual("computing in fp32" in errors, not HAS_AMX, errors)
        self.assertEqual(self.bits(rough)[1] == self.bits(usual)[1], not HAS_AMX)  # the optimizer's state
        accuracy = [json.loads((folder / "metrics.json").read_text())["accuracy"] for folder in (usual, rough)]
        self.assertAlmostEqual(*accuracy, delta=0.03)

    def run_with_odd_rank(self, folder, variable):
        """The end of two ranks, of which rank 1 has its own variable: mpirun of Open MPI 5.0.7 crashes at a second program."""
        script = f'[ $OMPI_COMM_WORLD_RANK = 0 ] || export {variable}; exec "{BIN}/dlflow-train" with.json'
        return subprocess.run(["mpirun", "-np", "2", "sh", "-c", script], cwd=folder, capture_output=True, text=True, timeout=60)

    def test_ranks_on_different_processors_do_not_start(self):
        for reduction in ("exact", "fast"):
            with self.subTest(reduction=reduction):
                folder = self.folder("mixed", precision={"reduction": reduction})
                result = self.run_with_odd_rank(folder, "ONEDNN_MAX_CPU_ISA=SSE41")
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertRegex(result.stderr, r"of rank 1 differs from that of rank 0 \(.*sse41.*; rank 0: .*\); start all ranks on")
                self.assertFalse((folder / "checkpoints").exists())

    def test_a_rank_whose_factors_may_be_rounded_does_not_start(self):
        folder = self.folder("rounded")
        result = self.run_with_odd_rank(folder, "ONEDNN_DEFAULT_FPMATH_MODE=BF16")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr, r"the arithmetic of rank 1 differs from that of rank 0 \(.*rounded to bf16.*; rank 0: ")

    def test_idle_ranks_are_reported_once(self):
        for settings, ranks, told in (({"batch": 32}, 2, ["1 of 2 ranks has nothing to do: a step has 1 leaf. All have work with "
                                                          "'precision: {leaves: 2}', or with 'batch: 64'"]),
                                      ({"batch": 5, "precision": {"leaves": 8}}, 3, []),
                                      ({"batch": 2, "precision": {"leaves": 8}}, 3,
                                       ["1 of 3 ranks has nothing to do: a step has 2 samples in 8 leaves. All have work with "
                                        "'precision: {leaves: 3}' and 'batch: 3' or more"])):
            with self.subTest(settings=settings):
                folder = self.folder("idle", epochs=1, validation=1300, **settings)
                status, _, errors = self.run_to_end(folder, ranks)
                self.assertEqual(status, 0, errors)
                self.assertEqual([line for line in errors.splitlines() if "nothing to do" in line], told)

    def test_a_nan_loss_exits_3(self):
        for ranks in (1, 2):
            folder = self.folder("nan", lr=1e38, model="m.yaml")
            (folder / "m.yaml").write_text("name: m\ninput: [784]\nlayers:\n  - linear: {features: 10}\n")
            status, _, errors = self.run_to_end(folder, ranks)
            self.assertEqual(status, 3, errors)
            self.assertRegex(errors, r"error: loss is (NaN|infinite) at step \d+ \(ranks? [01, ]+\), first in layer 'linear1'")

    def test_a_timeline_shows_all_ranks_on_one_clock(self):
        folder = self.folder("timeline", timeline=4)
        self.train(folder, 2)
        events = json.loads((folder / "timeline.json").read_text())["traceEvents"]
        processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
        self.assertEqual(sorted(processes), [0, 1])
        self.assertRegex(processes[1], r"^rank 1 \(.+\)$")
        spans = [e for e in events if e["ph"] == "X"]
        steps = {rank: [e for e in spans if e["pid"] == rank and e["name"] == "step"] for rank in (0, 1)}
        self.assertEqual([len(steps[0]), len(steps[1])], [4, 4])
        for mine, theirs in zip(steps[0], steps[1]):  # steps of both ranks overlap, even if a core is busy
            self.assertLess(mine["ts"], theirs["ts"] + theirs["dur"])
            self.assertLess(theirs["ts"], mine["ts"] + mine["dur"])
        first = steps[0][0]
        inside = {e["name"] for e in spans if e["pid"] == 0 and first["ts"] <= e["ts"] < first["ts"] + first["dur"]}
        self.assertLessEqual({"load", "conv1", "conv1 backward", "fc2 backward"}, inside)
        buckets, waits = ({e["name"] for e in spans if e["tid"] == row} for row in (2, 3))
        self.assertIn("gradients conv1.weight to report", buckets)
        self.assertLessEqual(waits, buckets)
        self.assertTrue(waits)  # one of two ranks finishes its leaves first
        bits = self.bits(folder)
        untold = self.folder("untold")
        self.train(untold, 2)
        self.assertEqual(self.bits(untold), bits)
        self.assertFalse((untold / "timeline.json").exists())

    def test_mistakes_are_named(self):
        status, _, errors = self.run_to_end(self.folder("typo", momentun=0.9), 1)
        self.assertEqual((status, errors),
                         (1, "error: with: unknown key 'momentun'; did you mean 'momentum'?\n"))
        status, _, errors = self.run_to_end(self.folder("trust", optimizer={"kind": "adam", "trust": 1}), 1)
        self.assertEqual((status, errors), (1, "error: with: 'optimizer.trust' is not an option of 'adam'\n"))
        status, _, errors = self.run_to_end(self.folder("nodata", data="nowhere"), 2)
        self.assertEqual(status, 1)
        self.assertRegex(errors, r"error: rank \d \(node .*nowhere")
        status, _, errors = self.run_to_end(self.folder("alone"), 1, DLFLOW_RANKS="2")
        self.assertEqual((status, errors), (1, "error: $DLFLOW_RANKS is 2, but there is 1; start with mpirun -np 2\n"))

    def test_ranks_that_would_each_train_alone_do_not_start(self):
        """Each rank has the environment that a launcher of another MPI gives."""
        refused = r"(?m)^error: rank \d: {} has started {} ranks, and .* counts {}: it is not that launcher's MPI; start "
        for ranks, launcher, variables in (
                (1, "the launcher of Open MPI", {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}),
                (2, "the launcher of MPICH or Intel MPI", {"PMI_RANK": "0", "PMI_SIZE": "3"})):
            with self.subTest(launcher):
                folder = self.folder("apart")
                command = ["mpirun", "-np", "2", "env", "-u", "OMPI_COMM_WORLD_SIZE"] if ranks == 2 else []
                ended = subprocess.run([*command, BIN / "dlflow-train", "with.json"], cwd=folder, env=os.environ | variables,
                                       capture_output=True, text=True, timeout=120)
                self.assertEqual(ended.returncode, 1, ended.stderr)
                self.assertRegex(ended.stderr, refused.format(launcher, ranks + 1, ranks))
                self.assertFalse((folder / "outputs").exists())
        self.train(self.folder("alone"), 1, SLURM_PROCID="0", SLURM_STEP_NUM_TASKS="2", DLFLOW_RANKS="1")  # a separate task

    def test_a_model_is_checked_without_training(self):
        folder = self.folder("check")
        (folder / "m.yaml").write_text("name: m\ninput: [1, 28, 28]\nlayers:\n  - linear: {features: 10}\n")
        result = subprocess.run([BIN / "dlflow-train", "--check", "m.yaml"], cwd=folder, capture_output=True, text=True)
        self.assertEqual(result.returncode, 2)
        self.assertTrue(result.stderr.startswith("m.yaml:4:5: error: linear needs (B,F)"), result.stderr)

    def test_the_layers_of_a_model_are_listed_with_their_sizes(self):
        result = subprocess.run([BIN / "dlflow-train", "--check", ROOT / "workflows/models/lenet.yaml"], capture_output=True, text=True, check=True)
        rows = [line.split() for line in result.stdout.splitlines()]
        self.assertEqual(rows[0], ["layer", "kind", "result", "parameters", "multiply-adds"])
        self.assertIn(["conv1", "conv2d", "(B,32,26,26)", "320", "194,688"], rows)
        self.assertIn("memory of a rank: 4.", result.stdout)
        self.assertLessEqual(max(map(len, result.stdout.splitlines())), 80)


if __name__ == "__main__":
    unittest.main(verbosity=2)
