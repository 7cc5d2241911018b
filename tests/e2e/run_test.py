"""Runs on the local back end are shown, recorded, reused, retried, resumed and cancelled."""

import fcntl
import json
import os
import pathlib
import signal
import subprocess
import time

from support import BIN, Case, main


class Run(Case):
    def trace(self):
        """What the steps of a workflow wrote to the file `trace`, a word a line."""
        path = self.folder / "trace"
        return path.read_text().split() if path.exists() else []

    def step(self, word, extra=""):
        return f"{{run: 'echo {word} >> {self.folder}/trace'{extra}}}"

    def chain(self):
        return self.write("chain.yaml", f"""
            name: chain
            steps:
              a: {self.step("a")}
              b: {self.step("b", ", needs: [a]")}
              c: {self.step("c", ", needs: [b]")}
        """)

    def test_a_chain_runs_in_order_and_prints_one_line_per_change(self):
        self.chain()
        out, err = self.dlflow("run", "chain.yaml")
        self.assertEqual(self.trace(), ["a", "b", "c"])
        self.assertIn("succeeded", out)
        self.assertNotIn("\033", out + err)
        self.assertEqual(sum("running" in line for line in out.splitlines()), 3, out)

    def test_a_step_finds_dlflow_itself_where_the_shell_does_not(self):
        self.write("words.txt", "the quick brown fox jumps over the lazy dog\n" * 50)
        self.write_steps("""
            version: {run: 'dlflow --version > "$DLFLOW_OUTPUTS/version"', outputs: {version: version}}
            pack:
              run: dlflow data pack words.txt -o "$DLFLOW_OUTPUTS/data" --tokens bytes --length 8
              inputs: [words.txt]
              outputs: {data: data}
        """)
        self.env["PATH"] = "/usr/bin:/bin"
        run = self.run_json("w.yaml")["run"]
        version = self.folder / "dlflow-runs" / run / "steps/version/outputs/version"
        self.assertIn("dlflow", version.read_text())

    def test_json_ends_with_the_run_and_its_state(self):
        self.chain()
        result = self.run_json("chain.yaml")
        self.assertEqual(result["state"], "succeeded")
        status = self.status(result["run"])
        self.assertEqual([step["name"] for step in status["steps"]], ["a", "b", "c"])
        for step in status["steps"]:
            self.assertEqual((step["state"], step["attempt"], step["exit"]), ("succeeded", 1, 0))
            self.assertRegex(step["started"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")

    def test_a_failed_step_blocks_its_dependents_and_ends_with_1(self):
        self.write_steps(f"""
            bad: {{run: 'echo "the disk is on fire" >&2; exit 3'}}
            after: {self.step("after", ", needs: [bad]")}
        """)
        result = self.run_json("w.yaml", status=1)
        self.assertEqual(result["state"], "failed")
        self.assertEqual(self.states(result["run"]), {"bad": "failed", "after": "blocked"})
        bad = self.status(result["run"])["steps"][0]
        self.assertEqual(bad["exit"], 3)
        self.assertIn("the disk is on fire", bad["reason"])
        self.assertEqual(self.trace(), [])
        self.assertIn("the disk is on fire", self.dlflow("logs", result["run"])[0])
        self.assertIn("dlflow resubmit", self.dlflow("status", result["run"])[0])

    def test_keep_going_runs_steps_that_do_not_depend_on_the_failure(self):
        self.write_steps(f"""
            bad: {{run: 'exit 1'}}
            other: {{run: 'sleep 0.3'}}
            after: {self.step("after", ", needs: [other]")}
        """)
        self.dlflow("run", "w.yaml", "--keep-going", status=1)
        self.assertEqual(self.trace(), ["after"])

    def test_a_resubmit_may_ask_for_other_resources(self):
        self.write("w.yaml", f"""
            name: more
            steps:
              a: {{run: 'echo a$DLFLOW_CPUS_PER_RANK >> {self.folder}/trace'}}
              b: {{run: 'echo b$DLFLOW_CPUS_PER_RANK >> {self.folder}/trace; [ $DLFLOW_CPUS_PER_RANK = 2 ]', needs: [a]}}
              c: {{run: 'echo c$DLFLOW_CPUS_PER_RANK >> {self.folder}/trace', needs: [b]}}
        """)
        run = self.run_json("w.yaml", status=1)["run"]
        _, err = self.dlflow("resubmit", run, "--set", "cpus_per_rank=100000", status=2)
        self.assertIn("step 'b'", err)
        _, err = self.dlflow("resubmit", run, "--set", "cpus=2", status=2)
        self.assertIn("did you mean 'cpus_per_rank'?", err)
        self.dlflow("resubmit", run, "--set", "cpus_per_rank=2")
        self.assertEqual((self.folder / "trace").read_text().split(), ["a1", "b1", "b2", "c1"])
        self.assertIn("resubmitted with cpus_per_rank 1 → 2", " ".join(self.dlflow("explain", run, "b")[0].split()))
        steps = json.loads(self.dlflow("status", run, "--long", "--json")[0])["steps"]
        self.assertEqual([step["resources"]["cpus_per_rank"] for step in steps], [1, 2, 1])
        self.assertTrue(all(step["used"]["memory_bytes"] > 0 for step in steps), steps)

    def test_resubmit_runs_failed_and_blocked_steps_and_nothing_else(self):
        self.write_steps(f"""
            good: {self.step("good")}
            flaky: {{run: 'test -e {self.folder}/repaired', needs: [good]}}
            after: {self.step("after", ", needs: [flaky]")}
        """)
        run = self.run_json("w.yaml", status=1)["run"]
        (self.folder / "repaired").touch()
        self.dlflow("resubmit", run)
        self.assertEqual(self.trace(), ["good", "after"])
        self.assertEqual(set(self.states(run).values()), {"succeeded"})
        self.assertEqual([step["attempt"] for step in self.status(run)["steps"]], [1, 2, 1])

    def test_a_retry_is_a_new_attempt(self):
        self.write_steps(f"""
            flaky:
              run: 'echo try >> {self.folder}/trace; test $DLFLOW_ATTEMPT -eq 3'
              retry: {{attempts: 3, on: [failure]}}
        """)
        run = self.run_json("w.yaml")["run"]
        self.assertEqual(len(self.trace()), 3)
        self.assertEqual(self.status(run)["steps"][0]["attempt"], 3)

    def test_dry_run_runs_nothing_and_writes_nothing(self):
        self.chain()
        out, _ = self.dlflow("run", "chain.yaml", "--dry-run")
        self.assertEqual(self.trace(), [])
        self.assertFalse((self.folder / "dlflow-runs").exists())
        for job in "abc":
            self.assertIn(job, out)

    def test_until_runs_a_step_and_its_ancestors(self):
        self.chain()
        self.dlflow("run", "chain.yaml", "--until", "b")
        self.assertEqual(self.trace(), ["a", "b"])
        self.assertIn("did you mean", self.dlflow("run", "chain.yaml", "--until", "bb", status=2)[1])

    def test_the_same_work_is_reused_until_a_relevant_change(self):
        workflow = self.chain()
        first = self.run_json("chain.yaml")["run"]
        workflow.write_text("# a comment\n" + workflow.read_text().replace("needs: [a]", "needs:   [ a ]"))
        second = self.run_json("chain.yaml")["run"]
        self.assertEqual(self.trace(), ["a", "b", "c"])
        self.assertEqual(set(self.states(second).values()), {"cached"})
        self.assertIn(f"reused from {first}", self.dlflow("explain", "chain.yaml")[0])
        workflow.write_text(workflow.read_text().replace("echo b", "echo B"))
        explanation, _ = self.dlflow("explain", "chain.yaml", "b")
        self.assertIn("runs", explanation)
        self.assertIn("echo B", explanation)
        self.dlflow("run", "chain.yaml")
        self.assertEqual(self.trace()[3:5], ["B"] + self.trace()[4:5])
        self.assertNotIn("a", self.trace()[3:])

    def test_a_command_that_mentions_the_run_is_not_reused_by_others(self):
        self.write_steps("""
            own: {run: [echo, "${{ run.id }}"]}
            any: {run: [echo, x]}
        """)
        self.run_json("w.yaml")
        self.assertEqual(self.states(self.run_json("w.yaml")["run"]), {"own": "succeeded", "any": "cached"})

    def test_a_command_that_mentions_a_passed_variable_depends_on_its_value(self):
        self.write("p.yaml", "inherit: [AUDIT_MODE]\n")
        self.write("w.yaml", 'name: w\nsteps: {a: {run: "echo $AUDIT_MODE > o", outputs: {o: o}}}\n')
        states = []
        for mode in ("one", "two", "one"):
            run = self.run_json("w.yaml", "--profile", "./p.yaml", env={"AUDIT_MODE": mode})["run"]
            states.append(self.states(run)["a"])
        self.assertEqual(states, ["succeeded", "succeeded", "cached"])

    def test_variables_that_the_profile_passes_on_are_in_the_fingerprint_without_being_mentioned(self):
        self.write("p.yaml", 'inherit: ["FOO_*", FOO_TOKEN]\n')
        self.write("t.sh", "echo $FOO_X > o\n")
        self.write("big.sh", "echo $FOO_X > o\nexit\n" + "#" * (3 << 19))
        self.write_steps("""
            composed: {run: 'env | grep ^FOO_X > o', outputs: {o: o}}
            a: {run: 'cp t.sh s.sh', inputs: [t.sh], outputs: {s: s.sh}}
            by-parents-script: {run: [sh, '${{ steps.a.outputs.s }}'], outputs: {o: o}}
            large-script: {run: [sh, big.sh], inputs: [big.sh], outputs: {o: o}}
        """)
        for value, state in (("1", "succeeded"), ("2", "succeeded"), ("1", "cached")):
            run = self.run_json("w.yaml", "--profile", "./p.yaml", env={"FOO_X": value})["run"]
            self.assertEqual(set(self.states(run).values()), {state})
            outputs = (self.folder / "dlflow-runs" / run / "steps").glob("*/outputs/o")
            self.assertEqual({o.read_text().strip()[-1] for o in outputs}, {value} if state == "succeeded" else set())

    def test_variables_that_a_step_passes_on_are_in_its_fingerprint_only(self):
        self.write_steps("""
            gets: {inherit: [FOO_X, FOO_TOKEN], run: 'echo $FOO_X $FOO_TOKEN > o', outputs: {o: o}}
            lacks: {run: 'env > o', outputs: {o: o}}
        """)
        states = []
        for value in ("1", "2"):
            run = self.run_json("w.yaml", env={"FOO_X": value, "FOO_TOKEN": "hidden"})["run"]
            states.append(self.states(run))
            self.assertEqual((self.folder / "dlflow-runs" / run / "steps/gets/outputs/o").read_text(), f"{value} hidden\n")
        self.assertEqual(states, [{"gets": "succeeded", "lacks": "succeeded"}, {"gets": "succeeded", "lacks": "cached"}])
        seen = [file.read_text() for file in (self.folder / "dlflow-runs").glob("*/steps/lacks/outputs/o")]
        self.assertEqual(["FOO_" in text for text in seen], [False])
        self.write("w.yaml", "name: w\nsteps: {a: {uses: stage, inherit: [FOO_X], with: {sources: [file:///etc/hostname]}}}\n")
        self.assertIn("inherit of step 'a' belongs to run", self.dlflow("validate", "w.yaml", status=2)[1])

    def test_a_run_keeps_the_variables_of_the_shell_that_it_was_planned_in(self):
        self.write("p.yaml", "inherit: [AUDIT_MODE, AUDIT_TOKEN]\n")
        self.write_steps(f"""
            a: {{run: 'test -e {self.folder}/go; echo $AUDIT_MODE $AUDIT_TOKEN $HF_HOME > o; echo $AUDIT_TOKEN', outputs: {{o: o}}}}
        """)
        first = {"AUDIT_MODE": "one", "AUDIT_TOKEN": "hidden-1", "HF_HOME": "/hf"}
        run = self.run_json("w.yaml", "--profile", "./p.yaml", status=1, env=first)["run"]
        folder = self.folder / "dlflow-runs" / run
        kept = {name: (folder / name).read_text() for name in ("environment", "secrets", "plan.json")}
        self.assertEqual([name for name in kept if "hidden-1" in kept[name]], ["secrets"])
        self.assertEqual((folder / "environment").stat().st_mode & 0o077, 0)
        (self.folder / "go").touch()
        self.dlflow("resubmit", run, env={"AUDIT_MODE": "two"})
        self.assertEqual((folder / "steps/a/outputs/o").read_text(), "one hidden-1 /hf\n")
        self.assertEqual(self.dlflow("logs", run, "a")[0].strip(), "***")
        again = self.run_json("w.yaml", "--profile", "./p.yaml", env=first)["run"]
        self.assertEqual(self.states(again), {"a": "cached"})
        other = self.run_json("w.yaml", "--profile", "./p.yaml", env={**first, "AUDIT_TOKEN": "hidden-2"})["run"]
        self.assertEqual(self.states(other), {"a": "succeeded"})

    def test_a_program_that_setup_chooses_is_reused_only_by_its_path(self):
        tool = self.write("opt/tool", "#!/bin/sh\necho 1\n")
        tool.chmod(0o755)
        self.write("p.yaml", f"setup: ['export PATH={tool.parent}:$PATH']\n")
        self.write_steps(f"""
            name: {{run: [tool], reuse: {{program: true}}}}
            path: {{run: [{tool}], reuse: {{program: true}}}}
        """)
        for content, path in (("1", "succeeded"), ("1", "cached"), ("2", "succeeded")):
            tool.write_text(f"#!/bin/sh\necho {content}\n")
            run = self.run_json("w.yaml", "--profile", "./p.yaml")["run"]
            self.assertEqual(self.states(run), {"name": "succeeded", "path": path})
            self.assertEqual(self.dlflow("logs", run, "name")[0].strip(), content)
            self.assertIn("name it by its absolute path", self.status(run)["steps"][0]["reason"])

    def test_a_command_does_not_get_the_users_language_and_time_zone(self):
        self.write("w.yaml", """
            name: w
            steps: {a: {run: 'locale > $DLFLOW_OUTPUTS/o; date +%z >> $DLFLOW_OUTPUTS/o; date -d @0 +%H >> $DLFLOW_OUTPUTS/o', outputs: {o: o}}}
        """)
        seen = []
        for shell in ({"LANG": "de_DE", "LC_ALL": "POSIX", "TZ": "Asia/Tokyo"}, {"LANG": "C.UTF-8"}):
            run = self.run_json("w.yaml", "--no-cache", env=shell)["run"]
            seen.append((self.folder / "dlflow-runs" / run / "steps/a/outputs/o").read_text())
        self.assertEqual(seen[0], seen[1])
        self.assertIn("LANG=C.UTF-8\n", seen[0])

    def test_a_language_and_a_time_zone_that_the_profile_passes_on_are_in_the_fingerprint(self):
        self.write("p.yaml", "inherit: [TZ, LANG]\n")
        self.write("w.yaml", "name: w\nsteps: {a: {run: 'date -d @0 +%H > o', outputs: {o: o}}}\n")
        states = []
        for shell in ({"TZ": "UTC"}, {"TZ": "Etc/GMT-9"}, {"TZ": "UTC"}, {"TZ": "UTC", "LANG": "POSIX"}):
            run = self.run_json("w.yaml", "--profile", "./p.yaml", env=shell)["run"]
            hour = self.folder / "dlflow-runs" / run / "steps/a/outputs/o"
            states.append(hour.read_text().strip() if hour.exists() else self.states(run)["a"])
        self.assertEqual(states, ["00", "09", "cached", "00"])

    def test_dependents_of_an_allowed_failure_run_each_time(self):
        self.write_steps(f"""
            a: {{run: 'date +%N > {self.folder}/shared; exit 3', allow_failure: true}}
            b: {{run: 'cp {self.folder}/shared $DLFLOW_OUTPUTS/x', needs: [a], outputs: {{x: x}}}}
        """)
        for _ in range(2):
            run = self.run_json("w.yaml")["run"]
            self.assertEqual(self.states(run), {"a": "failed", "b": "succeeded"})
            left = self.folder / "dlflow-runs" / run / "steps/b/outputs/x"
            self.assertEqual(left.read_text(), (self.folder / "shared").read_text())

    def test_a_step_is_not_reused_if_another_version_of_it_wrote_to_its_address_since(self):
        there = self.folder / "bucket"
        self.write_steps(f"""
            put:
              run: 'echo $DLFLOW_PARAM_V > {there}; echo ''{{"data": "s3://bucket/data"}}'' > $DLFLOW_OUTPUTS/outputs.json'
        """, "params: {v: one}")
        for value, put in (("one", "succeeded"), ("one", "cached"), ("two", "succeeded"), ("one", "succeeded")):
            run = self.run_json("w.yaml", "--set", f"v={value}")["run"]
            self.assertEqual((self.states(run)["put"], there.read_text()), (put, value + "\n"))

    def test_a_step_whose_output_names_a_folder_runs_again_when_that_changes(self):
        data = self.write("my data/x", "1").parent
        encoded = str(data).replace(" ", "%20")
        for place in (f"file://{encoded}", f"file://{encoded}/", f"file://localhost{encoded}", str(data)):
            self.write("name.py", f"""
                import json, os
                json.dump({{"d": ["none", "{place}"]}}, open(os.environ["DLFLOW_OUTPUTS"] + "/outputs.json", "w"))
            """)
            self.write_steps(f"""
                a: {{run: python3 name.py, inputs: [name.py]}}
                c: {{run: 'cp "{data}/x" o', needs: [a], outputs: {{o: o}}}}
            """)
            for content, c in (("1", None), ("1", "cached"), ("2", "succeeded")):
                if (data / "x").read_text() != content:
                    (data / "x").write_text(content)
                run = self.run_json("w.yaml")["run"]
                self.assertIn(self.states(run)["c"], (c, ) if c else ("succeeded", "cached"), place)
                found = self.status(run)["steps"][1]["outputs"]["o"]
                self.assertEqual(pathlib.Path(found).read_text(), content)

    def test_a_result_is_not_reused_if_another_run_changed_its_external_input_meanwhile(self):
        there = self.folder / "there"
        self.write_steps(f"""
            put: {{run: 'echo $DLFLOW_PARAM_V > {there}'}}
            use:
              needs: [put]
              run: 'if [ -e {self.folder}/wait ]; then touch {self.folder}/waits; while [ -e {self.folder}/wait ]; do sleep 0.02; done; fi; cp {there} x'
              outputs: {{x: x}}
        """, "params: {v: one}")
        wait = self.write("wait", "")
        first = self.start("run", "w.yaml", "--json")
        self.wait_for((self.folder / "waits").exists, what="the first run")
        self.dlflow("run", "w.yaml", "--set", "v=two", "--until", "put")
        wait.unlink()
        out, err = first.communicate(timeout=60)
        self.assertEqual(first.returncode, 0, err)
        left = lambda run: (self.folder / "dlflow-runs" / run / "steps/use/outputs/x").read_text()
        self.assertEqual(left(json.loads(out.splitlines()[-1])["run"]), "two\n")
        for use in ("succeeded", "cached"):
            run = self.run_json("w.yaml")["run"]
            self.assertEqual(self.states(run)["use"], use)
            if use == "succeeded":
                self.assertEqual(left(run), "one\n")

    def test_results_that_another_run_uses_are_not_remade_for_an_allowed_failure(self):
        self.write_steps(f"""
            part: {{matrix: {{i: [1, 2]}}, allow_failure: true, run: '[ $DLFLOW_MATRIX_I = 1 ] || [ -e {self.folder}/mended ]; echo $DLFLOW_MATRIX_I > x', outputs: {{x: x}}}}
            all: {{run: [sh, -c, 'cat $0 > x', "${{{{ join(steps.part.outputs.x, ' ') }}}}"], outputs: {{x: x}}}}
        """)
        first = self.run_json("w.yaml")["run"]
        second = self.run_json("w.yaml")["run"]
        self.assertEqual(self.states(second), {"part[i=1]": "cached", "part[i=2]": "failed", "all": "cached"})
        (self.folder / "mended").touch()
        _, err = self.dlflow("resubmit", first, "--step", "part[i=2]", status=2)
        self.assertIn(f"the result of all is used by {second}", err)
        self.dlflow("resubmit", second, "--step", "part[i=2]")  # discards no result that another run uses
        left = [(self.folder / "dlflow-runs" / run / "steps/all/outputs/x").read_text() for run in (first, second)]
        self.assertEqual(left, ["1\n", "1\n2\n"])

    def test_a_place_that_a_metric_names_is_staged_in_its_current_state(self):
        data = self.write("data-7/f", "one")
        self.write_steps(f"""
            pick: {{run: 'echo "{{\\"n\\": 7}}" > $DLFLOW_SUMMARY; touch $DLFLOW_OUTPUTS/x', outputs: {{x: x}}}}
            get: {{uses: stage, with: {{sources: [{{url: "file://{self.folder}/data-${{{{ steps.pick.metrics.n }}}}/f"}}]}}}}
            use: {{run: [cp, "${{{{ steps.get.outputs.path }}}}/f", f], outputs: {{f: f}}}}
        """)
        for text, use in [("one", "succeeded"), ("two", "succeeded"), ("two", "cached")]:
            data.write_text(text)
            states = self.states(self.run_json("w.yaml")["run"])
            self.assertEqual((states["get"], states["use"]), ("succeeded", use))

    def test_an_expression_may_mention_parameters_beside_outputs_of_parents(self):
        self.write_steps("""
            a: {run: 'echo 1 > $DLFLOW_OUTPUTS/x', outputs: {x: x}}
            b:
              if: "${{ params.p == 'hello' && basename(steps.a.outputs.x) == 'x' }}"
              matrix: {fold: [0, 1]}
              run: [echo, "${{ format('{0} {1} {2}', params.p, matrix.fold, steps.a.outputs.x) }}"]
        """, "params: {p: hello, none: }")
        run = self.run_json("w.yaml")["run"]
        self.assertEqual(set(self.states(run).values()), {"succeeded"})
        self.assertIn("hello 1 ", self.dlflow("logs", run, "b[fold=1]")[0])
        self.assertEqual(set(self.states(self.run_json("w.yaml")["run"]).values()), {"cached"})

    def test_a_run_goes_on_when_its_output_is_no_longer_read(self):
        self.chain()
        process = self.start("run", "chain.yaml")
        process.stdout.readline()
        process.stdout.close()
        self.assertEqual(process.wait(timeout=60), 0, process.stderr.read())
        process.stderr.close()
        self.assertEqual(self.trace(), ["a", "b", "c"])

    def test_touched_and_moved_files_change_nothing_and_a_changed_byte_reruns_its_dependents(self):
        self.write("one/data.txt", "1")
        workflow = self.write("one/w.yaml", f"""
            name: w
            params: {{unused: 1}}
            steps:
              reads:
                inputs: [data.txt]
                run: 'echo reads >> {self.folder}/trace; cp data.txt $DLFLOW_OUTPUTS'
                outputs: {{file: data.txt}}
              uses: {{run: [sh, -c, 'echo uses >> {self.folder}/trace', '${{{{ steps.reads.outputs.file }}}}']}}
              other: {self.step("other")}
        """)
        self.dlflow("run", workflow)
        self.assertEqual(sorted(self.trace()), ["other", "reads", "uses"])
        (self.folder / "one").rename(self.folder / "two")
        (self.folder / "two/data.txt").touch()
        self.dlflow("run", "two/w.yaml", "--set", "unused=2")
        self.assertEqual(len(self.trace()), 3)
        self.write("two/data.txt", "2")
        out, _ = self.dlflow("explain", "two/w.yaml", "reads")
        self.assertIn("data.txt", out)
        self.dlflow("run", "two/w.yaml")
        self.assertEqual(self.trace()[3:], ["reads", "uses"])

    def test_a_result_is_reused_although_a_newer_one_has_another_fingerprint(self):
        self.write_steps("""
            fit:
              run: 'echo "{\\"rmse\\": $DLFLOW_MATRIX_X}" > $DLFLOW_SUMMARY'
              matrix: {x: "${{ params.xs }}"}
            summary: {run: [cp, /etc/hostname, best], outputs: {b: best}, env: {ALL: "${{ steps.fit.metrics.rmse }}"}}
            prints: {run: [echo, "${{ steps.fit.metrics.rmse }}"]}
        """, "params: {xs: [1, 2]}")
        first, second, third = [self.run_json("w.yaml", "--set", f"xs={xs}")["run"] for xs in ("[1, 2]", "[1, 2, 3]", "[1, 2]")]
        states = self.states(third)
        self.assertEqual((states["summary"], states["prints"]), ("cached", "succeeded"))
        reason, = [each["reason"] for each in json.loads(self.dlflow("explain", third, "prints", "--json")[0])]
        self.assertRegex(reason, f"^{second} has run another version of it since {first}, which may have undone")

    def test_the_log_keeps_output_from_before_a_program_reopens_its_streams(self):
        self.write_steps("""
            s: {run: "echo first; echo second > /dev/stdout; echo third >&2; echo fourth | tee /dev/stderr; echo fifth"}
        """)
        attempt = self.folder / "dlflow-runs" / self.run_json("w.yaml")["run"] / "steps/s/attempt-1"
        self.assertEqual((attempt / "stdout").read_text().split(), ["first", "second", "fourth", "fifth"])
        self.assertEqual((attempt / "stderr").read_text().split(), ["third", "fourth"])

    def test_a_programs_whole_output_arrives_without_making_it_wait(self):
        self.write_steps("\ns: {run: 'seq 1000000; seq 300000 >&2'}")
        attempt = self.folder / "dlflow-runs" / self.run_json("w.yaml")["run"] / "steps/s/attempt-1"
        self.assertEqual((attempt / "stdout").read_text().split()[-1], "1000000")
        self.assertEqual(len((attempt / "stdout").read_text().split()), 1000000)
        self.assertEqual(len((attempt / "stderr").read_text().split()), 300000)

    def test_a_script_with_windows_line_ends_gets_the_repair(self):
        self.write("s.sh", "#!/bin/sh\r\necho\r\n").chmod(0o755)
        self.write_steps("\na: {run: [./s.sh], inputs: [s.sh]}")
        self.assertIn("its lines end in CR LF, as on Windows; `sed -i 's/\\r$//' ./s.sh`", self.dlflow("run", "w.yaml", status=1)[0])
        self.write_steps("\na: {run: './s.sh', inputs: [s.sh]}")
        self.assertIn("if its lines end in CR LF, as on Windows, `sed", self.dlflow("run", "w.yaml", status=1)[0])

    def test_a_folder_that_forbids_programs_is_refused_before_there_is_a_run(self):
        disk = self.small_disk("noexec", "64m")
        subprocess.run(["mount", "-o", "remount,noexec", disk], check=True)
        (disk / "w.yaml").write_text("name: w\nsteps: {a: {run: [echo]}}\n")
        self.folder = disk
        err = self.dlflow("run", "w.yaml", status=2)[1]
        self.assertIn("noexec/dlflow-runs is on a file system that runs no programs (noexec)", err)
        self.assertIn("`paths: {runs: FOLDER}`", err)
        self.assertEqual(list((disk / "dlflow-runs").iterdir()), [])

    def test_a_missing_working_directory_is_reported(self):
        self.write("w.yaml", "name: w\nsteps: {a: {run: [echo]}}\n")
        gone = self.folder / "gone"
        gone.mkdir()
        command = f"cd {gone} && rmdir {gone} && exec {BIN}/dlflow run {self.folder}/w.yaml"
        done = subprocess.run(["sh", "-c", command], env=self.env, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("the current folder was removed, `cd` to another", done.stderr)

    def test_names_have_room_for_128_characters(self):
        name = "n" * 128
        self.write("w.yaml", f"name: {name}\nsteps: {{{name}: {{run: [echo], outputs: {{}}}}}}\n")
        self.assertEqual(self.run_json("w.yaml")["state"], "succeeded")

    def test_no_cache_runs_every_step(self):
        self.chain()
        self.dlflow("run", "chain.yaml")
        self.dlflow("run", "chain.yaml", "--no-cache")
        self.assertEqual(self.trace(), ["a", "b", "c"] * 2)

    def test_users_of_one_cache_share_results_if_its_folder_allows_it(self):
        self.write_steps(f"""
            one: {{run: 'echo one >> {self.folder}/trace; echo 42 > $DLFLOW_OUTPUTS/answer', outputs: {{answer: answer}}}}
            two: {{run: [sh, -c, 'cat "$0" >> {self.folder}/trace; cp "$0" $DLFLOW_OUTPUTS/o', '${{{{ steps.one.outputs.answer }}}}'], outputs: {{o: o}}}}
        """)
        cache = self.folder / "cache/dlflow"
        cache.mkdir(parents=True)
        for user, trace in (("ann", 2), ("bob", 4)):  # the folder belongs to Ann, so Bob computes again
            self.run_json("w.yaml", env={"DLFLOW_HOME": str(self.folder / user)})
            self.assertEqual(len(self.trace()), trace)
        cache.chmod(0o2770)
        runs = {}
        for user, trace in (("cid", 6), ("dan", 6)):
            runs[user] = self.run_json("w.yaml", env={"DLFLOW_HOME": str(self.folder / user)})["run"]
            self.assertEqual(len(self.trace()), trace)
        out, _ = self.dlflow("explain", "w.yaml", env={"DLFLOW_HOME": str(self.folder / "dan")})
        self.assertEqual(out.count(f"reused from {runs['cid']}"), 2, out)  # names the run that computed it
        out, _ = self.dlflow("status", runs["dan"], "--json", env={"DLFLOW_HOME": str(self.folder / "dan")})
        for step in json.loads(out)["steps"]:
            self.assertEqual(step["state"], "succeeded")
            self.assertIn("in the shared cache", step["reason"])
        self.run_json("w.yaml", "--no-cache", env={"DLFLOW_HOME": str(self.folder / "eve")})
        self.assertEqual(len(self.trace()), 8)

    def test_results_lists_a_sweep(self):
        self.write("w.yaml", """
            name: sweep
            params: {scale: 1}
            steps:
              try:
                matrix: {x: "${{ range(1, 3, 1) }}"}
                run: 'echo "{\\"score\\": $((DLFLOW_MATRIX_X * (4 - DLFLOW_MATRIX_X) * DLFLOW_PARAM_SCALE))}" > $DLFLOW_SUMMARY'
              best:
                run: [sh, -c, 'echo "{\\"best\\": $0}" > $DLFLOW_SUMMARY', "${{ max_by(range(1, 3, 1), steps.try.metrics.score) }}"]
        """)
        first = self.run_json("w.yaml")["run"]
        out, _ = self.dlflow("results", first, "--sort", "score")
        self.assertEqual(out.splitlines(), ["try", "x  score", "2      4", "1      3", "3      3", "best: try[x=2], score 4 (the largest)", "",
                                            "best", "best", "   2"])
        self.run_json("w.yaml", "--set", "scale=10")
        out, _ = self.dlflow("results", "sweep", "--step", "try", "--csv")
        self.assertEqual([line.split(",")[4:] for line in out.splitlines()],
                         [["params.scale", "matrix.x", "metrics.score"]] +
                         [[str(scale), str(x), str(score * scale)] for scale in (1, 10) for x, score in ((1, 3), (2, 4), (3, 3))])
        out, _ = self.dlflow("results", first, "--json")
        self.assertEqual(json.loads(out)[1]["metrics"], {"score": 4})
        self.assertIn("did you mean 'score'", self.dlflow("results", first, "--sort", "scor", status=2)[1])
        self.assertIn("no run here has a step 'tri'; did you mean 'try'?", self.dlflow("results", first, "--step", "tri", status=2)[1])

    def test_force_runs_a_step_again(self):
        self.chain()
        self.dlflow("run", "chain.yaml")
        self.dlflow("run", "chain.yaml", "--force", "a")
        self.assertEqual(self.trace()[3], "a")

    def test_parameters_and_matrix_reach_the_step(self):
        self.write_steps(f"""
            each:
              matrix: {{n: '${{{{ params.numbers }}}}'}}
              run: 'echo "$DLFLOW_PARAM_WORD-$DLFLOW_MATRIX_N" >> {self.folder}/trace'
            text:
              run: [sh, -c, 'echo "$1" >> {self.folder}/trace', sh, '${{{{ params.word }}}}; rm -rf /']
              needs: [each]
        """, "params: {word: old, numbers: [1, 2]}")
        run = self.run_json("w.yaml", "--set", "word=new")["run"]
        self.assertEqual(sorted(self.trace()[:2]), ["new-1", "new-2"])
        self.assertEqual(self.trace()[2:], ["new;", "rm", "-rf", "/"])  # a value is never a command
        self.assertEqual(set(self.states(run)), {"each[n=1]", "each[n=2]", "text"})

    def test_a_list_in_a_command_becomes_separate_arguments(self):
        self.write("w.yaml", """
            name: w
            params: {files: [a b, c], none: []}
            steps:
              part: {run: 'echo $DLFLOW_MATRIX_N > n', matrix: {n: [1, 2]}, outputs: {n: n}}
              all:
                run: [sh, -c, 'for word; do printf "<%s>" "${word##*/}"; done', sh, "${{ params.files }}", "${{ params.none }}",
                      "${{ toJSON(params.files) }}", "${{ steps.part.outputs.n }}"]
              nothing: {run: ["${{ params.none }}"]}
        """)
        run = self.run_json("w.yaml", "--keep-going", status=1)["run"]
        self.assertEqual(self.dlflow("logs", run, "all")[0].strip(), '<a b><c><["a b","c"]><n><n>')
        self.assertEqual(self.states(run)["nothing"], "failed")

    def test_outputs_reach_the_next_step(self):
        self.write_steps(f"""
            make:
              run: 'echo 42 > $DLFLOW_OUTPUTS/answer.txt'
              outputs: {{answer: answer.txt}}
            use:
              run: [sh, -c, 'cat "$1" >> {self.folder}/trace', sh, '${{{{ steps.make.outputs.answer }}}}']
            missing:
              run: 'true'
              outputs: {{answer: nothing.txt}}
        """)
        run = self.run_json("w.yaml", "--keep-going", status=1)["run"]
        self.assertEqual(self.trace(), ["42"])
        self.assertEqual(self.states(run)["missing"], "failed")
        self.assertIn("nothing.txt", self.status(run)["steps"][2]["reason"])

    def test_a_gate_fails_a_step_whose_metric_is_too_low(self):
        self.write_steps("""
            measure:
              run: 'echo "{\\"accuracy\\": 0.5}" > $DLFLOW_SUMMARY'
              require: {accuracy: ">= 0.88"}
        """)
        run = self.run_json("w.yaml", status=1)["run"]
        reason = self.status(run)["steps"][0]["reason"]
        self.assertIn("0.5", reason)
        self.assertIn(">= 0.88", reason)

    def test_a_missing_metric_that_another_step_reads_is_reported_at_its_own_step(self):
        script = self.write("measure.sh", f"echo ran >> {self.folder}/trace; touch out\n")
        measure = "\nmeasure: {run: [sh, measure.sh], inputs: [measure.sh], outputs: {file: out}}"
        self.write_steps(measure)
        self.run_json("w.yaml")
        # That result was recorded without the metric, so it cannot replace one with it.
        self.write_steps(measure + '\nuse: {run: [echo, "${{ steps.measure.metrics.score }}"]}')
        run = self.run_json("w.yaml", status=1)["run"]
        self.assertEqual(self.trace(), ["ran", "ran"])
        self.assertEqual(self.states(run), {"measure": "failed", "use": "blocked"})
        self.assertIn("no metric 'score', which step 'use' reads", self.status(run)["steps"][0]["reason"])
        script.write_text(script.read_text() + "echo '{\"score\": 0.5}' > $DLFLOW_SUMMARY\n")
        self.dlflow("resubmit", run, "--with-new-sources")
        self.assertEqual(set(self.states(run).values()), {"succeeded"})
        self.assertEqual(set(self.states(self.run_json("w.yaml")["run"]).values()), {"cached"})

    def test_walltime_ends_a_step(self):
        self.write_steps("""
            slow: {run: 'sleep 60', resources: {walltime: 1s}}
        """)
        began = time.monotonic()
        run = self.run_json("w.yaml", status=1)["run"]
        self.assertLess(time.monotonic() - began, 30)
        self.assertEqual(self.states(run), {"slow": "timed-out"})

    def checkpointing(self):
        """A step that counts to 40, a tenth of a second each, and goes on where a checkpoint left it."""
        return self.write("count.yaml", f"""
            name: count
            steps:
              count:
                checkpoint: {{}}
                run: |
                  state=$DLFLOW_CHECKPOINTS/n
                  n=$(cat $state 2>/dev/null || echo 0)
                  trap 'wc -l < {self.folder}/trace > $state; exit 75' TERM USR1
                  while [ $n -lt 40 ]; do n=$((n + 1)); echo $n >> {self.folder}/trace; sleep 0.1; done
              after: {self.step("after", ", needs: [count]")}
        """)

    def test_ctrl_c_saves_a_checkpoint_and_resume_goes_on(self):
        self.checkpointing()
        process = self.start("run", "count.yaml")
        self.wait_for(lambda: len(self.trace()) >= 5, what="the step to count")
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 130, out + err)
        self.assertIn("--resume", out + err)
        run = json.loads(self.dlflow("status", "--quick", "--json")[0])[0]["run"]
        self.assertEqual(self.states(run)["count"], "cancelled")
        self.dlflow("run", "--resume", run)
        self.assertEqual(self.trace(), [str(n) for n in range(1, 41)] + ["after"])

    def test_a_run_is_cancelled_from_another_shell(self):
        self.checkpointing()
        process = self.start("run", "count.yaml")
        self.wait_for(lambda: self.trace(), what="the step to count")
        run = json.loads(self.dlflow("status", "--quick", "--json")[0])[0]["run"]
        self.dlflow("cancel", run)
        process.communicate(timeout=20)
        self.assertEqual(self.status(run)["state"], "cancelled")
        length = len(self.trace())
        time.sleep(0.4)
        self.assertEqual(len(self.trace()), length)

    def test_a_run_names_the_other_run_that_makes_the_same_result(self):
        self.write_steps(f"""
            data: {{run: 'until [ -e {self.folder}/go ]; do sleep 0.05; done; echo d > "$DLFLOW_OUTPUTS/d"', outputs: {{d: d}}}}
            train:
              run: 'cat "$D"; echo "$DLFLOW_PARAM_LR"'
              env: {{D: "${{{{ steps.data.outputs.d }}}}", LR: "${{{{ params.lr }}}}"}}
            always: {{run: 'echo "$DLFLOW_RUN"'}}
        """, "params: {lr: 1}")
        first = self.run_json("w.yaml", "--detach")["run"]
        out, err = self.dlflow("run", "w.yaml", "--detach")
        self.assertIn(f"note: {first} is running 2 jobs of this run, too.", err)
        out, err = self.dlflow("run", "w.yaml", "--detach", "--set", "lr=2")
        self.assertRegex(err, "note: w-[0-9a-f]+ is running 1 job of this run, too.")
        (self.folder / "go").touch()
        for run in json.loads(self.dlflow("status", "--quick", "--json")[0]):
            self.wait_for(lambda: self.status(run["run"])["state"] == "succeeded", what="the run")
        out, err = self.dlflow("run", "w.yaml")
        self.assertNotIn("note:", err)

    def test_a_run_whose_dlflow_was_killed_is_not_named_as_the_maker_of_a_result(self):
        self.write_steps(f"""
            a: {{run: 'touch {self.folder}/began; until [ -e {self.folder}/go ]; do sleep 0.05; done'}}
            b: {{run: echo b, needs: [a]}}
        """)
        killed = self.start("run", "w.yaml")
        self.wait_for((self.folder / "began").exists, what="the program of a")
        killed.kill()
        killed.communicate(timeout=30)
        (self.folder / "go").touch()
        ends = "dlflow-runs/w-*/steps/a/attempt-1/events.jsonl"
        self.wait_for(lambda: any("succeeded" in end.read_text() for end in self.folder.glob(ends)), what="the end of a")
        out, err = self.dlflow("run", "w.yaml")
        self.assertNotIn("note:", err)

    def test_a_program_and_a_detached_run_get_no_descriptor_of_the_caller(self):
        self.write("w.yaml", "name: w\nsteps: {a: {run: 'ls /proc/self/fd > fds; sleep 3', outputs: {fds: fds}}}\n")
        lock = self.folder / "lock"
        with open(lock, "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            out, _ = self.start("run", "w.yaml", "--detach", "--json", pass_fds=[file.fileno()]).communicate(timeout=60)
        with open(lock) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the lock is free
        run = json.loads(out.splitlines()[-1])["run"]
        self.wait_for(lambda: self.status(run)["state"] == "succeeded", what="the detached run")
        fds = (self.folder / "dlflow-runs" / run / "steps/a/outputs/fds").read_text().split()
        self.assertEqual(fds, ["0", "1", "2", "3"])  # the last descriptor is that of the listed folder

    def test_detach_returns_at_once_and_the_run_goes_on(self):
        self.write_steps(f"""
            slow: {{run: 'sleep 0.5'}}
            after: {self.step("after", ", needs: [slow]")}
        """)
        began = time.monotonic()
        run = self.run_json("w.yaml", "--detach")["run"]
        self.assertLess(time.monotonic() - began, 5)
        self.wait_for(lambda: self.status(run)["state"] == "succeeded", what="the detached run")
        self.assertEqual(self.trace(), ["after"])

    def test_a_condition_skips_a_step_and_users_of_its_outputs_but_not_steps_that_only_wait(self):
        self.write_steps(f"""
            plot: {self.step("plot", ", outputs: {o: o}, if: '${{ params.plot }}'")}
            show: {self.step("show", ", env: {O: '${{ steps.plot.outputs.o }}'}")}
            frame: {self.step("frame", ", needs: [show]")}
        """, "params: {plot: false}")
        run = self.run_json("w.yaml")["run"]
        self.assertEqual(self.states(run), {"plot": "skipped", "show": "skipped", "frame": "succeeded"})
        self.assertEqual(self.trace(), ["frame"])

    def test_edits_after_submit_change_nothing(self):
        """P6: the plan, the sources and the program are frozen."""
        script = self.write("count.sh", f"echo old >> {self.folder}/trace\n")
        self.write_steps(f"""
            slow: {{run: 'while [ ! -e {self.folder}/go ]; do sleep 0.05; done'}}
            use: {{run: [sh, count.sh], inputs: [count.sh], needs: [slow]}}
        """)
        process = self.start("run", "w.yaml")
        self.wait_for(lambda: list((self.folder / "dlflow-runs").glob("w-*")), what="the run directory")
        script.write_text(f"echo new >> {self.folder}/trace\n")
        (self.folder / "w.yaml").write_text("nonsense")
        (self.folder / "go").touch()
        process.communicate(timeout=20)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(self.trace(), ["old"])

    def test_files_that_a_script_writes_beside_itself_are_hidden_from_other_elements(self):
        self.write("sweep.py", """
            import json, os
            from pathlib import Path
            last = Path(__file__).resolve().parent / "last.txt"
            weights, epoch = map(float, last.read_text().split()) if last.exists() else (0, 0)
            while epoch < 5:
                weights, epoch = weights + float(os.environ["DLFLOW_MATRIX_LR"]), epoch + 1
                last.write_text(f"{weights} {epoch}")
            json.dump({"weights": weights}, open(os.environ["DLFLOW_SUMMARY"], "w"))
        """)
        self.write_steps("""
            train: {run: python3 sweep.py, inputs: [sweep.py], matrix: {lr: [1, 10, 100], max_parallel: 1}}
        """)
        run = self.run_json("w.yaml")["run"]
        self.assertEqual([step["metrics"]["weights"] for step in self.status(run)["steps"]], [5, 50, 500])

    def test_an_attempt_may_change_its_own_small_inputs_but_not_the_frozen_ones(self):
        self.write("cfg.ini", "lr=1\n")
        with open(self.folder / "large", "wb") as large:
            large.truncate((1 << 20) + 1)
        self.write_steps("""
            change: {run: 'echo extra=1 >> cfg.ini; cp cfg.ini mine.ini; echo more=1 >> mine.ini; test -L large', inputs: [cfg.ini, large], outputs: {o: mine.ini}}
            see: {run: 'cp cfg.ini o', inputs: [cfg.ini], needs: [change], outputs: {o: o}}
        """)
        run = self.folder / "dlflow-runs" / self.run_json("w.yaml")["run"]
        self.assertEqual((run / "steps/change/outputs/mine.ini").read_text(), "lr=1\nextra=1\nmore=1\n")
        self.assertEqual((run / "steps/see/outputs/o").read_text(), "lr=1\n")
        for place in (run / "sources", run / "sources/cfg.ini"):
            self.assertEqual(place.stat().st_mode & 0o222, 0, place)

    def test_an_input_is_an_output_only_if_the_program_has_changed_it(self):
        self.write("base.pt", "base")
        self.write_steps("""
            a: {run: 'eval "echo $DLFLOW_PARAM_LINE"', inputs: [base.pt], outputs: {o: '*.pt'}}
        """, "params: {line: new > last.pt}")
        published = lambda: {p.name for p in (self.folder / "dlflow-runs").glob("*/steps/a/outputs/*")}
        self.dlflow("run", "w.yaml")
        self.assertEqual(published(), {"last.pt"})
        self.dlflow("run", "w.yaml", "--set", "line=new > base.pt")
        self.assertEqual(published(), {"last.pt", "base.pt"})
        out = "".join(self.dlflow("run", "w.yaml", "--set", "line=none", status=1))
        self.assertIn("*.pt is an input, and the program did not change it", " ".join(out.split()))

    def test_files_that_tools_add_to_an_input_folder_rerun_nothing(self):
        self.write("pkg/mod.py", "X = 1\n")
        workflow = "name: w\nsteps:\n  a: {{run: 'ls -a pkg > o', inputs: {}, outputs: {{o: o}}}}\n"
        text = workflow.format("[pkg]")
        self.write("w.yaml", text)
        first = self.run_json("w.yaml")["run"]
        for name in ("__pycache__/mod.pyc", ".ipynb_checkpoints/mod.py", ".git/HEAD", ".nfs0001"):
            self.write("pkg/" + name, "theirs")
        self.assertEqual(self.states(self.run_json("w.yaml")["run"]), {"a": "cached"})
        self.assertEqual((self.folder / "dlflow-runs" / first / "steps/a/outputs/o").read_text().split(), [".", "..", "mod.py"])
        self.write("w.yaml", workflow.format("[pkg/.git, pkg/.nfs0001]"))
        named = self.run_json("w.yaml")["run"]
        self.assertEqual((self.folder / "dlflow-runs" / named / "steps/a/outputs/o").read_text().split(), [".", "..", ".git", ".nfs0001"])

    def test_programs_get_numbers_as_they_are_written(self):
        self.write_steps("""
            s:
              run: 'echo $V $W $DLFLOW_PARAM_COMMIT $DLFLOW_PARAM_TAG $DLFLOW_PARAM_LR $DLFLOW_PARAM_SUM > o; cat "$DLFLOW_WITH" >> o'
              env: {V: 3.10, W: 010}
              with: {tag: "${{ params.tag }}", lr: 1e-3}
              outputs: {o: o}
            list: {run: [sh, -c, 'echo "$@" > o', sh, 1e-3, 010, 3], outputs: {o: o}}
        """, 'params: {commit: 9509425349e4, tag: 1.10, lr: 1e-3, sum: "${{ params.lr * 2 }}"}')
        run = self.run_json("w.yaml")["run"]
        left = lambda step: (self.folder / "dlflow-runs" / run / "steps" / step / "outputs/o").read_text()
        first, values = left("s").split("\n", 1)
        self.assertEqual(first, "3.10 010 9509425349e4 1.10 1e-3 0.002")
        self.assertEqual(json.loads(values), {"tag": 1.1, "lr": 0.001})
        self.assertEqual(left("list"), "1e-3 010 3\n")
        run = self.run_json("w.yaml", "--set", "tag=1.100", "--set", "lr=0.0010")["run"]
        self.assertEqual(self.states(run), {"s": "succeeded", "list": "cached"})
        self.assertEqual(left("s").split("\n")[0], "3.10 010 9509425349e4 1.100 0.0010 0.002")
        self.dlflow("pack", "--from-run", run, "-o", "w.dlflow")
        run = self.run_json("w.dlflow")["run"]
        self.assertEqual(self.states(run), {"s": "cached", "list": "cached"})

    def test_an_image_is_refused_if_the_profile_has_no_containers(self):
        self.write_steps("""
            a: {run: 'true', image: busybox}
        """, 'images: {busybox: {from: "dir:/nowhere"}}')
        self.assertRegex(self.dlflow("run", "w.yaml", status=2)[1], r"w.yaml:2:\d+: error: .* runs no containers")

    def test_status_is_complete_after_the_loss_of_the_database(self):
        self.chain()
        run = self.run_json("chain.yaml")["run"]
        before = {**self.status(run), "ended": None}  # the end of the last job is known, that of the engine is not
        for file in (self.folder / "state").iterdir():
            file.unlink()
        self.dlflow("doctor", "--rebuild")
        self.assertEqual({**self.status(run), "ended": None}, before)


if __name__ == "__main__":
    main()
