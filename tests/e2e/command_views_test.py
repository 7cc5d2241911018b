"""The choice of shown runs and jobs: logs of all elements, axes in any order, the newest runs, the best of a sweep, long names."""

import json
import os
import pty
import shutil
import subprocess
import time

from support import BIN, Case, main

SWEEP = """
    name: sweep
    steps:
      fit:
        matrix: {lr: [1, 2], width: [8, 16]}
        run: |
          echo "lr $DLFLOW_MATRIX_LR width $DLFLOW_MATRIX_WIDTH"; printf 'no newline'
          echo "{\\"accuracy\\": 0.$DLFLOW_MATRIX_LR$DLFLOW_MATRIX_WIDTH}" > $DLFLOW_SUMMARY
"""


class CommandViews(Case):
    def sweep(self):
        self.write("sweep.yaml", SWEEP)
        return self.run_json("sweep.yaml")["run"]

    def test_logs_of_a_step_have_all_elements_with_prefixes(self):
        out = self.dlflow("logs", self.sweep(), "fit")[0]
        self.assertEqual(out, "".join(f"{f'lr={lr},width={width}':<13} | lr {lr} width {width}\n{f'lr={lr},width={width}':<13} | no newline\n"
                                      for lr in (1, 2) for width in (8, 16)))

    def test_logs_with_prefixes_hold_a_line_with_a_nul_byte_to_its_end(self):
        self.write("nul.yaml", "name: nul\nsteps:\n  fit: {matrix: {lr: [1, 2]}, run: \"printf 'a\\\\000b\\\\nc'\"}\n")
        run = self.run_json("nul.yaml")["run"]
        self.assertEqual(self.dlflow("logs", run, "fit")[0], "".join(f"lr={lr} | a\0b\nlr={lr} | c\n" for lr in (1, 2)))

    def test_the_axes_of_a_name_may_stand_in_any_order(self):
        run = self.sweep()
        self.assertEqual(self.dlflow("logs", run, "fit[width=8,lr=2]")[0], "lr 2 width 8\nno newline")
        steps = json.loads(self.dlflow("status", run, "--step", "fit[width=8,lr=2]", "--json")[0])["steps"]
        self.assertEqual([step["element"] for step in steps], ["lr=2,width=8"])
        self.assertIn("has no step or job", self.dlflow("status", run, "--step", "fit[width=8]", status=2)[1])

    def test_status_lists_the_newest_runs_and_those_of_this_folder_first(self):
        self.write("w.yaml", "name: w\nsteps:\n  a: {run: ['true']}\n")
        here = [self.run_json("w.yaml", "--no-cache")["run"] for _ in range(3)]
        other = self.folder / "other"
        other.mkdir()
        shutil.copy(self.folder / "w.yaml", other)
        subprocess.run([BIN / "dlflow", "run", "w.yaml", "-q"], cwd=other, env=self.env, check=True, capture_output=True)
        listed = lambda *words, cwd=self.folder: [  # noqa: E731
            line.split()[0] for line in subprocess.run([BIN / "dlflow", "status", *words], cwd=cwd, env=self.env, check=True,
                                                       capture_output=True, text=True).stdout.splitlines()[1:]]
        elsewhere = listed(cwd=other)[0]
        self.assertNotIn(elsewhere, here)
        self.assertEqual(listed("--last", "2", cwd=other), [elsewhere, here[-1], "and"])
        self.assertEqual(self.dlflow("status", "--last", "2")[0].splitlines()[-1], "and 2 more: dlflow status --last 4")
        self.assertEqual(len(json.loads(self.dlflow("status", "--last", "1", "--json")[0])), 1)
        self.assertEqual(len(json.loads(self.dlflow("status", "--json")[0])), 4)

    def test_a_run_that_succeeded_leaves_resubmit_nothing_to_do(self):
        self.write("w.yaml", "name: w\nsteps: {a: {run: ['true']}}\n")
        run = self.run_json("w.yaml")["run"]
        self.assertEqual(self.dlflow("resubmit", run)[0], f"{run} has already succeeded; nothing to do.\n")
        before = self.status(run)
        self.assertEqual(self.dlflow("run", "--resume", run)[0], f"{run} has already succeeded; nothing to do.\n")
        self.assertEqual(self.dlflow("cancel", run)[0], f"{run} had already succeeded; nothing to stop.\n")
        self.assertEqual(self.status(run), before)
        self.assertEqual(self.status(run)["steps"][0]["attempt"], 1)

    def test_status_of_a_job_that_was_tried_again_has_the_cause(self):
        self.write("w.yaml", """
            name: w
            steps: {a: {run: 'echo "error: no luck" >&2; exit $((2 - DLFLOW_ATTEMPT))', retry: {attempts: 2, on: [failure]}}}
        """)
        run = self.run_json("w.yaml")["run"]
        self.assertRegex(self.dlflow("status", run)[0], r"a +\d+ +succeeded +2 .*try 1: exit 1")

    def test_a_graph_of_a_run_has_its_states(self):
        self.write("w.yaml", "name: w\nsteps: {a: {run: ['true']}, b: {needs: [a], run: ['false']}}\n")
        run = self.run_json("w.yaml", status=1)["run"]
        self.assertEqual(self.dlflow("graph", run)[0], "a  run  ✔ succeeded\nb  run  ✘ failed     ← a\n")
        self.assertEqual(self.dlflow("graph", "w.yaml")[0], "a  run\nb  run  ← a\n")
        jobs = json.loads(self.dlflow("graph", "w.yaml", "--json")[0])["jobs"]
        explained = json.loads(self.dlflow("explain", "w.yaml", "--json")[0])
        self.assertEqual([(job["action"], job["reason"]) for job in jobs], [(job["verdict"], job["reason"]) for job in explained])
        self.assertEqual(jobs[0]["action"], "reused")

    def test_an_open_run_that_only_the_index_has_shows_the_age_of_its_data(self):
        self.write("w.yaml", "name: w\nsteps: {a: {run: [sleep, '30']}}\n")
        run = json.loads(self.dlflow("run", "w.yaml", "--detach", "--json")[0])["run"]
        self.addCleanup(lambda: self.dlflow("cancel", run))
        for _ in range(100):
            if self.status(run)["steps"][0]["state"] == "running":
                break
            time.sleep(0.1)
        self.assertRegex(self.dlflow("status", "--quick")[0], f"{run} .*last news \\d+ s ago")
        self.assertNotIn("last news", self.dlflow("status")[0])

    def test_results_name_the_best_of_a_sweep(self):
        run = self.sweep()
        self.assertIn("best: fit[lr=2,width=8], accuracy 0.28 (the largest)", self.dlflow("results", run)[0])
        self.assertEqual([entry["job"] for entry in json.loads(self.dlflow("results", run, "--json")[0]) if entry["best"]],
                         ["fit[lr=2,width=8]"])

    def test_a_run_ends_with_the_metric_of_its_gate(self):
        metric = lambda text: f"""'echo "{{{text}}}" > $DLFLOW_SUMMARY'""".replace('"accuracy"', '\\"accuracy\\"').replace(  # noqa: E731
            '"score"', '\\"score\\"')
        self.write_steps(f"""
            gate: {{run: {metric('"score": 7')}, require: {{score: ">= 5"}}}}
            last: {{run: {metric('"accuracy": 0.5')}, needs: [gate]}}
        """)
        out, _ = self.dlflow("run", "w.yaml")
        self.assertRegex(out, r"w-\w+ succeeded in 0:0\d: score 7 \(required >= 5")

    def test_long_names_do_not_break_80_columns(self):
        axis = "a_long_name_of_an_axis"
        self.write("w.yaml", f"name: a-workflow-with-a-long-name\nsteps:\n  a-step-with-a-long-name:\n    matrix: {{{axis}_one: [1234567890], "
                             f"{axis}_two: [1234567890], {axis}_three: [1]}}\n    run: [\"false\"]\n")
        run = self.run_json("w.yaml", status=1)["run"]
        job = self.status(run)["steps"][0]
        for text in (self.dlflow("status")[0], self.dlflow("status", run)[0].split("\n\n")[1]):
            for line in text.splitlines():
                self.assertLessEqual(len(line), 80, line)
        whole = "".join(line.strip() for line in self.dlflow("status", run)[0].split("\n\n")[1].splitlines()[1:4])
        self.assertIn(f"{job['name']}[{job['element']}]", whole)

    def test_the_hint_of_ctrl_c_promises_a_checkpoint_only_to_steps_that_save(self):
        for checkpoint, hint in (("", "Ctrl-C stops;"), (", checkpoint: {}", "Ctrl-C saves a checkpoint and stops;")):
            self.write("w.yaml", f"name: w\nsteps:\n  a: {{run: 'sleep 0.5'{checkpoint}}}\n")
            ours, theirs = pty.openpty()
            process = subprocess.Popen([BIN / "dlflow", "run", "w.yaml", "--no-cache"], cwd=self.folder, env={**self.env, "TERM": "xterm"},
                                       stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
            os.close(theirs)
            text = b""
            try:
                while chunk := os.read(ours, 65536):
                    text += chunk
            except OSError:
                pass
            os.close(ours)
            self.assertEqual(process.wait(), 0)
            self.assertIn(hint, text.decode())

    def test_only_steps_that_save_have_a_folder_of_checkpoints(self):
        self.write_steps("""
            plain: {run: 'echo "[${DLFLOW_CHECKPOINTS-none}]"'}
            saves: {run: 'test -d "$DLFLOW_CHECKPOINTS" && echo there', checkpoint: {}}
        """)
        run = self.run_json("w.yaml")["run"]
        self.assertEqual(self.dlflow("logs", run, "plain")[0], "[none]\n")
        self.assertEqual(self.dlflow("logs", run, "saves")[0], "there\n")

    def test_validate_warns_of_walltimes_and_missing_data(self):
        self.write("cluster-profiles/alpha.yaml", "scheduler: slurm\n")
        self.write("w.yaml", """
            name: w
            steps:
              a: {run: ['true']}
              b: {uses: evaluate, with: {checkpoint: "${{ steps.a.outputs.x }}", data: ./nothing}}
        """.replace("['true']", "['true'], outputs: {x: x}"))
        _, err = self.dlflow("validate", "w.yaml", "--profile", "alpha")
        self.assertIn("w.yaml:4:", err)
        self.assertIn("step 'a' has no walltime", err)
        self.assertIn("with.data of step 'b' is ./nothing, which does not exist", err)
        self.assertNotIn("walltime", self.dlflow("validate", "w.yaml")[1])
        diagnostics = json.loads(self.dlflow("validate", "w.yaml", "--json")[0])["diagnostics"]
        self.assertEqual([(d["severity"], d["line"]) for d in diagnostics], [("warning", 5)])

    def test_pack_takes_data_folders_or_names_them(self):
        self.write("d/x/y.txt", "data")
        self.write("w.yaml", "name: w\nsteps:\n  a: {uses: evaluate, with: {checkpoint: c, data: d}}\n")
        self.write("c/manifest.json", "{}")
        out, _ = self.dlflow("pack", "w.yaml")
        self.assertIn("Not included: d, which a step reads in place; --with-data packs it.\n", out)
        self.dlflow("pack", "w.yaml", "--with-data", "-o", "full.dlflow")
        self.dlflow("unpack", "full.dlflow", "-C", "there")
        self.assertEqual((self.folder / "there/w/workflow/d/x/y.txt").read_text(), "data")


if __name__ == "__main__":
    main()
