"""`track:` and `dlflow sync`: the curves as read by TensorBoard, MLflow, W&B, Aim and Comet themselves."""

import http.server
import json
import pathlib
import shutil
import sqlite3
import subprocess
import threading
import unittest
import zipfile

import servers
import support

PYTHON = support.BIN.parent / "tests/trackers/bin/python"
RUN = """
    name: tracked
    params: {epochs: 2}
    track: {%s}
    steps:
      train:
        matrix: {lr: [0.1, 0.5]}
        run: |
          for step in 1 2 3; do
            echo "{\\"step\\": $step, \\"at\\": 180000000$step.25, \\"loss\\": 0.$((9 - step)), \\"learning_rate\\": $DLFLOW_MATRIX_LR}" >> $DLFLOW_METRICS
          done
          echo "{\\"accuracy\\": 0.9$DLFLOW_PARAM_EPOCHS}" > $DLFLOW_SUMMARY
"""
READ_TENSORBOARD = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1]); events.Reload()
print(json.dumps({tag: [(e.step, e.wall_time, round(e.value, 6)) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}))
"""
READ_MLFLOW = """
import json, sys
from mlflow.tracking import MlflowClient
client = MlflowClient(sys.argv[1])
experiment = client.get_experiment_by_name("tracked")
runs = client.search_runs([experiment.experiment_id])
print(json.dumps([{"name": run.info.run_name, "status": run.info.status, "params": run.data.params, "metrics": run.data.metrics,
    "parent": run.data.tags.get("mlflow.parentRunId"), "id": run.info.run_id, "start": run.info.start_time, "end": run.info.end_time,
    "loss": [(m.step, m.timestamp, m.value) for m in client.get_metric_history(run.info.run_id, "loss")]} for run in runs]))
"""
READ_WANDB = """
import json, sys
from wandb.proto import wandb_internal_pb2 as pb
from wandb.sdk.internal.datastore import DataStore
store = DataStore(); store.open_for_scan(sys.argv[1])
read = {"history": []}
while (data := store.scan_data()) is not None:
    record = pb.Record(); record.ParseFromString(data)
    kind = record.WhichOneof("record_type")
    if kind == "history": read["history"].append({i.key or i.nested_key[0]: json.loads(i.value_json) for i in record.history.item})
    if kind == "run": read["run"] = [record.run.project, record.run.run_group, record.run.display_name, {i.key: json.loads(i.value_json) for i in record.run.config.update}]
    if kind == "exit": read["exit"] = record.exit.exit_code
print(json.dumps(read))
"""
READ_AIM = """
import json, sys
import aim
run = aim.Run(sys.argv[2], repo=sys.argv[1], system_tracking_interval=None, capture_terminal_logs=False)
print(json.dumps([run.name, run["hparams"], run["summary"]]))
"""


def has(*modules):
    """Whether these are installed; to import them takes seconds."""
    return all(any(PYTHON.parents[1].glob(f"lib/python3*/site-packages/{module}")) for module in modules)


class Rest(http.server.BaseHTTPRequestHandler):
    """The part of MLflow's interface that dlflow uses."""

    def do_POST(self):
        content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        what = self.path.removeprefix("/api/2.0/mlflow/")
        self.server.asked.append((what, content))
        answers = {"experiments/search": {}, "experiments/create": {"experiment_id": "7"},
                   "runs/create": {"run": {"info": {"run_id": f"id{len(self.server.asked)}"}}}}
        self.server.answering.wait()
        if self.server.refuses(what, content):
            return self.answer(400, {"error_code": "INVALID", "message": "no room\x1b[31m"})
        self.answer(200, answers.get(what, {}))

    def answer(self, status, content):
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


class Track(support.Case):
    def tracked(self, trackers):
        self.write("w.yaml", RUN % trackers)
        run = self.run_json("w.yaml")["run"]
        return run, pathlib.Path(self.status(run)["directory"])

    def mlflow_server(self):
        """`refuses(what, content)` says what it does not take; it answers while `answering` is set."""
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Rest)
        server.asked, server.refuses, server.answering = [], lambda *_: False, threading.Event()
        server.answering.set()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.addCleanup(server.answering.set)
        return server

    def in_order(self, *args):
        """What dlflow writes to standard output and standard error, as one text."""
        return subprocess.run([support.BIN / "dlflow", *args], cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100).stdout

    def read(self, program, *arguments):
        result = subprocess.run([PYTHON, "-c", program, *arguments], capture_output=True, text=True, env={**self.env, "WANDB_MODE": "offline"})
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout.strip().splitlines()[-1])

    def tables(self, store):
        database = sqlite3.connect(store)
        self.addCleanup(database.close)
        return {table: sorted(map(str, database.execute(f"SELECT * FROM {table}"))) for table in ("runs", "metrics", "latest_metrics", "params", "tags")}

    def test_a_workflow_without_trackers_gets_advice(self):
        self.write("w.yaml", "name: w\nsteps: {a: {run: ['true']}}\n")
        run = self.run_json("w.yaml")["run"]
        self.assertIn("track: {tensorboard: true}", self.dlflow("sync", run, status=2)[1])

    def test_an_invalid_address_is_refused_when_the_file_is_read(self):
        self.write("w.yaml", "name: w\ntrack: {mlflow: sqlite:mlflow.db}\nsteps: {a: {run: ['true']}}\n")
        self.assertIn("w.yaml:2:17", self.dlflow("validate", "w.yaml", status=2)[1])

    @unittest.skipUnless(has("tensorboard"), "PyPI's tensorboard is not in build/tests/trackers")
    def test_tensorboard_reads_its_event_files(self):
        run, directory = self.tracked("tensorboard: true")
        read = self.read(READ_TENSORBOARD, str(directory / "tensorboard/train/lr=0.5"))
        self.assertEqual(read["loss"], [[1, 1800000001.25, 0.8], [2, 1800000002.25, 0.7], [3, 1800000003.25, 0.6]])
        self.assertEqual([value for _, _, value in read["learning_rate"]], [0.5] * 3)

    @unittest.skipUnless(has("tensorboard"), "PyPI's tensorboard is not in build/tests/trackers")
    def test_a_job_without_curves_shows_its_last_numbers_in_tensorboard(self):
        self.write("w.yaml", """
            name: w
            track: {tensorboard: true}
            steps:
              fit: {run: 'echo "{\\"accuracy\\": 0.5, \\"loss\\": 2}" > $DLFLOW_SUMMARY'}
        """)
        run = self.run_json("w.yaml")["run"]
        read = self.read(READ_TENSORBOARD, str(self.folder / "dlflow-runs" / run / "tensorboard/fit"))
        self.assertEqual({name: [(step, value) for step, _, value in points] for name, points in read.items()},
                         {"accuracy": [(0, 0.5)], "loss": [(0, 2)]})

    @unittest.skipUnless(has("tensorboard"), "PyPI's tensorboard is not in build/tests/trackers")
    def test_an_event_file_only_grows(self):
        run, directory = self.tracked("tensorboard: true")
        (file,) = (directory / "tensorboard/train/lr=0.1").iterdir()
        before, node = file.read_bytes(), file.stat().st_ino
        self.dlflow("sync", run)
        self.assertEqual(file.read_bytes(), before)
        with open(directory / "steps/train/lr=0.1/attempt-1/metrics.jsonl", "a") as lines:
            lines.write('{"step": 4, "loss": 0.25}\n')
        self.dlflow("status", run)  # each view updates the output
        self.assertTrue(file.read_bytes().startswith(before))
        self.assertEqual(file.stat().st_ino, node)
        self.assertEqual(self.read(READ_TENSORBOARD, str(file.parent))["loss"][-1][::2], [4, 0.25])

    def hand_over(self, run):
        """`dlflow sync` where python3 has the packages of the trackers; what it prints."""
        return self.dlflow("sync", run, env={"PATH": f"{PYTHON.parent}:{self.env['PATH']}", "PYTHONPATH": str(support.BIN.parent / "python")}, timeout=200)[0]

    @unittest.skipUnless(has("mlflow", "sqlalchemy", "alembic"), "PyPI's mlflow is not in build/tests/trackers")
    def test_mlflow_has_each_job_once_in_its_own_database(self):
        store = self.folder / "mlflow.db"
        address = f"sqlite:///{store}"
        run, directory = self.tracked(f'mlflow: "{address}"')
        self.assertFalse(store.exists())
        self.assertIn(f"mlflow ui --backend-store-uri {address}", self.hand_over(run))
        once = self.read(READ_MLFLOW, address)
        jobs = {entry["name"]: entry for entry in once}
        self.assertEqual(sorted(jobs), sorted([run, "train[lr=0.1]", "train[lr=0.5]"]))
        train = jobs["train[lr=0.5]"]
        self.assertEqual((train["status"], train["params"], train["parent"]), ("FINISHED", {"epochs": "2", "lr": "0.5"}, jobs[run]["id"]))
        self.assertEqual(train["loss"], [[1, 1800000001250, 0.8], [2, 1800000002250, 0.7], [3, 1800000003250, 0.6]])
        self.assertEqual((train["metrics"]["summary.accuracy"], train["metrics"]["loss"]), (0.92, 0.6))
        self.assertLessEqual(train["start"], train["end"])
        (directory / "track.json").unlink()  # even if the progress is forgotten
        tables = self.tables(store)
        self.hand_over(run)
        self.assertEqual(self.tables(store), tables)

    @unittest.skipUnless(has("wandb/sdk/internal/datastore.py"), "PyPI's wandb is not in build/tests/trackers")
    def test_wandb_has_one_folder_of_a_job_that_is_tried_again(self):
        self.write("w.yaml", """
            name: again
            params: {epochs: 2}
            track: {wandb: offline}
            steps:
              train: {run: 'echo "{\\"step\\": 7, \\"at\\": 1800000001.25, \\"loss\\": 1}" >> $DLFLOW_METRICS; test -e %s'}
        """ % (self.folder / "good"))
        run = self.run_json("w.yaml", status=1)["run"]
        directory = pathlib.Path(self.status(run)["directory"])
        for attempts, exit_code in ((1, 1), (2, 0)):
            self.assertIn(f"wandb sync {directory}/wandb/offline-run-*", self.hand_over(run))
            (file,) = directory.glob("wandb/offline-run-*/*.wandb")
            read = self.read(READ_WANDB, str(file))
            self.assertEqual(read["run"][:3], ["again", run, "train"])
            self.assertEqual((read["run"][3]["epochs"], read["exit"], len(read["history"])), (2, exit_code, attempts))
            line = read["history"][0]
            self.assertEqual((line["loss"], line["step"], line["_timestamp"]), (1, 7, 1800000001.25))
            written = file.stat().st_mtime_ns
            self.hand_over(run)
            self.assertEqual(file.stat().st_mtime_ns, written)
            if exit_code:
                (self.folder / "good").touch()
                self.dlflow("resubmit", run)

    @unittest.skipUnless(has("comet_ml", "aim"), "PyPI's comet_ml and aim are not in build/tests/trackers")
    def test_comet_and_aim_have_the_curves(self):
        repository = self.folder / "aim"
        run, directory = self.tracked(f"comet_ml: offline, aim: {repository}")
        self.assertIn(f"comet upload {directory}/comet/*.zip", self.hand_over(run))
        losses = []
        for file in directory.glob("comet/*.zip"):
            with zipfile.ZipFile(file) as archive:
                messages = [json.loads(line)["payload"] for line in archive.read("messages.json").decode().splitlines()]
            losses.append([(m["metric"]["step"], m["metric"]["metricValue"]) for m in messages if m.get("metric", {}).get("metricName") == "loss"])
        self.assertEqual(losses, [[(1, 0.8), (2, 0.7), (3, 0.6)]] * 2)
        known = json.loads((directory / "track.json").read_text())[f"aim {repository}"]
        name, params, summary = self.read(READ_AIM, str(repository), known["train[lr=0.1]"][1])
        self.assertEqual((name, params, summary), (f"{run} train[lr=0.1]", {"epochs": 2, "lr": 0.1}, {"accuracy": 0.92}))

    def test_a_tracker_without_its_package_is_reported_with_the_line_of_pip_after_the_others(self):
        run, directory = self.tracked("tensorboard: true, comet_ml: offline")
        shutil.rmtree(directory / "tensorboard")
        error = self.dlflow("sync", run, status=2, env={"PYTHONPATH": str(support.BIN.parent / "python")})[1]
        self.assertIn("`pip install dlflow-*.whl comet_ml`", error)
        self.assertIn("comet_ml: No module named 'comet_ml'", error)
        self.assertTrue((directory / "tensorboard").exists())
        self.assertIn("`pip install dlflow-*.whl comet_ml`", self.dlflow("sync", run, status=2, env={"PATH": "/nowhere"})[1])

    def test_a_run_ends_with_the_command_for_trackers(self):
        self.write("w.yaml", RUN % "wandb: offline")
        self.assertRegex(self.dlflow("run", "w.yaml")[0], r"(?m)^  trackers  dlflow sync tracked-")

    def test_mlflow_over_rest_gets_each_line_once(self):
        server = self.mlflow_server()
        run, directory = self.tracked(f'mlflow: "http://127.0.0.1:{server.server_port}/"')
        created = [content["run_name"] for what, content in server.asked if what == "runs/create"]
        self.assertEqual(created, [run, "train[lr=0.1]", "train[lr=0.5]"])
        losses = [m["value"] for what, content in server.asked if what == "runs/log-batch" for m in content.get("metrics", []) if m["key"] == "loss"]
        self.assertEqual(losses, [0.8, 0.7, 0.6] * 2)
        server.asked.clear()
        self.dlflow("sync", run)
        self.assertFalse([what for what, _ in server.asked if what in ("runs/create", "runs/log-batch")])
        server.refuses = lambda *_: True
        error = self.dlflow("sync", run, status=3)[1]
        self.assertIn("no room", error)
        self.assertNotIn("\x1b", error)
        self.assertIn("warning: MLflow", self.dlflow("status", run)[1])

    def test_a_run_that_mlflow_has_in_part_is_not_made_again(self):
        server = self.mlflow_server()
        steps = [lambda what, _: what == "runs/update", lambda _, content: "params" in content, lambda _, content: "metrics" in content]
        server.refuses = steps[0]
        run, _ = self.tracked(f'mlflow: "http://127.0.0.1:{server.server_port}"')
        for server.refuses in [*steps, *steps]:
            self.dlflow("sync", run, status=3)
        server.refuses = lambda *_: False
        self.dlflow("sync", run)
        created = [content["run_name"] for what, content in server.asked if what == "runs/create"]
        self.assertEqual(created, [run, "train[lr=0.1]", "train[lr=0.5]"])
        server.asked.clear()
        self.dlflow("sync", run)
        self.assertFalse([what for what, _ in server.asked if what in ("runs/create", "runs/log-batch")])

    def test_a_name_that_mlflow_does_not_allow_is_changed(self):
        server = self.mlflow_server()
        run, directory = self.tracked(f'mlflow: "http://127.0.0.1:{server.server_port}"')
        server.asked.clear()
        with open(directory / "steps/train/lr=0.1/attempt-1/metrics.jsonl", "a") as lines:
            lines.write('{"step": 4, "GPU (%)": 7, "a/../b": 8, "train/loss": 9}\n')
        self.dlflow("sync", run)
        metrics = {m["key"]: m["value"] for what, content in server.asked if what == "runs/log-batch" for m in content.get("metrics", [])}
        self.assertEqual((metrics["GPU ___"], metrics["a/__/b"], metrics["train/loss"]), (7, 8, 9))

    def test_status_is_shown_before_waiting_for_a_tracker_that_does_not_answer(self):
        server = self.mlflow_server()
        run, _ = self.tracked(f'mlflow: "http://127.0.0.1:{server.server_port}"')
        server.answering.clear()
        text = self.in_order("status", run)
        self.assertLess(text.index("train"), text.index("warning: MLflow"), text)
        self.assertIn("`dlflow sync RUN` waits longer", text)
        self.assertNotRegex(text, "(?m)^curl")

    def test_the_message_of_curl_is_part_of_the_warning(self):
        port = servers.free_port()
        run, _ = self.tracked(f'mlflow: "http://127.0.0.1:{port}"')
        text = self.in_order("status", run)
        self.assertRegex(text, r"(?m)^warning: MLflow at http://127\.0\.0\.1:\d+ did not accept experiments/search: .*connect")
        self.assertNotRegex(text, "(?m)^curl")

    def test_openmetrics_has_states_and_the_latest_numbers(self):
        file = self.folder / "dlflow.prom"
        run, _ = self.tracked(f"openmetrics: {file}")
        text = file.read_text()
        self.assertTrue(text.endswith("# EOF\n"))
        self.assertIn(f'dlflow_run_jobs{{run="{run}",workflow="tracked",profile="local",state="succeeded"}} 2\n', text)
        self.assertRegex(text, r'dlflow_job_metric_accuracy\{run="[^"]+",step="train",job="train\[lr=0.1\]"\} 0.92')
        for line in text.splitlines():
            self.assertRegex(line, r'^(# (TYPE|HELP|UNIT) \w+ .+|# EOF|\w+\{(\w+="([^"\\\n]|\\.)*",?)+\} [-+0-9.eE]+)$')


if __name__ == "__main__":
    support.main()
