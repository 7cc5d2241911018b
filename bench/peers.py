"""The fastest setup of PyTorch, Horovod and TensorFlow on this machine, with proof; without the proof no ratio to them is printed.

PyTorch is as fast as the library that multiplies its matrices. Debian's uses the reference BLAS if no other one is installed
(5 GFLOP/s), and its OpenBLAS treats a processor newer than itself as one of 2004 (32 GFLOP/s instead of 127 on an Intel Xeon of
2023) unless OPENBLAS_CORETYPE names a better one. So each bench calls proven(): it compares the sgemm of every installation with that
of oneDNN, which dlflow-train uses, and leaves out installations below 70 % of it, naming them.

If Linux gives huge pages only on request (`madvise`, Debian's setting), PyTorch does not request them: lenet is a fifth slower than on
a machine that gives them to all programs. HUGE_PAGES makes glibc request them.
"""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
LEAST_SHARE = 0.7  # of oneDNN's sgemm
ENOUGH = 0.9  # of it; from there on, no further kernels are tried
HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
# OpenBLAS and MKL prefer their own variables: with OPENBLAS_NUM_THREADS=2 in the shell, two threads made a slow sgemm look fast enough.
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
LARGEST_ERROR = 1e-4  # of a product in fp32; some kernels of some OpenBLAS are wrong on some processors
CORE_TYPES = (None, "SkylakeX", "Haswell", "Zen")  # of OpenBLAS; None: the type that it detects
AVX2_CORE_TYPES = ("Haswell", "Zen")
WITHOUT_CONVOLUTIONS = {"mlp", "gpt-small"}


@dataclasses.dataclass(frozen=True)
class Peer:
    """An installation of PyTorch or TensorFlow, and how to train with it."""

    name: str
    python: pathlib.Path
    flags: tuple = ()  # of torch_peer.py
    environment: dict = dataclasses.field(default_factory=dict)  # added to the caller's
    compiles: bool = False  # has torch.compile or XLA
    framework: str = "PyTorch"

    @property
    def sgemm(self):
        if self.framework == "TensorFlow":
            return [self.python, ROOT / "bench/tensorflow_peer.py", "sgemm"]
        return [self.python, ROOT / "bench/torch_sgemm.py", *self.flags]

    @property
    def training_environment(self):
        return self.environment | HUGE_PAGES | ONE_THREAD


INSTALLED = (
    Peer("DDP", pathlib.Path("/usr/bin/python3")),
    Peer("DDP", ROOT / "build/torch-venv/bin/python"),
    Peer("Horovod", ROOT / "build/horovod-venv/bin/python", ("--horovod",)),
)
TENSORFLOW = Peer("TensorFlow", ROOT / "build/torch-venv/bin/python", framework="TensorFlow")  # of bench/tensorflow_peer.py


def measure(command, environment=()):
    """The JSON line that ends the output of a program that measures sgemm on one thread; {"failure": …} if there is none."""
    try:
        ended = subprocess.run([str(word) for word in command], env=os.environ | ONE_THREAD | dict(environment),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    except OSError as error:
        return {"failure": f"{error.filename}: {error.strerror}"}
    if ended.returncode != 0:
        return {"failure": (ended.stderr.strip().splitlines() or [f"ended with status {ended.returncode}"])[-1]}
    return json.loads(ended.stdout.splitlines()[-1])


def of_onednn():
    """GFLOP/s."""
    measured = measure([ROOT / "build/bench/sgemm"])
    if "failure" in measured:
        raise SystemExit(f"error: no peer can be proven without build/bench/sgemm: {measured['failure']}")
    return measured["gflops"]


def refusal(measured, onednn):
    """Why an installation with the measurement `measured` is no peer; None if it is one."""
    if "failure" in measured:
        return measured["failure"]
    if measured["error"] > LARGEST_ERROR:
        return f"its products of matrices are wrong by {measured['error']:.1g}"
    if measured["gflops"] < LEAST_SHARE * onednn:
        return (f"its sgemm does {measured['gflops']:.0f} GFLOP/s, {measured['gflops'] / onednn:.0%} of oneDNN's {onednn:.0f}, "
                f"less than {LEAST_SHARE:.0%}")
    return None


def best_environment(measured):
    """The fastest correct pair of `measured`, a list of (environment, measurement), or an earlier one that is as fast within
    measurement noise; the first pair if none is correct."""
    right = [pair for pair in measured if refusal(pair[1], 0) is None]
    best = max((said["gflops"] for _, said in right), default=0)
    return next((pair for pair in right if pair[1]["gflops"] >= 0.95 * best), measured[0])


def judge(peer, measured, onednn):
    """The proven `peer`, or None, and a line that explains it. `measured` has pairs (environment, measurement)."""
    environment, said = best_environment(measured)
    reason = refusal(said, onednn)
    if reason:
        return None, f"# left out: {peer.name} of {peer.python}: {reason}"
    version = ".".join(said["version"].split(".")[:2])
    name = peer.name if "--horovod" in peer.flags else f"{peer.name} {version}"
    settings = "".join(f" with {key}={value}" for key, value in environment.items())
    compiles = int(said["version"].split(".")[0]) >= 2
    return (dataclasses.replace(peer, name=name, environment=environment, compiles=compiles),
            f"# {peer.name}, {peer.framework} {said['version']} of {peer.python}: sgemm {said['gflops']:.0f} GFLOP/s{settings}, "
            f"{said['gflops'] / onednn:.0%} of oneDNN's {onednn:.0f}")


def proven(core_types=CORE_TYPES, installed=INSTALLED):
    """The peers of this machine. For each one, prints the speed of its sgemm, or why it is left out."""
    peers = []
    onednn = of_onednn()
    for peer in installed:
        measured = []
        for core_type in core_types:
            environment = {"OPENBLAS_CORETYPE": core_type} if core_type else {}
            measured.append((environment, measure(peer.sgemm, environment)))
            onednn = max(onednn, of_onednn())
            if measured[-1][1].get("gflops", 0) >= ENOUGH * onednn:
                break
        judged, line = judge(peer, measured, onednn)
        print(line, flush=True)
        peers += [judged] if judged else []
    return peers


def require_proven(python=sys.executable):
    """For benches that compare ways to train with one PyTorch: ends if it is no peer, since slow products would hide the cost of the ways."""
    peer, line = judge(Peer("PyTorch", pathlib.Path(python)), [({}, measure([python, ROOT / "bench/torch_sgemm.py"]))], of_onednn())
    print(line, flush=True)
    if peer is None:
        raise SystemExit("error: products that slow hide what is compared here; OPENBLAS_CORETYPE or another PYTHON may help")


def ways(peers, model):
    """Each way in which users of the peers train `model`: its name, the peer, and additional flags of torch_peer.py."""
    found = []
    for peer in peers:
        has_layouts = peer.framework == "PyTorch" and model not in WITHOUT_CONVOLUTIONS
        found.append((peer.name, peer, ()))
        if "--horovod" in peer.flags:
            continue  # Horovod refuses tensors in channels_last
        if has_layouts:
            found.append((peer.name + ", channels last", peer, ("--channels-last",)))
        if peer.compiles:
            found.append((peer.name + ", compiled", peer, ("--compile", "--channels-last") if has_layouts else ("--compile",)))
    return found
