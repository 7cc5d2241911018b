"""uses: stage and stage-out against real servers on loopback: nginx, sshd (rsync, git), rclone, git."""

import hashlib
import http.server
import json
import os
import pathlib
import signal
import subprocess
import tarfile
import threading
import time
import urllib.parse

import servers
from support import Case, main


def sha256(content):
    return hashlib.sha256(content).hexdigest()


class Staging(Case):
    def needs(self, *programs):
        if reason := servers.missing(*programs):
            self.skipTest(reason)

    def content(self, name, size):
        """A file of random bytes, which nothing compresses."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size))
        return path.read_bytes()

    def stage(self, *sources, status=0, env=None, **keys):
        """Runs a workflow of one stage step; its folder. The last run's folder is in self.attempt."""
        with_ = {"sources": list(sources), **keys}
        return self.run_step({"data": {"uses": "stage", "with": with_}}, status, env) / "pass-1/outputs" / "data"

    def send(self, from_, to, status=0, env=None, **keys):
        return self.run_step({"out": {"uses": "stage-out", "with": {"from": str(from_), "to": to, **keys}}}, status, env)

    def run_step(self, steps, status, env):
        (self.folder / "w.yaml").write_text(json.dumps({"name": "w", "steps": steps}))
        name = next(iter(steps))
        run = self.run_json("w.yaml", "--force", name, status=status, env=env, timeout=120)["run"]
        self.attempt = self.folder / "dlflow-runs" / run / "steps" / name / "attempt-1"
        return self.attempt

    def reason(self):
        return (self.attempt / "stderr").read_text()

    def metrics(self):
        return [json.loads(line) for line in (self.attempt / "metrics.jsonl").read_text().splitlines()]

    def summary(self):
        return json.loads((self.attempt / "pass-1/metrics.json").read_text())

    def start_step(self, steps, env=None):
        (self.folder / "w.yaml").write_text(json.dumps({"name": "w", "steps": steps}))
        return self.start("run", "w.yaml", "--json", env=env)

    def finish(self, process):
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, out + err)
        run = json.loads(out.strip().splitlines()[-1])["run"]
        step = next((self.folder / "dlflow-runs" / run / "steps").iterdir())
        self.attempt = step / "attempt-1"
        return self.attempt

    def partial_bytes(self):
        files = (self.folder / "cache").glob("**/partial/*")
        return sum(file.stat().st_size for file in files if not file.suffix)


class HubServer(http.server.BaseHTTPRequestHandler):
    """Serves two pages of a data set's list and its files, and records each request with its token."""

    files = {}  # name -> content
    lfs = {}  # name -> its SHA-256 in the list
    asked = []

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        self.asked.append((url.path, self.headers.get("Authorization")))
        root = "/datasets/owner/set/resolve/v1/"
        if url.path.startswith("/api/datasets/owner/set/tree/v1"):
            folder = url.path.removeprefix("/api/datasets/owner/set/tree/v1").strip("/")
            entries = [self.entry(name) for name in sorted(self.files) if name.startswith(folder)]
            second = "page=2" in url.query
            self.answer(json.dumps(entries[1:] if second else entries[:1]).encode(), {} if second else
                        {"Link": f'<https://hub.example{url.path}?page=2>; rel="next"'})  # as a mirror forwards it
        elif url.path.startswith(root) and url.path.removeprefix(root) in self.files:
            self.answer(self.files[url.path.removeprefix(root)])
        else:
            self.send_error(404)

    def entry(self, name):
        entry = {"type": "file", "path": name, "size": len(self.files[name]), "oid": sha256(self.files[name])[:40]}
        return {**entry, "lfs": {"oid": self.lfs[name], "size": entry["size"]}} if name in self.lfs else entry

    def answer(self, content, headers={}):
        self.send_response(200)
        for key, value in {"Content-Length": len(content), **headers}.items():
            self.send_header(key, str(value))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


