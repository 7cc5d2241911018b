"""Checks properties that must be the same on all ranks: otherwise the bits would depend on which rank computes what."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import platform
import re
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import torch

from dlflow import runtime

# Settings of numerical libraries.
_VARIABLES = ["ATEN_CPU_CAPABILITY", "DNNL_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA", "DNNL_DEFAULT_FPMATH_MODE", "ONEDNN_DEFAULT_FPMATH_MODE",
              "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS", "MKL_DEBUG_CPU_TYPE", "OPENBLAS_CORETYPE", "BLIS_ARCH_TYPE"]


class Claim(NamedTuple):
    what: str  # "the model", for messages
    value: str
    advice: str = "start all ranks with the same program and settings"


def gather(group: runtime.Group, text: str) -> List[str]:
    """The `text` of each rank, by rank. Collective."""
    return [data.decode() for data in group.all_gather_bytes(text.encode())]


def require_agreement(group: runtime.Group, claims: Sequence[Claim]) -> None:
    """Raises on every rank if a claim differs, naming the first one, the ranks, and the remedy. Collective."""
    all_values = [json.loads(text) for text in gather(group, json.dumps([claim.value for claim in claims]))]
    for claim, *values in zip(claims, *all_values):
        others = [rank for rank, value in enumerate(values) if value != values[0]]
        if others:
            ranks = f"rank{'s' if len(others) > 1 else ''} {', '.join(map(str, others))}"
            raise runtime.InvalidInput(f"{claim.what} of {ranks} differs from that of rank 0 ({values[others[0]]}; rank 0: {values[0]}); "
                                       f"{claim.advice}")


def short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _processor() -> str:
    """Vendor, family and model, by which libraries choose their code, and vector instructions, which a hypervisor may hide."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            text = file.read().split("\n\n")[0]
    except OSError:
        return platform.processor() or platform.machine()
    facts = dict(re.findall(r"^(.*?)\s*:\s*(.*)$", text, re.M))
    flags = [flag for flag in facts.get("flags", facts.get("Features", "")).split()
             if re.match(r"sse|ssse|avx|amx|fma|f16c|sve|asimd|bf16|i8mm", flag)]
    name = " ".join(facts.get(key, "") for key in ("vendor_id", "cpu family", "model", "CPU implementer", "CPU part")).split()
    return f"{' '.join(name) or platform.machine()}, vector instructions {short_hash(' '.join(sorted(flags)))}"


def flushes_denormals() -> bool:
    """Whether this thread treats floats below 1e-38 as 0: torch.set_flush_denormal."""
    return float(torch.tensor([1e-40]).mul(1.0)) == 0


def arithmetic(threads: int) -> Dict[str, str]:
    """The properties of this process that determine the bits of its results."""
    build = torch.__config__.show()
    capability = re.search(r"CPU capability usage: (\S+)", build)
    variables = " ".join(f"{name}={os.environ[name]}" for name in _VARIABLES if name in os.environ)
    return {"PyTorch": f"{torch.__version__}, build {short_hash(build)}",
            "the processor": _processor() + (f", PyTorch uses {capability[1]}" if capability else ""),
            "BLAS": _blas_names(),
            "the number of threads": str(threads),
            "the treatment of denormals": "flushed to 0" if flushes_denormals() else "kept",
            "the environment": variables or "no variables"}


_ADVICE = {"PyTorch": "install the same build on all nodes",
           "the processor": "start all ranks on processors of one kind (resources: {constraint: ...} or a partition of one kind)",
           "BLAS": "install the same BLAS on all nodes (update-alternatives --display libblas.so.3-x86_64-linux-gnu)",
           "the number of threads": "give the same 'threads' on all ranks",
           "the treatment of denormals": "call torch.set_flush_denormal in the same way on all ranks, before exact",
           "the environment": "start all ranks with the same variables"}


def arithmetic_claims(facts: Dict[str, str]) -> List[Claim]:
    return [Claim(what, value, _ADVICE[what]) for what, value in facts.items()]


def _blas() -> Dict[str, ctypes.CDLL]:
    """The BLAS libraries that this process has loaded in addition to PyTorch's own, by path."""
    try:
        with open("/proc/self/maps", encoding="utf-8") as file:
            paths = {os.path.realpath(line.split()[-1]) for line in file if "blas" in line}
    except OSError:
        return {}
    return {path: ctypes.CDLL(path) for path in sorted(paths) if re.search(r"/lib(\w*openblas|blas)[^/]*\.so[^/]*$", path)}


def _open_blas_function(library: ctypes.CDLL, name: str) -> Any:
    """The function or None. NumPy's library has other names."""
    for full in (f"openblas_{name}", f"openblas_{name}64_", f"scipy_openblas_{name}", f"scipy_openblas_{name}64_"):
        if hasattr(library, full):
            return getattr(library, full)
    return None


def _blas_names() -> str:
    """The processor for which each OpenBLAS has chosen its code."""
    names = []
    for path, library in _blas().items():
        config = _open_blas_function(library, "get_config")
        if config is not None:
            config.restype = ctypes.c_char_p
        names.append(os.path.basename(path) if config is None else config().decode().strip())
    return ", ".join(sorted(set(names))) or "PyTorch's own"


def use_threads(threads: int) -> None:
    """Sets the threads of PyTorch and of OpenBLAS, whose own threads PyTorch does not count."""
    torch.set_num_threads(threads)
    for library in _blas().values():
        function = _open_blas_function(library, "set_num_threads")
        if function is not None:
            function(ctypes.c_int(threads))


def changes(old: Dict[str, str], new: Dict[str, str]) -> Optional[str]:
    """Describes the differences for users, or returns None."""
    differences = [f"{what}: {old.get(what)} then, {new.get(what)} now" for what in new if old.get(what) != new.get(what)]
    return "; ".join(differences) or None
