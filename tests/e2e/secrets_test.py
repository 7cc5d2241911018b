"""Secrets of steps: their sources, the steps that get them, and their absence everywhere else."""

import json
import stat
import sys

import support
from slurm_support import ChainCase

sys.path.insert(0, str(support.ROOT / "tests/support"))
from leaks import TOKEN, files_with, processes_with  # noqa: E402

OTHER = "another-value-of-it"


class Secrets(support.Case):
    def workflow(self, script, extra=""):
        self.write_steps(f"""
            push:
              secrets: [TOKEN]
              run: {json.dumps(script)}
            {extra}
        """)

    def holding(self, script=""):
        """A step that tells its token everywhere it can, once the file `go` is there."""
        self.workflow(f'touch {self.folder}/held; until [ -e {self.folder}/go ]; do sleep 0.05; done; '
                      'echo "it is $TOKEN"; echo "error: not $TOKEN" >&2; '
                      'echo "{\\"message\\": \\"with $TOKEN\\"}" >> $DLFLOW_METRICS; '
                      'echo "{\\"$TOKEN\\": 1}" > $DLFLOW_SUMMARY; '
                      'echo "{\\"url\\": \\"https://$TOKEN@x\\"}" > $DLFLOW_OUTPUTS/outputs.json; ' + script)

    def run_directory(self):
        run, = self.folder.glob("dlflow-runs/w-*")
        return run

    def until_held(self):
        self.wait_for(lambda: (self.folder / "held").exists(), what="the step to run")

    def seen(self):
        """What the test wrote with the token."""
        return set((self.folder / "seen").read_text().splitlines())

    def test_reports_of_a_running_step_are_shown_without_its_secrets(self):
        self.workflow('printf \'{"message": "as %s", "epoch": 1}\\n\' "$TOKEN" >> $DLFLOW_METRICS; '
                      f'until [ -e {self.folder}/go ]; do sleep 0.05; done')
        self.dlflow("run", "w.yaml", "--detach", env={"TOKEN": TOKEN})
        run = self.run_directory().name
        self.wait_for(lambda: "as ***" in self.dlflow("status", run)[0], what="the message")
        self.dlflow("report", run, "-o", "r.html")
        for text in (self.dlflow("status", run)[0], self.dlflow("status", run, "--json")[0], (self.folder / "r.html").read_text()):
            self.assertNotIn(TOKEN, text)
        (self.folder / "go").touch()
        self.wait_for(lambda: self.states(run)["push"] == "succeeded", what="the end")
        self.assertEqual(list(files_with(TOKEN, self.folder)), [])

    # Sources

    def test_a_missing_secret_is_reported_before_anything_is_made(self):
        self.workflow("true", "first: {run: 'true'}")
        _, err = self.dlflow("run", "w.yaml", status=2)
        self.assertEqual(err, "w.yaml:4:14: error: step 'push' needs the secret TOKEN, which has no value: "
                         f"`export TOKEN=…` first, or add a line TOKEN=… to {self.folder}/home/.config/dlflow/secrets "
                         "(chmod 600)\n")
        self.assertFalse((self.folder / "dlflow-runs").exists())
        self.dlflow("run", "w.yaml", "--dry-run")
        self.dlflow("run", "w.yaml", "--until", "first")

    def test_the_environment_overrides_the_users_file(self):
        self.workflow(f'echo "$TOKEN" >> {self.folder}/seen')
        self.write("home/.config/dlflow/secrets", f"# mine\nTOKEN={OTHER}\n").chmod(0o600)
        self.dlflow("run", "w.yaml")
        self.assertEqual(self.seen(), {OTHER})
        self.dlflow("run", "w.yaml", "--force", "push", env={"TOKEN": TOKEN})
        self.assertEqual(self.seen(), {OTHER, TOKEN})

    def test_a_file_that_others_can_read_is_refused_with_the_command(self):
        self.workflow("true")
        file = self.write("config/dlflow/secrets", f"TOKEN={TOKEN}\n")
        file.chmod(0o640)
        _, err = self.dlflow("run", "w.yaml", status=2, env={"XDG_CONFIG_HOME": str(self.folder / "config")})
        self.assertEqual(err, f"error: {file} is open to other users; type `chmod 600 {file}`\n")
        file.chmod(0o600)
        self.dlflow("run", "w.yaml", env={"XDG_CONFIG_HOME": str(self.folder / "config")})

    def test_resubmit_takes_the_runs_secret_unless_given_another(self):
        self.workflow(f'echo "$TOKEN" >> {self.folder}/seen; [ "$TOKEN" = {OTHER} ]')
        run = self.run_json("w.yaml", status=1, env={"TOKEN": TOKEN})["run"]
        kept = self.run_directory() / "secrets"
        self.assertEqual(kept.read_text(), f"TOKEN={TOKEN}\n")
        self.dlflow("resubmit", run, status=1)
        self.assertEqual((self.folder / "seen").read_text(), f"{TOKEN}\n{TOKEN}\n")
        self.dlflow("resubmit", run, env={"TOKEN": OTHER})
        self.assertEqual(self.states(run), {"push": "succeeded"})
        self.assertFalse(kept.exists())
        self.dlflow("run", "--resume", run)  # no longer needs a secret

    def test_resume_without_the_file_asks_for_the_value_again(self):
        self.workflow(f'[ -e {self.folder}/go ]')
        run = self.run_json("w.yaml", status=1, env={"TOKEN": TOKEN})["run"]
        (self.run_directory() / "secrets").unlink()
        (self.folder / "go").touch()
        _, err = self.dlflow("resubmit", run, status=2)
        self.assertIn("step 'push' needs the secret TOKEN", err)
        self.dlflow("resubmit", run, env={"TOKEN": TOKEN})

    def test_another_value_of_a_secret_reruns_nothing(self):
        self.workflow(f'echo "$TOKEN" >> {self.folder}/seen')
        self.dlflow("run", "w.yaml", env={"TOKEN": TOKEN})
        run = self.run_json("w.yaml")["run"]  # a reused result needs no value
        self.assertEqual(self.states(run), {"push": "cached"})

    # Steps that get them

    def test_a_step_that_does_not_name_a_secret_does_not_get_it_even_from_the_caller(self):
        self.write_steps(f"""
            push: {{secrets: [https_proxy], run: 'echo "$https_proxy" >> {self.folder}/seen'}}
            other: {{run: 'echo "${{https_proxy-unset}}" >> {self.folder}/seen'}}
        """)
        self.dlflow("run", "w.yaml", env={"https_proxy": f"http://me:{TOKEN}@proxy"})
        self.assertEqual(self.seen(), {f"http://me:{TOKEN}@proxy", "unset"})

    def test_a_step_that_does_not_name_a_secret_does_not_get_it_from_the_resuming_user(self):
        self.write_steps(f"""
            push: {{secrets: [https_proxy], run: 'touch {self.folder}/held; until [ -e {self.folder}/go ]; do sleep 0.05; done'}}
            other: {{needs: [push], run: 'echo "${{https_proxy-unset}}" >> {self.folder}/seen'}}
        """)
        proxy = {"https_proxy": f"http://me:{TOKEN}@proxy"}
        self.env.update(proxy)
        engine = self.start("run", "w.yaml")
        self.until_held()
        engine.kill()
        engine.wait()
        (self.folder / "go").touch()
        self.dlflow("run", "--resume", self.run_directory().name)
        self.assertEqual(self.seen(), {"unset"})

    def test_a_detached_run_has_the_callers_value_although_the_users_file_has_another(self):
        self.workflow(f'echo "$TOKEN" >> {self.folder}/seen')
        self.write("home/.config/dlflow/secrets", f"TOKEN={OTHER}\n").chmod(0o600)
        run = self.run_json("w.yaml", "--detach", env={"TOKEN": TOKEN})["run"]
        self.wait_for(lambda: self.status(run)["state"] == "succeeded", what="the run to end")
        self.assertEqual(self.seen(), {TOKEN})
        self.assertEqual(files_with(TOKEN, self.run_directory()), [])

    # Places without them

    def test_a_secret_is_in_one_file_and_in_its_programs_environment_and_nowhere_else(self):
        self.holding("exit 3")
        process = self.start("run", "w.yaml", env={"TOKEN": TOKEN, "LANG": "C.UTF-8"})
        self.until_held()
        kept = self.run_directory() / "secrets"
        self.assertEqual(stat.S_IMODE(kept.stat().st_mode), 0o600)
        self.assertEqual(files_with(TOKEN, self.folder), [str(kept)])
        self.assertEqual(processes_with(TOKEN, "cmdline"), [])
        self.assertNotEqual(processes_with(TOKEN, "environ"), [])  # so the search can find it
        (self.folder / "go").touch()
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)
        run = self.run_directory().name
        said = [out, err]
        for verb in (["status", run], ["status", run, "--json"], ["logs", run], ["explain", run], ["status", "--quick"]):
            said.extend(self.dlflow(*verb))
        for text in said:
            self.assertNotIn(TOKEN, text)
        self.assertIn("exit 3: error: not ***", said[2])
        self.assertIn("it is ***", self.dlflow("logs", run)[0])
        self.assertEqual(files_with(TOKEN, self.folder), [str(kept)])

    def test_a_secret_is_in_no_file_after_a_success(self):
        self.holding()
        (self.folder / "go").touch()
        result = self.run_json("w.yaml", env={"TOKEN": TOKEN})
        self.assertEqual(result["state"], "succeeded")
        push, = self.status(result["run"])["steps"]
        self.assertEqual(push["metrics"], {"***": 1})
        self.assertEqual(files_with(TOKEN, self.folder), [])


