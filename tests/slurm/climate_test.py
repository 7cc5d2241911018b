"""A small climate workflow on two clusters, on two ranks in containers and natively on one, predicts the same bits."""

import json
import os
import pathlib
import subprocess

import cluster
import contained
from pypi import BUILD, DEBIAN, TENSORFLOW, missing

PYTHON = BUILD / "venv/bin/python"  # contains tests/python/requirements.txt
SMALL = {"days": 200, "test_days": 40, "epochs": 3, "skill": 0.3, "python": PYTHON, "package": cluster.STAGED / "python"}
PYTORCH, KERAS = {"train-pytorch", "pytorch"}, {"train-keras", "keras"}
READ = """
import json, sys, netCDF4
with netCDF4.Dataset(sys.argv[1]) as file:
    about = {name: [list(variable.dimensions), variable.units, variable.standard_name] for name, variable in file.variables.items()}
    json.dump([file.Conventions, about, [float(file[axis][-1]) for axis in ("lat", "lon")], file["tas"][...].tobytes().hex()], sys.stdout)
"""


class Climate(contained.Case):
    image = "climate"

    def setUp(self):
        super().setUp()
        os.environ["PATH"] = f"{cluster.STAGED}/bin:{os.environ['PATH']}"
        for module, python in (("netCDF4", PYTHON), ("matplotlib", PYTHON), ("torch", DEBIAN)):
            if reason := missing(module, python):
                self.skipTest(reason)

    def start(self, on, **settings):
        self.needs(on)
        return self.submit(on, self.flows / "climate.yaml", *(word for name, value in {**SMALL, **settings}.items() for word in ("--set", f"{name}={value}")))

    def end(self, on, run, contained_steps):
        """Returns state and metrics by step, and the folder of the run."""
        ended = self.wait_for_success(on, run, steps=contained_steps)
        return {step["name"]: step for step in ended["steps"]}, pathlib.Path(ended["directory"])

    def temperatures(self, directory):
        done = subprocess.run([PYTHON, "-c", READ, directory / "steps/ours/outputs/tas.nc"], capture_output=True, text=True, check=True)
        conventions, variables, corner, values = json.loads(done.stdout)
        self.assertEqual(conventions, "CF-1.8")
        self.assertEqual(variables, {"time": [["time"], "days since 2001-01-01", "time"], "lat": [["lat"], "degrees_north", "latitude"],
                                     "lon": [["lon"], "degrees_east", "longitude"], "tas": [["time", "lat", "lon"], "K", "air_temperature"]})
        self.assertEqual(corner, [47.75, 11.75])
        return values

    def test_two_clusters_predict_the_same_bits_in_containers_and_natively(self):
        keras = TENSORFLOW
        if reason := missing("tensorflow", TENSORFLOW):
            keras = ""
            print(f"skipped case: keras of {self.id()}: {reason}")
        runs = {self.alpha: self.start(self.alpha, ranks=2, images="{ours: debian, pytorch: debian, keras: none}"),
                self.beta: self.start(self.beta, ranks=1, pytorch="", keras=keras)}
        steps, on_alpha = self.end(self.alpha, runs[self.alpha], ("train", "predict", "train-pytorch"))
        again, on_beta = self.end(self.beta, runs[self.beta], ())
        self.assertEqual(self.temperatures(on_alpha), self.temperatures(on_beta))
        self.assertEqual(again["ours"]["metrics"], steps["ours"]["metrics"])
        for ended, left_out in ((steps, KERAS), (again, PYTORCH | (set() if keras else KERAS))):
            self.assertEqual({name for name, step in ended.items() if step["state"] == "skipped"}, left_out)
            for name in {"ours", "lapse-rate", "pytorch", "keras"} - left_out:
                self.assertGreater(ended[name]["metrics"]["skill"], 0.3, name)
            self.assertEqual(ended["bilinear"]["metrics"]["skill"], 0)
        self.assertEqual((on_beta / "steps/picture/outputs/picture.png").read_bytes()[:4], b"\x89PNG")


if __name__ == "__main__":
    contained.main()
