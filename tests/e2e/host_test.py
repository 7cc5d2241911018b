"""`--host user@login`: verbs on a login node from another machine, over a real sshd on loopback that the test starts."""

import getpass
import json
import os
import pathlib
import shutil
import subprocess
import unittest

import servers
from support import Case, main

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


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
            exec env -i HOME={self.there} PATH={os.environ['PATH']} LANG=C.UTF-8 sh -c "$SSH_ORIGINAL_COMMAND"
            """)
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
        return sorted(file.name.split("-")[0] for file in (self.there / ".cache/dlflow/host").iterdir())

    def run_there(self, *words, status=0):
        out, _ = self.dlflow("run", "w.yaml", "--host", "login", "--json", *words, status=status)
        return json.loads(out.splitlines()[-1])["run"]

    def test_a_workflow_runs_on_a_host_that_has_only_the_program(self):
        run = self.run_there()
        self.assertTrue((self.there / "dlflow-runs" / run / "plan.json").exists())
        self.assertFalse((self.folder / "dlflow-runs").exists())
        self.assertEqual(self.sent(), ["dlflow", "w"])
        self.assertEqual(self.dlflow("status", "--quick", "--quiet")[0], "")
        self.assertIn(f"here is {self.there}"[:7], self.dlflow("logs", run, "a", "--host", "login")[0])
        self.assertIn(run, self.dlflow("status", "--host=login")[0])
        self.assertEqual(json.loads(self.dlflow("status", run, "--host", "login", "--json")[0])["state"], "succeeded")

    def test_the_status_of_a_remote_run_is_that_of_the_local_verb(self):
        run = self.run_there("--set", "code=3", status=1)
        self.assertIn("exit 3", self.dlflow("status", run, "--host", "login")[0])
        self.dlflow("resubmit", run, "--host", "login", status=1)
        self.assertIn("has no option --nope", self.dlflow("status", "--nope", "--host", "login", status=2)[1])

    def test_the_program_and_the_workflow_are_sent_once(self):
        self.run_there()
        before = {file.name: file.stat().st_mtime_ns for file in (self.there / ".cache/dlflow/host").iterdir()}
        self.run_there()
        self.assertEqual({file.name: file.stat().st_mtime_ns for file in (self.there / ".cache/dlflow/host").iterdir()}, before)

    def test_a_truncated_copy_is_not_taken_for_the_file(self):
        (self.folder / "cut").touch()
        _, err = self.dlflow("run", "w.yaml", "--host", "login", status=3)
        self.assertIn("was incomplete and has been removed there; try again", err)
        folder = self.there / ".cache/dlflow/host"
        self.assertEqual(list(folder.iterdir()), [])
        (self.folder / "cut").unlink()
        self.run_there()
        for file in folder.iterdir():  # the state that an older dlflow may have left
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
        self.assertIn("here is there", self.dlflow("logs", run, "a", "--host", "login")[0])

    def test_a_local_profile_may_extend_one_that_exists_only_on_the_host(self):
        there = self.there / ".config/dlflow/profiles"
        there.mkdir(parents=True)
        (there / "site.yaml").write_text("environment: {WHERE: at the site}\n")
        self.write("cluster-profiles/mine.yaml", "extends: site\ncores: 1\n")
        run = self.run_there("--profile", "mine")
        self.assertIn("here is at the site", self.dlflow("logs", run, "a", "--host", "login")[0])

    def test_every_value_passes_another_login_shell_unchanged(self):
        ssh = self.folder / "bin/ssh"
        ssh.write_text(ssh.read_text().replace("ssh() {", f'for last; do :; done; printf "%s\\n--\\n" "$last" >> {self.folder}/sent\nssh() {{', 1))
        self.write("w.yaml", """\
            name: w
            params: {msg: hi}
            steps: {say: {run: 'printf %s "$DLFLOW_PARAM_MSG" > said', outputs: {said: said}}}
            """)
        value = "it's \\0101 and hi!there\nnext $HOME `x` ü"
        self.dlflow("run", "w.yaml", "--host", "login", "--set", f"msg={json.dumps(value)}")
        said, = self.folder.rglob("steps/say/outputs/said")
        self.assertEqual(said.read_text(), value)
        for sent in (self.folder / "sent").read_text().split("\n--\n"):
            self.assertNotIn("!", sent)  # csh expands it from its history, even in quotes
            self.assertNotIn("\n", sent)
            self.assertIn(sent.count("'"), (0, 4))

    def test_an_unreachable_host_is_named(self):
        _, err = self.dlflow("status", "--host", "nowhere.invalid", status=3)
        self.assertIn("ssh cannot reach nowhere.invalid; try `ssh nowhere.invalid true` first", err)

    def test_an_invalid_host_reaches_no_ssh(self):
        (self.folder / "calls").write_text("")
        for host in ("-oProxyCommand=touch owned", "", "a b"):
            self.assertIn("is not a name for ssh", self.dlflow("status", f"--host={host}", status=2)[1])
        self.assertIn("--host is for run, status, logs and resubmit", self.dlflow("rm", "--host", "login", status=2)[1])
        self.assertEqual((self.folder / "calls").read_text(), "")


if __name__ == "__main__":
    main()