class Hub(Staging):
    def setUp(self):
        super().setUp()
        self.needs("curl")
        HubServer.files = {"train/a.bin": os.urandom(1000), "train/b.txt": b"text", "README.md": b"about"}
        HubServer.lfs = {"train/a.bin": sha256(HubServer.files["train/a.bin"])}
        HubServer.asked = []
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), HubServer)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.endpoint = f"http://127.0.0.1:{server.server_port}"

    def from_hub(self, path, status=0):
        step = {"uses": "stage", "env": {"HF_ENDPOINT": self.endpoint}, "secrets": ["HF_TOKEN"],
                "with": {"sources": [{"url": f"hf://datasets/owner/set@v1/{path}"}]}}
        self.run_step({"data": step}, status, {"HF_TOKEN": "hf_secret"})
        return self.attempt / "pass-1/outputs/data"

    def test_a_folder_of_a_hub_is_staged_over_all_pages_of_its_list(self):
        there = self.from_hub("train/")
        self.assertEqual({file.name: file.read_bytes() for file in there.rglob("*") if file.is_file()},
                         {"a.bin": HubServer.files["train/a.bin"], "b.txt": b"text"})
        self.assertEqual({token for _, token in HubServer.asked}, {"Bearer hf_secret"})
        self.assertNotIn("hf_secret", "".join(file.read_text(errors="replace") for file in self.attempt.rglob("*") if file.is_file()))

    def test_one_file_of_a_hub_is_staged_and_a_missing_one_reported(self):
        self.assertEqual((self.from_hub("README.md") / "README.md").read_bytes(), b"about")
        self.from_hub("READMI.md", status=1)
        self.assertIn("there is no such file", self.reason())

    def test_a_large_file_that_differs_from_the_hubs_hash_is_refused(self):
        HubServer.lfs["train/a.bin"] = "0" * 64
        self.from_hub("train/a.bin", status=1)
        self.assertIn("its SHA-256 is " + sha256(HubServer.files["train/a.bin"]), self.reason())


class Web(Staging):
    def setUp(self):
        super().setUp()
        self.needs("nginx", "curl")
        self.server = servers.Nginx(self.folder / "nginx")
        self.addCleanup(lambda: self.server.kill())

    def test_a_server_that_restarts_is_asked_for_the_rest_only(self):
        data = self.content("nginx/www/x", 4_000_000)
        process = self.start_step({"data": {"uses": "stage", "with": {"sources": [{"url": self.server.url("slow/x")}]}}})
        self.wait_for(lambda: self.partial_bytes() > 300_000, seconds=60, what="a part of the download")
        self.server.kill()
        kept = self.partial_bytes()
        self.server.start(rate=0)
        attempt = self.finish(process)
        self.assertEqual((attempt / "pass-1/outputs/data/x").read_bytes(), data)
        self.assertIn("trying again", (attempt / "stdout").read_text())
        [(status, size)] = self.server.answers("slow/x")
        self.assertEqual(status, 206)
        self.assertLessEqual(size, len(data) - kept)

    def test_many_sources_are_staged_in_parallel_and_all_failures_reported(self):
        for number in range(6):
            self.content(f"nginx/www/{number}", 50_000)
        sources = [{"url": self.server.url(f"slow/{number}")} for number in range(6)]
        data = self.stage(*sources, parallel=3)
        self.assertEqual(sorted(file.name for file in data.iterdir()), list("012345"))
        lines = self.metrics()
        self.assertEqual({line["total_bytes"] for line in lines}, {300_000})
        done = [line["bytes"] for line in lines]
        self.assertEqual(done, sorted(done))
        self.assertEqual(done[-1], 300_000)

        self.stage(*sources, {"url": self.server.url("a")}, {"url": self.server.url("b")}, status=1)
        self.assertIn("/a: the server answers 404", self.reason())
        self.assertIn("/b: the server answers 404", self.reason())
        self.assertIn("2 of 8 failed", self.reason())

    def test_a_bandwidth_holds_for_all_transfers_together(self):
        for name in "abcd":
            self.content(f"nginx/www/{name}", 500_000)
        begin = time.monotonic()
        self.stage(*({"url": self.server.url(name)} for name in "abcd"), bandwidth=1_000_000, parallel=2)
        self.assertGreater(time.monotonic() - begin, 1.9)  # a lower bound: a busy machine only takes longer

    def test_no_credential_is_visible_to_people_and_other_processes(self):
        self.content("nginx/www/x", 400_000)
        url = self.server.url("slow/x").replace("//", "//me:pass-word@") + "?token=to-ken"
        process = self.start_step({"data": {"uses": "stage", "with": {"sources": [{"url": url}]}}})
        self.wait_for(lambda: self.partial_bytes() > 0, what="the download to begin")
        seen = servers.command_lines()
        self.assertIn("curl", seen)
        attempt = self.finish(process)
        seen += (attempt / "stdout").read_text() + (attempt / "metrics.jsonl").read_text()
        self.stage({"url": url.replace("/x", "/none")}, status=1)
        seen += self.reason() + self.dlflow("status", "--json")[0]
        self.assertIn("answers 404", seen)
        for secret in ("pass-word", "to-ken"):
            self.assertNotIn(secret, seen)


