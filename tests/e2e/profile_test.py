"""dlflow profile: lists and shows profiles, describes a cluster, and tries a profile."""

import json
import shutil
import signal
import sys

import support

sys.path.insert(0, str(support.ROOT / "tests/support"))
import fake_slurm  # noqa: E402

PROFILE = """
    scheduler: slurm
    slurm: {partition: batch}
    launcher: {program: ./launch}
"""


class ProfileTest(support.Case):
    def setUp(self):
        super().setUp()
        self.slurm = fake_slurm.FakeSlurm(self.folder / "slurm")
        self.addCleanup(self.slurm.stop)
        self.env.update(self.slurm.env)

    def check(self, launcher, *options, status=0):
        script = self.write("launch", f"#!/bin/sh\n{launcher}\n")
        script.chmod(0o755)
        self.write("cluster-profiles/alpha.yaml", PROFILE.replace("./launch", str(script)))
        return self.dlflow("profile", "check", "alpha", *options, status=status)

    def test_a_missing_partition_is_reported(self):
        self.write("cluster-profiles/alpha.yaml", PROFILE.replace("batch", "bacth"))
        out, _ = self.dlflow("profile", "check", "alpha", status=1)
        self.assertIn("there is no partition 'bacth'", out)
        self.assertIn("Invalid partition name specified", out)

    def json(self, *args):
        return json.loads(self.dlflow("profile", *args, "--json")[0])

    def test_profiles_are_listed_with_their_mistakes(self):
        self.write("cluster-profiles/alpha.yaml", PROFILE)
        self.write("cluster-profiles/bad.yaml", "shceduler: slurm")
        out, _ = self.dlflow("profile", "list")
        self.assertRegex(out, r"alpha +slurm +cluster-profiles/alpha.yaml\n")
        self.assertRegex(out, r"bad +- +cluster-profiles/bad.yaml:1:1: error: .* did you mean 'scheduler'\?\n")
        self.assertRegex(out, r"local +local +built in\n")
        names = {profile["name"]: profile for profile in self.json("list")}
        self.assertEqual(names["alpha"]["scheduler"], "slurm")
        self.assertIsNone(names["bad"]["file"])

    def test_profiles_of_a_site_are_found_and_extended(self):
        site = self.folder / "site"
        self.env.update(DLFLOW_PROFILES=f"/nowhere:{site}", DLFLOW_PROFILE="alpha")
        self.write("site/alpha.yaml", PROFILE)
        own = self.write("home/.config/dlflow/profiles/alpha.yaml", "extends: alpha\nslurm: {account: mine}\n")
        self.assertRegex(self.dlflow("profile", "list")[0], rf"alpha +slurm +{own}, extends {site}/alpha.yaml\n")
        alpha, local = self.json("list")
        self.assertEqual((alpha["file"], alpha["extends"], local["extends"]), (str(own), [f"{site}/alpha.yaml"], []))
        slurm = self.json("show", "alpha")["slurm"]
        self.assertEqual((slurm["partition"], slurm["account"]), ("batch", "mine"))
        self.write_steps("\na: {run: 'true'}\n")
        self.assertIn(" to alpha would run", self.dlflow("run", "w.yaml", "--dry-run")[0])
        self.assertNotIn("alpha", self.dlflow("run", "w.yaml", "--dry-run", "--profile", "local")[0])
        (site / "alpha.yaml").unlink()
        _, err = self.dlflow("explain", "w.yaml", status=2)
        self.assertIn(f"{own} extends 'alpha', but there is no such profile in /nowhere, {site}, ", err)
        own.unlink()
        _, err = self.dlflow("explain", "w.yaml", status=2)
        self.assertIn("there is no profile 'alpha', which $DLFLOW_PROFILE names; known: local (searched: cluster-profiles, ", err)

    def doctor(self, status=0):
        return self.dlflow("doctor", status=status)[0]

    def test_doctor_checks_this_machine(self):
        tools = self.folder / "tools"
        tools.mkdir()
        for name in "sh bash cat date uname mkdir rm df sed mv tail head grep id".split():
            (tools / name).symlink_to(shutil.which(name))
        self.env["PATH"] = str(tools)
        out = self.doctor()
        self.assertRegex(out, r"✔ the folder of runs, \S+, is shared and writable\n")
        self.assertTrue(out.endswith("\nSteps can run here.\n"))
        self.assertFalse((self.folder / "dlflow-runs").exists())
        self.assertNotRegex(out, "there\n|clock")
        for words in ("no usable container tool was found", "Steps with `image:` need one of ", "there is no python3 in PATH", "there is no mpirun"):
            self.assertIn(words, out)
        for name, text in (("podman", "echo cannot set up namespaces >&2; exit 125"), ("python3", "echo 0.1.0")):
            self.write(f"tools/{name}", f"#!/bin/sh\n{text}\n").chmod(0o755)
        out = self.doctor(status=1)
        self.assertRegex(out, r"✘ no container runs with podman: .*cannot set up namespaces")
        self.assertTrue(out.endswith("\nSome checks failed.\n"))
        self.assertRegex(out, r"✘ python3 has the package dlflow 0.1.0\n +This is dlflow \S+: `pip install")
        (tools / "podman").unlink()
        if tool := shutil.which("bwrap"):
            (tools / "bwrap").symlink_to(tool)
            self.assertIn("✔ containers run with bubblewrap\n", self.doctor(status=1))
        findings = json.loads(self.dlflow("doctor", "--json", status=1)[0])["findings"]
        self.assertIn("fails", {finding["finding"] for finding in findings})

    def test_a_run_keeps_the_profile_that_it_began_with(self):
        self.write("cluster-profiles/base.yaml", "environment: {WHERE: before}\n")
        self.write("cluster-profiles/here.yaml", "extends: base\n")
        self.write_steps(f"\na: {{run: 'echo $WHERE; test -e {self.folder}/go'}}\n")
        run = self.run_json("w.yaml", "--profile", "here", status=1)["run"]
        for name in ("base", "here"):
            (self.folder / f"cluster-profiles/{name}.yaml").unlink()
        self.write("go", "")
        self.dlflow("resubmit", run)
        self.assertIn("before", self.dlflow("logs", run, "a")[0])

    def test_the_shown_text_is_a_profile(self):
        self.write("cluster-profiles/alpha.yaml", PROFILE)
        self.assertIn("# The folder of the runs, relative to", self.dlflow("profile", "show", "local")[0])
        self.write("again.yaml", self.dlflow("profile", "show", "alpha")[0])
        first, second = (self.json("show", name) for name in ("alpha", "again.yaml"))
        first.pop("file"), second.pop("file")
        self.assertEqual(first, second)
        self.assertEqual(first["slurm"]["partition"], "batch")

    def test_a_cluster_describes_itself(self):
        self.slurm.set(cluster="gamma", max_array_size=51)
        self.dlflow("profile", "detect", "--partition", "short", "-o", "gamma.yaml")
        profile = self.json("show", "gamma.yaml")
        self.assertEqual(profile["limits"]["walltime_s"], 300)
        self.assertEqual(profile["limits"]["array_size"], 51)
        self.assertEqual(profile["node"]["memory_bytes"], 8000 << 20)
        _, err = self.dlflow("profile", "detect", "-o", "gamma.yaml", status=2)
        self.assertIn("already exists", err)
        _, err = self.dlflow("profile", "detect", "--partition", "shrot", status=2)
        self.assertIn("did you mean 'short'?", err)

    def test_check_accepts_a_working_profile(self):
        self.slurm.mode("background")
        out, _ = self.check("echo n1; echo n2")
        self.assertIn("partition batch has 2 nodes", out)
        self.assertIn("started 2 ranks on n1, n2", out)
        self.assertNotIn("✘", out)
        self.assertEqual(list((self.folder / "dlflow-runs").iterdir()), [])

    def test_check_reports_a_failing_launcher(self):
        self.slurm.mode("background")
        out, _ = self.check("echo 'launch: no PMIx' >&2; exit 1", status=1)
        self.assertIn("started 0 of 2 ranks: launch: no PMIx", out)
        self.assertIn("Change launcher in cluster-profiles/alpha.yaml", out)

    def test_the_environments_of_steps_load_on_the_node(self):
        self.slurm.mode("background")
        self.write("venv/bin/activate", f"VIRTUAL_ENV={self.folder}/venv\nPATH={self.folder}/venv/bin:$PATH\n")
        self.write("venv/bin/python3", "#!/bin/sh\necho Python 3.12.1\n").chmod(0o755)
        self.write("w.yaml", """\
            name: w
            steps:
              train: {run: 'true', environment: {venv: venv}}
              tell: {run: 'true', environment: {venv: venv}}
              plain: {run: 'true'}
              other: {run: 'true', environment: {modules: [cuda/99, gcc/4]}}
            """)
        out, _ = self.check("echo n1; echo n2", "--workflow", "w.yaml", status=1)
        self.assertIn("✔ the environment of train, tell loads: venv", out)
        self.assertIn("(Python 3.12.1)", out)
        self.assertIn("✘ the environment of other: module cuda/99 does not load: ", out)
        self.assertIn("✘ the environment of other: module gcc/4 does not load: ", out)
        self.assertIn("Change `environment:` of the step", out)
        self.assertNotIn("plain", out)
        # The same on this machine, and as JSON.
        found = json.loads(self.dlflow("profile", "check", "local", "--workflow", "w.yaml", "--json", status=1)[0])
        texts = [finding["text"] for finding in found["findings"] if finding["finding"] == "fails"]
        self.assertTrue(any(text.startswith("the environment of other: module cuda/99") for text in texts), texts)

    def test_a_container_runtime_is_not_tried_for_a_workflow_without_images(self):
        self.write("w.yaml", "name: w\nsteps:\n  a: {run: 'true'}\n")
        self.write("cluster-profiles/here.yaml", """\
            scheduler: local
            launcher: {program: sh, arguments: [-c, 'echo n1; echo n2']}
            container: {runtime: charliecloud, command: [no-ch-run]}
            """)
        self.assertIn("no container runs with charliecloud", self.dlflow("profile", "check", "here", status=1)[0])
        self.assertNotIn("container", self.dlflow("profile", "check", "here", "--workflow", "w.yaml")[0])

    def test_an_environment_is_tried_in_the_class_of_its_step(self):
        self.slurm.mode("background")
        script = self.write("launch", "#!/bin/sh\necho n1; echo n2\n")
        script.chmod(0o755)
        self.write("cluster-profiles/alpha.yaml", PROFILE.replace("./launch", str(script)) + """\
    classes:
      cpu: {slurm: {partition: batch}}
      short: {slurm: {partition: short}}
""")
        self.write("w.yaml", """\
            name: w
            steps:
              a: {run: 'true', on: short, environment: {venv: none}}
            """)
        out, _ = self.dlflow("profile", "check", "alpha", "--workflow", "w.yaml", "--json", status=1)
        found = json.loads(out)["findings"]
        self.assertEqual({finding["class"] for finding in found if "environment of a" in finding["text"]}, {"short"})

    def test_a_failing_setup_line_is_named(self):
        self.slurm.mode("background")
        self.write("cluster-profiles/alpha.yaml", PROFILE + "    setup: ['true', 'cat /nowhere/modules.sh']\n")
        out, _ = self.dlflow("profile", "check", "alpha", status=1)
        self.assertIn("the setup line `cat /nowhere/modules.sh` fails: cat: /nowhere/modules.sh: No such file", out)

    def test_a_job_that_does_not_start_is_cancelled(self):
        out, _ = self.check("true", "--timeout", "1s", status=1)
        self.assertIn("job 1 was cancelled: still pending after 0:01", out)
        self.assertEqual(self.slurm.state(1), "CANCELLED")

    def test_check_reports_a_cluster_that_refuses_or_does_not_answer(self):
        self.slurm.fault("sbatch", "before", "Invalid account or account/partition combination specified")
        out, _ = self.check("true", status=1)
        self.assertIn("SLURM refuses a job: Invalid account", out)
        self.slurm.fault("all", "before", "connect", "always")
        _, err = self.check("true", status=3)
        self.assertIn("error: Unable to contact slurm controller (connect failure) (tried 3 times)", err)

    def test_ctrl_c_cancels_the_probe(self):
        self.write("cluster-profiles/alpha.yaml", PROFILE)
        process = self.start("profile", "check", "alpha")
        self.wait_for(lambda: self.slurm.jobs(), what="the probe to be submitted")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, err)
        self.assertIn("job 1 was cancelled", err)
        self.assertEqual(self.slurm.state(1), "CANCELLED")
        self.assertEqual(list(self.folder.rglob(".dlflow-probe-*")), [])


if __name__ == "__main__":
    support.main()
