"""`dlflow status RUN --watch` on the screens of two terminals of different sizes, which tmux makes."""

import shutil
import subprocess
import unittest

import support

RUN = """
    name: watched
    steps:
      data: {run: [sleep, '0.1']}
      bad: {run: 'echo "error: no such table" >&2; exit 3', needs: [data]}
      train:
        needs: [data]
        matrix: {lr: [0.1, 0.5]}
        run: |
          for step in 1 2 3 4 5 6 7 8; do
            echo "{\\"epoch\\": $step, \\"epochs\\": 8, \\"progress\\": 0.$step, \\"loss\\": 0.$((9 - step))}" >> $DLFLOW_METRICS
          done
          while [ ! -e "$GO" ]; do sleep 0.05; done
        env: {GO: "%s"}
      last: {run: ['true'], needs: [train]}
"""


@unittest.skipUnless(shutil.which("tmux"), "there is no tmux")
class Dashboard(support.Case):
    def tmux(self, *arguments):
        return subprocess.run(["tmux", "-f", "/dev/null", "-S", self.folder / "tmux", *map(str, arguments)], check=True, capture_output=True,
                              text=True, env={**self.env, "TERM": "xterm-256color"}).stdout

    def watched(self, columns, rows):
        """The screen once both trainings have reported."""
        self.write("w.yaml", RUN % (self.folder / "go"))
        engine = self.start("run", "w.yaml", "--keep-going")
        self.addCleanup(engine.communicate)
        self.addCleanup((self.folder / "go").write_text, "")
        self.wait_for(lambda: self.dlflow("status", "--quick", "--quiet")[0].split(), what="the run")
        run = self.dlflow("status", "--quick", "--quiet")[0].split()[0]
        self.wait_for(lambda: list(self.states(run).values()).count("running") == 2, what="both trainings")
        self.addCleanup(lambda: self.tmux("kill-server"))
        self.tmux("new-session", "-d", "-x", columns, "-y", rows, f"{support.BIN}/dlflow status {run} --watch; cat")
        self.wait_for(lambda: "LOSS" in self.screen() and "no such table" in self.screen(), what="the dashboard")
        return run

    def screen(self):
        return self.tmux("capture-pane", "-p")

    def finish(self, run):
        (self.folder / "go").write_text("")
        self.wait_for(lambda: "succeeded" in self.screen() and "LOSS" not in self.screen(), what="the end")
        return self.screen()

    def test_a_terminal_of_80_by_24_has_all_parts_below_each_other(self):
        run = self.watched(80, 24)
        lines = self.screen().rstrip("\n").split("\n")
        self.assertLessEqual(len(lines), 24)
        self.assertRegex(lines[0], rf"^{run} on local +running 0:\d\d +1 ✔ +2 ▶ +1 ✘ +1 ·")
        losses = [line for line in lines if "▁" in line]
        self.assertEqual([line.split()[:2] for line in losses], [["train[lr=0.1]", "0.1"], ["train[lr=0.5]", "0.1"]])
        self.assertRegex(losses[0], "█▇?▆?▅▄▃▂?▁")
        self.assertGreater(lines.index(losses[0]), 5)
        self.assertTrue(any("✘ bad" in line and "exit 3" in line for line in lines))
        self.assertIn("bad", self.finish(run))  # the output of `status` stays on the screen

    def test_a_terminal_of_200_by_60_has_losses_beside_the_jobs(self):
        self.watched(200, 60)
        lines = self.screen().rstrip("\n").split("\n")
        self.assertLessEqual(len(lines), 60)
        beside = next(line for line in lines if "LOSS" in line)
        self.assertIn("data", beside)
        self.assertGreater(beside.index("LOSS"), 100)

    def test_a_terminal_that_is_made_larger_is_used(self):
        self.watched(80, 24)
        self.tmux("resize-window", "-x", 200, "-y", 60)
        self.wait_for(lambda: any(line.find("LOSS") > 100 for line in self.screen().split("\n")), what="the wide form")

    def test_plain_lines_are_printed_without_a_terminal(self):
        self.write("w.yaml", "name: w\nsteps: {a: {run: ['true']}}\n")
        run = self.run_json("w.yaml")["run"]
        self.assertEqual(self.dlflow("status", run, "--watch")[0], self.dlflow("status", run)[0])


if __name__ == "__main__":
    support.main()
