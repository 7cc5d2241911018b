"""Fan-out at run time on a fake cluster: the job that lists elements submits them, or a user does."""

import json

import support
from slurm_support import ChainCase


class FanOutOnSlurm(ChainCase):
    def fan(self):
        self.write_steps(f"""
            split:
              run: 'while [ ! -e {self.folder}/go ]; do sleep 0.05; done; cat {self.folder}/list > parts'
              outputs: {{parts: parts}}
            work:
              matrix: {{part: "${{{{ steps.split.outputs.parts }}}}"}}
              run: echo $DLFLOW_MATRIX_PART >> {self.folder}/trace; echo $DLFLOW_MATRIX_PART > o
              outputs: {{o: o}}
            merge: {{run: [sh, -c, 'cat $0 > {self.folder}/all', "${{{{ join(steps.work.outputs.o, ' ') }}}}"]}}
            beside: {{run: 'true'}}
        """)
        self.list(["a", "b", "c"])

    def list(self, values):
        (self.folder / "list").write_text(json.dumps(values))

    def go(self):
        (self.folder / "go").touch()

    def reason(self, run, step):
        return next(row["reason"] for row in self.status(run)["steps"] if row["name"] == step)

    def check_all_ran_once(self, run):
        self.slurm.wait_until_idle()
        self.assertEqual(set(self.states(run).values()), {"succeeded"}, self.dlflow("status", run)[0])
        self.assertEqual(sorted(self.trace()), ["a", "b", "c"])
        self.assertEqual((self.folder / "all").read_text().split(), ["a", "b", "c"])
        self.assertEqual(self.steps_in_slurm(), ["beside", "merge", "split", "work"])  # one array
        self.assertEqual(self.status(run)["state"], "succeeded")

    def test_a_job_submits_the_elements_that_it_listed(self):
        self.fan()
        out, _ = self.dlflow("run", "w.yaml", "--profile", "alpha", "--dry-run")
        self.assertIn("3 jobs and as many as `split` lists", out)
        run = self.submit()
        self.assertIn("as many as `split` lists, which then submits them", self.reason(run, "work"))
        self.assertEqual(self.states(run)["work[part=?]"], "planned")
        self.assertIn(" of 3 jobs succeeded; those of work are not listed yet", self.dlflow("status", run)[0])
        self.go()
        self.check_all_ran_once(run)
        self.dlflow("doctor", "--rebuild", "runs")
        self.check_all_ran_once(run)

    def test_status_shows_the_command_if_nodes_may_not_submit(self):
        self.profile("submit_from_jobs: false\n")
        self.fan()
        run = self.submit()
        self.assertIn(f"as many as `split` lists; when it has ended: dlflow run --resume {run}", self.reason(run, "work"))
        self.go()
        self.slurm.wait_until_idle()
        self.assertIn(f"not submitted yet: dlflow run --resume {run}", self.reason(run, "work"))
        self.assertEqual(self.status(run)["state"], "interrupted")
        self.dlflow("run", "--resume", run)
        self.check_all_ran_once(run)


if __name__ == "__main__":
    support.main()
