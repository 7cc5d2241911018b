"""`--host user@login`: verbs on a login node from another machine, over a real sshd on loopback that the test starts."""

import getpass
import hashlib
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import unittest

import servers
from support import BIN, Case, main

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
# Login shells, and the file that each reads before a command of ssh.
SHELLS = {"bash": ".bashrc", "tcsh": ".cshrc", "zsh": ".zshenv", "sh": ".profile"}


@unittest.skipUnless(SSHD and shutil.which("ssh") and shutil.which("ssh-keygen"), "openssh-server is not installed")
class Host(Case):
    def setUp(self):
        super().setUp()
        if os.geteuid() == 0:
            pathlib.Path("/run/sshd").mkdir(exist_ok=True)
        self.there = self.folder / "there"  # the home folder on the other machine
        self.there.mkdir()
        for key in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / f"{key}_key"], check=True)
        port = servers.free_port()
        shell = self.write("shell", f"""\
            #!/bin/sh
            cd {self.there}
            login=$(cat {self.folder}/login)
            exec env -i HOME={self.there} PATH={os.environ['PATH']} LANG=C.UTF-8 TERM=dumb SSH_CLIENT="$SSH_CLIENT" $login -c "$SSH_ORIGINAL_COMMAND"
            """)
        self.write("login", "sh")
        shell.chmod(0o755)
        key = (self.folder / "user_key.pub").read_text()
        self.write("authorized", f'command="{shell}" {key}')
        self.write("sshd_config", f"""\
            Port {port}
            ListenAddress 127.0.0.1
            HostKey {self.folder}/host_key
            AuthorizedKeysFile {self.folder}/authorized
            PidFile none
            StrictModes no
            UsePAM no
            """)
        self.sshd = subprocess.Popen([SSHD, "-D", "-e", "-f", self.folder / "sshd_config"], stderr=subprocess.DEVNULL)
        self.addCleanup(self.sshd.wait)
        self.addCleanup(self.sshd.terminate)
        self.write("ssh_config", f"""\
            Host login
            HostName 127.0.0.1
            Port {port}
            User {getpass.getuser()}
            IdentityFile {self.folder}/user_key
            IdentitiesOnly yes
            StrictHostKeyChecking no
            UserKnownHostsFile /dev/null
            LogLevel ERROR
            BatchMode yes
            """)
        ssh = self.write("bin/ssh", f"""\
            #!/bin/sh
            echo "$*" >> {self.folder}/calls
            ssh() {{ {shutil.which("ssh")} -F {self.folder}/ssh_config "$@"; }}
            case "$*" in *"cat >"*) if [ -e {self.folder}/cut ]; then head -c 100 | ssh "$@"; exit; fi ;; esac
            ssh "$@"
            """)
        ssh.chmod(0o755)
        self.env["PATH"] = f"{ssh.parent}:{self.env['PATH']}"
        self.wait_for(lambda: subprocess.run(["ssh", "-F", self.folder / "ssh_config", "login", "true"],
                                             stdin=subprocess.DEVNULL, capture_output=True).returncode == 0, what="sshd")
        self.write("say.sh", "echo here is $WHERE $(pwd)\n")
        self.write_steps("""
            a: {run: 'sh say.sh; exit $DLFLOW_PARAM_CODE', inputs: [say.sh]}
        """, "params: {code: 0}")

    def sent(self):
        return sorted(file.name for file in (self.there / ".cache/dlflow/host").glob("*/*"))

    def on_host(self, *words, status=0):
        return self.dlflow(*words[:1], "--host", "login", *words[1:], status=status)[0]

    def run_there(self, *words, status=0):
        return json.loads(self.on_host("run", "w.yaml", "--json", *words, status=status).splitlines()[-1])["run"]

    def test_a_workflow_runs_on_a_host_that_has_only_the_program(self):
        run = self.run_there()
        self.assertTrue((self.there / "dlflow-runs" / run / "plan.json").exists())
        self.assertFalse((self.folder / "dlflow-runs").exists())
        self.assertEqual(self.sent(), ["dlflow", "w.dlflow"])
        self.assertEqual(self.dlflow("status", "--quick", "--quiet")[0], "")
        self.assertIn(f"here is {self.there}"[:7], self.dlflow("logs", run, "a", "--host", "login")[0])
        self.assertIn(run, self.dlflow("status", "--host=login")[0])
        self.assertEqual(json.loads(self.dlflow("status", run, "--host", "login", "--json")[0])["state"], "succeeded")
        self.assertIn("note: without --profile the steps run on login itself\n", self.dlflow("run", "w.yaml", "--host", "login")[1])

    def test_the_status_of_a_remote_run_is_that_of_the_local_verb(self):
        run = self.run_there("--set", "code=3", status=1)
        self.assertIn("exit 3", self.dlflow("status", run, "--host", "login")[0])
        self.dlflow("resubmit", run, "--host", "login", status=1)
        self.assertIn("has no option --nope", self.dlflow("status", "--nope", "--host", "login", status=2)[1])

    def test_a_host_of_the_environment_makes_printed_commands_work_here(self):
        run = self.run_there("--set", "code=3", status=1)
        hint = "note: commands in this output need --host login; `export DLFLOW_HOST=login` adds it\n"
        self.assertIn(hint, self.dlflow("status", run, "--host", "login")[1])
        for words in (["--quiet"], ["--json"]):
            self.assertNotIn("note:", self.dlflow("status", run, "--host", "login", *words)[1])
        self.env["DLFLOW_HOST"] = "login"
        out, err = self.dlflow("status", run)
        self.assertNotIn("note:", err)
        self.assertIn(f"dlflow logs {run} a", out)
        self.assertIn("here is", self.dlflow("logs", run, "a")[0])
        self.dlflow("init", "say.sh", "-o", "made.yaml")
        self.assertTrue((self.folder / "made.yaml").exists())
        self.env["DLFLOW_HOST"] = "-oProxyCommand=touch owned"
        self.assertIn("DLFLOW_HOST: '-oProxyCommand=touch owned' is not a name for ssh", self.dlflow("status", status=2)[1])

    def test_the_program_and_the_workflow_are_sent_once(self):
        self.run_there()
        times = lambda: [file.stat().st_mtime_ns for file in (self.there / ".cache/dlflow/host").rglob("*")]  # noqa: E731
        before = times()
        self.run_there()
        self.assertEqual(times(), before)

    def test_a_truncated_copy_is_not_taken_for_the_file(self):
        (self.folder / "cut").touch()
        _, err = self.dlflow("run", "w.yaml", "--host", "login", status=3)
        self.assertIn("was incomplete and has been removed there; try again", err)
        folder = self.there / ".cache/dlflow/host"
        self.assertEqual(self.sent(), [])
        (self.folder / "cut").unlink()
        self.run_there()
        for file in folder.glob("*/*"):  # the state that an older dlflow may have left
            file.write_bytes(file.read_bytes()[:100])
        self.run_there()

    def test_files_that_only_set_parameters_name_are_sent(self):
        self.write("other.sh", "echo the other\n")
        self.write("set.yaml", """
            name: set
            params: {script: say.sh}
            steps:
              a: {run: ['sh', '${{ params.script }}'], inputs: ['${{ params.script }}']}
        """)
        for words in (("--set", "script=other.sh"), ("--set=script=other.sh",)):
            out, _ = self.dlflow("run", "set.yaml", "--host", "login", "--json", "--no-cache", *words)
            run = json.loads(out.splitlines()[-1])["run"]
            self.assertIn("the other", self.dlflow("logs", run, "a", "--host", "login")[0])

    def test_a_local_profile_file_is_sent(self):
        self.write("cluster-profiles/mine.yaml", "environment: {WHERE: there}\n")
        run = self.run_there("--profile", "mine")
        self.assertEqual(json.loads(self.on_host("status", run, "--json"))["profile"], "mine")
        self.assertIn("here is there", self.dlflow("logs", run, "a", "--host", "login")[0])

    def test_a_local_profile_may_extend_one_that_exists_only_on_the_host(self):
        there = self.there / ".config/dlflow/profiles"
        there.mkdir(parents=True)
        (there / "site.yaml").write_text("environment: {WHERE: at the site}\n")
        self.write("cluster-profiles/mine.yaml", "extends: site\ncores: 1\n")
        run = self.run_there("--profile", "mine")
        self.assertIn("here is at the site", self.dlflow("logs", run, "a", "--host", "login")[0])

    def test_every_value_passes_every_login_shell_and_its_banner(self):
        self.write("-w.yaml", """\
            name: w
            params: {msg: hi}
            steps: {say: {run: 'printf %s "$DLFLOW_PARAM_MSG" > said', outputs: {said: said}}}
            """)
        value = "it's \\0101 and hi!there\nnext $HOME `x` ü" + 2000 * "long!"
        for shell, start_up in SHELLS.items():
            with self.subTest(shell=shell):
                self.assertTrue(shutil.which(shell), "see test_packages in ./dev")
                self.write("login", shell)
                (self.there / start_up).write_text("echo 'Welcome!'\n")
                answer = json.loads(self.on_host("run", "--json", "--no-cache", "--set", f"msg={json.dumps(value)}", "--", "-w.yaml"))
                said, = self.there.glob(f"dlflow-runs/{answer['run']}/steps/say/outputs/said")
                self.assertEqual(said.read_text(), value)
                self.assertEqual(json.loads(self.on_host("status", answer["run"], "--json"))["state"], "succeeded")
                self.assertNotIn("Welcome", self.on_host("logs", answer["run"]))

    def test_other_verbs_answer_as_they_do_there(self):
        self.write_steps("""
            a: {run: 'echo "{\\"loss\\": 0.5}" > $DLFLOW_SUMMARY; sh say.sh; exit $DLFLOW_PARAM_CODE', inputs: [say.sh]}
        """, "params: {code: 0}")
        run = self.run_there()
        self.assertIn("0.5", self.on_host("results", run))
        self.assertIn("1 job", self.on_host("run", "w.yaml", "--dry-run", "--set", "code=7"))
        self.assertEqual(json.loads(self.on_host("validate", "w.yaml", "--json"))["workflow"], "w")
        self.assertIn("a", self.on_host("graph", "w.yaml"))
        self.assertIn(run, self.on_host("doctor", "--rebuild"))
        self.on_host("cancel", run)
        self.assertIn("report.html is written, from login", self.on_host("report", run, "-o", "report.html"))
        self.assertIn(run, (self.folder / "report.html").read_text())
        self.on_host("pack", "--from-run", run, "-o", "w.dlflow")
        self.assertIn(run, self.dlflow("unpack", "--list", "w.dlflow")[0])
        self.on_host("unpack", "w.dlflow")
        self.assertTrue((self.there / "w").is_dir())
        self.on_host("rm", run)
        self.assertFalse((self.there / "dlflow-runs" / run).exists())
        self.assertIn("no run", self.dlflow("report", run, "-o", "gone.html", "--host", "login", status=2)[1])
        self.assertFalse((self.folder / "gone.html").exists())

    def test_a_shell_there_reads_a_pipe_or_the_terminal(self):
        run = self.run_there()
        shutil.rmtree(self.there / ".cache/dlflow/host")  # the program must come before the input
        words = [str(BIN / "dlflow"), "shell", "--quiet", run, "a", "--host", "login"]

        def answer(words, text, status):
            done = subprocess.run(words, input=text, cwd=self.folder, env=self.env, text=True, capture_output=True, timeout=60)
            self.assertEqual(done.returncode, status, done)
            return done.stdout

        self.assertRegex(answer(words, "pwd; cat say.sh; exit 97\n", 97), rf"^{self.there}/.*\necho here is")
        on_terminal = ["script", "-qec", shlex.join(words), "/dev/null"]
        self.assertIn("on a 2-way terminal", answer(on_terminal, "test -t 0 && echo on a $((1 + 1))-way terminal; exit 5\n", 5))

    def test_local_data_is_named_or_sent(self):
        digest = hashlib.sha256(self.write("x.txt", "of here\n").read_bytes()).hexdigest()
        self.write_steps(f"""
            get: {{uses: stage, with: {{sources: [{{url: 'file://{self.folder}/x.txt', sha256: {digest}}}]}}}}
            see: {{needs: get, run: [echo], inputs: [{{path: {self.folder}/say.sh}}]}}
        """)
        _, err = self.dlflow("run", "w.yaml", "--host", "login")
        self.assertIn("x.txt is not sent, and must be on login; --send sends it, or a `stage` step copies it from a server", err)
        self.assertIn("say.sh is not sent, and must be on login; --send sends what is beside the workflow", err)
        _, err = self.dlflow("run", "w.yaml", "--host", "login", "--send")
        self.assertNotIn("x.txt is not sent", err)
        self.assertIn(digest, "".join(map(str, self.there.rglob("bundles/*/data/*"))))
        self.assertIn("--send needs --host", self.dlflow("run", "w.yaml", "--send", status=2)[1])

    def test_an_unreachable_host_is_named(self):
        _, err = self.dlflow("status", "--host", "nowhere.invalid", status=3)
        self.assertIn("ssh cannot reach nowhere.invalid; try `ssh nowhere.invalid true` first", err)
        self.write("login", "echo This account is closed. #")
        _, err = self.dlflow("status", "--host", "login", status=3)
        self.assertIn("login runs no commands for ssh; try `ssh login true` first. It answered: This account is closed.", err)

    def test_an_invalid_host_reaches_no_ssh(self):
        (self.folder / "calls").write_text("")
        for host in ("-oProxyCommand=touch owned", "", "a b"):
            self.assertIn("is not a name for ssh", self.dlflow("status", "--host", host, status=2)[1])
        self.assertIn("--host is not for `dlflow init`: it reads and writes files here", self.dlflow("init", "say.sh", "--host", "login", status=2)[1])
        self.assertIn("with --host, `dlflow report` needs -o FILE", self.dlflow("report", "--host", "login", status=2)[1])
        self.assertEqual((self.folder / "calls").read_text(), "")


if __name__ == "__main__":
    main()
