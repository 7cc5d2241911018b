"""dlflow-train --profile-steps: the measurements that `dlflow plan` reads."""

import hashlib
import json
import os
import subprocess

from training_case import BIN, ROOT, TrainingCase, main

POINT = {"ranks", "nodes", "mode", "steps", "at", "batch", "samples_per_rank", "leaf_samples", "leaves_per_rank", "step_s", "step_low_s",
         "step_high_s", "forward_s", "backward_s", "update_s", "other_s", "data_wait_s", "communication_wait_s", "noise_scale", "memory_bytes"}


class ProfileTest(TrainingCase):
    def profile(self, folder, ranks=1, steps="5", file="m.json", **environment):
        command = [BIN / "dlflow-train", "--profile-steps", steps, *(["--measurement", file] if file else []), "with.json"]
        if ranks > 1:
            command = ["mpirun", "-np", str(ranks), *command]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, env=os.environ | environment)

    def measured(self, folder, ranks=1, **options):
        done = self.profile(folder, ranks, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), 1, done.stdout)
        self.assertIn("m.json: a step takes", done.stdout)
        return json.loads((folder / "m.json").read_text())

    def check_point(self, point, layers):
        self.assertEqual(set(point), POINT)
        self.assertEqual(len(point["forward_s"]), len(layers))
        self.assertEqual(len(point["backward_s"]), len(layers))
        parts = sum(point["forward_s"]) + sum(point["backward_s"]) + sum(
            point[name] for name in ("update_s", "other_s", "data_wait_s", "communication_wait_s"))
        self.assertAlmostEqual(parts, point["step_s"], delta=0.001 * point["step_s"])
        self.assertLessEqual(point["step_low_s"], point["step_s"])
        self.assertLessEqual(point["step_s"], point["step_high_s"])
        for name in ("forward_s", "backward_s"):
            times = dict(zip((layer["name"] for layer in layers), point[name]))
            self.assertGreater(times["conv2"], 0)
            self.assertGreater(times["fc1"], 0)
        self.assertGreater(point["update_s"], 0)
        self.assertGreater(point["memory_bytes"], 1 << 20)

    def test_steps_of_one_rank_and_of_two_are_in_one_file(self):
        folder = self.folder("profile", batch=64, precision={"leaves": 4})
        one = self.measured(folder)
        model = (ROOT / "workflows/models/lenet.yaml").read_bytes()
        self.assertEqual((one["format"], one["source"], one["compute"], one["optimizer"], one["cpus_per_rank"]),
                         ("dlflow measurement 1", "dlflow-train", "fp32", "sgd", 1))
        self.assertEqual(one["model"], hashlib.sha256(model).hexdigest())
        self.assertEqual(one["network"], [])
        self.assertEqual(sum(layer["gradient_bytes"] for layer in one["layers"]), one["parameters_bytes"])
        self.assertGreater(one["samples"], 1000)
        self.assertNotIn("compressors", one)  # exact training has none
        self.assertEqual([(p["ranks"], p["nodes"], p["mode"], p["steps"], p["batch"], p["samples_per_rank"], p["leaf_samples"], p["leaves_per_rank"])
                          for p in one["points"]],
                         [(1, 1, "exact", 5, 64, 64, 16, 4), (1, 1, "exact", 5, 32, 32, 8, 4)])

        two = self.measured(folder, ranks=2)
        self.assertEqual([(p["ranks"], p["samples_per_rank"], p["leaves_per_rank"]) for p in two["points"]],
                         [(1, 64, 4), (1, 32, 4), (2, 32, 2), (2, 16, 2)])
        for point in two["points"]:
            self.check_point(point, two["layers"])
        self.assertEqual([sum_["bytes"] for sum_ in two["network"]], [1024 * 4**i for i in range(8)])
        for sum_ in two["network"]:
            self.assertEqual((sum_["ranks"], sum_["nodes"], sum_["algorithm"]), (2, 1, "shm"))
            self.assertGreater(sum_["seconds"], 0)

        again = self.measured(folder, ranks=2, steps="7")
        self.assertEqual([(p["ranks"], p["steps"]) for p in again["points"]], [(1, 5), (1, 5), (2, 7), (2, 7)])
        self.assertEqual(len(again["network"]), 8)

    def test_a_training_in_the_folder_stays_as_it_is(self):
        folder = self.folder("trained", epochs=1)
        self.train(folder, 1)
        before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        measured = self.measured(folder)
        self.assertEqual(measured["points"][0]["batch"], 128)
        after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        self.assertEqual(set(after) - set(before), {folder / "m.json"})
        self.assertEqual(before, {path: after[path] for path in before})

    def test_fast_mode_measures_the_noise_scale(self):
        folder = self.folder("fast", batch_per_rank=32, precision={"reduction": "fast"})
        measured = self.measured(folder, ranks=2, steps="20")
        self.assertEqual([(p["mode"], p["batch"], p["leaf_samples"], p["leaves_per_rank"]) for p in measured["points"]],
                         [("fast", 64, 32, 1), ("fast", 32, 16, 1)])
        self.assertTrue(any(p["noise_scale"] is not None for p in measured["points"]), measured["points"])
        sent = {cost["method"]: cost["message_bytes"] / cost["bytes"] for cost in measured["compressors"]}
        self.assertEqual(list(sent), ["fp16", "bf16", "int8", "topk", "mstopk", "randomk", "dgc"])
        self.assertEqual(sent["fp16"], 0.5)
        self.assertAlmostEqual(sent["topk"], 0.02, delta=0.001)  # 1 % of the numbers, and their places
        self.assertTrue(all(cost["encode_s"] > 0 and cost["decode_s"] > 0 for cost in measured["compressors"]), measured["compressors"])

    def test_each_algorithm_of_a_convolution_is_measured(self):
        folder = self.folder("algorithms", model="model.yaml")
        (folder / "model.yaml").write_text("""
name: small
input: [1, 28, 28]
layers:
  - conv2d: {name: first, channels: 16, kernel: 3}
  - conv2d: {name: second, channels: 16, kernel: 3}
  - conv2d: {name: third, channels: 16, kernel: 3, algorithm: direct}
  - global_avg_pool
  - linear: {features: 10}
""")
        second, third = self.measured(folder)["algorithms"]  # the first reads one channel
        self.assertEqual((second["layer"], second["used"], third["layer"], third["used"]), ("second", "winograd", "third", "direct"))
        for layer in (second, third):
            self.assertEqual(layer["leaf_samples"], 32)
            self.assertGreater(layer["direct_s"], 0)
            self.assertGreater(layer["winograd_s"], 0)

    def test_measurements_are_stored_in_the_clusters_cache(self):
        folder = self.folder("cache")
        done = self.profile(folder, file=None, DLFLOW_CACHE=str(folder / "cache"), DLFLOW_STEP="fit")
        self.assertEqual(done.returncode, 0, done.stderr)
        again = subprocess.run([BIN / "dlflow-train", "--ranks", "2", "--profile-steps", "5"], cwd=folder, capture_output=True, text=True, timeout=120,
                               env=os.environ | {"DLFLOW_CACHE": "cache", "DLFLOW_STEP": "fit", "DLFLOW_WITH": "with.json", "DLFLOW_OUTPUTS": "outputs",
                                                 "DLFLOW_METRICS": "m", "DLFLOW_SUMMARY": "s", "DLFLOW_CHECKPOINTS": "c"})
        self.assertEqual(again.returncode, 0, again.stderr)
        [file] = (folder / "cache/measurements").iterdir()
        self.assertRegex(file.name, r"^fit-[0-9a-f]{16}\.json$")
        self.assertIn(str(file), done.stdout)
        self.assertEqual([point["ranks"] for point in json.loads(file.read_text())["points"]], [1, 1, 2, 2])

    def test_settings_that_cannot_be_measured_are_refused(self):
        folder = self.folder("refused")
        (folder / "m.json").write_text('{"format": "another"}')
        for options, error in (({"steps": "0"}, "--profile-steps: '0' is not a whole number from 1 to 1000"),
                               ({"steps": "1001"}, "--profile-steps: '1001' is not a whole number from 1 to 1000"),
                               ({"steps": "many"}, "--profile-steps: 'many' is not a whole number from 1 to 1000"),
                               ({"file": None, "DLFLOW_CACHE": ""}, "give --measurement FILE, or a folder in $DLFLOW_CACHE"),
                               ({}, "m.json is not a measurement of this model on this kind of processor; remove it, or give another")):
            done = self.profile(folder, **options)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn(error, done.stderr)
        self.assertEqual((folder / "m.json").read_text(), '{"format": "another"}')
        folder = self.folder("gossip", cooperation={"kind": "gossip"}, batch_per_rank=32)
        self.assertIn("leave the key 'cooperation' out of with:", self.profile(folder, 2).stderr)


if __name__ == "__main__":
    main()
