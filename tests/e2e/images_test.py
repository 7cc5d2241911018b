"""Checks of images before a job starts."""

import hashlib
import json
import shutil

from support import Case, main

WORKFLOW = """
    name: w
    images:
      box: {{from: "oci:image"{digest}}}
      other: {{from: "dir:/nowhere"}}
    steps:
      a: {{run: [echo], image: box}}
"""
ONE_IMAGE = """
    name: w
    images:
      box: {from: "oci:image"}
    steps:
      a: {run: [echo], image: box}
"""


class Images(Case):
    def setUp(self):
        super().setUp()
        self.program = self.write("bin/bwrap", "#!/bin/sh\n")
        self.program.chmod(0o755)
        self.profile("runtime: bubblewrap")

    def profile(self, container, more=""):
        self.write("cluster-profiles/here.yaml", f"container: {{{container}}}\n{more}")

    def image(self, content):
        """An OCI folder whose image has this environment; returns its digest."""
        def blob(text):
            digest = hashlib.sha256(text.encode()).hexdigest()
            self.write(f"image/blobs/sha256/{digest}", text)
            return {"digest": f"sha256:{digest}"}
        config = blob(json.dumps({"config": {"Env": [f"A={content}"]}}))
        manifest = blob(json.dumps({"config": config, "layers": []}))
        self.write("image/index.json", json.dumps({"manifests": [manifest]}))
        return manifest["digest"]

    def explain(self, status=0, path=None):
        env = {"PATH": path if path is not None else f"{self.program.parent}:{self.env['PATH']}"}
        return self.dlflow("explain", "w.yaml", "--profile", "here", status=status, env=env)

    def test_a_lock_file_of_earlier_versions_is_refused(self):
        self.image("1")
        self.write("w.yaml", ONE_IMAGE)
        lock = self.write("w.lock.json", "{}")
        self.assertEqual(self.explain(status=2)[1], "error: w.lock.json is no longer read: write the digest of each image "
                         "as `digest:` in w.yaml, and remove the file\n")
        lock.unlink()
        self.explain()

    def test_a_bundle_keeps_the_digests_of_its_images(self):
        first = self.image("1")
        self.write("w.yaml", ONE_IMAGE)
        self.dlflow("pack", "w.yaml", "-o", "w.dlflow")
        self.dlflow("unpack", "w.dlflow")
        unpacked = self.folder / "w/workflow"
        (unpacked / "w.lock.json").write_text("{}")  # bundles of earlier versions have one
        (self.folder / "image").rename(unpacked / "image")
        explain = ("explain", "w/workflow/w.yaml", "--profile", "here")
        env = {"PATH": f"{self.program.parent}:{self.env['PATH']}"}
        self.dlflow(*explain, env=env)
        second = self.image("2")
        shutil.rmtree(unpacked / "image")
        (self.folder / "image").rename(unpacked / "image")
        self.assertIn(f"oci:image is {second} now, but should be {first}", self.dlflow(*explain, env=env, status=2)[1])

    def test_a_digest_in_the_workflow_counts(self):
        digest = self.image("1")
        self.write("w.yaml", WORKFLOW.format(digest=f", digest: {digest}"))
        self.explain()  # the digest of an unused image is not checked
        self.write("w.yaml", WORKFLOW.format(digest=f", digest: sha256:{'0' * 64}"))
        _, err = self.explain(status=2)
        self.assertRegex(err, r"^w.yaml:4:\d+: error: image 'box': oci:image is sha256:")
        self.assertIn(f"{digest} now, but should be sha256:{'0' * 64}; restore it, or, if the change is intended, write `digest: {digest}`", err)

    def test_a_missing_image_is_named(self):
        self.write("w.yaml", ONE_IMAGE)
        self.assertRegex(self.explain(status=2)[1], r"^w.yaml:4:\d+: error: image 'box': there is no ")

    def test_a_cluster_without_the_runtime_is_reported_before_anything_runs(self):
        self.image("1")
        self.write("w.yaml", ONE_IMAGE)
        _, err = self.explain(status=2, path="/nowhere")
        self.assertIn("image 'box': there is no program 'bwrap' here, but container.runtime bubblewrap of ", err)
        self.profile("runtime: bubblewrap, command: [my-bwrap]")
        self.assertIn("there is no program 'my-bwrap' here", self.explain(status=2)[1])
        self.profile("runtime: bubblewrap, command: [/opt/bwrap]")
        self.explain(path="/nowhere")  # a path only has to exist on the node
        self.profile("runtime: bubblewrap", "setup: [module load bubblewrap]\n")
        self.explain(path="/nowhere")  # the module may provide the program
        self.profile("runtime: none")
        self.assertIn("here.yaml runs no containers; set container.runtime", self.explain(status=2)[1])
        _, err = self.dlflow("explain", "w.yaml", status=2)
        self.assertIn("the built-in profile 'local' runs no containers", err)


if __name__ == "__main__":
    main()
