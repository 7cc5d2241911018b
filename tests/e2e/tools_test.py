"""`environment:` of a step, and outputs in a program's working directory."""

import os
import pathlib
import subprocess
import sys
import unittest

import support
from support import Case, main

UV = support.BIN.parent / "tests/uv/bin/uv"

# Builds a wheel that has only a name and a version, without a network.
BACKEND = """\
import pathlib, tomllib, zipfile

def build_wheel(folder, settings=None, metadata=None):
    project = tomllib.loads(pathlib.Path("pyproject.toml").read_text())["project"]
    name = f"{project['name']}-{project['version']}"
    with zipfile.ZipFile(f"{folder}/{name}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.dist-info/METADATA", f"Metadata-Version: 2.1\\nName: {project['name']}\\nVersion: {project['version']}\\n")
        wheel.writestr(f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{name}.dist-info/RECORD", "")
    return f"{name}-py3-none-any.whl"
"""


class Tools(Case):
    def run_text(self, text, *arguments, status=0):
        self.write("w.yaml", text)
        self.last = self.run_json("w.yaml", *arguments, status=status)["run"]
        return self.last

    def jobs(self):
        return {step["name"]: step for step in self.status(self.last)["steps"]}

    def output(self, run, step="a"):
        return (self.folder / "dlflow-runs" / run / "steps" / step / "attempt-1/stdout").read_text()

    def test_a_virtual_environment_is_found_by_the_program(self):
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.folder / "env"], check=True)
        run = self.run_text("name: w\nsteps: {a: {run: 'echo $VIRTUAL_ENV; command -v python', environment: {venv: env}}}\n")
        self.assertEqual(self.output(run).splitlines(), [str(self.folder / "env"), str(self.folder / "env/bin/python")])

    def test_a_program_does_not_begin_without_its_environment(self):
        for environment, reason in (("{venv: nowhere}", "there is no virtual environment in"),
                                    ("{modules: [none/1]}", "cannot load the modules none/1")):
            with self.subTest(environment=environment):
                self.run_text(f"name: w\nsteps: {{a: {{run: echo begun, environment: {environment}}}}}\n", status=1)
                job = self.jobs()["a"]
                self.assertIn(reason, job["reason"])

    def test_modules_are_loaded_in_order_and_another_module_reruns_the_step(self):
        self.write("local2.yaml", "setup: ['module() { echo \"$*\"; MOD=\"$*\"; export MOD; }']\n")
        text = "name: w\nsteps: {{a: {{run: 'echo $MOD', environment: {{modules: [gcc/12, cuda/{}]}}}}}}\n"
        run = self.run_text(text.format(11), "--profile", "./local2.yaml")
        self.assertEqual(self.output(run).splitlines()[-1], "load gcc/12 cuda/11")
        self.run_text(text.format(11), "--profile", "./local2.yaml")
        self.assertEqual(self.jobs()["a"]["state"], "cached")
        self.run_text(text.format(12), "--profile", "./local2.yaml")
        self.assertEqual(self.jobs()["a"]["state"], "succeeded")

    def with_real_modules(self, init):
        """Both systems read Tcl files; whatever the shell knows of `module` is what they left there."""
        if not os.path.exists(init):
            self.skipTest(f"there is no {init}")
        self.write("files/gcc/12", "#%Module1.0\nsetenv COMPILER /opt/gcc\n")
        self.write("files/cuda/11", "#%Module1.0\nprepend-path PATH /opt/cuda-11/bin\nsetenv COMPILER_OF_CUDA $env(COMPILER)\n")
        self.env["MODULEPATH"] = str(self.folder / "files")
        text = "name: w\nsteps: {{a: {{run: 'echo $LOADEDMODULES $COMPILER_OF_CUDA; echo $PATH', environment: {{modules: {}}}}}}}\n"
        run = self.run_text(text.format("[gcc/12, cuda/11]"))
        words, path = self.output(run).splitlines()
        self.assertEqual(words, "gcc/12:cuda/11 /opt/gcc")
        self.assertTrue(path.startswith("/opt/cuda-11/bin:"), path)
        self.run_text(text.format("[gcc/12, cuda/12]"), status=1)
        self.assertIn("cannot load the modules gcc/12 cuda/12", self.jobs()["a"]["reason"])
        out = self.dlflow("profile", "check", "local", "--workflow", "w.yaml", status=1)[0]
        self.assertIn("module cuda/12 does not load", out)

    def test_modules_of_environment_modules_are_loaded(self):
        self.with_real_modules("/usr/share/modules/init/sh")

    def test_modules_of_lmod_are_loaded(self):
        self.with_real_modules("/usr/share/lmod/lmod/init/sh")

    # conda, pixi and Spack are neither in Debian nor on PyPI: for them, tools_test.cpp only checks the shell lines.
    @unittest.skipUnless(UV.exists(), "PyPI's uv is not in build/tests/uv")
    def test_a_project_of_uv_is_loaded_and_its_packages_are_in_the_fingerprint(self):
        self.write("proj/pyproject.toml", '[project]\nname = "proj"\nversion = "1"\nrequires-python = ">=3.11"\ndependencies = []\n')
        for name, version in (("one", 1), ("two", 1), ("two", 2)):
            self.write(f"{name}-{version}/pyproject.toml", f'[project]\nname = "{name}"\nversion = "{version}"\n'
                       '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n')
            self.write(f"{name}-{version}/backend.py", BACKEND)
        uv = lambda *words: subprocess.run([UV, *words], cwd=self.folder / "proj", env={**self.env, "UV_OFFLINE": "1"},  # noqa: E731
                                           check=True, capture_output=True, text=True)
        uv("sync", "--python", "/usr/bin/python3")
        show = "import importlib.metadata as m; print(*sorted(d.name + d.version for d in m.distributions()), file=open('o', 'w'))"
        text = f"name: w\nsteps: {{a: {{run: [python3, -c, \"{show}\"], environment: {{uv: proj}}, outputs: {{o: o}}}}}}\n"

        def state_and_packages():
            self.run_text(text)
            job = self.jobs()["a"]
            return job["state"], pathlib.Path(job["directory"], "outputs/o").read_text().split()

        self.assertEqual(state_and_packages(), ("succeeded", []))
        self.assertEqual(state_and_packages(), ("cached", []))
        uv("add", "../one-1")
        self.assertEqual(state_and_packages(), ("succeeded", ["one1"]))
        for version in (1, 2):  # unknown to uv.lock
            uv("pip", "install", f"../two-{version}")
            self.assertEqual(state_and_packages(), ("succeeded", ["one1", f"two{version}"]))
        self.assertIn("the environment of a loads: uv ", self.dlflow("profile", "check", "local", "--workflow", "w.yaml")[0])
        uv("sync")
        self.assertEqual(state_and_packages(), ("cached", ["one1"]))

    def test_a_lock_that_was_changed_without_its_packages_is_not_trusted(self):
        packages = self.folder / "env/lib/python3.11/site-packages"
        self.write("env/bin/activate", "")
        self.write("r.lock", "numpy==2.0\n")
        (packages / "numpy-1.0.dist-info").mkdir(parents=True)
        text = "name: w\nsteps: {a: {run: echo, environment: {venv: env, lock: r.lock}}}\n"
        self.run_text(text)
        (packages / "numpy-1.0.dist-info").rename(packages / "numpy-2.0.dist-info")
        for state in ("succeeded", "cached"):
            self.run_text(text)
            self.assertEqual(self.jobs()["a"]["state"], state)

    def test_a_result_is_not_reused_if_its_packages_changed_during_the_run(self):
        packages = self.folder / "env/lib/python3.11/site-packages"
        self.write("env/bin/activate", "")
        (packages / "numpy-1.0.dist-info").mkdir(parents=True)
        other = packages / "numpy-2.0.dist-info"
        text = f"""
            name: w
            steps:
              a: {{run: 'mkdir {other}; echo 1 > $DLFLOW_OUTPUTS/o', outputs: {{o: o}}}}
              b: {{run: echo, environment: {{venv: env}}, needs: [a]}}
        """
        self.run_text(text)
        self.assertIn("will not be reused: the packages of its `environment:` changed", self.jobs()["b"]["reason"])
        other.rmdir()
        for state in ("succeeded", "cached"):
            self.run_text(text)
            self.assertEqual([self.jobs()[step]["state"] for step in "ab"], ["cached", state])

    def test_an_output_in_the_working_directory_is_published_and_reused(self):
        text = """
            name: w
            steps:
              a: {run: 'mkdir -p logs/version_7 && echo best > logs/version_7/best.ckpt', outputs: {best: 'logs/*/best.ckpt'}}
              b: {run: [cat, '${{ steps.a.outputs.best }}']}
        """
        run = self.run_text(text)
        self.assertEqual(self.output(run, "b"), "best\n")
        self.run_text(text)
        self.assertEqual({job["state"] for job in self.jobs().values()}, {"cached"})

    def test_a_missing_output_is_reported_with_the_place_of_a_file_of_its_name(self):
        self.run_text("name: w\nsteps: {a: {run: 'mkdir x && echo 1 > x/model.pt', outputs: {m: model.pt}}}\n", status=1)
        self.assertIn("it wrote x/model.pt: write `outputs: {", self.jobs()["a"]["reason"])

    def test_no_output_is_taken_through_a_link(self):
        best = self.write("theirs/best.pt", "theirs")
        script = f"ln -s {best.parent} shared"
        self.run_text(f"name: w\nsteps: {{a: {{run: '{script}', outputs: {{m: shared/best.pt}}}}}}\n", status=1)
        self.assertIn(f"shared is a link to {best.parent}", self.jobs()["a"]["reason"])
        self.assertEqual(best.read_text(), "theirs")

    def test_an_output_may_lie_in_another_one(self):
        run = self.run_text("""
            name: w
            steps:
              a: {run: 'mkdir results; echo 1 > results/best.pt; echo 2 > results/log', outputs: {best: results/best.pt, results: results}}
              b: {run: ['ls', '${{ steps.a.outputs.results }}', '${{ steps.a.outputs.best }}'], needs: [a]}
        """)
        lines = self.output(run, "b").split()
        self.assertEqual([line for line in lines if "/" not in line], ["best.pt", "log"])

    def test_a_missing_output_removes_no_checkpoint(self):
        run = self.run_text("""
            name: w
            steps:
              a: {run: 'echo weights > ckpt/last.pt', checkpoint: {newer: 'ckpt/*.pt'}, outputs: {a: ckpt/last.pt, b: report.html}}
        """, status=1)
        self.assertIn("output 'b' is missing", self.jobs()["a"]["reason"])
        saved = self.folder / "dlflow-runs" / run / "steps/a/checkpoints/ckpt/last.pt"
        self.assertEqual(saved.read_text(), "weights\n")


if __name__ == "__main__":
    main()
