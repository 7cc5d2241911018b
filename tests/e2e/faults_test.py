"""A full disk, a folder that cannot be written to, a damaged database: each gets a clear message, and nothing is lost."""

import os
import shutil
import subprocess
import unittest

from support import ROOM_FOR_A_RUN, Case, main


class Faults(Case):
    def setUp(self):
        super().setUp()
        self.write_steps("""
            a: {run: 'echo hello'}
        """)

    def test_a_full_disk_is_named_before_anything_runs(self):
        disk = self.small_disk("disk", 1 << 20)
        (disk / "w.yaml").write_text((self.folder / "w.yaml").read_text())
        self.folder = disk
        _, err = self.dlflow("run", "w.yaml", status=2)
        self.assertIn("No space left on device", err)
        self.assertIn("dlflow-runs", err)

    def test_a_step_that_fills_the_disk_fails_with_that_reason(self):
        disk = self.small_disk("disk", ROOM_FOR_A_RUN)
        (disk / "w.yaml").write_text("name: w\nsteps:\n  a: {run: 'cat /dev/zero > $DLFLOW_OUTPUTS/zero'}\n")
        self.folder = disk
        out, err = self.dlflow("run", "w.yaml", status=1)
        self.assertIn("No space left on device", out + err)

    @unittest.skipUnless(os.geteuid() == 0, "changing users needs root")
    def test_a_read_only_run_directory_is_named(self):
        """As an ordinary user, since root may write everywhere."""
        self.folder.chmod(0o755)
        (self.folder / "state").mkdir()
        shutil.chown(self.folder / "state", "nobody")
        program = ["setpriv", "--reuid=nobody", "--clear-groups", os.environ["DLFLOW_BIN"] + "/dlflow"]
        result = subprocess.run(program + ["run", "w.yaml"], cwd=self.folder, env=self.env, capture_output=True,
                                text=True)
        if "Permission denied" in result.stderr and "dlflow-runs" not in result.stderr:
            self.skipTest("this machine's folders above the build are closed to other users")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("dlflow-runs", result.stderr)
        self.assertIn("you may write to", result.stderr)
        self.assertIn("`paths: {runs: FOLDER}` in cluster-profiles/NAME.yaml", result.stderr)
        profile = self.write("cluster-profiles/mine.yaml", "paths: {runs: state/runs-of-others}\n")
        (self.folder / "state/runs-of-others").mkdir(mode=0o700)
        result = subprocess.run([*program, "run", "w.yaml", "--profile", str(profile)], cwd=self.folder, env=self.env,
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn(f"`paths: {{runs: FOLDER}}` of {profile} names it", result.stderr)

    def test_a_damaged_database_is_reported_with_the_command_that_rebuilds_it(self):
        self.dlflow("run", "w.yaml")
        for file in (self.folder / "state").iterdir():
            file.write_bytes(b"this is no database" * 1000)
        _, err = self.dlflow("status", status=2)
        self.assertIn("dlflow doctor --rebuild", err)

    def test_a_store_that_cannot_be_made_is_reported_with_another_place(self):
        _, err = self.dlflow("run", "w.yaml", status=2, env={"DLFLOW_HOME": str(self.write("a-file", "x") / "state")})
        self.assertIn("a-file/state", err)
        self.assertIn("DLFLOW_HOME names another folder", err)

    def test_a_missing_run_directory_is_reported(self):
        self.dlflow("run", "w.yaml")
        shutil.rmtree(self.folder / "dlflow-runs")
        self.assertIn("succeeded", self.dlflow("status")[0])
        _, err = self.dlflow("resubmit", "w", status=2)
        self.assertIn("dlflow-runs", err)
        [run] = self.dlflow("status", "--quick", "--quiet")[0].split()
        self.assertIn(f"is gone, with its results and logs; `dlflow rm {run}`", " ".join(self.dlflow("status", run)[0].split()))
        self.assertNotIn("dlflow logs", self.dlflow("status", run)[0])
        for form in ((), ("--json",)):
            out, err = self.dlflow("logs", run, *form, status=2)
            self.assertIn(f"is gone, with the output of its jobs; `dlflow rm {run}`", out + err)
        self.dlflow("rm", run)
        self.assertEqual(self.dlflow("status", "--quick", "--quiet")[0], "")

    def test_a_missing_program_is_named(self):
        self.write_steps("""
            a: {run: [no-such-program, --really]}
        """)
        out, err = self.dlflow("run", "w.yaml", status=1)
        self.assertIn("no-such-program", out + err)


if __name__ == "__main__":
    main()
