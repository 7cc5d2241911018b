"""`notify:`: the end of a run is sent by mail, by a program and to a webhook, here and on a fake cluster."""

import email
import email.header
import email.policy
import http.server
import json
import os
import shutil
import socketserver
import subprocess
import threading
import unittest

from slurm_support import ChainCase
from support import main


SENDMAIL = any(os.path.exists(f"{folder}/sendmail") for folder in ("/usr/sbin", "/usr/lib"))


def is_of_mailutils(program):
    return os.path.exists(program) and "Mailutils" in subprocess.run([program, "--version"], capture_output=True, text=True).stdout


class Server:
    """Serves on loopback until it is stopped."""

    def serve(self, server):
        self.server = server
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def stop(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class Listener(Server):
    """A web server that keeps what is posted to it."""

    def __init__(self):
        posts = self.posts = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                posts.append((self.path, self.headers["Content-Type"], json.loads(body)))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.serve(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler))

    def address(self):
        return f"http://127.0.0.1:{self.server.server_port}/hook-c0ffee"


class MailServer(Server):
    """An SMTP server on loopback that keeps the mails it is given."""

    def __init__(self):
        mails, texts = self.mails, self.texts = [], []

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                self.answer("220 ready")
                while line := self.rfile.readline():
                    verb = line[:4].upper().strip()
                    if verb == b"DATA":
                        self.answer("354 go on")
                        text = b"".join(iter(self.rfile.readline, b".\r\n"))
                        texts.append(text)
                        mails.append(email.message_from_bytes(text, policy=email.policy.default))
                    self.answer("221 bye" if verb == b"QUIT" else "250 ok")

            def answer(self, line):
                self.wfile.write(line.encode() + b"\r\n")

        self.serve(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler))


