"""Nodes with a private network on one machine: network name spaces with a link each to a switch, started and shaped by root.

Nothing is left behind, however the script ends: each node is the network of a process that waits for this process to end.
"""

import os
import pathlib
import subprocess
import tempfile

# Starts Open MPI's commands on a node in place of ssh: NODE COMMAND...
AGENT = """#!/bin/sh
node=$1; shift
exec nsenter --net="/proc/$(cat "${0%/*}/$node")/ns/net" --uts="/proc/$(cat "${0%/*}/$node")/ns/uts" sh -c "$*"
"""


class Nodes:
    """`count` nodes with the addresses 10.0.0.1 and so on. They share cores, memory and files."""

    def __init__(self, count):
        self.count = count
        self.addresses = [f"10.0.0.{i + 1}" for i in range(count)]
        self.folder = tempfile.TemporaryDirectory(prefix="dlflow-nodes.")
        self.processes = []

    def __enter__(self):
        folder = pathlib.Path(self.folder.name)
        (folder / "agent").write_text(AGENT)
        (folder / "agent").chmod(0o755)
        self.switch = self.start("switch", "ip link add switch type bridge && ip link set switch up")
        for i, address in enumerate(self.addresses):
            pid = self.start(f"node{i + 1}", "ip link set lo up")
            (folder / address).write_text(str(pid))
            self.inside(self.switch, f"ip link add link{i} type veth peer name eth0 netns {pid} && ip link set link{i} master switch up")
            self.inside(pid, f"ip address add {address}/24 dev eth0 && ip link set eth0 up")
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.stdin.close()
            process.wait()
        self.folder.cleanup()

    def start(self, name, script):
        """The id of a process in a network name space of its own."""
        process = subprocess.Popen(["unshare", "--net", "--uts", "sh", "-ec", f"hostname {name}; {script}; echo; exec cat"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.processes.append(process)
        if not process.stdout.read(1):
            raise SystemExit("error: nodes need root, iproute2, and a machine that permits name spaces and bridges")
        return process.pid

    @staticmethod
    def inside(pid, script):
        return subprocess.run(["nsenter", f"--net=/proc/{pid}/ns/net", "sh", "-ec", script], check=True, stdout=subprocess.PIPE, text=True).stdout

    def pid(self, node):
        return self.processes[1 + node].pid

    def rate(self, rate):
        """Limits each link in each direction from now on: 100mbit, 1gbit; off: no limit."""
        for node in range(self.count):
            for pid, link in ((self.pid(node), "eth0"), (self.switch, f"link{node}")):
                self.inside(pid, f"tc qdisc del dev {link} root 2>/dev/null || true")
                if rate != "off":
                    self.inside(pid, f"tc qdisc add dev {link} root tbf rate {rate} burst 256kb latency 50ms")

    def sent_bytes(self):
        """Bytes that each node has sent since its start."""
        tables = [self.inside(self.pid(node), "cat /proc/net/dev") for node in range(self.count)]
        return [next(int(line.split()[9]) for line in table.splitlines() if "eth0" in line) for table in tables]

    def launch(self, command, folder, ranks_per_node=1, environment=()):
        """The standard output of an MPI job with that many ranks on each node, and the bytes that each node sent."""
        environment = os.environ | dict(environment) | {
            "OMP_NUM_THREADS": "1", "MASTER_ADDR": self.addresses[0], "GLOO_SOCKET_IFNAME": "eth0",
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
            "OMPI_MCA_plm_rsh_agent": f"{self.folder.name}/agent", "OMPI_MCA_btl_tcp_if_include": "eth0"}
        hosts = ",".join(f"{address}:{ranks_per_node}" for address in self.addresses)
        before = self.sent_bytes()
        result = subprocess.run(
            ["nsenter", f"--net=/proc/{self.pid(0)}/ns/net", f"--uts=/proc/{self.pid(0)}/ns/uts", "mpirun", "--host", hosts,
             "-np", str(self.count * ranks_per_node), *(str(word) for word in command)],
            cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if result.returncode != 0:
            raise RuntimeError(f"{command}: {result.stdout}{result.stderr}")
        return result.stdout, [after - earlier for after, earlier in zip(self.sent_bytes(), before)]
