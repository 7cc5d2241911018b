"""Verbs that need no run: help, validate, graph, schema, completion; and the static executable."""

import json
import os
import re
import shutil
import subprocess
import unittest

from support import BIN, ROOT, Case, main
import pictures  # support.py has put its folder on sys.path

MODEL = "name: m\ninput: [4]\nlayers:\n  - linear: {features: 1}\nloss: mse\n"

GOOD = """
    name: demo
    steps:
      fetch: {run: [echo, hello]}
      use: {run: [echo, again], needs: [fetch]}
"""


class CommandLine(Case):
    def test_version_is_printed(self):
        text = self.dlflow("--version")[0]
        self.assertRegex(text, r"^dlflow \d+\.\d+\.\d+\n$")
        known = json.loads(self.dlflow("version", "--json")[0])
        self.assertEqual(known["dlflow"], text.split()[1])
        self.assertEqual(set(known), {"dlflow", "build", "libraries", "interfaces"})
        self.assertRegex(known["build"]["compiler"], r"^\d+\.")
        for name, version in known["libraries"].items():
            self.assertRegex(version, r"^\d+\.\d+", name)
        for name, header in (("runtime", "c_api/dlflow_runtime.h"), ("mpi", "comm/mpi_plugin_abi.h"), ("gpu", "gpu/plugin_abi.h")):
            number = re.search(r"^#define DLFLOW_(?:\w+_)?ABI (\d+)", (ROOT / "runtime" / header).read_text(), re.MULTILINE)[1]
            self.assertEqual(known["interfaces"][name], int(number), header)

    def verbs(self, *parents):
        """The verbs that `dlflow --help`, or that of a verb, lists."""
        above = re.split(r"\n(?:Arguments|Options):\n", self.dlflow(*parents, "--help")[0])[0]
        return re.findall(r"^  (\w\S*) ", above, re.MULTILINE)

    def test_verbs_stand_in_four_groups(self):
        groups = re.findall(r"^(\w[\w ]*):\n  ", self.dlflow("--help")[0], re.MULTILINE)
        self.assertEqual(groups, ["Run and repair", "Look", "Data and models", "Share and operate", "Options", "Examples"])
        self.assertLessEqual(len(self.verbs()), 24)

    def test_old_verbs_work_and_name_the_new_ones(self):
        self.write("good.yaml", GOOD)
        run = self.run_json("good.yaml")["run"]
        self.dlflow("pack", "good.yaml")
        for old, new, named in ((["list", "--quiet"], ["status", "--quick", "--quiet"], "status --quick"),
                                (["-q", "list", "--json"], ["status", "--quick", "--json"], "status --quick"),
                                (["nodes", "--json"], ["status", "--nodes", "--json"], "status --nodes"),
                                (["inspect", "demo.dlflow"], ["unpack", "--list", "demo.dlflow"], "unpack --list"),
                                (["trace", run, "--json"], ["report", "--trace", run, "--json"], "report --trace"),
                                (["version"], ["--version"], "--version"),
                                (["prune", "--keep", "0", "-n"], ["rm", "--keep", "0", "-n"], "rm --older-than")):
            verb = next(word for word in old if word[0] != "-")
            hint = f"`dlflow {verb}` is now `dlflow {named}`\n"
            self.assertEqual(self.dlflow(*old), (self.dlflow(*new)[0], hint))
        self.assertIn("no command 'dlflow lock'; write the `digest:` of each image", self.dlflow("lock", "good.yaml", status=2)[1])
        self.assertIn("has no option --results; it is --step now", self.dlflow("pack", "--results", "a", status=2)[1])
        for verb in ("run", "explain"):
            _, err = self.dlflow(verb, "demo.dlflow", "--trust-results", status=2)
            self.assertIn(f"`dlflow {verb}` has no option --trust-results any more: run the bundle", err)

    def test_options_that_exclude_each_other_are_refused(self):
        for words in (("status", "7f3a", "--quick"), ("status", "--quick", "--watch"), ("status", "7f3a", "--nodes"),
                      ("rm", "7f3a", "--keep", "5"), ("unpack", "--list", "x.dlflow", "-C", "x")):
            self.assertIn("leave one of them out", self.dlflow(*words, status=2)[1], words)
        self.assertIn("a trace is of one run", self.dlflow("report", "a", "b", "--trace", status=2)[1])

    def test_the_program_has_every_verb_of_the_sources(self):
        declared = re.findall(r"void add_(\w+)\(", (ROOT / "engine/cli/commands.h").read_text())
        self.assertGreaterEqual(len(declared), 20)
        hidden = {"man", "completion", "help"}  # used by the build, by an installation; --help
        self.assertEqual(set(self.verbs()), set(declared) - hidden)

    def test_every_verb_explains_itself_with_examples(self):
        for verb in self.verbs():
            text, _ = self.dlflow(verb, "--help")
            self.assertIn("Examples:", text, verb)
            self.assertIn(f"dlflow {verb}", text, verb)

    def test_the_page_on_json_has_every_verb_that_prints_it(self):
        pages = (ROOT / "docs/user/json.md").read_text()
        for verb in self.verbs():
            for words in [(verb,), *((verb, inner) for inner in self.verbs(verb))]:
                if "--json" in self.dlflow(*words, "--help")[0]:
                    self.assertRegex(pages, rf"`dlflow {verb}\b[^`]*--json`", f"json.md does not mention {words}")

    def test_every_step_kind_has_a_program(self):
        rules = json.loads(self.dlflow("schema", "workflow")[0])["$defs"]["step"]["allOf"]
        kinds = [rule["if"]["properties"]["uses"]["const"] for rule in rules]
        self.assertGreaterEqual(len(kinds), 5)
        for kind in kinds:
            if (ROOT / "steps" / kind / "main.cpp").exists():
                continue  # a separate program, built if there is MPI
            process = subprocess.run([BIN / "dlflow", "step", kind], capture_output=True, text=True, timeout=60)
            self.assertIn("DLFLOW_", process.stderr, f"{kind}: neither dlflow-{kind} nor a step of dlflow itself")

    def test_a_good_workflow_is_valid_without_a_message(self):
        self.write("good.yaml", GOOD)
        self.assertEqual(self.dlflow("validate", "good.yaml"), ("", ""))

    def test_validate_warns_of_variables_that_a_script_will_not_find(self):
        self.write_steps("""
            a: {run: 'echo $MY_TOKEN $MY_DATA $SCRATCH $NOT_SET $HOME $DLFLOW_OUTPUTS; x=1; echo $x', env: {MY_DATA: d}}
        """)
        env = {"MY_TOKEN": "1", "MY_DATA": "2", "SCRATCH": "3", "x": "4"}
        _, err = self.dlflow("validate", "w.yaml", env=env)
        self.assertEqual(err, "w.yaml:3:12: warning: step 'a' reads $MY_TOKEN, which is set here but is not passed on to it; "
                              "write env: {MY_TOKEN: …}, or inherit: [MY_TOKEN]\n")
        self.write("mine.yaml", "inherit: [MY_*]\n")
        self.assertEqual(self.dlflow("validate", "w.yaml", "--profile", "mine.yaml", env=env), ("", ""))

    def test_validate_warns_of_a_prune_that_makes_the_next_run_train_again(self):
        self.write("model.yaml", MODEL)
        steps = """
            pack: {run: ./pack, outputs: {data: data}}
            train: {uses: train, with: {model: model.yaml, data: "${{ steps.pack.outputs.data }}", epochs: 1, lr: 0.1}}
            best:
              uses: checkpoint
              with:
                from: "${{ steps.train.outputs.checkpoints }}"
                %s
        """
        self.write_steps(steps % "prune: 1")
        _, err = self.dlflow("validate", "w.yaml")
        self.assertIn("warning: step 'best' prunes what 'train' left, which then cannot be reused: the next run makes it again; "
                      "write checkpoint: {keep: N} there instead, or leave prune out\n", err)
        self.write_steps(steps % "select: latest")
        self.assertNotIn("prunes", self.dlflow("validate", "w.yaml")[1])

    def test_validate_warns_of_idle_ranks(self):
        self.write("model.yaml", MODEL)
        steps = """
            pack: {run: ./pack, outputs: {data: data}}
            train:
              uses: train
              resources: {ranks: 8}
              with: {model: model.yaml, data: "${{ steps.pack.outputs.data }}", epochs: 1, lr: 0.1, batch: %d}
        """
        self.write_steps(steps % 128)
        self.assertIn("w.yaml:6:16: warning: step 'train': 4 of 8 ranks have nothing to do: a step has 4 leaves. All have work with "
                      "'precision: {leaves: 8}', or with 'batch: 256'\n", self.dlflow("validate", "w.yaml")[1])
        self.write_steps(steps % 256)
        self.assertNotIn("nothing to do", self.dlflow("validate", "w.yaml")[1])

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
                              ("ps",): "no command 'dlflow ps'; did you mean 'status'?\n",
                              ("help", "nodes"): "no command 'dlflow nodes'; did you mean 'status --nodes'?\n",
                              ("graph", "w.yaml", "-o"): "no option -o; it prints, so add > FILE\n",
                              ("--nonsense",): "no option --nonsense\n"}.items():
            self.assertIn(answer, self.dlflow(*words, status=2)[1])

    def test_an_error_ends_with_the_help_of_its_verb(self):
        for words, hint in {("rnu",): "dlflow", ("run", "--sett", "a=1"): "dlflow run", ("cache", "gc", "x"): "dlflow cache gc",
                            ("status", "--long"): "dlflow status", ("profile", "shw"): "dlflow profile"}.items():
            self.assertTrue(self.dlflow(*words, status=2)[1].endswith(f"\nTry `{hint} --help`.\n"), words)

    def test_an_option_is_not_taken_as_the_value_of_another(self):
        self.write("good.yaml", GOOD)
        for words, answer in {("run", "good.yaml", "--set", "--profile", "local"): "--set needs KEY=VALUE, and --profile is an option",
                              ("run", "good.yaml", "--until", "-q"): "--until needs STEP, and -q is an option",
                              ("pack", "good.yaml", "-o", "--with-data"): "--output needs FILE, and --with-data is an option"}.items():
            self.assertIn(f"error: {answer}\nTry `dlflow {words[0]} --help`.\n", self.dlflow(*words, status=2)[1])

    def test_a_missing_argument_is_shown_with_its_neighbours(self):
        self.assertIn("`dlflow shell` needs JOB: dlflow shell RUN JOB\n", self.dlflow("shell", "7f3a", status=2)[1])

    def test_dlflow_alone_and_a_group_of_verbs_alone_print_help(self):
        self.assertEqual(self.dlflow(), self.dlflow("--help"))
        self.assertEqual(self.dlflow("cache"), self.dlflow("cache", "--help"))

    def test_help_of_a_verb_is_its_help(self):
        self.assertEqual(self.dlflow("help"), self.dlflow("--help"))
        self.assertEqual(self.dlflow("help", "run"), self.dlflow("run", "--help"))
        self.assertEqual(self.dlflow("help", "profile", "check"), self.dlflow("profile", "check", "--help"))
        self.assertIn("no command 'dlflow rnu'; did you mean 'run'?", self.dlflow("help", "rnu", status=2)[1])

    def leaves(self):
        """All verbs that do something, with those above them."""
        for verb in self.verbs():
            inner = self.verbs(verb)
            yield from ([(verb, each) for each in inner] if inner else [(verb,)])

    def test_help_fits_into_80_columns(self):
        texts = [self.dlflow("--help")[0], *(self.dlflow(*words, "--help")[0] for words in self.leaves())]
        self.assertGreaterEqual(len(texts), 20)
        for line in "\n".join(texts).splitlines():
            self.assertLessEqual(len(line), 80, line)
            self.assertNotRegex(line, r"^ .*--\S+ (TEXT|INT|UINT)\b")  # these words come from CLI11

    def test_man_pages_are_there_for_every_verb_and_fit_into_80_columns(self):
        self.dlflow("man-pages", "man", ROOT / "docs/user/environment.md")
        pages = {page.name for page in (self.folder / "man").iterdir()}
        self.assertEqual(pages, {"dlflow.1", *("dlflow-" + "-".join(words) + ".1" for words in self.leaves()),
                                 *(f"dlflow-{verb}.1" for verb in self.verbs())})
        arguments, options = (self.folder / "man/dlflow-logs.1").read_text().split(".SH ARGUMENTS")[1].split(".SH OPTIONS")
        self.assertNotIn("follow", arguments)
        self.assertIn("follow", options)
        if not shutil.which("mandoc"):
            self.skipTest("mandoc is not installed")
        for page in pages:
            out = subprocess.run(["mandoc", "-T", "utf8", "-O", "width=80", self.folder / "man" / page], check=True,
                                 capture_output=True, text=True).stdout
            self.assertIn("EXAMPLES", re.sub(".\b", "", out))

    def test_every_verb_prints_json(self):
        """Verbs that print a table for other programs, or open a shell, have none."""
        without = {("predict",), ("shell",)}
        self.assertEqual({words for words in self.leaves() if "--json" not in self.dlflow(*words, "--help")[0]}, without)

    def test_an_error_prints_json(self):
        self.write("bad.yaml", GOOD.replace("needs", "neds"))
        for words, message, diagnostics in (
                (("validate", "bad.yaml"), "unknown key 'neds'", 1), (("status", "nope"), "no runs yet", 0),
                (("run", "none.yaml"), "there is no file none.yaml", 0), (("status", "--nope"), "has no option --nope", 0),
                (("profile", "show", "nope"), "there is no profile 'nope'", 0)):
            out, err = self.dlflow(*words, "--json", status=2)
            error = json.loads(out)["error"]
            self.assertIn(message, error["message"])
            self.assertIn(message, err)
            self.assertEqual((error["status"], len(error["diagnostics"])), (2, diagnostics))
        place = json.loads(self.dlflow("validate", "bad.yaml", "--json", status=2)[0])["error"]["diagnostics"][0]
        self.assertEqual((place["file"], place["line"], place["severity"]), ("bad.yaml", 5, "error"))

    def test_verbs_that_change_something_print_json(self):
        self.write("good.yaml", GOOD)
        run = self.run_json("good.yaml")["run"]
        show = lambda *words, status=0: json.loads(self.dlflow(*words, "--json", status=status)[0])  # noqa: E731
        self.assertEqual(show("validate", "good.yaml"), {"workflow": "demo", "file": "good.yaml", "steps": 2, "automatic_ranks": {}, "ranks_meet_by": {}, "diagnostics": []})
        self.assertEqual([entry["job"] for entry in show("logs", run, "use")], ["use"])
        self.assertEqual(show("logs", run, "use")[0]["stdout"]["text"], "again\n")
        self.assertEqual(show("pack", "good.yaml")["file"], "demo.dlflow")
        self.assertEqual(show("unpack", "demo.dlflow")["folder"], "demo")
        self.assertEqual(show("cache", "gc")["removed"], [])
        self.assertEqual(show("cache", "verify"), {"images": 0, "damaged": []})
        self.assertEqual([entry["run"] for entry in show("doctor", "--rebuild")["runs"]], [run])
        self.assertEqual(show("cancel", run)["ended"], True)
        self.assertEqual([entry["run"] for entry in show("rm", run, "--dry-run")["removed"]], [run])
        self.assertEqual(show("rm", "--keep", "0")["removed"][0]["run"], run)
        self.assertEqual(show("profile", "check", "local")["profile"], "local")

    def test_workflows_of_this_repository_are_valid(self):
        for workflow in (ROOT / "workflows").glob("*.yaml"):
            out, err = self.dlflow("validate", workflow)
            self.assertEqual(err, "")
            self.assertRegex(out, r"^(step '\w+': its ranks will meet by .*\n)*$")

    @unittest.skipUnless((BIN / "dlflow-train").exists(), "built without dlflow-train")
    def test_validate_shows_how_ranks_will_connect(self):
        pictures.for_training(self.folder, ROOT / "workflows", 200, 50)
        self.write_steps("""
            train:
              uses: train
              with: {model: models/mlp.yaml, data: data, epochs: 1, lr: 0.05, batch: 320, validation: 20}
              resources: {ranks: 2}
        """)
        place = self.write("bin/mpirun", "#!/bin/sh\necho 'HYDRA build details:'\n").parent
        self.assertIn("step 'train': its ranks will meet by TCP and shared memory: there is no mpirun in PATH\n",
                      self.dlflow("validate", "w.yaml", env={"PATH": str(place)})[0])
        (place / "mpirun").chmod(0o755)
        nothing_found = {"PATH": f"{place}:/bin", "LD_LIBRARY_PATH": "/none"}
        plugin = "libdlflow_mpi_12.so"
        way = json.loads(self.dlflow("validate", "w.yaml", "--json", env=nothing_found)[0])["ranks_meet_by"]["train"]
        if (BIN.parent / "lib/dlflow" / plugin).exists():
            self.assertRegex(way, rf"^MPICH \(libm\w+.so.12\), plug-in {plugin}$|^TCP and shared memory: no libmpi.so.12 of MPICH is found$")
        self.assertEqual(self.dlflow("validate", "w.yaml", "--profile", str(self.write("setup.yaml", "setup: ['true']\n")))[0], "")

    def test_graph_prints_every_format(self):
        self.write("good.yaml", GOOD)
        self.assertEqual(self.dlflow("graph", "good.yaml")[0], "fetch  run\nuse    run  ← fetch\n")
        self.assertIn('"fetch" -> "use";', self.dlflow("graph", "good.yaml", "--format", "dot")[0])
        self.assertIn("step_fetch --> step_use", self.dlflow("graph", "good.yaml", "--format", "mermaid")[0])
        jobs = json.loads(self.dlflow("graph", "good.yaml", "--json")[0])["jobs"]
        self.assertEqual([job["needs"] for job in jobs], [[], ["fetch"]])

    @unittest.skipUnless(shutil.which("dot"), "Graphviz is not installed")
    def test_graph_draws_a_picture(self):
        self.write("good.yaml", GOOD)
        self.assertIn("<svg", self.dlflow("graph", "good.yaml", "--format", "svg")[0])

    def test_graph_without_graphviz_names_the_package(self):
        self.write("good.yaml", GOOD)
        _, err = self.dlflow("graph", "good.yaml", "--format", "svg", status=2, env={"PATH": "/nowhere"})
        self.assertIn("graphviz", err)

    def test_schema_is_json(self):
        self.assertEqual(json.loads(self.dlflow("schema")[0])["$schema"],
                         "https://json-schema.org/draft/2020-12/schema")

    def test_completion_scripts_offer_the_verbs(self):
        for shell in ["bash", "zsh", "fish"]:
            out, _ = self.dlflow("completion", shell)
            self.assertIn("dlflow complete", out)
        for shell in filter(shutil.which, ["bash", "zsh", "fish"]):
            subprocess.run([shell, "-n"], input=self.dlflow("completion", shell)[0], text=True, check=True)

    def complete(self, line, shell="bash"):
        """What a shell offers behind `line`."""
        script = self.dlflow("completion", shell)[0]
        if shell == "bash":
            body = 'COMP_LINE=$1; COMP_POINT=${#1}; _dlflow 2>/dev/null; printf "%s\\n" "${COMPREPLY[@]}"'
        else:
            script = "compdef() { }\ncompadd() { while [[ $1 != -a ]]; do shift; done; print -l -- ${(P)2} }\n" + script
            body = 'words=(${(z)1}); [[ $1 == *" " ]] && words+=(""); CURRENT=$#words; _dlflow; true'
        out = subprocess.run([shell, "-c", f"{script}\n{body}", shell, line], capture_output=True, text=True, check=True,
                             cwd=self.folder, env={**self.env, "PATH": f"{BIN}:{self.env['PATH']}"}).stdout
        return out.split("\n")[:-1] if out.strip() else []

    def complete_names(self, shell):
        self.write("cluster-profiles/alpha.yaml", "scheduler: slurm\n")
        self.write("sweep.yaml", """
            name: sweep
            params: {epochs: 3, lr: 0.1}
            steps:
              fit: {matrix: {lr: [1, 2]}, run: ['true']}
              last: {run: ['true'], needs: [fit]}
        """)
        run = self.run_json("sweep.yaml")["run"]
        offered = lambda line: self.complete(line, shell)  # noqa: E731
        self.assertEqual(offered("dlflow re"), ["resubmit", "results", "report"])
        self.assertEqual(offered("dlflow resubmit --from"), ["--from-scratch"])
        self.assertEqual(sorted(offered("dlflow profile ")), ["check", "detect", "list", "show"])
        self.assertEqual(offered("dlflow profile check --t"), ["--timeout"])
        self.assertEqual(offered("dlflow profile check al"), ["alpha"])
        self.assertEqual(offered("dlflow run sweep.yaml --profile al"), ["alpha"])
        self.assertEqual(offered("dlflow status sw"), [run])
        self.assertEqual(offered("dlflow predict sw"), [run])
        self.assertEqual(offered(f"dlflow logs {run} la"), ["last"])
        self.assertEqual(offered("dlflow run sweep.yaml --set ep"), ["epochs="])
        self.assertEqual(offered("dlflow run sweep.yaml --until fi"), ["fit"])
        self.assertEqual(offered(f"dlflow resubmit {run} --set wall"), ["walltime="])
        self.assertEqual(offered("dlflow graph sweep.yaml --format m"), ["mermaid"])
        self.assertEqual(offered("dlflow completion z"), ["zsh"])
        self.assertEqual(offered("dlflow validate sw"), ["sweep.yaml"])
        self.assertEqual(offered("dlflow help prof"), ["profile"])
        self.assertEqual(offered("dlflow nonsense --"), ["--help", "--color", "--quiet", "--verbose", "--version", "--host", "--send"])
        return run

    def test_completion_offers_verbs_options_and_names(self):
        run = self.complete_names("bash")
        self.assertEqual(self.complete(f"dlflow logs {run} fit["), ["fit[lr=1]", "fit[lr=2]"])
        self.assertEqual(self.complete(f"dlflow logs {run} 'fit[lr=2"), ["fit[lr=2]"])  # bash takes = for the end of a word, but not in quotes
        self.assertEqual(self.complete("dlflow pack --from-run " + run + " --step "), ["fit", "last"])
        self.assertEqual(self.complete("dlflow run sweep.yaml --profile=al"), ["alpha"])

    def test_completion_of_bash_quotes_what_bash_would_run_or_split(self):
        names = ["z;touch PWNED;.yaml", "a b.yaml", "it's $HOME!.yaml", "q\"`id`\\.yaml", "n[1]*{a,b}.yaml", "~x.yaml"]
        for name in [*names, "n1.yaml"]:
            (self.folder / name).write_text(GOOD)
        for name in names:
            for quote in ("", "'", '"'):
                begun = {"": name[0].replace("~", "\\~")}.get(quote, name[0])
                words = [word for word in self.complete(f"dlflow validate {quote}{begun}") if word != "n1.yaml"]
                self.assertEqual(len(words), 1, (name, quote, words))
                read = subprocess.run(["bash", "-c", f"printf '%s\\n' {quote}{words[0]}{quote}"], cwd=self.folder, capture_output=True, text=True)
                self.assertEqual(read.stdout, f"{name}\n", (name, quote, words))
        self.assertFalse((self.folder / "PWNED").exists())

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_completion_of_zsh_offers_the_same_words(self):
        self.complete_names("zsh")

    def test_completion_of_fish_asks_dlflow(self):
        script = self.dlflow("completion", "fish")[0]
        self.assertIn("complete -c dlflow -f -a '(__dlflow_complete)'", script)
        out, _ = self.dlflow("complete", "fish", "resubmit", "--from")
        self.assertEqual(out.split("\t")[0], "--from-scratch")
        self.assertIn("\tstart jobs that are submitted again from the beginning", out)

    def test_completion_writes_nothing_and_survives_nonsense(self):
        for words in ([], ["bash"], ["bash", "dlflow run 'open"], ["zsh", "run", "none.yaml", "--set", ""], ["fish", "help", "x", ""]):
            self.dlflow("complete", *words)
        self.assertEqual(self.dlflow("complete", "bash", "dlflow logs nope "), ("", ""))

    def test_color_off_a_terminal_needs_a_request(self):
        self.write("good.yaml", GOOD)
        self.dlflow("run", "good.yaml")
        self.assertNotIn("\033", self.dlflow("status")[0])
        self.assertIn("\033", self.dlflow("status", "--color", "always")[0])

    @unittest.skipUnless(os.geteuid() == 0, "chroot needs root")
    def test_the_executable_is_static(self):
        """It runs in a folder with nothing else, without /proc, and finds the files installed with it."""
        jail = self.folder / "jail"
        (jail / "opt/bin").mkdir(parents=True)
        shutil.copy(BIN / "dlflow", jail / "opt/bin/dlflow")
        self.write("jail/good.yaml", GOOD)
        self.write("jail/opt/share/dlflow/workflows/example.yaml", GOOD)
        for arguments in [["--version"], ["validate", "/good.yaml"], ["validate", "workflows/example.yaml"]]:
            result = subprocess.run([shutil.which("chroot"), str(jail), "/opt/bin/dlflow", *arguments], capture_output=True, text=True,
                                    env={})
            self.assertEqual((result.returncode, result.stderr), (0, ""))


if __name__ == "__main__":
    main()