class Notify(ChainCase):
    def setUp(self):
        super().setUp()
        self.listener = Listener()
        self.addCleanup(self.listener.stop)
        mail = self.write("tools/sendmail", f"""\
            #!/bin/sh
            {{ echo "to $2"; cat; }} >> {self.folder}/mails
            """)
        mail.chmod(0o755)
        self.env["PATH"] = f"{mail.parent}:{self.env['PATH']}"

    def steps(self, notify, script="true", more=""):
        self.write("w.yaml", f"""
            name: w
            notify: {{{notify}}}
            steps:
              first: {{run: {json.dumps(script)}}}
              last: {{run: 'true', needs: [first]{more}}}
        """)

    def logs(self, pattern="*w-*"):
        return [log for log in self.folder.glob(f"*runs/{pattern}/notified/*.log")]

    def told(self, count=1):
        """What the logs say once there are as many; on a cluster nodes write them."""
        self.wait_for(lambda: len(self.logs()) == count, what=f"{count} logs")
        return {log.name: log.read_text().splitlines() for log in self.logs()}

    def test_the_end_is_sent_by_mail_by_a_program_and_to_a_webhook(self):
        self.env["HOOK"] = self.listener.address()
        self.steps(f'mail: ann@example.org, webhook: HOOK, command: [sh, -c, \'echo "$DLFLOW_MESSAGE" > {self.folder}/said\']')
        run = self.run_json("w.yaml")["run"]
        self.assertEqual(self.told(), {"end-2.log": ["told: sh", "told: mail to ann@example.org", "told: webhook HOOK"]})
        self.assertEqual((self.folder / "said").read_text(), f"{run} succeeded\n")
        mail = (self.folder / "mails").read_text()
        self.assertIn(f"to ann@example.org\nTo: ann@example.org\nSubject: dlflow: {run} succeeded\n", mail)
        self.assertIn(f"dlflow status {run}", mail)
        (path, kind, news), = self.listener.posts
        self.assertEqual((path, kind), ("/hook-c0ffee", "application/json"))
        self.assertEqual(news, {"text": f"{run} succeeded", "event": "end", "run": run, "state": "succeeded", "job": "", "reason": ""})
        for file in (self.folder / "dlflow-runs" / run).rglob("*"):
            if file.is_file() and file.stat().st_size < 1e6:
                self.assertNotIn(b"c0ffee", file.read_bytes(), file)
        self.dlflow("run", "--resume", run)
        self.assertEqual(len(self.listener.posts), 1)

    def mails_arrive_by(self, name, program):
        """`program` speaks to a real mail server, and is the only one that a job finds, as `name`."""
        server = MailServer()
        self.addCleanup(server.stop)
        port = server.server.server_address[1]
        programs = self.folder / "programs"
        programs.mkdir()
        (programs / name).symlink_to(program)
        self.env["PATH"] = str(programs)
        self.write("home/.msmtprc", f"""\
            account default
            host 127.0.0.1
            port {port}
            from dlflow@example.org
            """).chmod(0o600)
        self.write("home/.mailrc", f'set sendmail="smtp://127.0.0.1:{port}"\n')
        self.steps("mail: [ann@example.org, bob@example.org]", "echo 'error: no data für β' >&2; exit 3")
        run = self.run_json("w.yaml", status=1)["run"]
        self.assertEqual(self.told(), {"end-1.log": ["told: mail to ann@example.org", "told: mail to bob@example.org"]})
        self.assertEqual(sorted(mail["To"] for mail in server.mails), ["ann@example.org", "bob@example.org"])
        for text in server.texts:
            self.assertTrue(text.split(b"\r\n\r\n")[0].isascii(), text)  # RFC 2047
        for mail in server.mails:
            self.assertEqual(mail["Subject"], f"dlflow: {run} failed: first failed, exit 3: error: no data für β")
            self.assertIn("no data für β", mail.get_content())
            self.assertIn(f"dlflow status {run}", mail.get_content())

    @unittest.skipUnless(shutil.which("msmtp"), "msmtp is not installed")
    def test_a_mail_that_sendmail_sends_arrives_as_it_was_written(self):
        self.mails_arrive_by("sendmail", shutil.which("msmtp"))

    @unittest.skipIf(SENDMAIL, "this machine has a sendmail, which is asked first")
    @unittest.skipUnless(is_of_mailutils("/usr/bin/mail"), "GNU Mailutils is not installed")
    def test_a_mail_that_mail_sends_arrives_as_it_was_written(self):
        self.mails_arrive_by("mail", "/usr/bin/mail")

    @unittest.skipIf(SENDMAIL, "this machine has a sendmail, which is asked first")
    def test_other_mail_programs_get_no_header_that_they_would_take_for_a_file(self):
        (self.folder / "tools/sendmail").unlink()
        mailx = self.write("tools/mailx", f"""\
            #!/bin/sh
            printf '%s\\n' "$LC_ALL" "$@" >> {self.folder}/words
            """)
        mailx.chmod(0o755)
        if shutil.which("mail"):  # only the other programs that are needed
            (mailx.parent / "sh").symlink_to(shutil.which("sh"))
            self.env["PATH"] = str(mailx.parent)
        self.steps("mail: ann", "echo 'error: für β' >&2; exit 3")
        run = self.run_json("w.yaml", status=1)["run"]
        self.assertEqual(self.told(), {"end-1.log": ["told: mail to ann"]})
        words = (self.folder / "words").read_text().splitlines()[-4:]
        self.assertEqual((words[0], words[1], words[3]), ("C.UTF-8", "-s", "ann"))
        self.assertTrue(words[2].isascii(), words[2])
        self.assertIn("für β", str(email.header.make_header(email.header.decode_header(words[2]))))

    def test_a_run_does_not_wait_for_its_notifier(self):
        self.steps(f"command: [sh, -c, 'until [ -e {self.folder}/go ]; do sleep 0.05; done']")
        self.run_json("w.yaml")  # its output also ends
        self.assertEqual(self.logs(), [])
        (self.folder / "go").touch()
        self.assertEqual(self.told(), {"end-2.log": ["told: sh"]})

    def test_a_failure_is_sent_with_its_reason_and_the_end_again_after_resubmit(self):
        self.steps("on: [failure, end], mail: ann", f"[ -e {self.folder}/good ] || {{ echo 'error: no data' >&2; exit 3; }}")
        out, _ = self.dlflow("run", "w.yaml", "--json", status=1)
        run = json.loads(out.splitlines()[-1])["run"]
        self.assertEqual(set(self.told(2)), {"failure-1.log", "end-1.log"})
        mail = (self.folder / "mails").read_text()
        self.assertIn(f"dlflow: {run}: first failed, exit 3: error: no data\n", mail)
        self.assertIn(f"dlflow: {run} failed: first failed, exit 3: error: no data\n", mail)
        (self.folder / "good").touch()
        self.dlflow("resubmit", run)
        self.assertIn("end-3.log", self.told(3))
        self.assertIn(f"dlflow: {run} succeeded\n", (self.folder / "mails").read_text())

    def test_a_job_that_is_requeued_without_progress_is_reported(self):
        self.write("w.yaml", """
            name: w
            notify: {on: [no-progress], mail: ann}
            steps:
              train: {run: exit 75, checkpoint: {}}
        """)
        self.dlflow("run", "w.yaml", status=1)
        self.assertEqual(self.told(), {"no-progress-1.log": ["told: mail to ann"]})
        self.assertIn("train is not requeued again: exit 75", (self.folder / "mails").read_text())

    def test_the_node_of_the_last_job_of_a_cluster_sends_the_end_once(self):
        self.env["HOOK"] = self.listener.address()
        self.write("w.yaml", """
            name: w
            notify: {webhook: HOOK}
            steps:
              first: {run: 'true'}
              sweep: {run: 'true', needs: [first], matrix: {n: [1, 2, 3, 4]}}
        """)
        run = self.submit()
        self.slurm.wait_until_idle()
        self.assertEqual(self.told(), {"end-5.log": ["told: webhook HOOK"]})
        self.assertEqual([news["text"] for _, _, news in self.listener.posts], [f"{run} succeeded"])
        self.assertEqual(self.status(run)["state"], "succeeded")
        self.assertFalse((self.folder / "runs" / run / "secrets").exists())

    def test_a_failure_on_a_cluster_ends_its_dependents(self):
        self.steps("on: [end, failure], mail: ann", "exit 3")
        run = self.submit()
        self.slurm.wait_until_idle()
        self.assertEqual(set(self.told(2)), {"failure-1.log", "end-2.log"})  # two jobs were submitted
        self.assertIn(f"dlflow: {run} failed: first failed, exit 3", (self.folder / "mails").read_text())

    def test_a_failed_notification_does_not_change_the_run(self):
        self.steps("command: [sh, -c, 'echo no network >&2; exit 1'], mail: ann")
        (self.folder / "tools/sendmail").write_text("#!/bin/sh\nexit 75\n")
        run = self.submit()
        self.slurm.wait_until_idle()
        self.assertEqual(self.told(), {"end-2.log": ["warning: sh: exit 1: no network", "warning: mail to ann: exit 75"]})
        self.assertEqual(self.status(run)["state"], "succeeded")

    def test_mistakes_are_reported_with_advice(self):
        for notify, said in [
                ("on: [end]", "w.yaml:3:9: error: notify has no recipient; add command:, mail: or webhook:"),
                ("webhook: HOOK", "w.yaml:3:9: error: notify.webhook is the secret HOOK, which has no value: `export HOOK=https://…` first"),
                ("mail: '-Xfile'", "is not a mail address"),
                ("webhook: 'https://example.org/x'", "is not the name of a secret"),
                ("on: [start], mail: ann", "start")]:
            self.steps(notify)
            self.assertIn(said, self.dlflow("run", "w.yaml", status=2)[1])
        self.steps("webhook: HOOK")
        self.env["HOOK"] = "file:///etc/passwd"
        self.assertIn("the secret HOOK of notify.webhook is not an address; it must begin with https://", self.dlflow("run", "w.yaml", status=2)[1])


if __name__ == "__main__":
    main()