class SecretsOnSlurm(ChainCase):
    """Uses the fake tools; tests/slurm/secrets_test.py uses a real SLURM."""

    def test_sbatch_gets_no_secret_and_the_success_removes_the_file(self):
        self.workflow(push=f"secrets: [https_proxy], run: 'echo \"$https_proxy\" > {self.folder}/seen; "
                           f"until [ -e {self.folder}/go ]; do sleep 0.05; done'",
                      other="run: 'echo \"${https_proxy-unset}\"', needs: [push]")
        run = self.submit(env={"https_proxy": TOKEN})  # a variable that is usually passed to sbatch
        seen = self.folder / "seen"
        self.wait_for(lambda: seen.exists() and seen.read_text(), what="the job to run")
        self.assertEqual(seen.read_text(), f"{TOKEN}\n")
        kept = self.folder / "runs" / run / "secrets"
        self.assertEqual(set(files_with(TOKEN, self.folder)), {str(kept), str(seen)})
        (self.folder / "go").touch()
        self.slurm.wait_until_idle()
        self.assertEqual(self.states(run), {"push": "succeeded", "other": "succeeded"})
        self.assertEqual((self.folder / "runs" / run / "steps/other/attempt-1/stdout").read_text(), "unset\n")
        self.assertFalse(kept.exists())


if __name__ == "__main__":
    support.main()
