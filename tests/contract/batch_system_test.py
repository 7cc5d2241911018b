"""What chains need of a batch system: one set of scenarios that each of them passes. batch_system_test.py SYSTEM [-k NAME]

Each system has an Adapter in its folder of tests, and a `cluster` module: where dlflow runs, and who cancels what a test leaves.
"""

import json
import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
FOLDERS = {"slurm": ["slurm"], "gridengine": ["gridengine", "slurm"], "standin": ["contract/standin", "contract/here", "slurm"],
           "fake_slurm": ["contract/fake_slurm", "contract/here", "slurm"], "local": ["contract/local", "contract/here", "slurm"]}
sys.path[:0] = [str(TESTS / folder) for folder in [*FOLDERS[sys.argv.pop(1)], "support"]]

import cluster  # noqa: E402
from adapter import Adapter  # noqa: E402
from cluster import wait_until  # noqa: E402


class BatchSystem(Adapter):
    def test_a_diamond_runs_in_order_and_leaves_no_process_or_job(self):
        self.write_steps("diamond", f"""
            a: {self.step("a")}
            b: {self.step("b", ", needs: [a]")}
            c: {self.step("c", ", needs: [a]")}
            d: {self.step("d", ", needs: [b, c]")}
        """)
        run = self.submit()
        self.wait_for(run, dict.fromkeys("abcd", "succeeded"))
        self.assertEqual((self.trace()[0], sorted(self.trace()), self.trace()[3]), ("a", list("abcd"), "d"))
        self.assertEqual(self.status(run)["state"], "succeeded")

    def test_elements_wait_for_their_own_parents_and_the_last_step_for_all(self):
        """The first element of `train` does not end before another one's `eval` has run."""
        self.write_steps("sweep", f"""
            train:
              matrix: {{n: [0, 1, 2]}}
              run: |
                if [ $DLFLOW_MATRIX_N = 0 ]; then
                  for i in $(seq 300); do grep -q eval-2 {self.folder}/trace && break; sleep 0.1; done
                fi
                echo train-$DLFLOW_MATRIX_N >> {self.folder}/trace
            eval: {self.step("eval-$DLFLOW_MATRIX_N", ", matrix: {n: [0, 1, 2]}, needs: [train]")}
            best: {self.step("best", ", needs: [eval]")}
        """)
        run = self.submit()
        self.wait_for(run, {"best": "succeeded"})
        trace = self.trace()
        self.assertLess(trace.index("eval-2"), trace.index("train-0"))
        self.assertEqual((len(trace), trace[-1]), (7, "best"))
        self.check_arrays(self.ids(run), "train", "eval")

    def test_a_failed_chain_is_repaired(self):
        run = self.broken_chain()
        self.until_the_blocked_have_ended()
        before = self.ids(run)
        self.assertEqual(sorted(self.trace()), ["0", "data", "eval0"])
        (self.folder / "mended").touch()
        self.dlflow("resubmit", run)
        self.wait_for(run, {"best": "succeeded"})
        after = self.ids(run)
        self.check_new_jobs({job for job in before if before[job] != after[job]})
        self.assertEqual(sorted(self.trace()), sorted(["data", "0", "eval0", "1", "eval1", "best"]))

    def test_waiting_jobs_are_pointed_to_the_new_parent(self):
        self.write_steps("point", f"""
            a: {{run: '[ -e {self.folder}/mended ]'}}
            long: {{run: 'while [ ! -e {self.folder}/mended ]; do sleep 0.2; done; sleep 3'}}
            after: {self.step("after", ", needs: [a, long]")}
        """)
        run = self.submit()
        self.wait_for(run, {"a": "failed", "long": "running", "after": "blocked"})
        before = self.ids(run)
        (self.folder / "mended").touch()
        self.dlflow("resubmit", run)
        self.wait_for(run, {"after": "succeeded"})
        self.assertEqual(self.trace(), ["after"])
        self.assertEqual({job for job, id in self.ids(run).items() if before[job] != id}, {"a"})

    def test_a_child_of_a_parent_that_failed_and_was_forgotten_is_never_submitted(self):
        self.write_steps("forgotten", f"""
            a: {{run: exit 3}}
            b: {self.step("b", ", needs: [a]")}
        """)
        self.dlflow("run", "w.yaml", "--profile", self.profile, env={"DLFLOW_CRASH_AT": "recorded:1"}, status=-9)
        run = json.loads(self.dlflow("status", "--quick", "--json").stdout)[0]["run"]
        self.wait_for(run, {"a": "failed"})
        self.forget_what_has_ended()
        self.dlflow("run", "--resume", run)
        self.assertEqual(self.states(run), {"a": "failed", "b": "blocked"})
        self.assertFalse(self.ids(run)["b"])
        self.assertEqual(self.trace(), [])

    def test_a_refusal_is_reported_in_the_words_of_the_batch_system(self):
        (self.folder / "refused.yaml").write_text(self.refused_profile())
        self.write_steps("refused", f"""
            a: {self.step("a")}
        """)
        refusal = self.dlflow("run", "w.yaml", "--profile", "./refused.yaml", status=2)
        self.assertRegex(refusal.stderr, self.refusal)
        self.assertEqual(self.trace(), [])

    def test_a_job_that_is_held_stays_queued_until_it_is_cancelled(self):
        self.write_steps("held", f"""
            a: {{run: 'until [ -e {self.folder}/go ]; do sleep 0.1; done'}}
            b: {self.step("b", ", needs: [a]")}
        """)
        run = self.submit()
        self.wait_for(run, {"a": "running"})
        self.hold(self.ids(run)["b"])
        (self.folder / "go").touch()
        self.wait_for(run, {"a": "succeeded"})
        self.assertEqual(self.states(run)["b"], "queued")
        self.dlflow("cancel", run)
        self.wait_for(run, {"b": "cancelled"})
        self.assertEqual(self.trace(), [])

    def broken_chain(self):
        """The second element of `train` fails until the file `mended` is there."""
        self.write_steps("repair", f"""
            data: {self.step("data")}
            train:
              run: '[ $DLFLOW_MATRIX_N != 1 ] || [ -e {self.folder}/mended ]; echo $DLFLOW_MATRIX_N >> {self.folder}/trace'
              needs: [data]
              matrix: {{n: [0, 1]}}
            eval: {self.step("eval$DLFLOW_MATRIX_N", ", matrix: {n: [0, 1]}, needs: [train]")}
            best: {self.step("best", ", needs: [eval]")}
        """)
        run = self.submit()
        self.wait_for(run, {"train[n=1]": "failed", "eval[n=0]": "succeeded", "eval[n=1]": "blocked", "best": "blocked"})
        self.assertEqual(self.status(run)["state"], "failed")
        return run

    def test_a_limit_on_simultaneous_jobs_holds_over_all_arrays_of_a_step(self):
        self.write_steps("places", f"""
            many:
              matrix: {{n: [1, 2], m: [0, 1], max_parallel: 1}}
              resources: {{cpus_per_rank: '${{{{ matrix.n }}}}'}}
              run: 'mkdir {self.folder}/alone && sleep 0.5 && rmdir {self.folder}/alone'
        """)
        run = self.submit()
        jobs = list(self.ids(run))
        self.wait_for(run, {job: "succeeded" for job in jobs}, timeout=90)

    def test_a_job_at_its_walltime_requeues_itself_and_its_dependents_keep_waiting(self):
        self.counting(50, "checkpoint: {}\n              resources: {walltime: 4s}")
        run = self.submit()
        before = self.ids(run)
        self.wait_for(run, {"after": "succeeded"}, timeout=120)
        self.assertEqual(self.trace(), [str(n) for n in range(1, 51)] + ["after"])
        self.check_same_jobs(before, self.ids(run))
        self.check_requeued(before["count"])

    def test_retries_happen_in_the_job_and_are_bounded(self):
        self.write_steps("retry", f"""
            flaky:
              run: 'echo try >> {self.folder}/trace; [ $(wc -l < {self.folder}/trace) -ge 2 ]'
              retry: {{attempts: 3, on: [failure]}}
            hopeless: {{run: 'echo x >> {self.folder}/hopeless; exit 4', retry: {{attempts: 2, on: [failure]}}}}
            after: {{run: 'true', needs: [flaky]}}
        """)
        run = self.submit()
        self.wait_for(run, {"after": "succeeded", "hopeless": "failed"}, timeout=60)
        self.assertEqual(self.trace(), ["try", "try"])
        self.assertEqual((self.folder / "hopeless").read_text().split(), ["x", "x"])

    def test_cancel_removes_waiting_jobs_and_lets_running_ones_save(self):
        self.counting(400, "checkpoint: {}")
        run = self.submit()
        wait_until(lambda: len(self.trace()) > 3, 20, "the step to count")
        self.assertIn("running", self.dlflow("status", run).stdout)
        self.dlflow("cancel", run)
        self.wait_for(run, {"count": "cancelled", "after": self.never_begun})
        self.until_nothing_is_left()
        counted = len(self.trace())
        self.assertLess(counted, self.most_counted)
        self.dlflow("run", "--resume", run)
        wait_until(lambda: len(self.trace()) > counted + 3, 30, "the step to go on")
        self.assertEqual(self.trace(), [str(n + 1) for n in range(len(self.trace()))])
        self.dlflow("cancel", run)

    def test_cancel_takes_no_job_that_has_the_number_of_ours_by_now(self):
        """As if a rebuilt controller had given the number to a job of another run. The store is made again from the records."""
        runs = []
        for name in ("ours", "theirs"):
            self.write_steps(name, f"""
                a: {{run: 'until [ -e {self.folder}/go ]; do sleep 0.1; done'}}
                b: {self.step(name, ", needs: [a]")}
            """)
            runs.append(self.submit())
            self.wait_for(runs[-1], {"a": "running"})
        ours, theirs = runs
        record = next(self.folder.rglob(f"{ours}/events.jsonl"))
        numbers = [f'"backend_id":"{self.ids(run)["b"]}"' for run in runs]
        record.write_text(record.read_text().replace(*numbers))
        self.env["DLFLOW_HOME"] = self.folder / "state-of-both"
        self.dlflow("doctor", "--rebuild", record.parents[1])
        self.assertEqual(*(self.ids(run)["b"] for run in runs))
        self.dlflow("cancel", ours)
        (self.folder / "go").touch()
        self.wait_for(theirs, {"b": "succeeded"})
        self.assertEqual(self.trace(), ["theirs"])

    def test_killed_anywhere_in_a_submission_each_step_still_runs_once(self):
        """The runs of all points at once: most of the time they wait for the batch system."""
        runs = {}
        for point in ["intents:1"] + [f"{point}:{n}" for point in ("submit", "accepted", "recorded") for n in (1, 2, 3)]:
            trace = f">> {self.folder}/trace-{point}"
            self.write_steps("crash", f"""
                a: {{run: 'echo a {trace}'}}
                b: {{run: 'echo b-$DLFLOW_MATRIX_N {trace}', needs: [a], matrix: {{n: [0, 1]}}}}
                c: {{run: 'echo c {trace}', needs: [b]}}
            """)
            self.dlflow("run", "w.yaml", "--profile", self.profile, env={"DLFLOW_CRASH_AT": point}, status=-9)
            run = json.loads(self.dlflow("status", "--quick", "--json").stdout)[0]["run"]
            self.dlflow("run", "--resume", run)
            runs[point] = run
        for point, run in runs.items():
            with self.subTest(point=point):
                self.check_submitted_once(run)
                self.wait_for(run, {"c": "succeeded"}, timeout=240)
                self.assertEqual(sorted(self.read(f"trace-{point}").split()), ["a", "b-0", "b-1", "c"])

    def test_a_job_that_was_ended_by_hand_is_noticed(self):
        self.write("w.yaml", "name: hand\nsteps:\n  a: {run: sleep 60}\n  b: {run: 'true', needs: [a]}\n")
        run = self.submit()
        self.wait_for(run, {"a": "running"})
        self.end_by_hand(self.ids(run)["a"])
        self.wait_for(run, {"a": "cancelled", "b": "blocked"})
        self.check_ended_by_hand(run)


if __name__ == "__main__":
    cluster.main()
