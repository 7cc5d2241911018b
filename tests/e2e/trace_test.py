"""`dlflow report --trace`: jobs and ranks on one time axis."""

import datetime
import json
import os
import pathlib
import time

import support

RUN = """
    name: traced
    steps:
      wide: {matrix: {i: [1, 2, 3]}, run: [sleep, '0.3']}
      again:
        checkpoint: {every: 1 epoch}
        run: 'if [ -e $DLFLOW_CHECKPOINTS/step-000001 ]; then exit 0; fi; echo saved > $DLFLOW_CHECKPOINTS/step-000001; exit 75'
      train: {run: ['true'], needs: [wide]}
"""


class Trace(support.Case):
    def trace(self, run, *timelines):
        """The events, after each (job's folder or a file in it, text) was put there as its timeline."""
        for file, text in timelines:
            (file if file.suffix else file / "timeline.json").write_text(text)
        self.dlflow("report", "--trace", run, "-o", "trace.json")
        trace = json.loads((self.folder / "trace.json").read_text())
        self.names = {event["pid"]: event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "process_name"}
        return trace["traceEvents"]

    def setUp(self):
        super().setUp()
        self.write("w.yaml", RUN)
        self.run_name = self.run_json("w.yaml")["run"]
        self.attempt = pathlib.Path(self.status(self.run_name)["directory"]) / "steps/train/attempt-1"

    def test_simultaneous_jobs_of_a_step_have_rows_of_their_own(self):
        events = self.trace(self.run_name)
        slices = [event for event in events if event["ph"] == "X"]
        wide = [event for event in slices if event["name"].startswith("wide")]
        self.assertEqual({self.names[event["pid"]] for event in wide}, {"step wide"})
        for first in wide:
            for second in wide:
                if first["tid"] == second["tid"] and first is not second:
                    self.assertTrue(first["ts"] + first["dur"] <= second["ts"] or second["ts"] + second["dur"] <= first["ts"])
        self.assertTrue(all(event["dur"] >= 300_000 for event in wide))
        passes = [(event["args"]["pass"], event["args"]["outcome"]) for event in slices if event["name"] == "again"]
        self.assertEqual(passes, [(1, "requeued"), (2, "succeeded")])
        counts = [event["args"]["jobs"] for event in events if event["ph"] == "C" and event["name"] == "jobs that run"]
        self.assertEqual(counts[-1], 0)
        self.assertTrue(all(count >= 0 for count in counts))

    def test_outputs_are_written_through_links_and_into_pipes(self):
        (self.folder / "www").mkdir()
        page = self.write("www/index.html", "<title>report of dlflow</title>")
        link, pipe = self.folder / "page.html", self.folder / "pipe"
        link.symlink_to("www/index.html")
        self.dlflow("report", self.run_name, "-o", link)
        self.assertTrue(link.is_symlink())
        self.assertIn("<html", page.read_text())
        self.dlflow("pack", "w.yaml", "-o", link)
        self.assertTrue(link.is_symlink())
        self.assertEqual(page.read_bytes()[:2], b"PK")
        for taken, why in (("w.yaml", "exists and is no report of dlflow"), ("www", "is a folder; name a file")):
            for kind in ((), ("--trace",)):
                self.assertIn(f"{taken} {why}", self.dlflow("report", *kind, self.run_name, "-o", taken, status=2)[1])
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        try:
            self.dlflow("report", "--trace", self.run_name, "-o", pipe)
            self.assertTrue(pipe.is_fifo())
            self.assertIn("traceEvents", os.read(reader, 1 << 16).decode())
        finally:
            os.close(reader)

    def test_events_of_ranks_stand_at_their_time(self):
        began = next(event for event in self.trace(self.run_name) if event["name"] == "train")
        at = time.time()
        timeline = {"otherData": {"began_at": at}, "traceEvents": [
            {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "rank 1 (n1)"}},
            {"ph": "X", "name": "conv1 forward", "pid": 1, "tid": 1, "ts": 500.0, "dur": 20.0},
            {"ph": "X", "name": "bucket 0", "pid": 1, "tid": 2, "ts": 600.0, "dur": 30.0}, {"ph": "X", "pid": "x"}, 7]}
        events = self.trace(self.run_name, (self.attempt, json.dumps(timeline)))
        layer = next(event for event in events if event["name"] == "conv1 forward")
        self.assertEqual(self.names[layer["pid"]], "train rank 1 (n1)")
        started = datetime.datetime.fromisoformat(self.status(self.run_name)["started"].replace("Z", "+00:00")).timestamp()
        self.assertAlmostEqual(layer["ts"], (at - started) * 1e6 + 500, delta=1)
        self.assertNotIn(layer["pid"], {event["pid"] for event in events if event["name"] == "train"})
        # An older dlflow wrote no time: the begin of the pass is used.
        del timeline["otherData"]
        layer = next(event for event in self.trace(self.run_name, (self.attempt, json.dumps(timeline))) if event["name"] == "conv1 forward")
        self.assertAlmostEqual(layer["ts"], began["ts"] + 500, delta=1)

    def test_each_rank_of_a_script_has_a_timeline_of_its_own(self):
        files = []
        for rank in (0, 10, 2):
            timeline = {"traceEvents": [{"ph": "M", "name": "process_name", "pid": rank, "tid": 0, "args": {"name": f"rank {rank} (n1)"}},
                                        {"ph": "X", "name": "all_reduce", "pid": rank, "tid": 2, "ts": 5, "dur": 9, "args": {"bytes": 48 + rank, "x": "y"}}]}
            files.append((self.attempt / (f"timeline-{rank}.json" if rank else "timeline.json"), json.dumps(timeline)))
        files.append((self.attempt / "timeline-3.json", "[1]"))
        sums = [event for event in self.trace(self.run_name, *files) if event["name"] == "all_reduce"]
        self.assertEqual([self.names[event["pid"]] for event in sums], [f"train rank {rank} (n1)" for rank in (0, 2, 10)])
        self.assertEqual([event["args"] for event in sums], [{"bytes": 48 + rank} for rank in (0, 2, 10)])

    def test_an_invalid_timeline_is_skipped(self):
        for text in ("", "[1]", '{"traceEvents": 1}', "[" * 100_000, '{"traceEvents": [{"ph": "X", "name": 1, "pid": 0, "ts": 1e999, "dur": 1}]}'):
            self.assertTrue(any(event["name"] == "train" for event in self.trace(self.run_name, (self.attempt, text))))


if __name__ == "__main__":
    support.main()