class Ssh(Staging):
    def setUp(self):
        super().setUp()
        self.needs("sshd", "ssh", "rsync")
        self.server = servers.Sshd(self.folder / "sshd")
        self.addCleanup(self.server.kill)
        self.env.update(self.server.environment)
        self.remote = self.folder / "remote"
        self.remote.mkdir()

    def url(self, name):
        return self.server.url(f"{self.remote}/{name}")

    def test_files_folders_and_patterns(self):
        x = self.content("remote/x", 10_000)
        y = self.content("remote/set/in ner/y;$(id)", 10_000)
        self.write("remote/set/run", "#!").chmod(0o755)
        self.write("remote/a.txt", "A")
        sums = f"{sha256(b'#!')}  run\n{sha256(y)}  in ner/y;$(id)\n"
        self.write("sums", sums)
        data = self.stage({"url": self.url("x"), "sha256": sha256(x)}, {"url": self.url("set/"), "manifest": "sums"},
                          {"url": self.url("*.txt"), "name": "texts"})
        self.assertEqual((data / "x").read_bytes(), x)
        self.assertEqual((data / "set/in ner/y;$(id)").read_bytes(), y)
        self.assertTrue(os.access(data / "set/run", os.X_OK))
        self.assertEqual((data / "texts/a.txt").read_text(), "A")

        connections = self.server.num_connections()
        self.stage({"url": self.url("x"), "sha256": sha256(x)})
        self.assertEqual(self.server.num_connections(), connections, "what is in the cache needs no connection")
        self.stage({"url": self.url("a.txt")})
        self.write("remote/a.txt", "changed")
        self.assertEqual((self.stage({"url": self.url("a.txt")}) / "a.txt").read_text(), "changed")

    def test_other_bytes_of_the_same_size_and_time_are_staged(self):
        for content in ("one", "two"):
            os.utime(self.write("remote/x", content), (1_000_000_000, 1_000_000_000))
            self.assertEqual((self.stage({"url": self.url("x")}) / "x").read_text(), content)

    def test_mistakes_are_reported_with_advice(self):
        self.content("remote/set/x", 10)
        for url, message in ((self.url("none"), "No such file"), (self.url("set"), "add a / at the end"),
                             (self.url("*.none"), "no file has a name like this"),
                             (self.url("x").replace("127.0.0.1", "localhost"), "log in once with ssh")):
            self.stage({"url": url}, status=1)
            self.assertIn(message, self.reason())
        self.stage({"url": self.url("set/x")}, status=1, env={"PATH": str(self.folder)})
        self.assertIn("the program 'rsync' is needed", self.reason())

    def test_a_connection_that_breaks_is_continued(self):
        data = self.content("remote/x", 3_000_000)
        process = self.start_step({"data": {"uses": "stage", "with": {
            "sources": [{"url": self.url("x")}], "bandwidth": 400_000}}}, env=self.server.counting())
        self.wait_for(lambda: self.partial_bytes() > 400_000, seconds=60, what="a part of the download")
        self.server.break_off()
        attempt = self.finish(process)
        self.assertEqual((attempt / "pass-1/outputs/data/x").read_bytes(), data)
        self.assertIn("trying again", (attempt / "stdout").read_text())
        _, received = self.server.transferred()[-1]  # the broken transfer may be missing in the log
        self.assertTrue(500_000 < received < 2_800_000, received)

    def test_results_are_sent_once_and_verified(self):
        model = self.content("results/model", 100_000)
        self.content("results/sub/log", 10)
        to = self.url("archive/run 1/").replace(" ", "%20")
        attempt = self.send(self.folder / "results", to)
        there = self.remote / "archive/run 1/results"
        self.assertEqual((there / "model").read_bytes(), model)
        self.assertEqual(sorted(p.name for p in there.rglob("*")), ["log", "model", "sub"])
        self.assertEqual(self.summary(), {"bytes": 100_010, "files": 2, "sent": 2})
        self.assertIn(f"{sha256(model)}  results/model\n", (attempt / "pass-1/outputs/SHA256SUMS").read_text())
        self.send(self.folder / "results", to)
        self.assertEqual(self.summary()["sent"], 0)
        (there / "model").write_bytes(bytes(len(model)))
        self.send(self.folder / "results", to)
        self.assertEqual(self.summary()["sent"], 1)
        self.assertEqual((there / "model").read_bytes(), model)

    def test_a_transfer_out_that_breaks_is_continued(self):
        model = self.content("model", 3_000_000)
        process = self.start_step({"out": {"uses": "stage-out", "with": {
            "from": str(self.folder / "model"), "to": self.url("archive"), "bandwidth": 400_000}}},
            env=self.server.counting())
        archive = self.remote / "archive"
        self.wait_for(lambda: sum(f.stat().st_size for f in archive.rglob("*") if f.is_file()) > 400_000,
                      seconds=60, what="a part of the file")
        for pid in self.server.sessions():  # the remote rsync detects the end and keeps its partial file
            os.kill(pid, signal.SIGKILL)
        self.assertFalse((archive / "model").exists())
        self.finish(process)
        self.assertEqual((archive / "model").read_bytes(), model)
        self.assertEqual([file.name for file in archive.rglob("*")], ["model"])
        *_, (sent, _), _verifying = self.server.transferred()
        self.assertTrue(500_000 < sent < 2_800_000, sent)


