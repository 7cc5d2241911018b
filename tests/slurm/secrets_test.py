"""A secret on a real SLURM, natively and in a container, is found in RUN/secrets and nowhere else."""

import pathlib
import shutil
import stat
import sys

import cluster
from chains import Chain
from cluster import ROOT, STAGED, wait_until

for folder in ("support", "container"):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / folder))
import images  # noqa: E402
from containers import UDOCKER, udocker_program  # noqa: E402
from leaks import TOKEN, files_with, processes_with  # noqa: E402


class Secrets(Chain):
    clusters = (cluster.Case.alpha,)

    def hold(self, *options, image=""):
        """Submits a job that keeps its secrets until it is released; returns (run, its folder), once it runs."""
        self.write("w.yaml", f"""
            name: w
            {image}
            steps:
              push:
                {"image: box" if image else ""}
                secrets: [TOKEN, https_proxy]
                run: |
                  echo held > $DLFLOW_OUTPUTS/held
                  until [ -e $DLFLOW_OUTPUTS/go ]; do sleep 0.1; done
                  echo "it is $TOKEN"; echo "by $https_proxy" >&2; [ "$https_proxy" = "http://me:$TOKEN@proxy" ]
              after: {{run: 'echo "${{TOKEN-unset}} ${{https_proxy-unset}}"', needs: [push]}}
        """)
        # SLURM receives some variables, and https_proxy would be one of them.
        run = self.submit(*options, env={"TOKEN": TOKEN, "https_proxy": f"http://me:{TOKEN}@proxy"})
        directory = self.folder / "dlflow-runs" / run
        held = directory / "steps/push/attempt-1/pass-1/outputs/held"
        wait_until(held.exists, 120, f"{run} to run; it is {self.dlflow('status', run).stdout}")
        return run, directory

    def check_nobody_sees_it(self, run, directory):
        kept = directory / "secrets"
        self.assertEqual(stat.S_IMODE(kept.stat().st_mode), 0o600)
        id = self.ids(run)["push"]
        for command in (["scontrol", "show", "job", "--details", id], ["scontrol", "write", "batch_script", id, "-"],
                        ["squeue", "--me", "--format=%all"], ["sacct", "--parsable2", "--format=ALL"],
                        [STAGED / "bin/dlflow", "status", run, "--json"]):
            said = self.alpha.run(command, cwd=self.folder, env=self.env)
            self.assertNotEqual(said.stdout, "")
            self.assertNotIn(TOKEN, said.stdout + said.stderr)
        # ROOT also contains the files of the controller, the nodes and accounting.
        self.assertEqual(files_with(TOKEN, ROOT), [str(kept)])
        self.assertEqual(processes_with(TOKEN, "cmdline"), [])
        self.assertNotEqual(processes_with(TOKEN, "environ"), [])  # the search itself works

    def finish(self, run, directory):
        (directory / "steps/push/attempt-1/pass-1/outputs/go").touch()
        self.wait_for(run, {"push": "succeeded", "after": "succeeded"}, timeout=120)
        said = (directory / "steps/push/attempt-1/stdout").read_text()
        self.assertEqual(said.splitlines()[-1], "it is ***")
        self.assertEqual((directory / "steps/push/attempt-1/stderr").read_text(), "by ***\n")
        self.assertEqual((directory / "steps/after/attempt-1/stdout").read_text(), "unset unset\n")
        self.assertEqual(files_with(TOKEN, ROOT), [])  # `status` has seen the success

    def test_a_job_keeps_a_secret_from_slurm_from_files_and_from_command_lines(self):
        run, directory = self.hold()
        self.check_nobody_sees_it(run, directory)
        self.finish(run, directory)

    def test_a_job_in_a_container_keeps_its_secret(self):
        if not (UDOCKER / "bin/udocker").exists() or not shutil.which("proot") or not images.BUSYBOX.exists():
            self.skipTest("udocker (./dev test puts it there from PyPI), proot or busybox-static is missing")
        images.docker_archive(self.folder / "box.tar", [images.busybox_layer()])
        (self.folder / "box.tar").chmod(0o644)
        udocker_program(self.folder / "tools")
        self.env["PATH"] = f"{self.folder}/tools:/usr/local/bin:/usr/bin:/bin"
        run, directory = self.hold(image='images: {box: {from: "docker-archive:box.tar"}}')
        self.assertTrue((directory / "steps/push/attempt-1/container.json").exists())
        self.check_nobody_sees_it(run, directory)
        self.finish(run, directory)

    def test_a_job_without_the_file_fails_before_its_program_and_resubmit_restores_it(self):
        self.write_steps("w", f"""
            first: {{run: 'until [ -e {self.folder}/go ]; do sleep 0.1; done'}}
            push: {{secrets: [TOKEN], run: 'echo "$TOKEN" > {self.folder}/seen', needs: [first]}}
        """)
        run = self.submit(env={"TOKEN": TOKEN})
        (self.folder / "dlflow-runs" / run / "secrets").unlink()
        (self.folder / "go").touch()
        self.wait_for(run, {"push": "failed"})
        self.assertFalse((self.folder / "seen").exists())
        self.assertIn("the secret TOKEN is not in", self.dlflow("status", run).stdout.replace("\n", " "))
        self.assertIn("export TOKEN=", self.dlflow("resubmit", run, status=2).stderr)
        self.dlflow("resubmit", run, env={"TOKEN": TOKEN})
        self.wait_for(run, {"push": "succeeded"})
        self.assertEqual(self.read("seen"), f"{TOKEN}\n")


if __name__ == "__main__":
    cluster.main()
