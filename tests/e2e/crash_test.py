"""P2 on the local back end: dlflow is killed with -9 between any two effects, and at random times; afterwards the status is true,
running steps are adopted, and every step has run to success exactly once."""

import os
import random
import signal
import time
from collections import Counter

from support import Case, main

# Where base/fault.h can kill the engine or the supervisor: between two effects.
ENGINE_POINTS = ["intent", "attempt", "spawn", "ingest", "record", "end"]
SUPERVISOR_POINTS = ["taken", "claim", "running", "publish", "ended", "finished"]
LAUNCHER_POINTS = ["hand-over"]


class Crash(Case):
    def workflow(self, width, depth, seconds):
        """`width` chains of `depth` steps; each writes its name at its start and at its end."""
        steps = []
        for chain in range(width):
            for place in range(depth):
                needs = f", needs: [s{chain}-{place - 1}]" if place else ""
                steps.append(f"  s{chain}-{place}: {{run: 'echo start >> {self.folder}/s{chain}-{place}.log; "
                             f"sleep {seconds}; echo end >> {self.folder}/s{chain}-{place}.log'{needs}}}")
        (self.folder / "w.yaml").write_text("name: w\nsteps:\n" + "\n".join(steps) + "\n")
        return width * depth

    def check_finished(self, run, steps, restarted=False):
        """All succeeded, each to its end exactly once; never two at the same time."""
        states = Counter(self.states(run).values())
        self.assertEqual(states, {"succeeded": steps})
        logs = sorted(self.folder.glob("s*.log"))
        self.assertEqual(len(logs), steps)
        for log in logs:
            words = log.read_text().split()
            self.assertEqual(words.count("end"), 1, f"{log.name}: {words}")
            if not restarted:
                self.assertEqual(words, ["start", "end"], log.name)

    def only_run(self):
        names = self.dlflow("status", "--quick", "--quiet")[0].split()
        self.assertLessEqual(len(names), 1)
        return names[0] if names else None

    def finish(self):
        """What a user does after a crash. Returns the run."""
        folders = [f for f in (self.folder / "dlflow-runs").glob("*-*") if (f / "plan.json").exists()] \
            if (self.folder / "dlflow-runs").exists() else []
        if not folders:
            self.dlflow("run", "w.yaml")
            return self.only_run()
        self.dlflow("doctor", "--rebuild")
        run = self.only_run()
        self.dlflow("run", "--resume", run)
        return run

    def test_a_run_survives_a_kill_at_every_point_of_the_engine(self):
        for point in ENGINE_POINTS:
            for occurrence in (1, 2):
                with self.subTest(point=point, occurrence=occurrence):
                    self.setUp()
                    steps = self.workflow(width=2, depth=2, seconds=0.1)
                    process = self.start("run", "w.yaml", env={"DLFLOW_CRASH_AT": f"{point}:{occurrence}"})
                    process.communicate(timeout=30)
                    if point != "end" or occurrence == 1:
                        self.assertEqual(process.returncode, -signal.SIGKILL, "the point was not reached")
                    self.check_finished(self.finish(), steps)
                    self.doCleanups()

    def test_a_run_survives_a_kill_at_every_point_of_a_supervisor(self):
        """The program of a killed supervisor dies with it; the step is lost and runs again. At the second
        occurrence, the supervisor has already run another step."""
        for point in SUPERVISOR_POINTS:
            for occurrence in (1, 2):
                with self.subTest(point=point, occurrence=occurrence):
                    self.setUp()
                    steps = self.workflow(width=1, depth=5, seconds=0.05)
                    mark = self.folder / "reached"
                    process = self.start("run", "w.yaml", env={"DLFLOW_CRASH_AT": f"{point}:{occurrence}",
                                                               "DLFLOW_CRASH_MARK": str(mark)})
                    process.communicate(timeout=30)
                    self.assertTrue(mark.exists(), "the point was not reached")
                    run = self.finish()
                    states = Counter(self.states(run).values())
                    self.assertEqual(states, {"succeeded": steps})
                    self.doCleanups()

    def test_a_run_survives_a_kill_at_every_point_of_the_launcher(self):
        """The run continues with another launcher, without a visible effect."""
        for point in LAUNCHER_POINTS:
            with self.subTest(point=point):
                self.setUp()
                steps = self.workflow(width=2, depth=4, seconds=0.05)
                mark = self.folder / "reached"
                process = self.start("run", "w.yaml", env={"DLFLOW_CRASH_AT": f"{point}:1", "DLFLOW_CRASH_MARK": str(mark)})
                process.communicate(timeout=60)
                self.assertTrue(mark.exists(), "the point was not reached")
                self.assertEqual(process.returncode, 0)
                self.check_finished(self.only_run(), steps)
                self.doCleanups()

    def test_status_is_correct_without_an_engine(self):
        self.workflow(width=1, depth=1, seconds=1)
        process = self.start("run", "w.yaml")
        self.wait_for(lambda: (self.folder / "s0-0.log").exists(), what="the step to start")
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        run = self.only_run()
        self.assertEqual(self.states(run), {"s0-0": "running"})
        self.wait_for(lambda: self.states(run) == {"s0-0": "succeeded"}, what="the step to be seen as ended")

    def test_a_running_step_is_adopted(self):
        steps = self.workflow(width=2, depth=2, seconds=1)
        process = self.start("run", "w.yaml")
        self.wait_for(lambda: (self.folder / "s0-0.log").exists(), what="a step to start")
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        run = self.only_run()
        self.dlflow("run", "--resume", run)
        self.check_finished(run, steps)

    def test_jobs_of_a_machine_that_is_gone_are_given_up_at_the_users_request(self):
        began = self.folder / "began"
        self.write_steps(f"""
            a: {{run: 'if [ -e {began} ]; then exit 0; fi; touch {began}; sleep 100'}}
            b: {{run: [echo], needs: [a]}}
        """)
        process = self.start("run", "w.yaml")
        self.wait_for(began.exists, what="the step to start")
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        run = self.only_run()
        claim = self.folder / "dlflow-runs" / run / "steps/a/attempt-1/claim-1"
        words = os.readlink(claim).split(" ")
        os.kill(int(words[0]), signal.SIGKILL)
        claim.unlink()
        claim.symlink_to(" ".join([*words[:4], "gone-1", *words[5:]]))  # as if it had run in a container of this name
        for verb in (("run", "--resume", run), ("resubmit", run), ("cancel", run)):
            _, err = self.dlflow(*verb, status=3)
            self.assertIn(f"`dlflow cancel {run} --gone gone-1`", err)
        self.dlflow("cancel", run, "--gone", os.uname().nodename, status=2)
        time.sleep(0.05)
        self.dlflow("cancel", run, "--gone", "gone-1")
        self.assertEqual(self.states(run)["a"], "lost")
        self.dlflow("run", "--resume", run)
        self.assertEqual(self.states(run), {"a": "succeeded", "b": "succeeded"})

    def test_a_program_in_a_session_of_its_own_ends_with_its_killed_supervisor(self):
        log = self.folder / "log"
        self.write_steps(f"""
            a: {{run: 'setsid sh -c "echo begun >> {log}; sleep 3; echo late $DLFLOW_ATTEMPT >> {log}" & wait'}}
        """)
        process = self.start("run", "w.yaml")
        self.wait_for(log.exists, what="the step to start")
        run = self.only_run()
        claim = self.folder / "dlflow-runs" / run / "steps/a/attempt-1/claim-1"
        os.kill(int(os.readlink(claim).split(" ")[0]), signal.SIGKILL)
        process.communicate(timeout=60)
        self.dlflow("run", "--resume", run)
        self.assertEqual(log.read_text().splitlines(), ["begun", "begun", "late 2"])

    def test_external_effects_of_a_killed_run_count_before_a_result_is_reused(self):
        there = self.folder / "there"
        self.write_steps(f"""
            a: {{run: 'echo $DLFLOW_PARAM_K > {there}'}}
            b: {{run: 'touch {self.folder}/began; while [ -e {self.folder}/wait ]; do sleep 0.02; done', needs: [a]}}
            c: {{run: 'cat {there} > o; echo $DLFLOW_PARAM_C >> o', needs: [a], outputs: {{o: o}}}}
        """, "params: {k: 1, c: old}")
        self.dlflow("run", "w.yaml")
        (self.folder / "began").unlink()
        wait = self.write("wait", "")
        killed = self.start("run", "w.yaml", "--set", "k=2")
        self.wait_for((self.folder / "began").exists, what="the step after the one that writes")
        killed.kill()
        killed.communicate(timeout=30)
        wait.unlink()
        run = self.run_json("w.yaml", "--set", "c=new")["run"]
        self.assertEqual((self.folder / "dlflow-runs" / run / "steps/c/outputs/o").read_text(), "1\nnew\n")

    def test_thirty_steps_survive_kills_at_random_times(self):
        seed = random.randrange(1 << 30)
        print(f"seed {seed}", flush=True)
        rng = random.Random(seed)
        steps = self.workflow(width=6, depth=5, seconds=0.1)
        run = None
        for _ in range(12):
            process = self.start("run", "--resume", run) if run else self.start("run", "w.yaml")
            time.sleep(rng.uniform(0.01, 0.5))
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
            run = self.only_run()
        self.dlflow("resubmit", run) if run else self.dlflow("run", "w.yaml")
        run = self.only_run()
        if self.status(run)["state"] != "succeeded":
            self.dlflow("run", "--resume", run)
        self.check_finished(run, steps)


if __name__ == "__main__":
    main()
