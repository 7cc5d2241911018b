"""Malicious or broken files in places that dlflow reads are refused or shown as text, and harm nothing else."""

import json
import os
import pathlib

from support import Case, main

DEEP = 200_000
BELL = "\x1b]0;title\x07\u009b31m\u202egnp.exe"


def nested(opening, closing):
    return opening * DEEP + "0" + closing * DEEP


class Attacks(Case):
    def workflow(self, step, head=""):
        return self.write("w.yaml", f"name: w\n{head}steps:\n  a: {step}\n")

    def attempt(self, run):
        return self.folder / "dlflow-runs" / run / "steps/a/attempt-1"

    def check_harmless(self, text):
        self.assertNotRegex(text, "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

    def test_outputs_nested_too_deep_fail_their_step_and_nothing_else(self):
        (self.folder / "deep.json").write_text('{"o": ' + nested("[", "]") + "}")
        self.workflow(f"{{run: 'cp {self.folder}/deep.json $DLFLOW_OUTPUTS/outputs.json'}}")
        out, _ = self.dlflow("run", "w.yaml", status=1)
        self.assertIn("is nested deeper than 64 levels", out)
        out, _ = self.dlflow("status")
        self.assertIn("failed", out)

    def test_a_line_of_events_nested_too_deep_hides_no_run(self):
        self.workflow("{run: 'true'}")
        run = self.run_json("w.yaml")["run"]
        line = '{"at": "2026-01-01T00:00:00.000Z", "outputs": {"o": ' + nested('{"a":', "}") + "}}\n"
        for events in (self.attempt(run) / "events.jsonl", self.folder / "dlflow-runs" / run / "events.jsonl"):
            with events.open("a") as file:
                file.write(line)
        self.assertEqual(self.states(run), {"a": "succeeded"})
        for database in pathlib.Path(self.env["DLFLOW_HOME"]).glob("dlflow.db*"):
            database.unlink()
        self.dlflow("doctor", "--rebuild", self.folder / "dlflow-runs")
        self.assertEqual(self.states(run), {"a": "succeeded"})

    def test_output_of_a_program_cannot_control_a_terminal(self):
        (self.folder / "said").write_text(f"error: {BELL}\n")
        (self.folder / "metrics").write_text(json.dumps({BELL: 1}))
        self.workflow(f"{{run: 'cp {self.folder}/metrics $DLFLOW_SUMMARY; cat {self.folder}/said >&2; exit 3'}}")
        out, err = self.dlflow("run", "w.yaml", status=1)
        self.check_harmless(out + err)
        for arguments in (["status"], ["status", "--long"], ["results"]):
            self.check_harmless("".join(self.dlflow(*arguments, *([] if arguments == ["status"] else [self.run_name()]))))

    def test_a_damaged_record_cannot_control_a_terminal(self):
        self.workflow("{run: 'true'}")
        run = self.run_json("w.yaml")["run"]
        events = self.folder / "dlflow-runs" / run / "events.jsonl"
        lines = events.read_text().splitlines()
        events.write_text("\n".join(json.dumps({**json.loads(line), "job": BELL}) for line in lines) + "\n")
        for database in pathlib.Path(self.env["DLFLOW_HOME"]).glob("dlflow.db*"):
            database.unlink()
        said = "".join(self.dlflow("doctor", "--rebuild", self.folder / "dlflow-runs", status=2))
        for arguments in (["status", run], ["status"]):
            said += "".join(self.dlflow(*arguments))
        self.assertEqual(said.count("the run has no job"), 3, said)
        self.check_harmless(said)

    def test_a_lock_of_a_run_that_is_a_link_changes_no_file_and_hides_no_other_run(self):
        self.workflow("{run: 'true'}")
        good, bad = [self.run_json("w.yaml")["run"] for _ in range(2)]
        canary = self.write("canary", "precious\n")
        lock = self.folder / "dlflow-runs" / bad / "lock"
        lock.unlink()
        lock.symlink_to(canary)
        self.dlflow("doctor", "--rebuild", self.folder / "dlflow-runs", status=2)
        self.assertIn("is a link, not a lock file", " ".join(self.dlflow("status", bad)[0].split()))
        self.dlflow("status")
        self.assertEqual(self.states(good), {"a": "succeeded"})
        self.dlflow("run", "--resume", bad, status=2)
        self.assertEqual(canary.read_text(), "precious\n")

    def run_name(self):
        return self.dlflow("status", "--quick", "--quiet")[0].split()[0]

    def test_a_digest_that_is_a_path_overwrites_no_file(self):
        canary = self.write("canary", "precious\n")
        evil = "sha256:../../../../" + str(canary.relative_to("/"))
        step, head = "{image: box, run: 'true'}", "images: {box: {from: \"FROM\"}}\n"
        self.write("cluster-profiles/here.yaml", "scheduler: local\ncontainer: {runtime: bubblewrap, command: ['true']}\n")
        index = json.dumps({"manifests": [{"digest": evil}]})
        (self.folder / "oci").mkdir()
        (self.folder / "oci/index.json").write_text(index)
        for origin in ("oci:oci", "docker://127.0.0.1:1/a@" + evil, f"docker://127.0.0.1:1/a:b\", digest: \"{evil}"):
            self.workflow(step, head.replace("FROM", origin))
            _, err = self.dlflow("run", "w.yaml", "--profile", "here", status=2)
            self.assertRegex(err, "digest|image source")
            self.assertNotIn("json.exception", err)
            self.assertEqual(canary.read_text(), "precious\n")

    def test_a_manifest_of_another_user_above_a_workflow_changes_nothing(self):
        if os.geteuid() != 0:
            self.skipTest("only root can give a file away")
        above = self.folder / "dlflow-bundle.json"
        above.write_text('{"format": 1, "set": ' + nested('{"a":', "}") + "}")
        os.chown(above, 12345, 12345)
        self.write("mine/w.yaml", "name: w\nsteps:\n  a: {run: 'true'}\n")
        self.dlflow("run", "mine/w.yaml")

    def test_a_cache_that_another_user_prepared_is_not_used(self):
        if os.geteuid() != 0:
            self.skipTest("only root can give a folder away")
        cache = self.folder / "shared"
        own = cache / f"user-{os.geteuid()}"
        own.mkdir(parents=True)
        cache.chmod(0o2770)
        os.chown(own, 12345, 12345)
        data = self.write("data", "mine")
        self.write("cluster-profiles/here.yaml", f"scheduler: local\npaths: {{cache: {cache}}}\n")
        self.workflow(f"{{uses: stage, with: {{sources: [{{url: 'file://{data}'}}]}}}}")
        out, err = self.dlflow("run", "w.yaml", "--profile", "here", status=1)
        self.assertIn("belongs to another user (12345)", out + err)


if __name__ == "__main__":
    main()
