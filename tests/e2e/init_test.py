"""`dlflow init`: a first workflow for the user's scripts or data; it is valid, runs unchanged, and learns."""

import os
import pty
import random
import subprocess
import textwrap

from support import BIN, Case, main

# Makes and saves a step every tenth of a second, like scripts that use PyTorch.
RESUMABLE = """
import argparse, os, pathlib, time
import torch
parser = argparse.ArgumentParser()
parser.add_argument("--output_dir", default=".")
parser.add_argument("--resume", help="a file to go on from")
args = parser.parse_args()
step = torch.load(args.resume) if args.resume else 0
print("continues from", step, flush=True)
os.makedirs(args.output_dir, exist_ok=True)
while step < 30:
    time.sleep(0.1)
    step += 1
    torch.save(step, os.path.join(args.output_dir, f"step_{step:02d}.pt"))
print("done", flush=True)
"""
TORCH = """
import os, pathlib
def save(value, path):
    pathlib.Path(path + ".new").write_text(str(value))
    os.rename(path + ".new", path)
def load(path): return int(pathlib.Path(path).read_text())
"""


class Init(Case):
    def setUp(self):
        super().setUp()
        self.write("train.py", "import json, os\nprint('data:', os.environ.get('DATA'))\n"
                               "json.dump({'accuracy': 0.9}, open(os.environ['DLFLOW_SUMMARY'], 'w'))\n")
        self.write("helper.py", "x = 1\n")

    def validate(self, workflow):
        self.assertEqual(self.dlflow("validate", workflow), ("", ""))

    def result(self, workflow, step, metric):
        run = self.run_json(workflow, timeout=100)["run"]
        return next(one["metrics"][metric] for one in self.status(run)["steps"] if one["name"] == step)

    def test_init_alone_lists_its_sources(self):
        out, _ = self.dlflow("init")
        for line in ("  dlflow init train.py                    a script\n", "houses.csv --target price", "what to type:\n"):
            self.assertIn(line, out)
        self.assertFalse((self.folder / "train.yaml").exists())

    def test_a_script_makes_a_workflow_that_runs(self):
        self.write("pictures/a.txt", "x")
        out, err = self.dlflow("init", "train.py", "--data", "pictures", "--walltime", "20m")
        self.assertEqual((out, err), ("Wrote train.yaml. Next:\n  dlflow run train.yaml\n", ""))
        self.validate("train.yaml")
        self.assertIn("walltime: 20m", (self.folder / "train.yaml").read_text())
        run = self.run_json("train.yaml")["run"]
        self.assertEqual(self.dlflow("logs", run, "train")[0], f"data: {self.folder}/pictures\n")

    def test_a_script_that_resumes_goes_on_after_its_walltime(self):
        self.write("torch.py", TORCH)
        self.write("train.py", RESUMABLE)
        self.dlflow("init", "train.py", "--walltime", "2s")
        self.validate("train.yaml")
        self.assertIn('# Saves out/step_*.pt; continues by --resume "$last"\n', (self.folder / "train.yaml").read_text())
        run = self.run_json("train.yaml")["run"]
        log = [line for line in self.dlflow("logs", run, "train")[0].splitlines() if line != "Terminated"]
        self.assertEqual((log[0], log[-1]), ("continues from 0", "done"))
        self.assertGreater(int(log[1].split()[-1]), 5, log)

    def test_a_script_with_ranks_gets_a_parameter_for_their_number(self):
        self.write("train.py", "import os\ndef main(): dist.init_process_group('gloo')\nprint(os.environ['RANK'], os.environ['WORLD_SIZE'])\n")
        self.dlflow("init", "train.py")
        self.validate("train.yaml")
        text = (self.folder / "train.yaml").read_text()
        self.assertIn("# Recognised torch.distributed: `dlflow run train.yaml --set ranks=4` starts four ranks", text)
        run = self.run_json("train.yaml")["run"]
        self.assertEqual(self.dlflow("logs", run, "train")[0], "0 1\n")

    def test_a_script_for_sbatch_becomes_a_step(self):
        (self.folder / "job.sh").write_text(textwrap.dedent("""\
            #!/bin/bash
            #SBATCH --job-name=fit --array=1-3%2
            #SBATCH --time=10:00 --partition=short --mem=100M
            cd $SLURM_SUBMIT_DIR
            mkdir -p results
            python3 fit.py "$SLURM_ARRAY_TASK_ID" ${SLURM_CPUS_PER_TASK} >results/log.txt
            cat results/log.txt
            """))
        self.write("fit.py", "import helper, os, sys\nprint(sys.argv[1:], os.environ['SLURM_ARRAY_TASK_ID'])\n")
        self.dlflow("init", "job.sh")
        self.validate("job.yaml")
        text = (self.folder / "job.yaml").read_text()
        for part in ("--partition=short", '- "fit.py"\n      - "helper.py"', "memory: 100MiB, walltime: 10m"):
            self.assertIn(part, text)
        run = self.run_json("job.yaml")["run"]
        self.assertEqual(self.dlflow("logs", run, "fit[task=2]")[0], "['2', '1'] 2\n")

    def write_table(self, rows, target):
        """Five features; `target` makes the last column of them."""
        draw = random.Random(1)
        table = ["rooms,age,lat,lon,tax,name,price"]
        for row in range(rows):
            x = [draw.gauss(0, 1) for _ in range(5)]
            table.append(",".join(f"{value:.4f}" for value in x) + f",house {row},{target(x)}")
        self.write("houses.csv", "\n".join(table) + "\n")

    def test_a_table_of_numbers_is_learnt_at_any_scale(self):
        for scale, mean in ((1, 50), (1e5, 3e6)):
            self.write_table(640, lambda x: round(mean + scale * (2 * x[0] - 3 * x[1] + x[2] * x[3]), 3))
            self.dlflow("init", "houses.csv", "--target", "price", "-o", f"w{scale:g}.yaml")
            self.validate(f"w{scale:g}.yaml")
            self.assertIn("# Left out, since they hold neither numbers nor a few texts: name\n", (self.folder / f"w{scale:g}.yaml").read_text())
            self.assertLess(self.result(f"w{scale:g}.yaml", "evaluate", "rmse"), 0.25 * 3.7 * scale)

    def test_a_table_of_classes_is_learnt(self):
        self.write_table(400, lambda x: "high" if x[0] + x[1] > 0 else "low")
        self.dlflow("init", "houses.csv", "--target", "price")
        self.validate("houses.yaml")
        self.assertGreater(self.result("houses.yaml", "evaluate", "accuracy"), 0.9)

    def test_a_table_with_empty_cells_and_texts_is_learnt(self):
        draw = random.Random(1)
        table = ["size,town,note,price"]
        for row in range(600):
            size, town = draw.gauss(0, 1), draw.choice(["Ulm", "Bonn", "Rom"])
            table.append(f"{'' if row % 10 == 3 else f'{size:.4f}'},{town},note {row},{2 * size + 10 * len(town):.3f}")
        self.write("houses.csv", "\n".join(table) + "\n")
        self.dlflow("init", "houses.csv", "--target", "price")
        self.validate("houses.yaml")
        text = (self.folder / "houses.yaml").read_text()
        self.assertIn(', --target, "price", --features, "size,town", --categories, "town", --missing, "mean", --test-share, "0.2"]', text)
        self.assertLess(self.result("houses.yaml", "evaluate", "rmse"), 1.5)  # 5 without the town; 0.6 for the empty cells
        self.write("gaps.csv", "a,b\n" + "1,2.5\n3,\n" * 20)
        self.assertIn("Features: a; numbers from b; ", self.dlflow("init", "gaps.csv", "--target", "b")[0])
        self.assertIn(', --target, "b", --missing, "drop"]', (self.folder / "gaps.yaml").read_text())

    def test_a_small_table_has_no_test_share(self):
        self.write_table(36, lambda x: x[0])  # 33 of them are for training: a step has one sample
        self.dlflow("init", "houses.csv", "--target", "price")
        self.validate("houses.yaml")
        self.assertNotIn("test-share", (self.folder / "houses.yaml").read_text())
        self.run_json("houses.yaml")

    def test_the_target_column_is_asked_for_only_at_a_terminal(self):
        self.write_table(60, lambda x: x[0])
        _, err = self.dlflow("init", "houses.csv", status=2)
        self.assertIn("the columns rooms, age, lat, lon, tax, name, price; name the one to learn: dlflow init houses.csv --target price", err)
        self.assertIn("did you mean 'price'?", self.dlflow("init", "houses.csv", "--target", "prise", status=2)[1])
        master, terminal = pty.openpty()
        self.addCleanup(os.close, master)
        process = subprocess.Popen([BIN / "dlflow", "init", "houses.csv"], cwd=self.folder, env=self.env,
                                   stdin=terminal, stdout=subprocess.PIPE, stderr=terminal)
        os.close(terminal)
        os.write(master, b"price\n")
        out, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0)
        self.assertIn(b"Wrote houses.yaml, houses-model.yaml, houses-scale.safetensors.", out)

    def test_a_mistake_in_a_table_is_reported_before_anything_is_written(self):
        self.write("houses.csv", "a,price\n1,2\n3x,3\n4,5\n5,7.5\n")
        _, err = self.dlflow("init", "houses.csv", "--target", "price", status=2)
        self.assertIn("houses.csv:3:1: '3x' is not a number (column 'a')", err)
        self.assertFalse((self.folder / "houses.yaml").exists())

    def write_shapes(self, side, sizes=(32,)):
        """Noisy circles, squares and triangles."""
        draw = random.Random(1)
        inside = {"circle": lambda x, y, r: x * x + y * y <= r * r, "square": lambda x, y, r: abs(x) <= 0.9 * r and abs(y) <= 0.9 * r,
                  "triangle": lambda x, y, r: -r <= y <= r and abs(x) <= (y + r) / 2}
        for name, is_in in inside.items():
            (self.folder / "shapes" / name).mkdir(parents=True)
            for n in range(side):
                size = sizes[n % len(sizes)]
                r = draw.uniform(5, 9) * size / 32
                cx, cy = draw.uniform(r, size - r), draw.uniform(r, size - r)
                grey = draw.sample((40, 90, 140, 200, 240), 2)
                pixels = bytes(max(0, min(255, int(grey[is_in(x - cx, y - cy, r)] + draw.gauss(0, 15)))) for y in range(size) for x in range(size))
                (self.folder / "shapes" / name / f"{n}.pgm").write_bytes(f"P5 {size} {size} 255\n".encode() + pixels)

    def test_pictures_by_class_are_packed_and_learnt(self):
        self.write_shapes(100)
        self.dlflow("init", "shapes", "-o", "forms.yaml")
        text = (self.folder / "forms.yaml").read_text()
        self.assertIn("name: forms\n", text)
        self.assertIn(f'pack, "{self.folder}/shapes",', text)  # read in place
        self.validate("forms.yaml")
        self.assertGreater(self.result("forms.yaml", "evaluate", "accuracy"), 0.8)

    def test_pictures_of_several_sizes_are_resized(self):
        self.write_shapes(4, sizes=(48, 80))
        self.dlflow("init", "shapes")
        self.assertIn('--resize, "64", --crop, "64"', (self.folder / "shapes.yaml").read_text())
        self.validate("shapes.yaml")
        self.run_json("shapes.yaml", "--set", "epochs=1")

    def test_other_sources_are_answered_with_the_command(self):
        self.write("stories/a.txt", "x")
        for name in ("a b.npy", "net.onnx", "net.safetensors", "nb.ipynb", "streets/images/1.png", "streets/masks/1.png", "table.parquet"):
            self.write(name, "")
        for source, words in (("stories", "dlflow data pack stories -o stories-data --tokens bytes"), ("a b.npy", "dlflow data pack 'a b.npy' LABELS.npy"),
                              ("net.onnx", "dlflow model import net.onnx -o net.yaml"), ("net.safetensors", "start_from: net.safetensors"),
                              ("nb.ipynb", "jupyter nbconvert --to script nb.ipynb\n  dlflow init nb.py"), ("streets", "dlflow data pack streets -o streets-data"), ("table.parquet", "python -m dlflow.convert table.parquet")):
            self.assertIn(words, self.dlflow("init", source, status=2)[1])

    def test_files_that_a_script_reads_beside_it_are_among_its_inputs(self):
        self.write("model.py", "import helper\n")
        self.write("train.py", "import model\nprint(model.helper.x, __import__('os').environ.get('RANK'))\n")
        self.dlflow("init", "train.py")
        text = (self.folder / "train.yaml").read_text()
        self.assertIn('- "train.py"\n      - "helper.py"\n      - "model.py"\n', text)
        self.assertEqual(self.dlflow("validate", "train.yaml"), ("", ""))
        run = self.run_json("train.yaml")["run"]
        self.assertEqual(self.dlflow("logs", run, "train")[0], "1 None\n")  # one program, as in a shell

    def test_the_active_environment_of_packages_becomes_the_steps(self):
        (self.folder / "venv").mkdir()
        self.dlflow("init", "train.py", env={"VIRTUAL_ENV": str(self.folder / "venv")})
        self.assertIn(f'environment: {{venv: "{self.folder}/venv"}}', (self.folder / "train.yaml").read_text())

    def test_init_with_options_asks_nothing(self):
        self.assertEqual(self.dlflow("init", "train.py", "--walltime", "2h", "-o", "w.yaml")[1], "")
        self.assertIn("walltime: 2h", (self.folder / "w.yaml").read_text())

    def test_a_data_set_gets_a_network_that_fits_it(self):
        self.pack_digits()
        out, _ = self.dlflow("init", "digits")
        self.assertIn("Wrote digits.yaml, digits-model.yaml.", out)
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

    def test_paths_are_relative_to_the_workflows_folder(self):
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
        self.assertIn("dlflow init train.py -o w.yaml", err)
        self.assertEqual(list((self.folder / "sub").iterdir()), [])

    def test_names_that_yaml_would_not_read_as_text_get_a_prefix(self):
        for word in ("null", "true", "No"):
            self.write(f"{word}.py", "print('ran')\n")
            self.dlflow("init", f"{word}.py")
            run = self.run_json(f"w-{word}.yaml")["run"]
            self.assertEqual(self.dlflow("logs", run)[0], "ran\n")

    def test_an_invalid_workflow_leaves_no_files(self):
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
        self.assertIn("input: [2]\n", model)
        self.assertIn("  - linear: {features: 1}\n  - batch_norm: {name: scale}", model)
        self.validate("numbers.yaml")

    def test_a_folder_of_unknown_files_is_refused(self):
        self.write("things/cat/a.bin", "x")
        self.assertIn("things holds neither a data set", self.dlflow("init", "things", status=2)[1])
        self.write("pics/train/cat/1.pgm", "P5 1 1 255 a")
        self.assertIn("; dlflow init pics/train fits", self.dlflow("init", "pics", status=2)[1])

    def test_existing_files_are_not_replaced(self):
        self.write("train.yaml", "mine\n")
        self.assertIn("train.yaml already exists", self.dlflow("init", "train.py", status=2)[1])
        self.assertEqual((self.folder / "train.yaml").read_text(), "mine\n")
        self.assertIn("did you mean 'train.py'?", self.dlflow("init", "trian.py", status=2)[1])


if __name__ == "__main__":
    main()
