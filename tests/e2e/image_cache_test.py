"""`dlflow cache`: lists images, removes unused ones, and reports changed ones."""

import fcntl
import hashlib
import json
import os
import time

from support import Case, main

DAY = 86400


class ImageCache(Case):
    def unpacked(self, name, days_unused, size=3):
        """An image in the cache as unpacking leaves it; returns its digest in hexadecimal."""
        digest = hashlib.sha256(name.encode()).hexdigest()
        images = self.folder / "cache/dlflow/images"
        images.mkdir(parents=True, exist_ok=True)
        folder = images / digest
        (folder / "rootfs").mkdir(parents=True)
        for part in (self.folder / "cache/dlflow", images, folder):
            part.chmod(0o700)
        content = b"x" * size
        (folder / "rootfs/file").write_bytes(content)
        tree = hashlib.sha256(f"{hashlib.sha256(content).hexdigest()}  file\n".encode()).hexdigest()
        record = folder / "image.json"
        record.write_text(json.dumps({"digest": f"sha256:{digest}", "from": f"oci:{name}", "bytes": size,
                                      "tree_sha256": tree, "environment": {}}))
        record.chmod(0o600)
        then = time.time() - days_unused * DAY - 60
        os.utime(record, (then, then))
        return digest

    def left(self):
        return {image["from"] for image in json.loads(self.dlflow("cache", "list", "--json")[0])}

    def test_images_are_listed_the_longest_unused_first(self):
        new, old = self.unpacked("new", 1, size=2048), self.unpacked("old", 40)
        out, _ = self.dlflow("cache", "list")
        self.assertEqual(out.splitlines(), [
            "KIND    DIGEST        SIZE       UNUSED   FROM",
            f"image   {old[:12]}  3 B        40 d     oci:old",
            f"image   {new[:12]}  2.0 KiB    24 h     oci:new"])
        self.assertEqual(self.dlflow("cache", "list", "--quiet")[0].splitlines(), out.splitlines()[1:])
        first, second = json.loads(self.dlflow("cache", "list", "--json")[0])
        self.assertEqual((first["kind"], first["digest"], first["from"], first["bytes"]),
                         ("image", f"sha256:{old}", "oci:old", 3))
        self.assertTrue(0 <= first["unused_s"] - 40 * DAY - 60 < 300)
        self.assertEqual(first["directory"], str(self.folder / "cache/dlflow/images" / old))
        self.assertEqual(second["from"], "oci:new")

    def test_a_long_unused_image_is_removed(self):
        new, old = self.unpacked("new", 20), self.unpacked("old", 40)
        out, _ = self.dlflow("cache", "gc", "--dry-run")
        self.assertEqual(out.splitlines(), [f"image   {old[:12]}  oci:old  3 B", "1 image and 0 results, 3 B would go."])
        self.assertEqual(self.left(), {"oci:new", "oci:old"})
        self.assertEqual(self.dlflow("cache", "gc", "--quiet")[0], "1 image and 0 results, 3 B removed.\n")
        self.assertEqual(self.left(), {"oci:new"})
        self.dlflow("cache", "gc", "--older-than", "21d")
        self.assertEqual(self.left(), {"oci:new"})
        out, _ = self.dlflow("cache", "gc", "--older-than", "19d")
        self.assertEqual(out.splitlines(), [f"image   {new[:12]}  oci:new  3 B", "1 image and 0 results, 3 B removed."])
        self.assertEqual(self.left(), set())
        self.assertEqual(self.dlflow("cache", "gc")[0], "0 images and 0 results, 0 B removed.\n")

    def test_an_image_in_use_stays(self):
        old = self.unpacked("old", 40)
        locks = self.folder / "cache/dlflow/images/locks"
        locks.mkdir()
        with open(locks / f"{old}.use", "w") as use:
            fcntl.flock(use, fcntl.LOCK_SH)
            out, _ = self.dlflow("cache", "gc")
        self.assertEqual(out.splitlines(), [f"image   {old[:12]}  oci:old  is in use, or not yours: kept",
                                            "0 images and 0 results, 0 B removed."])
        self.assertEqual(self.left(), {"oci:old"})

    def test_a_changed_image_is_reported(self):
        good, bad = self.unpacked("good", 1), self.unpacked("bad", 1)
        self.assertEqual(self.dlflow("cache", "verify")[0], "2 of 2 images are unchanged.\n")
        self.assertEqual(self.dlflow("cache", "verify", "--quiet")[0], "")
        folder = self.folder / "cache/dlflow/images" / bad
        (folder / "rootfs/file").write_text("other")
        told = [f"oci:bad has changed since it was unpacked; `rm -rf {folder}`, and the next job unpacks it again",
                "1 of 2 images are unchanged."]
        for options in ([], ["--quiet"]):
            self.assertEqual(self.dlflow("cache", "verify", *options, status=1)[0].splitlines(), told)

    def test_a_profile_may_have_a_cache_of_its_own(self):
        self.unpacked("old", 40)
        self.write("cluster-profiles/other.yaml", f"paths: {{cache: {self.folder / 'elsewhere'}}}\n")
        self.assertEqual(self.dlflow("cache", "list", "--quiet", "--profile", "other")[0], "")
        self.assertEqual(self.dlflow("cache", "gc", "--profile", "other")[0], "0 images and 0 results, 0 B removed.\n")


if __name__ == "__main__":
    main()
