"""Verbs that need no run: version, help, validate, graph, schema, completion; and the static executable."""

import json
import os
import re
import shutil
import subprocess
import unittest

from support import BIN, ROOT, Case, main

GOOD = """
    name: demo
    steps:
      fetch: {run: [echo, hello]}
      use: {run: [echo, again], needs: [fetch]}
"""


class CommandLine(Case):
    def test_version(self):
        self.assertRegex(self.dlflow("--version")[0], r"^dlflow \d+\.\d+\.\d+\n$")
        self.assertEqual(self.dlflow("version")[0], self.dlflow("--version")[0])

    def verbs(self, *parents):
        """The verbs that `dlflow --help`, or that of a verb, lists."""
        listed = self.dlflow(*parents, "--help")[0].partition("Subcommands:\n")[2]
        return re.findall(r"^  (\w\S*) ", listed.partition("\n\n")[0], re.MULTILINE)

    def test_every_verb_of_the_sources_is_there(self):
        declared = re.findall(r"void add_(\w+)\(", (ROOT / "engine/cli/commands.h").read_text())
        self.assertGreaterEqual(len(declared), 20)
        hidden = {"man"}  # for the build
        self.assertEqual(set(self.verbs()), set(declared) - hidden)

    def test_every_verb_explains_itself_with_examples(self):
        for verb in self.verbs():
            text, _ = self.dlflow(verb, "--help")
            self.assertIn("Examples:", text, verb)
            self.assertIn(f"dlflow {verb}", text, verb)

    def test_documents_know_every_verb(self):
        readme, pages = (ROOT / "README.md").read_text(), (ROOT / "docs/user/json.md").read_text()
        for verb in self.verbs():
            self.assertRegex(readme, rf"`(dlflow )?{verb}\b", f"README.md does not mention {verb}")
            for words in [(verb,), *((verb, inner) for inner in self.verbs(verb))]:
                if "--json" in self.dlflow(*words, "--help")[0]:
                    self.assertRegex(pages, rf"`dlflow {verb}\b[^`]*--json`", f"json.md does not mention {words}")

    def test_every_step_kind_has_a_program(self):
        rules = json.loads(self.dlflow("schema", "workflow")[0])["$defs"]["step"]["allOf"]
        kinds = [rule["if"]["properties"]["uses"]["const"] for rule in rules]
        self.assertGreaterEqual(len(kinds), 5)
        for kind in kinds:
            if (ROOT / "steps" / kind / "main.cpp").exists():
                continue  # a program of its own, built where there is MPI
            process = subprocess.run([BIN / "dlflow", "step", kind], capture_output=True, text=True, timeout=60)
            self.assertIn("DLFLOW_", process.stderr, f"{kind}: neither dlflow-{kind} nor a step of dlflow itself")

    def test_a_good_workflow_is_valid_without_a_word(self):
        self.write("good.yaml", GOOD)
        self.assertEqual(self.dlflow("validate", "good.yaml"), ("", ""))

    def test_validate_warns_of_variables_that_a_script_will_not_find(self):
        self.write("w.yaml", """
            name: w
            steps:
              a: {run: 'echo $MY_TOKEN $MY_DATA $SCRATCH $NOT_SET $HOME $DLFLOW_OUTPUTS; x=1; echo $x', env: {MY_DATA: d}}
        """)
        env = {"MY_TOKEN": "1", "MY_DATA": "2", "SCRATCH": "3", "x": "4"}
        _, err = self.dlflow("validate", "w.yaml", env=env)
        self.assertEqual(err, "w.yaml:4:12: warning: step 'a' reads $MY_TOKEN, which is set here and which it will not get; "
                              "write env: {MY_TOKEN: …}, or inherit: [MY_TOKEN] in the profile\n")
        self.write("mine.yaml", "inherit: [MY_*]\n")
        self.assertEqual(self.dlflow("validate", "w.yaml", "--profile", "mine.yaml", env=env), ("", ""))

    def test_an_expression_cannot_stand_for_all_keys(self):
        for key, kind in (("matrix", "run: [echo]"), ("with", "uses: evaluate")):
            self.write("bad.yaml", f"""
                name: bad
                params: {{all: {{include: [{{a: 1}}]}}}}
                steps:
                  a: {{{kind}, {key}: "${{{{ params.all }}}}"}}
            """)
            _, err = self.dlflow("validate", "bad.yaml", status=2)
            self.assertRegex(err, rf"bad.yaml:5:\d+: error: .*{key}.* cannot be one expression")

    def test_a_zero_byte_is_refused(self):
        self.write("bad.yaml", GOOD.replace("[echo, hello]", '[echo, "a\\0b"]'))
        _, err = self.dlflow("validate", "bad.yaml", status=2)
        self.assertIn("zero byte", err)

    def test_output_that_cannot_be_written_is_an_error(self):
        with open("/dev/full", "w") as full:
            process = subprocess.run([BIN / "dlflow", "schema"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(process.returncode, 2)
        self.assertIn("cannot write to standard output", process.stderr)

    def test_a_typo_is_answered_with_place_and_suggestion(self):
        self.write("bad.yaml", GOOD.replace("needs", "neds"))
        out, err = self.dlflow("validate", "bad.yaml", status=2)
        self.assertEqual(out, "")
        self.assertIn("bad.yaml:5:", err)
        self.assertIn("did you mean 'needs'?", err)

    def test_all_mistakes_are_reported_at_once(self):
        self.write("bad.yaml", """
            name: demo
            steps:
              a: {run: [echo], needs: [b], resources: {walltime: 20 parsecs}}
              b: {run: [echo], needs: [a]}
        """)
        _, err = self.dlflow("validate", "bad.yaml", status=2)
        self.assertIn("is not a duration", err)
        self.assertIn("cycle", err)
        self.assertTrue(err.endswith("2 errors.\n"), err)

    def test_a_missing_file_or_verb_is_a_usage_error(self):
        self.assertIn("none.yaml", self.dlflow("validate", "none.yaml", status=2)[1])
        self.assertIn("error:", self.dlflow("frobnicate", status=2)[1])
        self.assertIn("error:", self.dlflow("run", status=2)[1])
        self.assertIn("--epoch", self.dlflow("run", "x.yaml", "--epoch", "3", status=2)[1])

    def test_a_misspelt_verb_is_answered_with_a_suggestion(self):
        for words, answer in {("rnu",): "no command 'dlflow rnu'; did you mean 'run'?\n",
                              ("cache", "lst"): "no command 'cache lst'; did you mean 'list'?\n",
                              ("frobnicate",): "no command 'dlflow frobnicate'\n",
                              ("--nonsense",): "no option --nonsense\n"}.items():
            self.assertIn(answer, self.dlflow(*words, status=2)[1])

    def test_workflows_of_this_repository_are_valid(self):
        for workflow in (ROOT / "workflows").glob("*.yaml"):
            self.assertEqual(self.dlflow("validate", workflow), ("", ""))

    def test_graph_in_every_format(self):
        self.write("good.yaml", GOOD)
        self.assertEqual(self.dlflow("graph", "good.yaml")[0], "fetch  run\nuse    run  ← fetch\n")
        self.assertIn('"fetch" -> "use";', self.dlflow("graph", "good.yaml", "--format", "dot")[0])
        self.assertIn("fetch --> use", self.dlflow("graph", "good.yaml", "--format", "mermaid")[0])
        jobs = json.loads(self.dlflow("graph", "good.yaml", "--json")[0])["jobs"]
        self.assertEqual([job["needs"] for job in jobs], [[], ["fetch"]])

    @unittest.skipUnless(shutil.which("dot"), "Graphviz is not installed")
    def test_graph_as_a_picture(self):
        self.write("good.yaml", GOOD)
        self.assertIn("<svg", self.dlflow("graph", "good.yaml", "--format", "svg")[0])

    def test_graph_as_a_picture_without_graphviz_says_what_to_install(self):
        self.write("good.yaml", GOOD)
        _, err = self.dlflow("graph", "good.yaml", "--format", "svg", status=2, env={"PATH": "/nowhere"})
        self.assertIn("graphviz", err)

    def test_schema_is_json(self):
        self.assertEqual(json.loads(self.dlflow("schema")[0])["$schema"],
                         "https://json-schema.org/draft/2020-12/schema")

    def test_completion_scripts_offer_the_verbs(self):
        for shell in ["bash", "zsh", "fish"]:
            out, _ = self.dlflow("completion", shell)
            self.assertIn("resubmit", out)
            self.assertNotIn("local-launcher", out)
        for shell in filter(shutil.which, ["bash", "zsh", "fish"]):
            subprocess.run([shell, "-n"], input=self.dlflow("completion", shell)[0], text=True, check=True)

    def complete(self, *words):
        """What bash offers for the last of `words`."""
        script = self.dlflow("completion", "bash")[0]
        line = " ".join(f"'{word}'" for word in ("dlflow", *words))
        out = subprocess.run(
            ["bash", "-c", f"{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words)}; _dlflow; echo ${{COMPREPLY[@]}}"],
            capture_output=True, text=True, check=True, cwd=self.folder,
            env={**self.env, "PATH": f"{BIN}:{self.env['PATH']}"}).stdout
        return out.split()

    def test_completion_offers_verbs_options_and_names(self):
        self.write("cluster-profiles/alpha.yaml", "scheduler: slurm\n")
        self.assertEqual(self.complete("re"), ["resubmit", "results", "report"])
        self.assertEqual(self.complete("resubmit", "--from"), ["--from-scratch"])
        self.assertEqual(sorted(self.complete("profile", "")), ["check", "detect", "list", "show"])
        self.assertEqual(self.complete("profile", "check", "--t"), ["--timeout"])
        self.assertEqual(self.complete("profile", "check", "al"), ["alpha"])

    def test_completion_of_zsh_and_fish_offers_names_and_files(self):
        zsh = self.dlflow("completion", "zsh")[0]
        self.assertIn("    'version:", zsh)
        runs = "$(dlflow list --quiet 2>/dev/null)"
        line = next(each for each in zsh.splitlines() if each.startswith("    resubmit) "))
        self.assertTrue(line.endswith(f"; compadd -- {runs} ;;"), line)
        self.assertIn(" --from-scratch", line)
        line = next(each for each in zsh.splitlines() if each.startswith("    validate) "))
        self.assertTrue(line.endswith("; _files -g '*.(yaml|yml|dlflow)' ;;"), line)
        self.assertIn("    profile) if (( CURRENT == 3 )); then compadd -- ", zsh)
        self.assertRegex(zsh, r"else case \$words\[3\] in\n        \w+\) compadd -- --")
        self.assertIn("; compadd -- $(dlflow profile list --quiet 2>/dev/null) ;;", zsh)

        fish = self.dlflow("completion", "fish")[0].splitlines()
        seen = "complete -c dlflow -n 'true; and __fish_seen_subcommand_from"
        self.assertIn(f"{seen} resubmit' -l from-scratch", fish)
        self.assertIn(f"{seen} resubmit' -a '(dlflow list --quiet 2>/dev/null)'", fish)
        self.assertIn(f"{seen} validate' -F", fish)
        self.assertNotIn(f"{seen} resubmit' -F", fish)
        self.assertIn(f"{seen} profile; and __fish_seen_subcommand_from show' -a '(dlflow profile list --quiet 2>/dev/null)'", fish)
        self.assertNotIn(f"{seen} validate' -a '(dlflow list --quiet 2>/dev/null)'", fish)

    def test_color_only_when_asked_for_off_a_terminal(self):
        self.write("good.yaml", GOOD)
        self.dlflow("run", "good.yaml")
        self.assertNotIn("\033", self.dlflow("status")[0])
        self.assertIn("\033", self.dlflow("status", "--color", "always")[0])

    @unittest.skipUnless(os.geteuid() == 0, "chroot needs root")
    def test_the_executable_is_static(self):
        """It runs in a folder that holds nothing else."""
        jail = self.folder / "jail"
        jail.mkdir()
        shutil.copy(BIN / "dlflow", jail / "dlflow")
        self.write("jail/good.yaml", GOOD)
        for arguments in [["--version"], ["validate", "/good.yaml"]]:
            result = subprocess.run([shutil.which("chroot"), str(jail), "/dlflow", *arguments], capture_output=True, text=True,
                                    env={})
            self.assertEqual((result.returncode, result.stderr), (0, ""))


if __name__ == "__main__":
    main()
