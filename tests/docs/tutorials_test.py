"""Every command of the tutorials, run as the pages say, with the output that they show."""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
import support  # noqa: E402

sys.path.insert(0, str(support.ROOT / "tests/support"))
import fake_slurm  # noqa: E402
import pypi  # noqa: E402
import tutorial  # noqa: E402


# A script of PyTorch on several ranks, around the lines that README gives. In its first pass it is asked to stop after its second step.
SCRIPT = """
import os, signal, torch
torch.manual_seed(0)
points = torch.rand(40, 2)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
{begin}
rank, step = torch.distributed.get_rank(), saved.step
print(rank, torch.distributed.get_backend(), "continues from", step, flush=True)
model = torch.nn.parallel.DistributedDataParallel(model)
for epoch in range(saved.epoch + 1, 6):
    loss = (model(points[rank::2]).squeeze(1) - points[rank::2].sum(1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
    if step == 2 and rank == 1 and "{stops}":
        os.kill(os.getpid(), signal.SIGUSR1)
{in_loop}
print(rank, "ends at", step, "loss", loss.item(), flush=True)
"""

# A script to sweep, before the line by which it reports.
SWEPT = """
import argparse, json, os
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--out")
args = parser.parse_args()
open(args.out, "w").write("weights")
accuracy = 1 - args.lr
"""


