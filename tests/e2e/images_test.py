"""`dlflow lock`, and what is said of images before a job starts."""

import hashlib
import json

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

    def test_a_workflow_is_locked_to_what_its_images_are_now(self):
        first = self.image("1")
        self.write("w.yaml", ONE_IMAGE)
        lock = self.folder / "w.lock.json"
        kept = f"{lock.name}: keep it with the workflow; runs refuse images that are not these.\n"
        self.assertEqual(self.dlflow("lock", "w.yaml")[0], f"box  {first}\n{kept}")
        self.assertIn(first, lock.read_text())
        self.assertEqual(self.dlflow("lock", "w.yaml")[0], f"box  {first}  as before\n{kept}")
        self.explain()

        second = self.image("2")
        _, err = self.explain(status=2)
        self.assertIn(f"image 'box': oci:image is {second} now, and", err)
        self.assertIn(f"w.lock.json says {first}; restore it, or if it is meant, `dlflow lock", err)
        self.assertEqual(self.dlflow("lock", "w.yaml", "--quiet"), ("", ""))
        self.explain()
        self.image("3")
        self.assertIn("  changed\n", self.dlflow("lock", "w.yaml")[0])

    def test_a_lock_of_another_source_says_nothing(self):
        self.image("1")
        self.write("w.yaml", ONE_IMAGE)
        self.dlflow("lock", "w.yaml")
        (self.folder / "image").rename(self.folder / "moved")
        self.write("w.yaml", ONE_IMAGE.replace("oci:image", "oci:moved"))
        self.explain()

    def test_a_digest_in_the_workflow_counts(self):
        digest = self.image("1")
        self.write("w.yaml", WORKFLOW.format(digest=f", digest: {digest}"))
        self.explain()  # that of an image that no step uses is not looked at
        self.write("w.yaml", WORKFLOW.format(digest=f", digest: sha256:{'0' * 64}"))
        _, err = self.explain(status=2)
        self.assertRegex(err, r"^w.yaml:4:\d+: error: image 'box': oci:image is sha256:")
        self.assertIn(f"`digest:` says sha256:{'0' * 64}; restore it, or if it is meant, change `digest:`", err)

    def test_images_that_cannot_be_locked_are_told(self):
        self.write("w.yaml", "name: w\nsteps:\n  a: {run: [echo]}\n")
        self.assertIn("has no images; there is nothing to lock", self.dlflow("lock", "w.yaml", status=2)[1])
        self.assertFalse((self.folder / "w.lock.json").exists())
        self.write("w.yaml", ONE_IMAGE)
        self.assertRegex(self.dlflow("lock", "w.yaml", status=2)[1], r"^w.yaml:4:\d+: error: image 'box': there is no ")

    def test_a_cluster_without_the_runtime_is_told_before_anything_runs(self):
        self.image("1")
        self.write("w.yaml", ONE_IMAGE)
        _, err = self.explain(status=2, path="/nowhere")
        self.assertIn("image 'box': there is no program 'bwrap' here, which container.runtime, bubblewrap, of ", err)
        self.profile("runtime: bubblewrap, command: [my-bwrap]")
        self.assertIn("there is no program 'my-bwrap' here", self.explain(status=2)[1])
        self.profile("runtime: bubblewrap, command: [/opt/bwrap]")
        self.explain(path="/nowhere")  # a path is for the node to have
        self.profile("runtime: bubblewrap", "setup: [module load bubblewrap]\n")
        self.explain(path="/nowhere")  # who knows what that brings
        self.profile("runtime: none")
        self.assertIn("here.yaml runs no containers; set container.runtime", self.explain(status=2)[1])
        _, err = self.dlflow("explain", "w.yaml", status=2)
        self.assertIn("the built-in profile 'local' runs no containers", err)


if __name__ == "__main__":
    main()
