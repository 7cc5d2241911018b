"""A colleague reuses the results in a bundle of a run: another user, another store, another folder of runs."""

import hashlib
import json
import os
import shutil
import stat
import sys
import unittest
import zipfile

import support

sys.path.insert(0, str(support.ROOT / "tests/support"))
import dlset  # noqa: E402

# A list that becomes an axis, a sweep with checkpoints and a link among them, a selection by metrics that a later step
# reads, an empty folder, and a program among the outputs.
SWEEP = """\
    name: sweep
    params: {rates: [0.1, 0.2], words: "a b", scale: 3, title: first}
    steps:
      split:
        run: printf '["%s","%s"]' $DLFLOW_PARAM_WORDS > parts.json
        outputs: {parts: parts.json}
      work:
        matrix: {part: "${{ steps.split.outputs.parts }}"}
        run: echo "$DLFLOW_MATRIX_PART" > o
        outputs: {o: o}
      train:
        matrix: {lr: "${{ params.rates }}"}
        checkpoint: {}
        run: |
          mkdir -p $DLFLOW_CHECKPOINTS/step-1 $DLFLOW_OUTPUTS/empty
          echo "weights $DLFLOW_MATRIX_LR $DLFLOW_PARAM_SCALE" > $DLFLOW_CHECKPOINTS/step-1/model
          ln -sfn step-1 $DLFLOW_CHECKPOINTS/latest
          printf '#!/bin/sh\\necho hello\\n' > $DLFLOW_OUTPUTS/tool
          chmod 755 $DLFLOW_OUTPUTS/tool
          echo "{\\"accuracy\\": $DLFLOW_MATRIX_LR}" > $DLFLOW_SUMMARY
        outputs: {model: checkpoints/step-1, all: checkpoints, tool: tool}
      best:
        run: [sh, -c, 'cat $0/model > m', "${{ max_by(steps.train.outputs.model, steps.train.metrics.accuracy) }}"]
        outputs: {model: m}
      tell:
        run: [sh, -c, 'echo "$0 $1 $(cat $2)" > t', "${{ max_by(steps.train.matrix.lr, steps.train.metrics.accuracy) }}", "${{ max(steps.train.metrics.accuracy) }}", "${{ steps.best.outputs.model }}"]
        outputs: {t: t}
      title:
        run: echo $DLFLOW_PARAM_TITLE > t
        outputs: {t: t}
      merge:
        run: [sh, -c, 'cat $0 > all', "${{ join(steps.work.outputs.o, ' ') }}"]
        outputs: {all: all}
"""
JOBS = ["split", "work[part=a]", "work[part=b]", "train[lr=0.1]", "train[lr=0.2]", "best", "tell", "title", "merge"]
TAKEN = "taken from bundle b.dlflow"