class Tutorials(support.Case):
    def setUp(self):
        super().setUp()
        tools = self.folder / "tools"
        tools.mkdir()
        (tools / "python3").symlink_to(sys.executable)  # with the packages of this one
        self.env["PATH"] = f"{tools}:{support.BIN}:{self.env['PATH']}"
        self.env["OMP_NUM_THREADS"] = "1"
        self.desk = self.folder / "desk"
        self.desk.mkdir()

    def follow(self, page, replaced=None, until=None, since=""):
        """Saves the files of docs/user/`page` and runs its commands, from the line `since` up to `until`; `replaced`: file -> another text."""
        names = tutorial.Names()
        text = (support.ROOT / "docs/user" / page).read_text()
        text = text[text.index(since):]
        for step in tutorial.parse(text.partition(until)[0] if until else text):
            if isinstance(step, tutorial.File):
                text = (replaced or {}).get(step.name, step.text)
                (self.desk / step.name).write_text(text)
                continue
            done = subprocess.run(["bash", "-c", names.translated(step.text)], cwd=self.desk, env=self.env, text=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
            told = f"{page}:{step.line}: {step.text}\nprinted (status {done.returncode}):\n{done.stdout}"
            if os.environ.get("SHOW"):
                print(told)
            self.assertEqual(done.returncode, step.status, told)
            self.assertTrue(not step.shown or names.fits(step.shown, done.stdout),
                            told + "\nthe page shows:\n" + "\n".join(step.shown))

    def need_module(self, name):
        if importlib.util.find_spec(name) is None:
            self.skipTest(f"needs python3-{name}")

    def need_mpirun(self):
        if shutil.which("mpirun") is None:
            self.skipTest("needs openmpi-bin")

    def need_training(self):
        if not (support.BIN / "dlflow-train").exists():
            self.skipTest("dlflow-train was not built")

    def test_a_sweep_of_your_own_script(self):
        slurm = fake_slurm.FakeSlurm(self.folder / "slurm", nodes=4, cpus=8)
        self.addCleanup(slurm.stop)
        slurm.mode("background")
        self.env.update(FAKE_SLURM=slurm.env["FAKE_SLURM"], PATH=f"{fake_slurm.TOOLS}:{self.env['PATH']}")
        torch = importlib.util.find_spec("torch") is not None
        standin = {} if torch else {"train.py": (HERE / "standin_train.py").read_text()}
        self.follow("tutorial-sweep.md", standin)

    def test_a_script_on_several_ranks(self):
        self.need_module("torch")
        self.need_mpirun()
        pypi.need_torchrun(self)
        self.follow("ranks.md")

    def use_python_with_the_package(self):
        """Makes the package importable, as the wheel would."""
        python = self.folder / "tools/python3"
        python.unlink()
        python.write_text(f'#!/bin/sh\nPYTHONPATH=${{PYTHONPATH:+$PYTHONPATH:}}{support.BIN.parent}/python exec {sys.executable} -B "$@"\n')
        python.chmod(0o755)

    def test_a_resumable_training_script(self):
        self.need_module("torch")
        self.use_python_with_the_package()
        self.follow("python.md")

    def test_the_same_bits_on_any_number_of_ranks(self):
        self.need_module("torch")
        self.need_mpirun()
        self.use_python_with_the_package()
        self.follow("pytorch-exact.md")

    def test_pytorch_on_our_collectives(self):
        self.need_module("torch")
        self.need_mpirun()
        self.use_python_with_the_package()
        self.follow("pytorch.md", until="## Install and start")

    def lines_of_the_readme(self):
        """The lines before the training loop, and those in it."""
        section = (support.ROOT / "README.md").read_text().partition("## I have a PyTorch script\n")[2]
        lines = section.partition("```python\n")[2].partition("```\n")[0]
        begin, _, in_loop = lines.partition("...\n")
        self.assertEqual(len((begin + in_loop).splitlines()), 5, lines)
        return begin, in_loop

    def train_with_the_lines_of_the_readme(self, stops):
        begin, in_loop = self.lines_of_the_readme()
        (self.desk / "train.py").write_text(SCRIPT.format(begin=begin, in_loop=in_loop, stops=stops))
        (self.desk / "w.yaml").write_text(textwrap.dedent("""
            name: lines
            steps:
              train:
                run: python3 train.py
                inputs: [train.py]
                checkpoint: {}
                resources: {ranks: 2, walltime: 5m}
        """))
        run = self.run_json(self.desk / "w.yaml", timeout=200)["run"]
        return sorted((pathlib.Path(self.status(run)["directory"]) / "steps/train/attempt-1/stdout").read_text().splitlines())

    def test_the_five_lines_of_the_readme_make_a_script_stop_and_continue(self):
        self.need_module("torch")
        self.need_mpirun()
        self.use_python_with_the_package()
        began = [f"{rank} dlflow continues from 0" for rank in (0, 1)]
        uninterrupted = self.train_with_the_lines_of_the_readme(stops="")
        self.assertEqual([line for line in uninterrupted if "continues" in line], began)
        ends = [line for line in uninterrupted if "ends at 5 loss" in line]
        self.assertEqual(len(ends), 2, uninterrupted)
        went_on = [f"{rank} dlflow continues from 2" for rank in (0, 1)]
        self.assertEqual(self.train_with_the_lines_of_the_readme(stops="yes"), sorted(began + went_on + ends))

    def test_a_horovod_script_unchanged(self):
        self.need_module("torch")
        self.need_mpirun()
        self.use_python_with_the_package()
        self.follow("porting-from-horovod.md", until="## What is covered")

    def test_the_first_workflow_of_the_readme(self):
        self.follow("../../README.md", since="A first workflow tries", until="Let the script report")
        line = (support.ROOT / "README.md").read_text().partition("Let the script report")[2].partition("```python\n")[2].partition("```")[0]
        (self.desk / "train.py").write_text(SWEPT + line)
        self.follow("../../README.md", since="```console\n$ dlflow run sweep.yaml", until="A second `run`")

    def test_the_first_workflow(self):
        self.follow("../index.md", since="## A first workflow\n", until="## Where to begin\n")

    def test_your_own_network(self):
        self.need_module("numpy")
        self.need_training()
        self.follow("tutorial-network.md")

    def test_segmentation(self):
        self.need_module("numpy")
        self.need_training()
        self.follow("tutorial-segmentation.md")

    def test_a_network_from_elsewhere(self):
        self.need_module("torch")
        self.need_training()
        self.follow("tutorial-fine-tuning.md")

    def test_a_small_language_model(self):
        self.need_training()
        self.follow("tutorial-text.md")
        venv = support.BIN.parent / "venv/bin"  # made by tests/python/make_venv
        if venv.exists():
            self.env["PATH"] = f"{venv}:{self.env['PATH']}"
            self.follow("generate.md")

    def test_classes_of_texts(self):
        self.need_training()
        self.follow("tutorial-text-classes.md")

    def test_tables(self):
        self.need_training()
        self.follow("tutorial-tables.md")

    def test_from_sbatch(self):
        self.follow("from-sbatch.md")

    def test_a_script_that_saves_in_its_own_folder(self):
        self.follow("own-folder.md", until="## Each line")

    def test_recommendation(self):
        self.need_module("torch")
        self.need_mpirun()
        self.use_python_with_the_package()
        self.follow("tutorial-recommendation.md")

    def test_climate_downscaling(self):
        self.need_training()
        self.need_module("torch")
        self.need_mpirun()
        self.use_python_with_the_package()
        torch = self.folder / "torch/bin"
        torch.mkdir(parents=True)
        (self.folder / "tools/python3").rename(torch / "python")
        venv = support.BIN.parent / "venv/bin"  # made by tests/python/make_venv
        if not venv.exists():
            self.skipTest("needs netCDF4 and matplotlib of PyPI")
        self.env.update(PATH=f"{venv}:{self.env['PATH']}", TORCH=str(torch.parent))
        (self.desk / "workflows").symlink_to(support.ROOT / "workflows")
        self.follow("tutorial-climate.md")

    def test_volumes(self):
        self.need_module("torch")
        self.need_mpirun()
        self.use_python_with_the_package()
        (self.desk / "workflows").symlink_to(support.ROOT / "workflows")
        self.follow("tutorial-volumes.md")

    def test_a_scaling_study(self):
        self.need_training()
        self.need_module("torch")
        self.need_mpirun()
        pypi.need_torchrun(self)
        self.use_python_with_the_package()
        (self.desk / "workflows").symlink_to(support.ROOT / "workflows")
        self.follow("tutorial-scaling.md", until="## 3. The study")


if __name__ == "__main__":
    support.main()