class Rclone(Staging):
    def setUp(self):
        super().setUp()
        self.needs("rclone")
        self.remote = self.folder / "remote"
        self.remote.mkdir()
        (self.folder / "rclone.conf").write_text(f"[disk]\ntype = alias\nremote = {self.remote}\n")
        self.env["RCLONE_CONFIG"] = str(self.folder / "rclone.conf")

    def test_files_folders_and_patterns(self):
        x = self.content("remote/x", 10_000)
        self.write("remote/set/inner/y", "Y")
        self.write("remote/set/z.txt", "Z")
        data = self.stage({"url": "rclone://disk/x", "sha256": sha256(x)}, {"url": "rclone://disk/set/"},
                          {"url": "rclone://disk/set/*.txt"})
        self.assertEqual((data / "x").read_bytes(), x)
        self.assertEqual((data / "set/inner/y").read_text(), "Y")
        self.assertEqual((data / "z.txt").read_text(), "Z")
        for url, message in (("rclone://disk/none", "not found"), ("rclone://disk/set", "add a / at the end"),
                             ("rclone://other/x", "rclone listremotes")):
            self.stage({"url": url}, status=1)
            self.assertIn(message, self.reason())

    def test_a_download_that_was_killed_is_continued(self):
        data = self.content("remote/x", 2_000_000)
        step = {"data": {"uses": "stage", "with": {
            "sources": [{"url": "rclone://disk/x"}], "bandwidth": 250_000}}}
        process = self.start_step(step)
        self.wait_for(lambda: self.partial_bytes() > 250_000, seconds=60, what="a part of the download")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        kept = self.partial_bytes()
        self.assertGreater(kept, 250_000)
        run = self.dlflow("status", "--quick", "--quiet")[0].split()[0]
        folder = self.folder / "dlflow-runs" / run / "steps/data"
        before = len(self.progress(folder))
        self.dlflow("run", "--resume", run, timeout=120)
        self.assertEqual((folder / "outputs/data/x").read_bytes(), data)
        self.assertGreaterEqual(self.progress(folder)[before]["bytes"], kept)

    def progress(self, folder):
        """The lines of all attempts' metrics, in order."""
        return [json.loads(line) for file in sorted(folder.glob("attempt-*/metrics.jsonl"))
                for line in file.read_text().splitlines()]

    def test_results_are_sent_once_and_verified(self):
        model = self.content("model", 100_000)
        for expected in (1, 0):
            self.send(self.folder / "model", "rclone://disk/archive/")
            self.assertEqual(self.summary()["sent"], expected)
        self.assertEqual((self.remote / "archive/model").read_bytes(), model)
        (self.remote / "archive/model").write_bytes(bytes(len(model)))
        self.send(self.folder / "model", "rclone://disk/archive/")
        self.assertEqual((self.remote / "archive/model").read_bytes(), model)
        self.assertEqual([file.name for file in (self.remote / "archive").iterdir()], ["model"])


    def test_other_bytes_of_the_same_size_and_time_are_staged(self):
        """Such as after a copy that keeps times, or after two saves within one second of the server's clock."""
        for content in ("one", "two"):
            os.utime(self.write("remote/x", content), (1_000_000_000, 1_000_000_000))
            self.assertEqual((self.stage({"url": "rclone://disk/x"}) / "x").read_text(), content)


