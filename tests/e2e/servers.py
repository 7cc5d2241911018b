"""Real servers on loopback, on free ports, that a test starts and ends by their process ids."""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from ports import free_port  # noqa: E402


def wait_until_it_listens(port, process):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with socket.socket() as sock:
            if sock.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert process.poll() is None, f"the server on port {port} ended"
        time.sleep(0.02)
    raise AssertionError(f"no server listens on port {port}")


def missing(*programs):
    """The programs of these that are not installed, as a reason to skip; "" if all are."""
    lacking = [name for name in programs if not shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")]
    return f"not installed: {', '.join(lacking)}" if lacking else ""


class Nginx:
    """Serves FOLDER/www, and slowly below /slow/."""

    def __init__(self, folder):
        self.folder, self.port = pathlib.Path(folder), free_port()
        (self.folder / "www").mkdir(parents=True)
        self.start()

    def start(self, rate="400k"):
        """`rate`: what /slow/ sends in a second; 0: as fast as it can."""
        temporary = "".join(f"{kind}_temp_path {self.folder}/t;" for kind in
                            ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (self.folder / "nginx.conf").write_text(f"""
            daemon off; master_process off; pid {self.folder}/pid; events {{}}
            http {{ {temporary} access_log {self.folder}/access.log;
              server {{ listen 127.0.0.1:{self.port}; root {self.folder}/www;
                location /slow/ {{ alias {self.folder}/www/; limit_rate {rate}; }} }} }}""")
        self.process = subprocess.Popen(
            [shutil.which("nginx", path="/usr/sbin:/usr/bin"), "-p", self.folder, "-e", self.folder / "error.log",
             "-c", self.folder / "nginx.conf"], stdin=subprocess.DEVNULL)
        wait_until_it_listens(self.port, self.process)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def url(self, name):
        return f"http://127.0.0.1:{self.port}/{name}"

    def answers(self, name):
        """(status, bytes of content) of every whole answer about `name`."""
        log = (self.folder / "access.log").read_text()
        return [(int(status), int(size)) for status, size in
                re.findall(rf'"GET /{re.escape(name)} HTTP/1.1" (\d+) (\d+)', log)]


class Sshd:
    """Accepts this user with its own key; `environment` makes rsync and git use it."""

    def __init__(self, folder):
        self.folder, self.port = pathlib.Path(folder), free_port()
        self.folder.mkdir()
        for key in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / key], check=True)
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", mode=0o755, exist_ok=True)  # where sshd of root locks itself in
        (self.folder / "sshd_config").write_text(f"""
            Port {self.port}
            ListenAddress 127.0.0.1
            HostKey {self.folder}/host
            AuthorizedKeysFile {self.folder}/user.pub
            PidFile none
            StrictModes no
            UsePAM no
            PasswordAuthentication no
            PermitRootLogin prohibit-password
            LogLevel VERBOSE
        """)
        host_key = " ".join((self.folder / "host.pub").read_text().split()[:2])
        (self.folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {host_key}\n")
        (self.folder / "ssh_config").write_text(f"""
            IdentityFile {self.folder}/user
            IdentitiesOnly yes
            UserKnownHostsFile {self.folder}/known_hosts
            GlobalKnownHostsFile /dev/null
            StrictHostKeyChecking yes
        """)
        ssh = f"ssh -F {self.folder}/ssh_config"
        self.environment = {"RSYNC_RSH": ssh, "GIT_SSH_COMMAND": ssh}
        with (self.folder / "log").open("w") as log:
            self.process = subprocess.Popen(
                [shutil.which("sshd", path="/usr/sbin:/usr/bin"), "-D", "-e", "-f", self.folder / "sshd_config"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until_it_listens(self.port, self.process)

    def url(self, path):
        return f"ssh://127.0.0.1:{self.port}{path}"

    def sessions(self):
        """Process ids of the connections that are open: one or two sshd for each, without what these started."""
        return [pid for pid in children(self.process.pid) if name_of(pid).startswith("sshd")]

    def break_off(self):
        """Ends every connection as a lost network would, without a word."""
        for pid in self.sessions():
            for child in [*children(pid), pid]:
                try:
                    os.kill(child, signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def counting(self):
        """An environment in which ssh also notes what it transferred (and its messages are not seen)."""
        return {"RSYNC_RSH": f"{self.environment['RSYNC_RSH']} -o LogLevel=DEBUG1 -E {self.folder}/client.log"}

    def transferred(self):
        """(sent, received) bytes of every connection so far, seen from the client."""
        log = (self.folder / "client.log").read_text()
        return [(int(a), int(b)) for a, b in re.findall(r"Transferred: sent (\d+), received (\d+) bytes", log)]

    def num_connections(self):
        return (self.folder / "log").read_text().count("Accepted publickey")

    def kill(self):
        self.break_off()
        self.process.kill()
        self.process.wait()


def children(pid):
    """All descendants of the process, the youngest generation first."""
    try:
        own = (pathlib.Path("/proc") / str(pid) / "task" / str(pid) / "children").read_text().split()
    except OSError:
        return []
    return [found for child in map(int, own) for found in [*children(child), child]]


def name_of(pid):
    try:
        return (pathlib.Path("/proc") / str(pid) / "comm").read_text()
    except OSError:
        return ""


def command_lines():
    """Of all processes, as any user of the machine can read them."""
    lines = []
    for file in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            pass  # it ended
    return "\n".join(lines)