class ReuseBundle(support.Case):
    def setUp(self):
        super().setUp()
        self.write("flow/sweep.yaml", SWEEP)

    def other_user(self, name="dora"):
        """Another user, to whom nothing of the first one is left."""
        shutil.rmtree(self.folder / "dlflow-runs", ignore_errors=True)
        shutil.rmtree(self.folder / "state", ignore_errors=True)
        shutil.rmtree(self.folder / "cache", ignore_errors=True)
        shutil.rmtree(self.folder / "flow", ignore_errors=True)
        home = self.folder / name
        home.mkdir()
        profile = self.folder / name / ".config/dlflow/profiles/here.yaml"
        profile.parent.mkdir(parents=True)
        profile.write_text(f"paths: {{runs: {home / 'runs'}}}\n")
        self.env.update({"HOME": str(home), "DLFLOW_HOME": str(home / "state"), "XDG_CACHE_HOME": str(home / "cache"),
                         "XDG_CONFIG_HOME": str(home / ".config"), "USER": name, "LOGNAME": name})

    def packed(self, *arguments):
        """The run that is packed, and all that its jobs published: path -> content."""
        run = self.run_json("flow/sweep.yaml")["run"]
        published = self.published(run)
        self.out, self.err = self.dlflow("pack", "--from-run", run, "-o", "b.dlflow", *arguments)
        self.other_user()
        return run, published

    def published(self, run):
        """job/path -> content, of what the jobs of a run left, wherever it lies."""
        files = {}
        for step in self.status(run)["steps"]:
            for tree in ("outputs", "checkpoints"):
                top = support.pathlib.Path(step["directory"]) / tree
                for path in sorted(top.rglob("*")):
                    name = f"{step['name']}[{step['element']}]/{tree}/{path.relative_to(top)}"
                    files[name] = os.readlink(path) if path.is_symlink() else "" if path.is_dir() else (
                        path.read_bytes(), bool(path.stat().st_mode & stat.S_IXUSR))
        return files

    def reuse(self, *arguments, status=0):
        return self.run_json("b.dlflow", "--profile", "here", "--trust-results", *arguments, status=status)["run"]

    def reasons(self, run):
        return {step["name"] + (f"[{step['element']}]" if step["element"] else ""): step["reason"]
                for step in self.status(run)["steps"]}

    def edit(self, change):
        """Makes the bundle anew: `change` gets name -> content of its files; its checksums are right again."""
        with zipfile.ZipFile(self.folder / "b.dlflow") as archive:
            infos = archive.infolist()
            files = {info.filename: archive.read(info) for info in infos}
            modes = {info.filename: info.external_attr for info in infos}
        change(files)
        manifest = json.loads(files["dlflow-bundle.json"])
        for name, content in files.items():
            if name == "dlflow-bundle.json":
                continue
            entry = manifest["files"].setdefault(name, {"executable": False})
            entry.update({"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)})
        manifest["files"] = {name: entry for name, entry in manifest["files"].items() if name in files}
        files["dlflow-bundle.json"] = json.dumps(manifest, indent=1).encode() + b"\n"
        with zipfile.ZipFile(self.folder / "b.dlflow", "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
                info.external_attr = modes.get(name, 0o100644 << 16)
                info.create_system = 3
                info.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(info, content)

    def edit_job(self, name, change):
        def edit(files):
            record = json.loads(files["run/run.json"])
            change(next(job for job in record["jobs"] if job["job"] == name))
            files["run/run.json"] = json.dumps(record, indent=1).encode()
        self.edit(edit)

    def test_a_colleague_reuses_all_results_with_the_same_bytes(self):
        run, published = self.packed()
        self.assertIn(f"Results of {len(JOBS)} jobs, ", self.out)
        self.assertEqual(self.err, "")
        again = self.reuse()
        self.assertEqual(self.states(again), dict.fromkeys(JOBS, "cached"))
        self.assertEqual(self.published(again), published)
        self.assertEqual(set(self.reasons(again).values()), {f"reused from {run}, {TAKEN}"})
        self.assertEqual(published["train[lr=0.1]/checkpoints/latest"], "step-1")
        self.assertTrue(published["train[lr=0.1]/outputs/tool"][1])
        self.assertIn(b"0.2 0.2 weights 0.2 3", published["tell[None]/outputs/t"][0])

    def test_an_output_that_is_no_path_is_what_it_was(self):
        self.write("flow/sweep.yaml", """\
            name: sweep
            steps:
              train:
                run: |
                  echo weights > model
                  echo '{"kind": "large"}' > $DLFLOW_OUTPUTS/outputs.json
                outputs: {model: model}
            """)
        self.packed()
        again = self.status(self.reuse())["steps"][0]
        self.assertEqual(again["state"], "cached")
        self.assertEqual(again["outputs"], {"kind": "large", "model": again["directory"] + "/outputs/model"})

    def test_only_what_depends_on_a_changed_parameter_runs(self):
        self.packed()
        changed = self.reuse("--set", "title=second")
        self.assertEqual(self.states(changed), {**dict.fromkeys(JOBS, "cached"), "title": "succeeded"})
        changed = self.reuse("--set", "rates=[0.1, 0.3]")
        jobs = {**dict.fromkeys(JOBS, "cached"), "train[lr=0.3]": "succeeded", "best": "succeeded", "tell": "succeeded"}
        del jobs["train[lr=0.2]"]
        self.assertEqual(self.states(changed), jobs)

    def test_what_is_reused_is_said_by_explain_status_and_list(self):
        run, _ = self.packed()
        out, _ = self.dlflow("run", "b.dlflow", "--profile", "here", "--dry-run", "--trust-results")
        self.assertRegex(out, rf"tell +reused from {run} +{TAKEN}")
        self.assertIn(f"results   of {len(JOBS)} jobs, which", self.dlflow("unpack", "--list", "b.dlflow")[0])
        self.assertRegex(self.dlflow("explain", "b.dlflow", "--trust-results")[0], rf"tell +reused from {run} +{TAKEN}")
        self.assertEqual(self.dlflow("status", "--quick", "--quiet")[0], "", "a dry run writes nothing")
        out, _ = self.dlflow("run", "b.dlflow", "--profile", "here", "--trust-results")
        self.assertIn(f"9 results of {run} (dlflow ", out)
        self.assertIn("Nothing proves who made b.dlflow", out)
        again = self.dlflow("status", "--quick", "--quiet")[0].split()
        self.assertIn(run, again)
        again.remove(run)
        out, _ = self.dlflow("explain", again[0], "tell")
        self.assertRegex(out, rf"reused from {run} +{TAKEN}")
        self.assertEqual(json.loads(self.dlflow("explain", again[0], "tell", "--json")[0])[0]["bundle"], "b.dlflow")
        self.assertIn(TAKEN, self.dlflow("status", again[0])[0])
        self.assertEqual(set(self.reasons(run).values()), {TAKEN})
        self.assertEqual(self.status(run)["state"], "succeeded")
        self.assertIn("0.2", self.dlflow("results", run)[0])

    def test_results_are_reused_only_by_who_says_so(self):
        run, _ = self.packed()
        out, _ = self.dlflow("run", "b.dlflow", "--profile", "here")
        self.assertIn(f"The bundle holds results of {run}; --trust-results reuses them", out)
        mine = self.dlflow("status", "--quick", "--quiet")[0].split()[0]
        self.assertEqual(set(self.states(mine).values()), {"succeeded"})
        reused = self.reuse()  # own results come before those of a bundle
        self.assertEqual(set(self.reasons(reused).values()), {f"reused from {mine}"})
        self.write("w.yaml", "name: w\nsteps:\n  a: {run: 'true'}\n")
        _, err = self.dlflow("run", "w.yaml", "--trust-results", status=2)
        self.assertIn("w.yaml holds no results; --trust-results is for what `dlflow pack --from-run RUN` makes", err)

    def test_results_are_taken_once_and_can_be_removed(self):
        run, _ = self.packed()
        first, second = self.reuse(), self.reuse()
        runs = self.dlflow("status", "--quick", "--quiet")[0].split()
        self.assertEqual(sorted(runs), sorted([run, first, second]))
        later = self.run_json("b.dlflow", "--profile", "here")["run"]  # they are the user's own by now
        self.assertEqual(set(self.states(later).values()), {"cached"})
        before = self.status(run)
        self.dlflow("doctor", "--rebuild", self.folder / "dora/runs")  # the folder says all
        self.assertEqual(self.status(run), before)
        for gone in (later, second, first, run):
            self.dlflow("rm", gone)
        anew = self.run_json("b.dlflow", "--profile", "here")["run"]
        self.assertEqual(set(self.states(anew).values()), {"succeeded"})

    def test_the_same_run_with_other_metrics_is_taken_anew(self):
        run, _ = self.packed()
        first = self.reuse()
        self.edit_job("title", lambda job: job.update(metrics={"loss": 1}))  # which no other job reads
        second = self.reuse()
        runs = set(self.dlflow("status", "--quick", "--quiet")[0].split())
        self.assertEqual(len(runs - {run, first, second}), 1)

    def test_an_unpacked_bundle_gives_its_results_too(self):
        run, published = self.packed()
        self.dlflow("unpack", "b.dlflow")
        again = self.run_json("sweep/workflow/sweep.yaml", "--profile", "here", "--trust-results")["run"]
        self.assertEqual(self.states(again), dict.fromkeys(JOBS, "cached"))
        self.assertEqual(self.published(again), published)
        self.assertIn(f"reused from {run}, taken from bundle sweep", self.reasons(again)["tell"])

    def staged(self, sha256):
        """A bundle of a run whose step `train` reads what a `stage` step brings; its sources have hashes, or not."""
        data = self.write("data/numbers.txt", "1 2 3\n")
        digest = f", sha256: {hashlib.sha256(data.read_bytes()).hexdigest()}" if sha256 else ""
        self.write("flow/sweep.yaml", f"""\
            name: staged
            steps:
              data:
                uses: stage
                with: {{sources: [{{url: "file://{data}"{digest}}}]}}
              train:
                run: [sh, -c, 'cat $0/numbers.txt > m', "${{{{ steps.data.outputs.path }}}}"]
                outputs: {{m: m}}
            """)
        return self.packed(*(["--with-data"] if sha256 else []))

    def test_what_needs_staged_data_whose_hashes_are_declared_is_reused_before_the_data_is_there(self):
        run, _ = self.staged(sha256=True)
        out, _ = self.dlflow("run", "b.dlflow", "--profile", "here", "--trust-results", "--dry-run")
        self.assertRegex(out, rf"train +reused from {run} +{TAKEN}")
        out, _ = self.dlflow("explain", "b.dlflow", "--profile", "here", "--trust-results")
        self.assertRegex(out, rf"train +reused from {run} +{TAKEN}")
        again = self.reuse()
        self.assertEqual(self.states(again), {"data": "succeeded", "train": "cached"})
        self.assertEqual(self.dlflow("status", again, "--json")[0].count('"cached"'), 1)  # the frozen plan says so, too
        self.dlflow("run", "--resume", again)
        self.assertEqual(self.states(again), {"data": "succeeded", "train": "cached"})

    def test_staged_data_without_declared_hashes_is_looked_at_first(self):
        self.staged(sha256=False)
        out, _ = self.dlflow("run", "b.dlflow", "--profile", "here", "--trust-results", "--dry-run")
        self.assertNotRegex(out, r"train +reused")

    def test_only_named_steps_travel(self):
        self.packed("--step", "train")
        self.assertIn("Results of 2 jobs, ", self.out)
        states = self.states(self.reuse())
        self.assertEqual({job for job, state in states.items() if state == "cached"}, {"train[lr=0.1]", "train[lr=0.2]"})

    @unittest.skipUnless((support.BIN / "dlflow-train").exists(), "dlflow-train was not built")
    def test_trainings_their_selection_and_evaluation_are_reused(self):
        (self.folder / "flow/data").mkdir()
        for split, count in (("test", 300), ("train", 400)):
            labels = [i % 2 for i in range(count)]
            images = b"".join(bytes(200 if (p < 8) == bool(label) else (p * 7 + i) % 90 for p in range(16))
                              for i, label in enumerate(labels))
            dlset.write(self.folder / f"flow/data/{split}.dlset", images, labels, (1, 4, 4), 2, 64)
        self.write("flow/net.yaml", "name: net\ninput: [1, 4, 4]\nlayers:\n  - flatten\n  - linear: {name: out, features: 2}\n")
        self.write("flow/sweep.yaml", """\
            name: sweep
            params: {rates: [0.05, 1e-7]}
            steps:
              train:
                uses: train
                matrix: {lr: "${{ params.rates }}"}
                with: {model: net.yaml, data: data, epochs: 1, lr: "${{ matrix.lr }}", batch: 32}
                checkpoint: {every: 1 epoch, keep: 2}
              best:
                uses: checkpoint
                with: {from: "${{ steps.train.outputs.checkpoints }}", select: max accuracy, export: safetensors}
              evaluate:
                uses: evaluate
                with: {checkpoint: "${{ steps.best.outputs.checkpoint }}", data: data}
              tell:
                run: [sh, -c, 'echo $0 > o', "${{ steps.best.matrix.lr }}"]
                outputs: {o: o}
            """)
        _, published = self.packed("--with-data")
        again = self.reuse()
        self.assertEqual(set(self.states(again).values()), {"cached"})
        taken = self.published(again)
        self.assertEqual({name: taken[name] for name in published if name != "best[None]/outputs/outputs.json"}, taken)
        self.assertIn(taken["tell[None]/outputs/o"][0], [b"0.05\n", b"1e-07\n"])
        # The data counts with inode and times on each machine; the bundle proves that it is the same, or not.
        for run in self.dlflow("status", "--quick", "--quiet")[0].split():
            self.dlflow("rm", run)
        self.dlflow("unpack", "b.dlflow")
        dlset.write(self.folder / "sweep/workflow/data/train.dlset", images[:3200], labels[:200], (1, 4, 4), 2, 64)
        _, err = self.dlflow("run", "sweep/workflow/sweep.yaml", "--profile", "here", "--trust-results")
        self.assertIn("not reused: train[lr=0.05]: here it would not run with the same", err)
        states = self.states(next(run for run in self.dlflow("status", "--quick", "--quiet")[0].split()
                                  if "succeeded" in self.states(run).values() and "cancelled" not in self.states(run).values()))
        self.assertEqual((states["train[lr=0.05]"], states["train[lr=1e-07]"]), ("succeeded", "succeeded"))

    def test_a_result_whose_file_is_another_is_not_reused(self):
        self.packed()
        self.edit(lambda files: files.update({"run/steps/train/lr=0.1/checkpoints/step-1/model": b"poison"}))
        again = self.reuse()
        self.assertEqual(self.states(again)["train[lr=0.1]"], "succeeded")
        self.assertEqual(self.states(again)["train[lr=0.2]"], "cached")
        self.assertNotIn(b"poison", b"".join(f[0] for f in self.published(again).values() if isinstance(f, tuple)))

    def test_where_no_result_is_what_was_packed_nothing_is_kept(self):
        self.packed("--step", "title")
        self.edit(lambda files: files.update({"run/steps/title/outputs/t": b"poison"}))
        out, err = self.dlflow("run", "b.dlflow", "--profile", "here", "--trust-results")
        self.assertIn("No result in b.dlflow can be reused here.", out)
        self.assertIn("not reused: title: its outputs are not what was packed: another checksum", err)
        self.assertEqual(len(self.dlflow("status", "--quick", "--quiet")[0].split("\n")), 2)

    def test_a_damaged_entry_is_refused(self):
        self.packed()
        bundle = self.folder / "b.dlflow"
        good = bundle.read_bytes()
        with zipfile.ZipFile(bundle) as archive:
            info = archive.getinfo("run/steps/tell/outputs/t")
        place = info.header_offset + 30 + len(info.filename) + info.compress_size // 2
        bundle.write_bytes(good[:place] + bytes([good[place] ^ 255]) + good[place + 1:])
        _, err = self.dlflow("run", "b.dlflow", "--profile", "here", "--trust-results", status=2)
        self.assertIn("b.dlflow was not unpacked", err)
        self.assertEqual(self.dlflow("status", "--quick", "--quiet")[0], "")

    def test_an_edited_fingerprint_is_not_reused(self):
        self.packed()
        self.edit_job("title", lambda job: job.update(fingerprint="0" * 64))
        out, err = self.dlflow("run", "b.dlflow", "--profile", "here", "--trust-results")
        self.assertIn("not reused: title: here it would not run with the same", err)
        mine = self.dlflow("status", "--quick", "--quiet")[0].split()[0]
        self.assertEqual(self.states(mine), {**dict.fromkeys(JOBS, "cached"), "title": "succeeded"})

    def test_a_result_of_another_workflow_does_not_slip_in(self):
        """What is said to be the result of one job carries the fingerprint of another."""
        self.packed()
        prints = {}
        self.edit_job("merge", lambda job: prints.update(merge=job["fingerprint"]))
        self.edit_job("title", lambda job: job.update(fingerprint=prints["merge"]))
        again = self.reuse()
        self.assertEqual(self.states(again), {**dict.fromkeys(JOBS, "cached"), "title": "succeeded"})

    def test_paths_and_links_that_lead_elsewhere_are_refused(self):
        self.packed()
        good = (self.folder / "b.dlflow").read_bytes()
        train = "train[lr=0.1]"
        outside = self.folder / "outside"
        for change in (
                lambda job: job["outputs"]["model"].update(path="../../../outside"),
                lambda job: job["outputs"]["model"].update(path="/etc/passwd"),
                lambda job: job["outputs"].update(more={"value": "/etc/passwd", "sha256": "0" * 64}),
                lambda job: job["result"]["links"].update({"checkpoints/latest": "/etc"}),
                lambda job: job["result"]["links"].update({"checkpoints/latest": "../../../.."}),
                lambda job: job["result"]["links"].update({"checkpoints/../../x": "step-1"}),
                lambda job: job["result"]["links"].update({"../outside": "step-1"}),
                lambda job: job["result"]["folders"].append("outputs/../../../../outside"),
                lambda job: job["result"]["trees"].update({"..": "0" * 64})):
            (self.folder / "b.dlflow").write_bytes(good)
            self.edit_job(train, change)
            _, err = self.dlflow("run", "b.dlflow", "--profile", "here", "--trust-results", status=2)
            self.assertIn("run/run.json is damaged", err)
            self.assertEqual(self.dlflow("status", "--quick", "--quiet")[0], "")
            self.assertFalse(outside.exists())

    def test_links_through_links_do_not_lead_out_of_a_result(self):
        self.packed()
        train = "train[lr=0.1]"
        good = (self.folder / "b.dlflow").read_bytes()
        for links in ({"checkpoints/a": ".", "checkpoints/a/b": "step-1"},
                      {"checkpoints/a": "nowhere"},
                      {"checkpoints/a": "a"}):
            (self.folder / "b.dlflow").write_bytes(good)
            self.edit_job(train, lambda job: job["result"]["links"].update(links))
            again = self.reuse("--set", "title=" + hashlib.sha256(str(links).encode()).hexdigest())
            self.assertEqual(self.states(again)[train], "succeeded")
            for name in self.dlflow("status", "--quick", "--quiet")[0].split():
                self.dlflow("rm", name)

    def test_an_output_that_was_changed_before_packing_does_not_travel(self):
        run = self.run_json("flow/sweep.yaml")["run"]
        made = self.folder / "dlflow-runs" / run / "steps/title/outputs/t"
        made.chmod(0o644)
        made.write_text("other\n")
        _, err = self.dlflow("pack", "--from-run", run, "-o", "b.dlflow")
        self.assertIn("the result of title cannot be reused from the bundle: outputs/t was changed", err)
        self.other_user()
        self.assertEqual(self.states(self.reuse()), {**dict.fromkeys(JOBS, "cached"), "title": "succeeded"})


if __name__ == "__main__":
    support.main()
