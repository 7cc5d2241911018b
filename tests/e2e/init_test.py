"""`dlflow init`: a first workflow, from three answers or from options; what it writes is valid, and runs."""

import subprocess

from support import BIN, Case, main


class Init(Case):
    def setUp(self):
        super().setUp()
        self.write("train.py", "import json, os\nprint('data:', os.environ.get('DATA'))\n"
                               "json.dump({'accuracy': 0.9}, open(os.environ['DLFLOW_SUMMARY'], 'w'))\n")
        self.write("helper.py", "x = 1\n")

    def answer(self, *lines, status=0):
        process = subprocess.run([BIN / "dlflow", "init"], cwd=self.folder, env=self.env, input="".join(f"{line}\n" for line in lines),
                                 capture_output=True, text=True, timeout=60)
        self.assertEqual(process.returncode, status, process.stderr)
        return process.stdout, process.stderr

    def test_three_answers_make_a_workflow_that_runs(self):
        self.write("pictures/a.txt", "x")
        out, err = self.answer("train.py", "pictures", "20m")
        self.assertEqual(err.count("?"), 3)
        self.assertIn("Scripts here: train.py, helper.py", err)
        self.assertEqual(out, "Wrote train.yaml. Next:\n  dlflow run train.yaml\n")
        self.assertEqual(self.dlflow("validate", "train.yaml"), ("", ""))
        self.assertIn("walltime: 20m", (self.folder / "train.yaml").read_text())
        run = self.run_json("train.yaml")["run"]
        self.assertEqual(self.dlflow("logs", run, "train")[0], f"data: {self.folder}/pictures\n")

    def test_empty_answers_take_what_was_found(self):
        self.answer("", "", "")
        self.run_json("train.yaml")

    def test_what_a_script_reads_beside_it_is_among_its_inputs(self):
        self.write("model.py", "import helper\n")
        self.write("train.py", "import model\nprint(model.helper.x, __import__('os').environ.get('RANK'))\n")
        self.dlflow("init", "train.py")
        text = (self.folder / "train.yaml").read_text()
        self.assertIn('- "train.py"\n      - "helper.py"\n      - "model.py"\n', text)
        self.assertEqual(self.dlflow("validate", "train.yaml"), ("", ""))
        run = self.run_json("train.yaml")["run"]
        self.assertEqual(self.dlflow("logs", run, "train")[0], "1 None\n")  # one program, as in a shell

    def test_the_environment_of_packages_that_is_loaded_is_that_of_the_step(self):
        (self.folder / "venv").mkdir()
        self.dlflow("init", "train.py", env={"VIRTUAL_ENV": str(self.folder / "venv")})
        self.assertIn(f'environment: {{venv: "{self.folder}/venv"}}', (self.folder / "train.yaml").read_text())

    def test_options_ask_nothing(self):
        self.assertEqual(self.dlflow("init", "train.py", "--walltime", "2h", "-o", "w.yaml")[1], "")
        self.assertIn("walltime: 2h", (self.folder / "w.yaml").read_text())

    def test_a_data_set_gets_a_network_that_fits_it(self):
        self.pack_digits()
        out, _ = self.dlflow("init", "digits")
        self.assertIn("Wrote digits.yaml and digits-model.yaml.", out)
        model = (self.folder / "digits-model.yaml").read_text()
        self.assertIn("input: [1, 4, 4]", model)
        self.assertIn("features: 2}", model)
        self.assertEqual(self.dlflow("validate", "digits.yaml"), ("", ""))

    def pack_digits(self):
        self.write("images.py", """\
            import os, zlib, struct
            for label in ("cat", "dog"):
                os.makedirs(f"pictures/{label}", exist_ok=True)
                for n in range(3):
                    with open(f"pictures/{label}/{n}.pgm", "wb") as f:
                        f.write(b"P5 4 4 255\\n" + bytes(16 * [n]))
            """)
        subprocess.run(["python3", "images.py"], cwd=self.folder, check=True)
        self.dlflow("data", "pack", "pictures", "-o", "digits")

    def test_paths_are_those_of_the_workflows_folder(self):
        (self.folder / "sub/code").mkdir(parents=True)
        (self.folder / "train.py").rename(self.folder / "sub/code/train.py")
        self.dlflow("init", "sub/code/train.py", "-o", "sub/w.yaml")
        self.assertIn('run: [python3, "code/train.py"]', (self.folder / "sub/w.yaml").read_text())
        self.run_json("sub/w.yaml")
        self.pack_digits()
        (self.folder / "digits").rename(self.folder / "sub/digits")
        self.dlflow("init", "sub/digits/", "-o", "sub/d.yaml")
        self.assertIn('data: "digits"', (self.folder / "sub/d.yaml").read_text())
        (self.folder / "other").mkdir()
        self.dlflow("init", "sub/digits", "-o", "other/d.yaml")
        self.assertIn(f'data: "{self.folder}/sub/digits"', (self.folder / "other/d.yaml").read_text())

    def test_a_script_outside_of_the_workflows_folder_is_refused_before_anything_is_written(self):
        (self.folder / "sub").mkdir()
        _, err = self.dlflow("init", "train.py", "-o", "sub/w.yaml", status=2)
        self.assertIn("train.py is outside of the folder of sub/w.yaml", err)
        self.assertIn("dlflow init train.py -o train.yaml", err)
        self.assertEqual(list((self.folder / "sub").iterdir()), [])

    def test_names_that_yaml_takes_for_no_text_get_a_prefix(self):
        for word in ("null", "true", "No"):
            self.write(f"{word}.py", "print('ran')\n")
            self.dlflow("init", f"{word}.py")
            run = self.run_json(f"w-{word}.yaml")["run"]
            self.assertEqual(self.dlflow("logs", run)[0], "ran\n")

    def test_nothing_stays_of_a_workflow_that_is_not_right(self):
        (self.folder / "x${{ y }}.py").write_text("")
        before = sorted(self.folder.iterdir())
        self.dlflow("init", "x${{ y }}.py", status=2)
        self.assertEqual(sorted(self.folder.iterdir()), before)

    def test_a_shell_script_is_run_by_the_program_that_it_names(self):
        bash = "a=(1 2); echo ${a[1]} $-\n"
        for shebang, words in (("#!/bin/bash", '["/bin/bash", "x.sh"]'), ("#!/usr/bin/env -S bash -u", '[bash, "-u", "x.sh"]'),
                               ("#! /bin/bash -e\r", '["/bin/bash", "-e", "x.sh"]'), ("#!/usr/bin/env A=1 bash", '["/usr/bin/env", "A=1", bash, "x.sh"]')):
            (self.folder / "x.sh").write_text(f"{shebang}\n{bash}")
            self.dlflow("init", "x.sh", "-o", "w.yaml")
            self.assertIn(f"run: {words}", (self.folder / "w.yaml").read_text())
            run = self.run_json("w.yaml")["run"]
            self.assertTrue(self.dlflow("logs", run)[0].startswith("2 "))
            (self.folder / "w.yaml").unlink()
        (self.folder / "x.sh").write_text("echo plain\n")
        self.dlflow("init", "x.sh")
        self.assertIn('run: [sh, "x.sh"]', (self.folder / "x.yaml").read_text())

    def test_data_with_targets_gets_a_network_that_learns_numbers(self):
        self.write("t.csv", "a,b,y\n1,2,3\n4,5,6\n")
        self.dlflow("data", "pack", "t.csv", "-o", "numbers", "--target", "y")
        self.dlflow("init", "numbers")
        model = (self.folder / "numbers-model.yaml").read_text()
        self.assertIn("input: [2, 1, 1]\n", model)
        self.assertIn("  - linear: {features: 1}\nloss: mse", model)
        self.dlflow("validate", "numbers.yaml")

    def test_a_folder_without_a_data_set_is_told_how_to_make_one(self):
        self.write("pictures/cat/a.txt", "x")
        _, err = self.dlflow("init", "pictures", status=2)
        self.assertIn("`dlflow data pack pictures -o data`", err)

    def test_nothing_that_is_there_is_replaced(self):
        self.write("train.yaml", "mine\n")
        self.assertIn("train.yaml is there already", self.dlflow("init", "train.py", status=2)[1])
        self.assertEqual((self.folder / "train.yaml").read_text(), "mine\n")
        self.assertIn("did you mean 'train.py'?", self.dlflow("init", "trian.py", status=2)[1])


if __name__ == "__main__":
    main()
