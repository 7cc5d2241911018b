"""The published pipelines of workflows/gallery on this machine, with stand-ins for their programs."""

import shutil
import unittest

from support import Case, main

import gallery


@unittest.skipUnless(shutil.which("git"), "git is not installed")
@unittest.skipUnless(shutil.which("mpirun"), "Open MPI is not installed")
class Gallery(Case):
    def setUp(self):
        super().setUp()
        self.settings = gallery.prepare(self.folder)
        self.env["PATH"] = f"{self.folder}/bin:{self.env['PATH']}"

    def test_each_example_is_valid_unchanged(self):
        self.assertEqual({file.stem for file in gallery.GALLERY.glob("*.yaml")}, set(self.settings))
        for workflow in self.settings:
            with self.subTest(workflow):
                settings = ["--set", f"data={self.folder}/data.xml"] if workflow == "dvc-get-started" else []
                self.dlflow("validate", f"{workflow}.yaml", *settings)

    def test_each_example_runs_with_stand_ins(self):
        for workflow, settings in self.settings.items():
            with self.subTest(workflow):
                run = self.run_json(f"{workflow}.yaml", *settings, timeout=120)["run"]
                status = self.status(run)
                self.assertEqual(gallery.states(status), gallery.expected(workflow, status), self.dlflow("status", run)[0])

    def test_a_changed_parameter_reruns_the_steps_that_depend_on_it(self):
        settings = self.settings["dvc-get-started"]
        self.run_json("dvc-get-started.yaml", *settings)
        run = self.run_json("dvc-get-started.yaml", *settings, "--set", "trees=100")["run"]
        self.assertEqual(self.states(run), {"code": "cached", "prepare": "cached", "featurize": "cached", "train": "succeeded",
                                            "evaluate": "succeeded"})

    def test_the_sweep_names_its_best_element(self):
        run = self.run_json("cosmoflow.yaml", *self.settings["cosmoflow"])["run"]
        self.assertEqual([step["metrics"] for step in self.status(run)["steps"] if step["name"] == "best"], [{"val_loss": 0.0005}])


if __name__ == "__main__":
    main()
