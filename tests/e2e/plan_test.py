"""`dlflow plan`, `ranks: auto`, and predictions beside results, from a made-up measurement."""

import hashlib
import json

from support import Case, main

MODEL = """
    name: tiny
    input: [1, 4, 4]
    layers:
      - flatten
      - linear: {features: 2}
    loss: softmax_cross_entropy
"""
STEPS = """
    pack: {run: ./pack, outputs: {data: data}}
    train:
      uses: train
      with: {model: tiny.yaml, data: "${{ steps.pack.outputs.data }}", epochs: 2, lr: 0.1, batch: 256}
      resources: {ranks: RANKS}
"""


def point(ranks, nodes, computing=0.080, **more):
    """8 leaves of 32 samples, 10 ms each on one rank."""
    share = computing / ranks
    return {"ranks": ranks, "nodes": nodes, "mode": "exact", "steps": 20, "at": 1796000000, "batch": 256, "samples_per_rank": 256 // ranks, "leaf_samples": 32,
            "leaves_per_rank": 8 // ranks, "step_s": share + 0.002, "forward_s": [0, share / 4], "backward_s": [0, share * 3 / 4], "update_s": 0.002,
            "noise_scale": None, "memory_bytes": 1 << 28, **more}


def measurement(model, points, seconds_per_byte=1e-9, **more):
    network = [{"ranks": 2, "nodes": 1, "algorithm": "shm", "bytes": 1024 * 4 ** i, "seconds": 1e-5 + 1024 * 4 ** i * seconds_per_byte} for i in range(8)]
    return {"format": "dlflow measurement 1", "model": model, "compute": "fp32", "processor": "x", "cpus_per_rank": 1, "source": "dlflow-train",
            "parameters_bytes": 136, "optimizer": "sgd", "samples": 25600, "points": points, "network": network,
            "layers": [{"name": name, "gradient_bytes": bytes, "dense_bytes_after_compression": None} for name, bytes in (("flatten", 0), ("linear", 1 << 20))], **more}


