"""The ways in which ranks cooperate, as processes: signals, kills, the timeline, and the processor time of a server."""

import json
import os
import pathlib
import signal
import subprocess
import time
import unittest

from training_case import BIN, ROOT, TrainingCase

import ranks as rank_processes  # found through training_case's path

WAYS = {
    "local_sgd": {"kind": "local_sgd"},
    "elastic": {"kind": "elastic", "every": 2},
    "gossip": {"kind": "gossip"},
    "pairwise": {"kind": "pairwise"},
    "two servers": {"kind": "parameter_server", "servers": 2},
    "asynchronous": {"kind": "parameter_server", "staleness": "unbounded"},
}


class Cooperation(TrainingCase):
    def begin(self, ranks, cooperation, every="4 steps", **more):
        """A training under way, and its folder."""
        folder = self.folder("run", cooperation=cooperation, **more)
        return self.start(folder, ranks, DLFLOW_CHECKPOINT_EVERY=every), folder

    def finish(self, process, status, timeout=120):
        _, errors = process.communicate(timeout=timeout)
        self.assertEqual(process.returncode, status, errors)
        return errors

    def wait_for(self, condition, process):
        deadline = time.monotonic() + 60
        while not condition():
            self.assertIsNone(process.poll(), "training ended too early")
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def wait_for_checkpoint(self, process, folder):
        self.wait_for(lambda: list(folder.glob("checkpoints/step-*/manifest.json")), process)

    def test_each_way_of_cooperation_learns_on_processes_and_writes_metrics_and_a_timeline(self):
        spans = {"local_sgd": "average", "elastic": "exchange", "gossip": "exchange", "pairwise": "exchange", "two servers": "push and pull", "asynchronous": "push and pull"}
        for name, way in WAYS.items():
            with self.subTest(name):
                process, folder = self.begin(4, way, epochs=3, timeline=4)
                self.finish(process, 0)
                summary = json.loads((folder / "metrics.json").read_text())
                self.assertGreater(summary["accuracy"], 0.9)
                self.assertEqual((summary["ranks"], summary["steps"]), (4, 30))
                lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
                self.assertEqual([line["epoch"] for line in lines if "accuracy" in line], [1, 2, 3])
                self.assertEqual(lines[-1]["progress"], 1)
                events = json.loads((folder / "timeline.json").read_text())["traceEvents"]
                seen = {(e["pid"], e["name"]) for e in events if e["ph"] == "X"}
                self.assertLessEqual({(0, spans[name]), (1, "conv1 backward")}, seen)
                self.assertIn((3, "update" if way["kind"] == "parameter_server" else spans[name]), seen)

    def test_a_signal_saves_and_exits_75_and_the_next_start_continues(self):
        for name in ("local_sgd", "gossip", "pairwise", "two servers"):
            with self.subTest(name):
                process, folder = self.begin(4, WAYS[name], epochs=2000)
                self.wait_for_checkpoint(process, folder)
                process.send_signal(signal.SIGUSR1)
                self.finish(process, 75)
                self.assertFalse((folder / "metrics.json").exists())
                saved = int((folder / "checkpoints/latest").readlink().name[5:])
                settings = json.loads((folder / "with.json").read_text()) | {"epochs": saved // 10 + 2}
                (folder / "with.json").write_text(json.dumps(settings))
                again = subprocess.run(["mpirun", "-np", "3", BIN / "dlflow-train", "with.json"], cwd=folder, text=True,
                                       capture_output=True, timeout=120)
                self.assertEqual(again.returncode, 0, again.stderr)
                self.assertIn(f"continuing from checkpoints/step-{saved:06}", again.stderr)
                self.assertIn("the bits differ from an uninterrupted run", again.stderr)  # other ranks

    def test_a_killed_worker_or_server_ends_all_ranks_and_is_named(self):
        for name, killed in (("local_sgd", 1), ("gossip", 1), ("pairwise", 0), ("pairwise", 1), ("two servers", 1), ("two servers", 3), ("asynchronous", 3)):
            with self.subTest(name, killed=killed):
                process, folder = self.begin(4, WAYS[name], epochs=2000)
                self.wait_for_checkpoint(process, folder)
                os.kill(rank_processes.worker_of_rank(folder, killed), signal.SIGKILL)
                errors = self.finish(process, 75, timeout=30)  # 5 s are promised
                self.assertRegex(errors, rf"rank {killed} \(node \S+\): killed by signal 9")

    def processor_time(self, pid):
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    def test_a_server_leaves_its_core_to_others_while_it_waits(self):
        process, folder = self.begin(2, {"kind": "parameter_server"}, epochs=2000, batch=1024,
                                     model=str(ROOT / "workflows/models/resnet20.yaml"))
        self.wait_for_checkpoint(process, folder)
        worker, server = (rank_processes.worker_of_rank(folder, rank) for rank in (0, 1))
        before = self.processor_time(worker), self.processor_time(server)
        self.wait_for(lambda: self.processor_time(worker) > before[0] + 200, process)  # 2 s of work
        used = self.processor_time(server) - before[1]
        process.send_signal(signal.SIGUSR1)
        self.finish(process, 75)
        self.assertLess(used, 60)  # hundredths of a second, including the updates of steps

    def test_more_servers_than_ranks_are_refused(self):
        process, _ = self.begin(2, {"kind": "parameter_server", "servers": 2})
        self.assertRegex(self.finish(process, 1), r"error: (rank \d \(node \S+\): )?with: 'cooperation.servers' is 2, but the "
                                                  r"step has 2 ranks: none is left to train; give it more ranks than servers")


if __name__ == "__main__":
    unittest.main(verbosity=2)