class Bucket(http.server.BaseHTTPRequestHandler):
    """The part of S3 that rclone uses: lists, heads, reads and writes of objects, path by path."""

    protocol_version = "HTTP/1.1"
    objects = {}

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def key(self):
        return urllib.parse.unquote(urllib.parse.urlsplit(self.path).path).partition("/bucket")[2].lstrip("/")

    def do_GET(self):
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        if not self.key():
            prefix = query.get("prefix", [""])[0]
            return self.answer(200, ("<ListBucketResult><IsTruncated>false</IsTruncated>" + "".join(
                f"<Contents><Key>{name}</Key><Size>{len(content)}</Size><ETag>&quot;{hashlib.md5(content).hexdigest()}&quot;</ETag>"
                "<LastModified>2026-01-02T03:04:05.000Z</LastModified></Contents>" for name, content in sorted(self.objects.items())
                if name.startswith(prefix)) + "</ListBucketResult>").encode(), Content_Type="application/xml")
        content = self.objects.get(self.key())
        if "s3cret" in str(self.headers) or "Credential=key-of-mine" not in self.headers.get("Authorization", "") + self.path:
            return self.answer(403, b"<Error><Code>AccessDenied</Code></Error>")
        if content is None:
            return self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        begin = int(self.headers.get("Range", "bytes=0-")[6:].partition("-")[0])
        self.answer(206 if begin else 200, content[begin:], ETag=f'"{hashlib.md5(content).hexdigest()}"',
                    Last_Modified="Fri, 02 Jan 2026 03:04:05 GMT", **({"Content_Range": f"bytes {begin}-{len(content) - 1}/{len(content)}"} if begin else {}))

    do_HEAD = do_GET

    def do_PUT(self):
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.key():
            self.objects[self.key()] = content
        self.answer(200, ETag=f'"{hashlib.md5(content).hexdigest()}"')

    def log_message(self, *_):
        pass


class ObjectStore(Staging):
    """Uses s3:// without settings of rclone, as most users do. gs:// differs only in the address (address_test.cpp)."""

    def setUp(self):
        super().setUp()
        self.needs("rclone")
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
        Bucket.objects = {"set/x": b"X" * 1000, "set/inner/y": b"Y", "other": b"O"}
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)
        self.env.pop("AWS_CA_BUNDLE", None)
        self.write("store.yaml", f"environment: {{AWS_ENDPOINT_URL: 'http://127.0.0.1:{server.server_port}', AWS_REGION: us-east-1}}\n")
        self.env.update(AWS_ACCESS_KEY_ID="key-of-mine", AWS_SECRET_ACCESS_KEY="s3cret-of-mine")

    def run_step(self, steps, status, env):
        (name, step), = steps.items()
        step["secrets"] = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]
        (self.folder / "w.yaml").write_text(json.dumps({"name": "w", "steps": steps}))
        run = self.run_json("w.yaml", "--force", name, "--profile", "./store.yaml", status=status, timeout=120)["run"]
        self.attempt = self.folder / "dlflow-runs" / run / "steps" / name / "attempt-1"
        return self.attempt

    def test_files_folders_and_patterns(self):
        data = self.stage({"url": "s3://bucket/set/x", "sha256": sha256(b"X" * 1000)}, {"url": "s3://bucket/set/"}, {"url": "s3://bucket/oth*"})
        self.assertEqual({str(file.relative_to(data)): file.read_bytes() for file in data.rglob("*") if file.is_file()},
                         {"x": b"X" * 1000, "set/x": b"X" * 1000, "set/inner/y": b"Y", "other": b"O"})

    def test_other_bytes_of_the_same_size_and_time_are_staged(self):
        for content in (b"one", b"two"):
            Bucket.objects["x"] = content
            self.assertEqual((self.stage({"url": "s3://bucket/x"}) / "x").read_bytes(), content)

    def test_results_are_sent_once(self):
        model = self.content("model", 100_000)
        for expected in (1, 0):
            self.send(self.folder / "model", "s3://bucket/archive/")
            self.assertEqual(self.summary()["sent"], expected)
        self.assertEqual(Bucket.objects["archive/model"], model)

    def test_a_failure_is_reported_with_its_cause_instead_of_missing_settings(self):
        self.stage({"url": "s3://bucket/none"}, status=1)
        self.assertRegex(self.reason(), "^error: s3://bucket/none: there is no such file; if it is a folder, add a / at the end")
        self.stage({"url": "rclone://nowhere/x"}, status=1)
        self.assertRegex(self.reason(), "^error: .*rclone://nowhere/x.*didn't find section.*`rclone listremotes`")
        self.assertNotIn("NOTICE", self.reason())


