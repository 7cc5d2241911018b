"""A run's bundle gives another user on another cluster the same weights, without access to the first cluster."""

import hashlib
import pathlib
import shutil
import tempfile

import cluster
import contained


class Share(contained.Case):
    guest = cluster.Cluster("beta", user="guest")

    def setUp(self):
        """`there`: a folder of another user of beta that contains only the site's profiles."""
        super().setUp()
        self.there = pathlib.Path(tempfile.mkdtemp(prefix="test.", dir=self.guest.home))
        shutil.chown(self.there, self.guest.home.stat().st_uid, self.guest.home.stat().st_gid)
        self.addCleanup(shutil.rmtree, self.there, ignore_errors=True)
        self.addCleanup(self.guest.run, ["scancel", "--me"])
        (self.there / "cluster-profiles").symlink_to(cluster.STAGED / "cluster-profiles")

    def weights(self, status):
        training = next(step for step in status["steps"] if step["name"] == "train")
        model = pathlib.Path(training["directory"]) / "checkpoints/latest/model.safetensors"
        return hashlib.sha256(model.read_bytes()).hexdigest()

    def check_for_leaks(self, folder):
        """Skips the image, which is the user's own file, and contains unrelated text."""
        names = 0
        for path in folder.rglob("*"):
            name = str(path.relative_to(folder))
            if not path.is_file() or name.startswith("workflow/images/"):
                continue
            names += 1
            content = path.read_bytes()
            for word in (self.alpha.node(1), self.alpha.node(2), str(cluster.ROOT), self.folder.name):
                self.assertNotIn(word.encode(), content, name)
                self.assertNotIn(word, name)
        self.assertGreater(names, 10)

    def test_a_run_on_alpha_gives_the_same_weights_to_another_user_on_beta(self):
        self.needs(self.alpha)
        self.needs(self.beta)
        run = self.submit(self.alpha, self.flows / contained.WORKFLOW, "--set", "epochs=1", "--set", "model=mlp",
                          "--until", "train")
        first = self.wait_for_success(self.alpha, run, steps=("train",))
        self.dlflow(self.alpha, "pack", "--from-run", run, "--with-data", "--with-images", "-o", "b.dlflow")
        self.assertNotEqual(self.folder.stat().st_uid, self.there.stat().st_uid)
        shutil.copy(self.folder / "b.dlflow", self.there / "b.dlflow")

        self.dlflow(self.guest, "unpack", "b.dlflow", cwd=self.there)
        unpacked = self.there / "fashion-mnist-container"
        self.check_for_leaks(unpacked)
        packed = next(unpacked.glob("run/steps/train/checkpoints/*/model.safetensors"))
        self.assertEqual(hashlib.sha256(packed.read_bytes()).hexdigest(), self.weights(first))

        if self.guest.run(["unshare", "--user", "--map-root-user", "true"], status=None).returncode != 0:
            self.skipTest("packed and unpacked; beta's runtime needs user namespaces, which users cannot make here")
        again = self.submit(self.guest, "b.dlflow", "--until", "train", cwd=self.there)
        second = self.wait_for_success(self.guest, again, steps=("train",), cwd=self.there)
        self.assertEqual(self.weights(second), self.weights(first))


if __name__ == "__main__":
    contained.main()
