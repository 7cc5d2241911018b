"""Images: their sources, unpacking, pinning and removal, and every mistake with them."""

import http.server
import json
import os
import shutil
import subprocess
import tarfile
import threading
import unittest

import containers
import images


class FakeRegistry:
    """A registry on this machine that demands a token, as public ones do."""

    def __init__(self, parts, tags):
        registry = self
        self.requests = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                registry.requests.append(self.path)
                if self.path.startswith("/token"):
                    return self.answer(200, b'{"token": "let-me-in"}')
                if self.headers["Authorization"] != "Bearer let-me-in":
                    return self.answer(401, b"", ("WWW-Authenticate",
                                                  f'Bearer realm="http://{registry.name}/token",service="here"'))
                wanted = self.path.rpartition("/")[2]
                data = parts.get(tags.get(wanted, wanted))
                return self.answer(404, b"") if data is None else self.answer(200, data)

            def answer(self, status, data, *headers):
                self.send_response(status)
                for header in [*headers, ("Content-Length", str(len(data)))]:
                    self.send_header(*header)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.name = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class Images(containers.Case):
    """Uses bubblewrap, the fastest, or udocker if that does not work."""

    @classmethod
    def prepare(cls):
        cls.runtime = "bubblewrap"
        if not (containers.have_namespaces() and shutil.which("bwrap")):
            cls.runtime = f"udocker, command: [{containers.udocker_program(cls.site)}]"
        cls.profile = cls.with_runtime()

    @classmethod
    def with_runtime(cls, further=""):
        return f"container: {{runtime: {cls.runtime}{further}}}"

    NAME = "a: {image: box, run: [cat, /etc/image-name]}"

    def name_in(self, image, **options):
        """What a step in `image` finds in /etc/image-name."""
        self.workflow(self.NAME, image)
        self.run_workflow(**options)
        return self.lines("a")

    def images(self):
        return json.loads(self.dlflow("cache", "list", "--json")[0])

    def refusal(self, image=None, status=2, steps=None):
        self.workflow(steps or self.NAME, image)
        return self.dlflow("run", "w.yaml", "--profile", "here", status=status)[1]

    # -- sources

    def test_an_oci_layout_runs_from_a_folder_and_from_a_file(self):
        data = images.busybox_layer(images.file("etc/extra", b"x"))
        images.oci_layout(self.folder / "oci", [data])
        with tarfile.open(self.folder / "oci.tar", "w") as tar:
            tar.add(self.folder / "oci", ".")
        self.assertEqual(self.name_in("oci:oci"), ["busybox"])
        shutil.rmtree(self.folder / "dlflow-runs")
        self.assertEqual(self.name_in("oci:oci.tar"), ["busybox"])

    def test_a_root_folder_is_used_in_place(self):
        images.rootfs(self.folder / "root", images.busybox_layer(images.folder("var/tmp"), images.folder("dev"),
                                                               images.folder("proc")))
        subprocess.run(["chown", "-R", str(self.user), self.folder / "root"], check=os.geteuid() == 0)
        self.assertEqual(self.name_in("dir:root"), ["busybox"])
        self.assertEqual(self.images(), [])

    def test_upper_layers_override_lower_ones(self):
        images.docker_archive(self.folder / "two.tar", [
            images.busybox_layer(), images.layer(images.file("etc/image-name", b"upper\n"))])
        self.assertEqual(self.name_in("docker-archive:two.tar"), ["upper"])

    @unittest.skipUnless(shutil.which("curl"), "curl is not installed")
    def test_an_image_in_a_registry_is_fetched_once_and_runs(self):
        manifest, parts = images.oci_blobs([images.busybox_layer()])
        registry = FakeRegistry(parts, {"1": manifest})
        self.addCleanup(registry.stop)
        source = f"docker://{registry.name}/some/box:1"
        self.assertIn(f"may point to another image tomorrow; add `digest: {manifest}`, its current digest", self.refusal(source))
        self.assertEqual(self.name_in(f"{source}@{manifest}"), ["busybox"])
        fetched = len(registry.requests)
        self.dlflow("run", "w.yaml", "--profile", "here", "--force", "a")
        self.assertEqual(len(registry.requests), fetched)
        self.assertIn("has no image docker://" + registry.name, self.refusal(f"docker://{registry.name}/some/box:2"))

    # -- once, and kept

    def test_forty_simultaneous_jobs_unpack_once(self):
        self.workflow("a: {image: box, run: 'true', matrix: {n: " + str(list(range(40))) + "}}")
        self.write("cluster-profiles/here.yaml", self.profile + "\ncores: 40\n")
        self.dlflow("run", "w.yaml", "--profile", "here")
        said = [path.read_text() for path in self.folder.glob("dlflow-runs/*/steps/a/*/attempt-1/stdout")]
        self.assertEqual(len(said), 40)
        self.assertEqual(sum("unpacking" in text for text in said), 1)
        self.assertEqual(len(self.images()), 1)

    def test_the_image_is_a_part_of_the_fingerprint(self):
        shutil.copy(self.image, self.folder / "box.tar")
        self.assertEqual(self.name_in("docker-archive:box.tar"), ["busybox"])
        self.assertEqual(self.run_workflow()["a"]["state"], "cached")
        images.docker_archive(self.folder / "box.tar", [images.busybox_layer(images.file("etc/x"))])
        self.assertEqual(self.run_workflow()["a"]["state"], "succeeded")

    def test_the_cache_lists_verifies_and_collects(self):
        self.name_in(None)
        image, = self.images()
        self.assertEqual(image["from"], f"docker-archive:{self.image}")
        self.assertIn("1 of 1 images", self.dlflow("cache", "verify")[0])
        self.assertIn("0 images and 0 results", self.dlflow("cache", "gc")[0])
        name = self.folder / "cache/dlflow/images" / image["digest"][7:] / "rootfs/etc/image-name"
        name.chmod(0o644)
        name.write_text("changed")
        self.assertIn("has changed since it was unpacked", self.dlflow("cache", "verify", status=1)[0])
        self.assertIn("1 image and 0 results, ", self.dlflow("cache", "gc", "--older-than", "0s")[0])
        self.assertEqual(self.images(), [])
        self.assertEqual(self.name_in(None), ["busybox"])

    def test_profile_check_tries_a_container(self):
        out, _ = self.dlflow("profile", "check", "here", status=None)
        self.assertIn("containers run with " + self.runtime.split(",")[0], out)
        self.write("cluster-profiles/here.yaml", "container: {runtime: charliecloud, command: [no-ch-run]}")
        out, _ = self.dlflow("profile", "check", "here", status=1)
        self.assertIn("no container runs with charliecloud: error: there is no program 'no-ch-run'", out)

    # -- mistakes

    def test_a_missing_image_is_reported(self):
        self.assertRegex(self.refusal("docker-archive:no.tar"),
                         r"w.yaml:2:\d+: error: image 'box': there is no file .*/no.tar")

    def test_an_image_that_changes_before_its_job_is_refused(self):
        shutil.copy(self.image, self.folder / "box.tar")
        (self.folder / "box.tar").chmod(0o666)
        self.workflow(f"""
            first: {{run: 'echo x >> {self.folder}/box.tar'}}
            a: {{image: box, run: 'true', needs: [first]}}
        """, "docker-archive:box.tar")
        jobs = self.run_workflow(status=1)
        self.assertIn("but should be sha256:", jobs["a"]["reason"])

    def test_a_missing_runtime_is_reported(self):
        self.write("cluster-profiles/here.yaml", "container: {runtime: podman, command: [no-podman]}")
        self.assertIn("there is no program 'no-podman' here, but container.runtime podman of "
                      "cluster-profiles/here.yaml needs it; install it (Debian's podman)", self.refusal())
        self.write("cluster-profiles/here.yaml", "container: {runtime: podman, command: [no-podman]}\nsetup: ['true']")
        self.workflow(self.NAME)
        self.assertIn("there is no program 'no-podman' on", self.run_workflow(status=1)["a"]["reason"])

    def test_a_failing_runtime_is_reported(self):
        self.write("cluster-profiles/here.yaml", "container: {runtime: charliecloud, command: [sh, -c, 'echo broken >&2; exit 3']}")
        self.workflow(self.NAME)
        self.assertIn("charliecloud did not run the program in image 'box' (3): broken; its command was: sh -c",
                      self.run_workflow(status=1)["a"]["reason"])

    def test_a_cluster_without_containers_is_reported(self):
        self.write("cluster-profiles/here.yaml", "cores: 1")
        self.assertIn("cluster-profiles/here.yaml runs no containers; set container.runtime", self.refusal())

    def test_a_missing_bind_is_reported(self):
        self.write("cluster-profiles/here.yaml", self.with_runtime(", binds: [/no/data]"))
        self.workflow(self.NAME)
        reason = self.run_workflow(status=1)["a"]["reason"]
        self.assertIn("/no/data, which the container needs, does not exist on", reason)
        self.assertIn("correct container.binds", reason)

    def test_a_program_missing_in_the_image_is_reported(self):
        self.workflow("a: {image: box, run: [python3, train.py]}")
        self.assertIn("image 'box' has no program python3 in its PATH", self.run_workflow(status=1)["a"]["reason"])

    @unittest.skipUnless(os.geteuid() == 0, "mounting needs root")
    def test_a_full_disk_for_an_image_is_reported(self):
        cache = self.folder / "small"
        cache.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=1M,uid={self.user}", "none", cache], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", cache])
        self.workflow(self.NAME)
        jobs = self.run_workflow(status=1, env={"XDG_CACHE_HOME": cache})
        self.assertIn("No space left on device", jobs["a"]["reason"])
        self.assertEqual(list((cache / "dlflow/images/work").iterdir()), [])


if __name__ == "__main__":
    containers.require()
    containers.main()
