"""Steps in different classes of nodes, and on the login node, on a real SLURM; failing nodes are left out."""

import json

import cluster
from chains import Chain
from cluster import wait_until


class Classes(Chain):
    clusters = (cluster.Case.alpha,)

    def write_profile(self, text="", options=""):
        self.write("mine.yaml", f"""
            scheduler: slurm
            slurm: {{options: [{options}]}}
            node: {{cores: 2}}
            paths: {{runs: runs}}
            {text}
        """)
        self.profile = "mine.yaml"

    def with_classes(self):
        self.write_profile("""
            classes:
              usual: {slurm: {partition: batch}, limits: {nodes: 1, walltime: 10m}}
              wide: {slurm: {partition: batch, options: [--spread-job]}, ranks_per_node: 1, setup: [export WHERE=wide]}
              quick: {slurm: {partition: short}, limits: {walltime: 5m}}
              login: {local: true}
        """.strip())

    def where(self, name, extra=""):
        command = f"echo {name} ${{SLURM_JOB_PARTITION:-login}} ${{SLURM_JOB_NUM_NODES:-0}} $WHERE >> {self.folder}/places"
        return f"{{run: '{command}'{extra}}}"

    def places(self):
        return sorted((self.folder / "places").read_text().splitlines())

    def test_each_step_runs_on_the_partition_of_its_class(self):
        self.with_classes()
        self.write_steps("places", f"""
            fetch: {self.where("fetch", ", on: login")}
            prepare: {self.where("prepare", ", needs: [fetch]")}
            wide: {self.where("wide", ", needs: [fetch], resources: {nodes: 2}, launch: node")}
            quick: {self.where("quick", ", needs: [fetch], on: quick, resources: {walltime: 1m, exclusive: true}")}
        """)
        run = self.submit()
        self.assertEqual(self.states(run)["fetch"], "succeeded")  # before anything was submitted
        self.assertEqual((self.folder / "places").read_text().splitlines()[0], "fetch login 0")
        self.wait_for(run, dict.fromkeys(("prepare", "wide", "quick"), "succeeded"), timeout=90)
        self.assertEqual(self.places(), ["fetch login 0", "prepare batch 1", "quick short 1"] + ["wide batch 2 wide"] * 2)
        shown = self.alpha.run(["scontrol", "show", "job", self.ids(run)["quick"]]).stdout
        self.assertIn("OverSubscribe=NO", shown)
        self.assertEqual(self.status(run)["state"], "succeeded")

    def test_the_login_node_waits_for_no_job_and_a_later_resume_goes_on(self):
        self.with_classes()
        self.write_steps("upload", f"""
            train: {self.where("train")}
            upload: {self.where("upload", ", on: login, needs: [train]")}
            after: {self.where("after", ", needs: [upload]")}
        """)
        out = self.dlflow("run", "w.yaml", "--profile", self.profile).stdout
        run = out.split()[0]
        self.assertIn(f"upload runs on the login node. When its parents have ended, type\n  `dlflow run --resume {run}`", out)
        self.wait_for(run, {"train": "succeeded"})
        told = self.dlflow("status", run).stdout
        self.assertIn("runs on the login node: type dlflow run --resume", " ".join(told.split()))
        self.assertEqual(self.states(run), {"train": "succeeded", "upload": "planned", "after": "planned"})
        out = self.dlflow("run", "--resume", run).stdout
        self.assertIn("upload runs here, on the login node", out)
        self.wait_for(run, {"after": "succeeded"})
        self.assertEqual(self.places(), ["after batch 1", "train batch 1", "upload login 0"])

    def test_a_profile_check_tries_each_class(self):
        self.with_classes()
        out = self.dlflow("profile", "check", self.profile, timeout=240, status=None).stdout
        for line in ("usual: SLURM", "wide: SLURM", "quick: SLURM", "login: the login node"):
            self.assertIn(f"mine, class {line}", out)

    def test_a_detected_profile_has_a_class_for_each_partition(self):
        text = self.dlflow("profile", "detect").stdout
        self.write("detected.yaml", text)
        shown = json.loads(self.dlflow("profile", "show", "./detected.yaml", "--json").stdout)
        self.assertEqual([(one["name"], one["slurm"]["partition"]) for one in shown["classes"]],
                         [("batch", "batch"), ("short", "short")])

    def test_a_node_that_lost_a_job_is_left_out_until_it_is_forgiven(self):
        bad = self.alpha.node(2)
        self.write_profile("exclude_nodes: 1", f"--nodelist={bad}")
        self.write("w.yaml", f"name: lost\nsteps:\n  lost: {{run: 'echo x >> {self.folder}/trace; sleep 120'}}\n")
        run = self.submit()
        wait_until(self.trace, 30, "the job to run")
        self.addCleanup(self.alpha.start_node, 2)
        self.alpha.kill_node(2)
        self.wait_for(run, {"lost": "lost"}, timeout=120)
        self.alpha.start_node(2)
        nodes = json.loads(self.dlflow("status", "--nodes", "--json").stdout)
        self.assertEqual([(node["cluster"], node["node"], node["failures"]) for node in nodes], [("alpha", bad, 1)])

        self.write_profile("exclude_nodes: 1")
        self.write("w.yaml", "name: next\nsteps: {a: {run: hostname}}\n")
        out = self.dlflow("run", "w.yaml", "--profile", self.profile).stdout
        self.assertIn(f"without {bad}, where jobs were lost: dlflow status --nodes", out)
        run = out.split()[0]
        self.wait_for(run, {"a": "succeeded"})
        shown = self.alpha.run(["scontrol", "show", "job", self.ids(run)["a"]]).stdout
        self.assertIn(f"ExcNodeList={bad}", shown)

        self.dlflow("status", "--nodes", "--forgive", bad)
        self.assertEqual(json.loads(self.dlflow("status", "--nodes", "--json").stdout), [])
        self.assertNotIn("without", self.dlflow("run", "w.yaml", "--profile", self.profile, "--no-cache").stdout)

    def test_a_try_after_a_timeout_is_longer_within_the_sites_limit(self):
        self.write_profile()
        self.write_steps("longer", f"""
            a:
              run: 'echo start >> {self.folder}/trace; sleep 6; echo end >> {self.folder}/trace'
              resources: {{walltime: 3s}}
              retry: {{attempts: 2, on: [timeout], walltime_factor: 40}}
        """)
        run = self.submit()
        self.wait_for(run, {"a": "succeeded"}, timeout=120)
        self.assertEqual(self.trace(), ["start", "start", "end"])
        shown = self.alpha.run(["scontrol", "show", "job", self.ids(run)["a"]]).stdout
        self.assertIn("TimeLimit=00:03:00", shown)  # 2 minutes, and half a minute to record


if __name__ == "__main__":
    cluster.main()