class PlanTest(Case):
    def setUp(self):
        super().setUp()
        self.write("tiny.yaml", MODEL)
        self.write("four.yaml", "cores: 4\n")
        self.steps("1")

    def steps(self, ranks):
        self.write_steps(STEPS.replace("RANKS", ranks))

    def measured(self, name="train-0123456789abcdef.json", **changes):
        model = hashlib.sha256((self.folder / "tiny.yaml").read_bytes()).hexdigest()
        arguments = {"model": model, "points": [point(1, 1), point(2, 1)]} | changes
        return self.write(f"cache/dlflow/measurements/{name}", json.dumps(measurement(**arguments)))

    def plan(self, *words, status=0, profile="four.yaml"):
        return self.dlflow("plan", "w.yaml", *words, "--profile", profile, status=status)

    def plan_json(self, *words, **options):
        return json.loads(self.plan(*words, "--json", **options)[0])

    def test_a_table_of_80_columns_marks_the_recommendation(self):
        self.measured()
        out, err = self.plan()
        self.assertEqual(err, "")
        self.assertLessEqual(max(len(line) for line in out.splitlines() if not line.startswith("Measurement: /")), 80, out)
        rows = [line.split() for line in out.split("\n\n")[0].splitlines()]
        self.assertEqual([row[:3] for row in rows[1:]], [["1", "1", "256"], ["2", "1", "256"], ["4", "1", "256"], ["8", "1", "256"]])
        self.assertEqual([row[-1] for row in rows[2:]], ["next", "best", "beyond"])
        self.assertIn("Recommended: 4 ranks on 1 node, batch 256, 22.5 ms a step; runner-up: 2 ranks on 1 node, batch 256.", " ".join(out.split()))
        self.assertIn("Measured 2026-11-30: 1 rank on 1 node, 2 ranks on 1 node", out)
        self.assertIn("20 % less bandwidth: the same", out)
        self.assertEqual(self.plan("train", "--quiet")[0], out.split("\n\n")[0] + "\n")

    def test_figures_follow_from_the_measurement(self):
        self.measured()
        found = self.plan_json()
        one, two, four = found["predictions"][:3]
        self.assertAlmostEqual(one["step_s"], 0.082)
        self.assertAlmostEqual(two["step_s"], 0.042)  # the measured value
        self.assertAlmostEqual(one["time_s"], 2 * 100 * 0.082)
        self.assertAlmostEqual(one["core_hours"], 2 * 100 * 0.082 / 3600)
        self.assertAlmostEqual(two["efficiency"], 0.082 / 2 / 0.042)
        # 2 leaves of 10 ms, the update, and the longer sum of 4 ranks, which sends 1.5 times the bytes of 2 ranks
        self.assertAlmostEqual(four["step_s"], 0.022 + 0.5 * 1e-9 * (1 << 20), delta=2e-5)
        self.assertEqual(found["recommended"], four)
        self.assertEqual(found["runner_up"], two)
        self.assertEqual(found["parameter_servers"], 1)

    def test_other_batches_are_predicted_up_to_the_noise_scale(self):
        self.measured(points=[point(1, 1, noise_scale=600.0)])
        self.assertEqual({p["batch"] for p in self.plan_json()["predictions"]}, {256, 512})
        self.assertIn("Noise scale of the gradient: 600 samples", self.plan()[0])

    def test_an_earlier_run_gives_the_epochs_to_the_aim(self):
        self.measured()
        aimed = STEPS.replace("RANKS", "1").replace("batch: 256", "batch: 256, validation: 256, stop_early: {metric: accuracy, reach: 0.9}")
        self.write_steps(aimed)
        self.assertIn("No earlier run reached accuracy 0.9, so TIME is for all epochs.", " ".join(self.plan()[0].split()))
        self.write_steps("""
            train: {run: 'echo "{\\"reached_epoch\\": 1}" >$DLFLOW_SUMMARY'}
        """)
        run = self.run_json("w.yaml")["run"]
        self.write_steps(aimed)
        self.assertIn(f"TIME is until accuracy 0.9, which run {run} reached after 1 epoch.", " ".join(self.plan()[0].split()))
        self.assertAlmostEqual(self.plan_json()["predictions"][0]["time_s"], 100 * 0.082)

    def test_each_compression_is_predicted_and_the_fastest_is_shown(self):
        self.write_steps(STEPS.replace("RANKS", "1").replace("batch: 256", "batch: 256, precision: {reduction: fast}"))
        costs = [{"method": method, "bytes": 1 << 20, "message_bytes": sent, "encode_s": 1e-4, "decode_s": 1e-5}
                 for method, sent in (("int8", 1 << 18), ("topk", 1 << 14))]
        self.measured(points=[point(1, 1, mode="fast"), point(2, 1, mode="fast", communication_wait_s=0.002)], compressors=costs, parameters_bytes=1 << 20)
        found = [p for p in self.plan_json()["predictions"] if p["ranks"] == 2]
        self.assertEqual([(p["compression"], p["wire_bytes"]) for p in found], [("none", 1 << 20), ("int8", 1 << 18), ("topk", 1 << 14)])
        self.assertAlmostEqual(found[2]["coding_s"], 1e-4 + 2 * 1e-5)
        rows = [line.split()[:4] for line in self.plan()[0].split("\n\n")[0].splitlines()]
        self.assertEqual([row[3] for row in rows if row[0] == "2"], ["-", "topk"])

    def test_faster_algorithms_of_convolutions_are_named(self):
        def layer(name, used, direct_s, winograd_s):
            return {"layer": name, "leaf_samples": 16, "used": used, "direct_s": direct_s, "winograd_s": winograd_s}

        slow = [layer("a", "direct", 0.004, 0.001), layer("b", "winograd", 0.004, 0.001), layer("c", "direct", 0.003, 0.002)]
        self.measured(algorithms=slow)
        self.assertIn("`algorithm: winograd` in the model saves 4 ms of a step at a, c;", " ".join(self.plan()[0].split()))
        self.assertEqual(self.plan_json()["algorithms"], slow)
        self.measured(algorithms=slow[1:2])
        self.assertIn("Of 1 convolution with two algorithms, each takes the faster one.", " ".join(self.plan()[0].split()))
        self.measured(algorithms=[layer("a", "direct", -1, 1)])
        self.assertIn("an algorithm of layer 'a' has no seconds", self.plan(status=2)[1])

    def test_a_missing_measurement_is_reported_with_the_command(self):
        for words in (["plan", "w.yaml"], ["plan", "w.yaml", "train", "--json"]):
            err = self.dlflow(*words, status=2)[1]
            self.assertIn("w.yaml:4:3:", err)
            self.assertIn("step 'train' has not been measured", err)
            self.assertIn("dlflow-train --profile-steps 20", err)
        self.measured(model="0" * 64)
        self.assertIn("was measured with another model or precision", self.plan(status=2)[1])
        self.measured("train-2-0123456789abcdef.json")  # belongs to a step 'train-2'
        self.assertIn("was measured with another model", self.plan(status=2)[1])

    def test_bad_input_is_refused_with_the_place(self):
        file = self.measured()
        self.assertIn("no step 'trian'; did you mean 'train'?", self.plan("trian", status=2)[1])
        file.write_text("{")
        self.assertIn(str(file), self.plan(status=2)[1])
        file.write_text(json.dumps({"format": "x"}))
        self.assertIn("not a measurement in the format of this dlflow", self.plan("--measurement", file, status=2)[1])
        self.assertIn("no.json", self.plan("--measurement", "no.json", status=2)[1])
        self.measured(points=[point(1, 1, forward_s=[1])])
        self.assertIn("the times of 1 layers, but the model has 2", self.plan(status=2)[1])

    def test_a_measurement_given_by_name_may_be_of_another_model(self):
        file = self.measured("other.json", model="0" * 64)
        self.assertIn("is for another model", self.plan("--measurement", file)[0])

    def test_ranks_auto_is_the_recommendation_within_limits(self):
        self.steps("auto")
        for words in (["validate", "w.yaml"], ["explain", "w.yaml"], ["run", "w.yaml", "--dry-run"]):
            self.assertIn("step 'train' has not been measured", self.dlflow(*words, status=2)[1])
        self.measured()
        for cores, ranks in (("4", 4), ("2", 2)):
            self.write("some.yaml", f"cores: {cores}\n")
            self.assertIn(f"step 'train' takes {ranks} ranks", self.dlflow("validate", "w.yaml", "--profile", "some.yaml")[1])
        self.assertEqual(json.loads(self.dlflow("validate", "w.yaml", "--profile", "four.yaml", "--json")[0])["automatic_ranks"], {"train": 4})
        self.assertIn("takes 4 ranks", self.dlflow("explain", "w.yaml", "--profile", "four.yaml")[1])
        self.measured(points=[point(1, 1)], seconds_per_byte=1e-6)  # the sum takes a second
        self.assertIn("takes 1 rank,", self.dlflow("validate", "w.yaml", "--profile", "four.yaml")[1])

    def test_an_omitted_step_needs_no_measurement(self):
        self.write_steps(STEPS.replace("./pack", "touch $DLFLOW_OUTPUTS/data").replace("RANKS", "auto"))
        self.run_json("w.yaml", "--until", "pack")

    def test_the_number_of_ranks_is_frozen_with_the_run(self):
        self.write_steps("""
            script: {run: 'echo "{\\"ranks\\": $DLFLOW_RANKS}" >$DLFLOW_SUMMARY', inputs: [s.py], launch: node, resources: {ranks: auto}}
        """)
        self.write("s.py", "")
        model = hashlib.sha256(b"").hexdigest()
        script = {"ranks": 1, "nodes": 1, "mode": "fast", "at": 1, "batch": None, "step_s": 0.1, "forward_s": [], "backward_s": [], "other_s": 0.1,
                  "buckets": [{"bytes": 1000, "ready_s": 0.1}]}
        self.measured("script-0123456789abcdef.json", model=model, points=[script], layers=[], source="dlflow.torch")
        self.write("two.yaml", "cores: 2\nlauncher: {program: env}\n")
        run = self.run_json("w.yaml", "--profile", "two.yaml")["run"]
        frozen = json.loads((self.folder / "dlflow-runs" / run / "plan.json").read_text())
        self.assertEqual(frozen["automatic_ranks"], {"script": 2})
        job, = self.status(run)["steps"]
        self.assertEqual(job["metrics"], {"ranks": 2})


if __name__ == "__main__":
    main()