class Git(Staging):
    def setUp(self):
        super().setUp()
        self.needs("git")
        self.repository = self.folder / "code"
        self.env.update(GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_NOSYSTEM="1")

    def git(self, *arguments):
        command = ["git", "-C", self.repository, "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=self.env).stdout.strip()

    def commit(self):
        self.write("code/sub/a.txt", "$Id$\r\n")
        self.write("code/.gitattributes", "*.txt ident text eol=lf export-ignore\n")
        self.write("code/run", "#!").chmod(0o755)
        self.git("init", "--quiet")
        self.git("add", ".")
        self.git("commit", "--quiet", "-m", "first")
        first = self.git("rev-parse", "HEAD")
        self.write("code/run", "later")
        self.git("commit", "--quiet", "-a", "-m", "second")
        return first

    def test_only_the_files_of_one_commit_are_staged(self):
        first = self.commit()
        data = self.stage({"url": f"git+file://{self.repository}", "commit": first})
        self.assertEqual(sorted(p.name for p in (data / "code").rglob("*")), [".gitattributes", "a.txt", "run", "sub"])
        self.assertEqual((data / "code/run").read_text(), "#!")
        self.assertTrue(os.access(data / "code/run", os.X_OK))
        blob = subprocess.run(["git", "-C", self.repository, "show", f"{first}:sub/a.txt"], capture_output=True).stdout
        self.assertEqual((data / "code/sub/a.txt").read_bytes(), blob)
        self.repository.rename(self.folder / "gone")
        self.stage({"url": f"git+file://{self.repository}", "commit": first})  # from the cache

    def test_mistakes_are_reported_with_advice(self):
        first = self.commit()
        url = f"git+file://{self.repository}"
        for source, message in (({"url": url, "commit": "0" * 40}, "has no commit 000"),
                                ({"url": url + "x", "commit": first}, "does not appear to be a git")):
            self.stage(source, status=1)
            self.assertIn(message, self.reason())
        self.write("w.yaml", f"steps: {{d: {{uses: stage, with: {{sources: [{{url: '{url}'}}]}}}}}}\n")
        self.assertIn("w.yaml:1:", self.dlflow("validate", "w.yaml", status=2)[1])
        for file in (self.repository / ".git/objects").glob("??/*"):  # its hash no longer fits
            file.chmod(0o600)
            file.write_bytes(file.read_bytes()[::-1])
        self.stage({"url": url, "commit": first}, status=1)
        self.assertIn("corrupt", self.reason())

    def test_files_are_staged_over_ssh(self):
        self.needs("sshd", "ssh")
        server = servers.Sshd(self.folder / "sshd")
        self.addCleanup(server.kill)
        self.env.update(server.environment)
        first = self.commit()
        data = self.stage({"url": "git+" + server.url(str(self.repository)), "commit": first, "name": "x"})
        self.assertEqual((data / "x/run").read_text(), "#!")


class Local(Staging):
    def test_the_permission_to_run_a_file_counts_for_its_readers_even_if_its_content_is_pinned(self):
        tool = self.write("tool", "#!/bin/sh\necho ran\n")
        for keys in ({}, {"sha256": sha256(tool.read_bytes())}):
            steps = {"get": {"uses": "stage", "with": {"sources": [{"url": f"file://{tool}", **keys}]}},
                     "use": {"run": ["sh", "-c", 'if [ -x "$0" ]; then echo yes; else echo no; fi > may',
                                     "${{ steps.get.outputs.path }}/tool"], "outputs": {"may": "may"}}}
            (self.folder / "w.yaml").write_text(json.dumps({"name": "w", "steps": steps}))
            for mode, says in ((0o644, "no"), (0o755, "yes"), (0o755, "yes")):
                tool.chmod(mode)
                for options in ((), ("--no-cache",)):
                    steps_of = self.status(self.run_json("w.yaml", *options)["run"])["steps"]
                    use, = (step["directory"] for step in steps_of if step["name"] == "use")
                    self.assertEqual(pathlib.Path(use, "outputs/may").read_text(), says + "\n")

    def test_a_tar_that_xz_bzip2_or_zstd_compressed_is_unpacked(self):
        self.write("a", "hello\n")
        for ending, option in (("xz", "--xz"), ("bz2", "--bzip2"), ("zst", "--zstd")):
            subprocess.run(["tar", option, "-cf", f"good.tar.{ending}", "a"], cwd=self.folder, check=True)
            out = self.stage({"url": f"file://{self.folder}/good.tar.{ending}", "unpack": "tar"})
            self.assertEqual((out / "good/a").read_text(), "hello\n")

    def test_a_name_in_an_archive_cannot_control_a_terminal(self):
        with tarfile.open(self.folder / "bad.tar", "w") as archive:
            archive.addfile(tarfile.TarInfo("../\x1b]0;owned\x07"))
        self.stage({"url": f"file://{self.folder}/bad.tar", "unpack": "tar"}, status=1)
        self.assertIn("entry '../\\u001b]0;owned\\u0007' leads out of the archive's folder", self.reason())

    def test_names_with_line_ends_are_written_to_manifests_and_read_back(self):
        names = ("a\nb.txt", "c\\d", "plain")
        for name in names:
            self.content(f"set/{name}", 9)
        sums = subprocess.run("find . -type f -print0 | xargs -0 sha256sum", shell=True, cwd=self.folder / "set", check=True, capture_output=True)
        (self.folder / "sums").write_bytes(sums.stdout)
        out = self.stage({"url": f"file://{self.folder}/set/", "manifest": "sums"})
        self.assertEqual({path.name for path in (out / "set").iterdir()}, set(names))
        # sha256sum and a stage step can read the output of stage-out.
        attempt = self.send(self.folder / "set", f"file://{self.folder}/there/")
        sums = next((attempt / "pass-1/outputs").glob("SHA256SUMS"))
        checked = subprocess.run(["sha256sum", "-c", sums], cwd=self.folder / "there", capture_output=True, text=True)
        self.assertEqual(checked.returncode, 0, checked.stderr)
        (self.folder / "sums").write_bytes(sums.read_bytes())
        out = self.stage({"url": f"file://{self.folder}/there/", "manifest": "sums"})
        self.assertEqual({path.name for path in (out / "there/set").iterdir()}, set(names))

    def test_a_run_follows_the_files_of_a_folder_except_those_that_a_manifest_pins(self):
        self.write("set/a b", "A")
        self.write("sums", f"{sha256(b'A')}  a b\n")
        for time_, keys, again in ((1, {}, "succeeded"), (2, {"manifest": "sums"}, "cached")):
            step = {"uses": "stage", "with": {"sources": [{"url": f"file://{self.folder}/set/", **keys}]}}
            (self.folder / "w.yaml").write_text(json.dumps({"name": "w", "steps": {"data": step}}))
            for state in ("succeeded", "cached"):
                self.assertEqual(self.states(self.run_json("w.yaml")["run"]), {"data": state})
            os.utime(self.folder / "set/a b", (time_, time_))
            self.assertEqual(self.states(self.run_json("w.yaml")["run"]), {"data": again})


if __name__ == "__main__":
    main()
