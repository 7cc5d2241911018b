"""Bundles are packed, inspected, unpacked and run elsewhere; their content, their omissions, and refused ones."""

import hashlib
import json
import os
import re
import shutil
import socket
import zipfile

import support

USER = "carla-c31"
SECRET = "s3cr3t-a41f9"


class Share(support.Case):
    def setUp(self):
        """The first machine: everything it has is in a folder that is named after its user."""
        super().setUp()
        self.first = self.folder / USER
        self.first.mkdir()
        self.env.update({"HOME": str(self.first / "home"), "DLFLOW_HOME": str(self.first / "state"),
                         "XDG_CACHE_HOME": str(self.first / "cache"), "USER": USER, "LOGNAME": USER,
                         "WANDB_API_KEY": SECRET})

    def elsewhere(self):
        """Another user on another machine; what was the first one's is gone."""
        shutil.rmtree(self.first)
        second = self.folder / "second"
        second.mkdir()
        return {"HOME": str(second), "DLFLOW_HOME": str(second / "state"), "XDG_CACHE_HOME": str(second / "cache"),
                "USER": "dora", "LOGNAME": "dora", "WANDB_API_KEY": ""}

    def workflow(self):
        """A workflow that stages a file, has a script and a parameter, and says things that are private."""
        data = self.write(f"{USER}/data/numbers.txt", "1\n2\n3\n")
        digest = hashlib.sha256(data.read_bytes()).hexdigest()
        self.write(f"{USER}/flow/add.sh", """\
            #!/bin/sh
            n=$(awk '{s += $1} END {print s}' "$1/numbers.txt")
            echo $((n * DLFLOW_PARAM_TIMES)) > $DLFLOW_OUTPUTS/sum.txt
            pwd > $DLFLOW_OUTPUTS/where.txt
            echo "on $(uname -n)" > $DLFLOW_OUTPUTS/node.txt
            ln -s "$HOME/notes" $DLFLOW_CHECKPOINTS/notes
            echo "{\\"sum\\": $n, \\"message\\": \\"at $PWD\\"}" >> $DLFLOW_METRICS
            echo "{\\"sum\\": $n}" > $DLFLOW_SUMMARY
            echo "{\\"sum\\": \\"sum.txt\\", \\"place\\": \\"$PWD\\"}" > $DLFLOW_OUTPUTS/outputs.json
            """).chmod(0o755)
        (self.first / "home").mkdir(exist_ok=True)
        (self.first / "home/notes").write_text("private notes")
        return self.write(f"{USER}/flow/sum.yaml", f"""\
            name: sum
            params: {{times: 1}}
            steps:
              get:
                uses: stage
                with:
                  sources: [{{url: "file://{data}", sha256: {digest}}}]
              add:
                run: [./add.sh, "${{{{ steps.get.outputs.path }}}}"]
                inputs: [add.sh]
                checkpoint: {{}}
            """)

    def pack(self, *arguments, **options):
        out, err = self.dlflow("pack", *arguments, "-o", self.folder / "b.dlflow", **options)
        return out, err

    def unpacked(self, env=None):
        """name -> content of all that the bundle has."""
        self.dlflow("unpack", "b.dlflow", "-C", "apart", env=env)
        top = next((self.folder / "apart").iterdir())
        return {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}

    def result(self, run, env):
        status = json.loads(self.dlflow("status", run, "--json", env=env)[0])
        self.assertEqual(status["state"], "succeeded")
        return (support.pathlib.Path(status["directory"]) / "steps/add/outputs/sum.txt").read_text()

    def test_a_bundle_runs_without_its_original_files_and_data(self):
        self.pack(self.workflow(), "--with-data")
        env = self.elsewhere()
        self.assertEqual(self.dlflow("validate", "b.dlflow", env=env)[0], "")
        self.assertIn("add", self.dlflow("graph", "b.dlflow", env=env)[0])
        self.assertEqual(self.result(self.run_json("b.dlflow", env=env)["run"], env), "6\n")
        self.assertEqual(self.result(self.run_json("b.dlflow", "--set", "times=2", env=env)["run"], env), "12\n")
        out, _ = self.dlflow("unpack", "b.dlflow", env=env)
        self.assertIn("dlflow run sum/workflow/sum.yaml", out)
        shutil.rmtree(self.folder / "second")
        run = self.run_json("sum/workflow/sum.yaml", "--set", "times=3", env=env)["run"]
        self.assertEqual(self.result(run, env), "18\n")

    def test_the_same_input_makes_the_same_bundle_byte_for_byte(self):
        flow = self.workflow()
        self.pack(flow, "--with-data")
        first = (self.folder / "b.dlflow").read_bytes()
        os.utime(self.first / "flow/add.sh", (0, 0))
        shutil.copytree(self.first / "flow", self.folder / "moved")
        self.pack(self.folder / "moved/sum.yaml", "--with-data", env={"USER": "dora", "TZ": "Asia/Tokyo"})
        self.assertEqual((self.folder / "b.dlflow").read_bytes(), first)

    def test_a_run_is_packed_with_its_settings_metrics_and_outputs_but_without_its_paths(self):
        run = self.run_json(self.workflow(), "--set", "times=5")["run"]
        _, err = self.pack("--from-run", run, "--with-data")
        for name in ("outputs/where.txt", "outputs/node.txt", "checkpoints/notes"):
            self.assertRegex(err, rf"warning: run/steps/add/{name} is left out")
        first = str(self.first)
        env = self.elsewhere()
        files = self.unpacked(env=env)
        self.assertEqual(files["run/steps/add/outputs/sum.txt"], b"30\n")
        self.assertEqual(files["run/steps/add/metrics.jsonl"], b'{"sum":6}\n')
        record = json.loads(files["run/run.json"])
        add = next(job for job in record["jobs"] if job["job"] == "add")
        self.assertEqual((record["run"], record["state"], record["params"]), (run, "succeeded", {"times": 5}))
        self.assertEqual(add["metrics"], {"sum": 6})
        self.assertEqual(add["outputs"]["sum"]["value"], "run/steps/add/outputs/sum.txt")
        self.assertIsNone(add["outputs"]["place"]["value"])
        get = next(job for job in record["jobs"] if job["job"] == "get")
        self.assertIsNone(get["outputs"]["path"]["value"])
        self.assertRegex(get["outputs"]["path"]["sha256"], "^[0-9a-f]{64}$")
        self.assertEqual([event["node"] for event in add["events"] if event["state"] == "running"], ["node-1"])
        self.assertFalse([name for name in files if name.startswith("run/steps/get")], "staged data is packed once")
        self.assertEqual(self.result(self.run_json("b.dlflow", env=env)["run"], env), "30\n")

        shown = json.loads(self.dlflow("unpack", "--list", "b.dlflow", "--json", env=env)[0])
        self.assertEqual(shown["params"], {"times": 5})
        self.assertEqual(shown["run"]["run"], run)
        self.assertEqual({step["name"]: step["uses"] for step in shown["steps"]}, {"get": "stage", "add": None})
        self.assertEqual([data["packed"] for data in shown["data"]], [True])
        self.assertIn("sum 6", self.dlflow("unpack", "--list", "b.dlflow", env=env)[0])
        self.check_for_leaks(files, first)

    def check_for_leaks(self, files, first):
        """The one place that the user named is the data's, in the workflow and where its text is repeated."""
        own_words = f"file://{first}/data/numbers.txt".encode()
        host = re.compile(rb"(?<![\w-])" + re.escape(socket.gethostname().encode()) + rb"(?![\w-])")
        self.assertIn(own_words, files["workflow/sum.yaml"])
        for name, content in files.items():
            content = content.replace(own_words, b"")
            for word in (first, USER, SECRET, str(self.folder), "private notes"):
                self.assertNotIn(word.encode(), content, name)
                self.assertNotIn(word, name)
            self.assertIsNone(host.search(content), f"{name} names the host")

    def test_a_path_of_this_machine_in_a_workflow_is_reported(self):
        flow = self.workflow()
        _, err = self.pack(flow)
        self.assertRegex(err, r"sum\.yaml:7:31: warning: /.*/numbers\.txt is a path of this machine; "
                              r"pack it with --with-data")
        _, err = self.pack(flow, "--with-data")
        self.assertEqual(err, "")

    def test_a_file_that_cannot_be_packed_is_named(self):
        flow = self.workflow()
        _, err = self.dlflow("pack", status=2)
        self.assertIn("give a workflow to pack, or `--from-run RUN`", err)
        run = self.run_json(flow)["run"]
        self.assertIn(f"{run} is a run: dlflow pack --from-run {run}", self.dlflow("pack", run, status=2)[1])
        _, err = self.dlflow("pack", "--from-run", run, "--set", "times=2", status=2)
        self.assertIn("a run's parameters are fixed", err)
        flow.write_text(flow.read_text().replace("times: 1", "times: 2"))
        _, err = self.dlflow("pack", flow, "--from-run", run, status=2)
        self.assertIn(f"is not what {run} ran", err)
        (self.first / "data/numbers.txt").write_text("changed")
        _, err = self.dlflow("pack", flow, "--with-data", status=2)
        self.assertIn("is not what the workflow declares", err)
        self.assertFalse((self.folder / "sum.dlflow").exists())

    def test_an_unfinished_run_is_not_packed(self):
        self.write("w.yaml", "name: w\nsteps:\n  a: {run: sleep 60}\n")
        run = self.run_json("w.yaml", "--detach")["run"]
        self.addCleanup(lambda: self.start("cancel", run).communicate())
        self.wait_for(lambda: self.states(run)["a"] == "running", what="the step to run")
        _, err = self.dlflow("pack", "--from-run", run, status=2)
        self.assertIn("is still running", err)

    def test_results_of_named_steps_are_packed_and_reused_if_unchanged(self):
        self.write("w.yaml", "name: w\nsteps:\n  a: {run: echo 1 > o, outputs: {o: o}}\n  b: {run: echo 2 > o, outputs: {o: o}}\n")
        run = self.run_json("w.yaml")["run"]
        self.assertIn("Results of 2 jobs, ", self.pack("--from-run", run)[0])
        self.assertIn("results   of 2 jobs\n", self.dlflow("unpack", "--list", "b.dlflow")[0])
        self.assertIn(f"/run has the results of {run}, for comparison; a run computes them again.\n", self.dlflow("unpack", "b.dlflow", "-C", "told")[0])
        result = json.loads(self.unpacked()["run/run.json"])["jobs"][0]["result"]
        self.assertEqual((list(result["trees"]), result["links"], result["folders"]), (["outputs"], {}, []))
        self.assertIn("Results of 1 job, ", self.pack("--from-run", run, "--step", "a")[0])
        made = self.folder / "dlflow-runs" / run / "steps/b/outputs/o"
        made.chmod(0o644)
        made.write_text("other\n")
        out, err = self.pack("--from-run", run)
        self.assertIn("the result of b is not in the bundle as it was published: outputs/o was changed", err)
        self.assertIn("Results of 1 job, ", out)

    def test_unpacking_twice_changes_nothing(self):
        self.pack(self.workflow())
        self.dlflow("unpack", "b.dlflow")
        (self.folder / "sum/workflow/sum.yaml").write_text("mine")
        _, err = self.dlflow("unpack", "b.dlflow", status=2)
        self.assertIn("sum already exists", err)
        self.assertEqual((self.folder / "sum/workflow/sum.yaml").read_text(), "mine")

    def test_a_damaged_bundle_is_refused_by_each_verb_with_nothing_left(self):
        self.pack(self.workflow(), "--with-data")
        bundle = self.folder / "b.dlflow"
        good = bundle.read_bytes()
        with zipfile.ZipFile(bundle) as zip:
            info = next(info for info in zip.infolist() if info.filename == "workflow/add.sh")
        place = info.header_offset + 30 + len(info.filename) + info.compress_size // 2
        bundle.write_bytes(good[:place] + bytes([good[place] ^ 255]) + good[place + 1:])
        before = sorted(self.folder.rglob("*"))
        for verb in ("unpack", "run", "validate"):
            _, err = self.dlflow(verb, "b.dlflow", status=2)
            self.assertIn("b.dlflow was not unpacked", err)
        bundle.write_bytes(good[:-1])
        for verb in (["unpack"], ["run"], ["unpack", "--list"]):
            _, err = self.dlflow(*verb, "b.dlflow", status=2)
            self.assertIn("b.dlflow: the bundle is damaged", err)
        left = [path for path in self.folder.rglob("*") if path not in before]
        self.assertEqual([path for path in left if path.is_file()], [])

    def test_a_zip_of_another_program_is_not_a_bundle(self):
        with zipfile.ZipFile(self.folder / "x.dlflow", "w") as zip:
            zip.writestr("../outside", "x")
        _, err = self.dlflow("unpack", "x.dlflow", status=2)
        self.assertIn("leads elsewhere", err)
        self.assertFalse((self.folder.parent / "outside").exists())


if __name__ == "__main__":
    support.main()
