"""A folder of checkpoints (docs/contributor/checkpoint-format.md): each is complete or absent, even if the writer is killed."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
import os
import pathlib
import re
import shutil
import time
from typing import Any, BinaryIO, Callable, Dict, List, Mapping, Optional, Tuple

from dlflow import _safetensors
from dlflow._safetensors import Damaged, Tensor

MANIFEST, STATE = "manifest.json", "state.json"
TENSORS = ".safetensors"
_TEMPORARY = ".tmp."
_WRITER = re.compile(r"([0-9a-f]+)-(\d+)-(\d+)(?:\.new)?")
_DEAD_SECONDS = 3600.0
_STEP = re.compile(r"step-(\d+)")
_NO_HASH = "0" * 64
_MAX_MANIFEST = 64 << 20

Written = Dict[str, Tuple[int, str]]  # file -> bytes, SHA-256


@dataclasses.dataclass
class Info:
    """The fields of the manifest."""
    step: int = 0
    epoch: int = 0
    samples: int = 0
    metrics: Dict[str, float] = dataclasses.field(default_factory=dict)
    model: str = ""  # set by dlflow's own training: describes the model


def name_of(step: int) -> str:
    return f"step-{step:06d}"


def checkpoints(folder: pathlib.Path) -> List[pathlib.Path]:
    """All checkpoints, complete or not, oldest first."""
    try:
        found = [(int(match[1]), entry) for entry in folder.iterdir() if (match := _STEP.fullmatch(entry.name))]
    except FileNotFoundError:
        return []
    return [entry for _, entry in sorted(found)]


def newest(folder: pathlib.Path, say: Callable[[str], None]) -> Optional[pathlib.Path]:
    """The newest checkpoint that verifies. Passes a message about each damaged one to `say`."""
    for checkpoint in reversed(checkpoints(folder)):
        try:
            verify(checkpoint)
            return checkpoint
        except (Damaged, OSError) as error:
            say(f"skipped: {error}")
    return None


# Writing: each step in the document's list is on disk before the next begins.

def begin(folder: pathlib.Path, step: int) -> Tuple[pathlib.Path, pathlib.Path]:
    """Returns the temporary folder for the files of a new checkpoint, and the checkpoint's final path."""
    _make_lasting(folder)
    for entry in list(folder.iterdir()):
        if _TEMPORARY in entry.name and _is_left_over(entry):
            _remove(entry)
    target = folder / name_of(step)
    temporary = _temporary(target)
    temporary.mkdir()
    return temporary, target


def write_tensors(temporary: pathlib.Path, name: str, tensors: Mapping[str, Tensor], metadata: Mapping[str, str], written: Written) -> None:
    written[name] = _safetensors.write(str(temporary / name), tensors, metadata)


def finish(temporary: pathlib.Path, target: pathlib.Path, info: Info, state: Any, written: Written, keep: int) -> pathlib.Path:
    """Turns `temporary` into a checkpoint; then keeps only the newest `keep` complete ones."""
    text = (json.dumps(state, ensure_ascii=False, allow_nan=False, indent=2) + "\n").encode()
    written[STATE] = len(text), hashlib.sha256(text).hexdigest()
    _write_synced(temporary / STATE, text)
    _write_synced(temporary / MANIFEST, _manifest(info, written))
    sync_folder(temporary)
    old = _put_aside(target)  # it was damaged, or has other metrics
    temporary.rename(target)
    sync_folder(target.parent)
    if old is not None:
        _remove(old)
    _point_latest_to(target)
    _prune(target, keep)
    return target


def abandon(temporary: pathlib.Path) -> None:
    shutil.rmtree(temporary, ignore_errors=True)


def holds(checkpoint: pathlib.Path, info: Info) -> bool:
    """Whether the checkpoint is complete and its manifest equals `info`."""
    try:
        return verify(checkpoint) == info
    except (Damaged, OSError):
        return False


def _manifest(info: Info, written: Written) -> bytes:
    metrics = {name: value if math.isfinite(value) else None for name, value in sorted(info.metrics.items())}
    manifest = {"epoch": info.epoch, "files": {name: {"bytes": size, "sha256": digest} for name, (size, digest) in sorted(written.items())},
                "format": "dlflow-checkpoint", "metrics": metrics, "model": info.model, "samples": info.samples, "sha256": _NO_HASH,
                "step": info.step, "version": 1}
    text = (json.dumps(manifest, ensure_ascii=False, allow_nan=False, indent=2) + "\n").encode()
    return text.replace(_NO_HASH.encode(), hashlib.sha256(text).hexdigest().encode(), 1)


def _place_of_numbers() -> str:
    """Hashes host, boot and namespace, in which a process id is unique; same as in runtime/checkpoint/checkpoint.cpp."""
    def told(read: Callable[[], str]) -> str:
        try:
            return read().strip()
        except OSError:
            return ""
    boot = told(lambda: pathlib.Path("/proc/sys/kernel/random/boot_id").read_text())
    space = told(lambda: os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256(f"{os.uname().nodename}\n{boot}\n{space}".encode()).hexdigest()[:16]


def _start_of(pid: int) -> Optional[str]:
    """The process's start in ticks since the boot; None if it does not exist."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    return None if fields[0] in "ZX" else fields[19]


def _temporary(path: pathlib.Path) -> pathlib.Path:
    writer = f"{_place_of_numbers()}-{os.getpid()}-{_start_of(os.getpid()) or 0}"
    return path.with_name(f"{path.name}{_TEMPORARY}{writer}.new")  # does not end in a digit: step-*[0-9] matches complete ones


def _is_left_over(path: pathlib.Path) -> bool:
    """Whether its writer is dead. On another host or in another container, only the age counts: a live one writes all the time."""
    writer = _WRITER.fullmatch(path.name.rsplit(_TEMPORARY, 1)[1])
    if writer and writer[1] == _place_of_numbers():
        pid = int(writer[2])
        return pid == os.getpid() or _start_of(pid) != writer[3]
    newest = 0.0
    for entry in [path, *(path.iterdir() if path.is_dir() and not path.is_symlink() else [])]:
        with contextlib.suppress(FileNotFoundError):
            newest = max(newest, entry.lstat().st_mtime)
    return time.time() - newest > _DEAD_SECONDS


def _write_synced(path: pathlib.Path, data: bytes) -> None:
    with open(path, "xb", buffering=0) as file:
        _safetensors.write_all(file.fileno(), memoryview(data))
        os.fsync(file.fileno())


def replace(path: pathlib.Path, write: Callable[[BinaryIO], None]) -> None:
    """Replaces `path` atomically by a file with the output of `write`, even if the writer is killed."""
    new = path.with_name(f".{path.name}.new")
    with open(new, "wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: pathlib.Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _make_lasting(folder: pathlib.Path) -> None:
    """Creates the folder so that it, and new folders above it, survive a power cut."""
    if folder.is_dir():
        return
    new = [folder, *(parent for parent in folder.absolute().parents if not parent.exists())]
    folder.mkdir(parents=True, exist_ok=True)
    for made in new:
        sync_folder(made.absolute().parent)


def _remove(entry: pathlib.Path) -> None:
    """Removes an entry so that half a folder never looks like a checkpoint."""
    if entry.is_symlink() or not entry.is_dir():
        entry.unlink()
        return
    aside = entry if _TEMPORARY in entry.name else _put_aside(entry)
    assert aside is not None
    shutil.rmtree(aside)


def _put_aside(entry: pathlib.Path) -> Optional[pathlib.Path]:
    """Renames an entry so that it is not a checkpoint any more. None if it does not exist."""
    if not entry.exists() and not entry.is_symlink():
        return None
    aside = entry.with_name(f"{entry.name}{_TEMPORARY}{os.getpid()}.old")
    shutil.rmtree(aside, ignore_errors=True)
    entry.rename(aside)
    return aside


def _point_latest_to(target: pathlib.Path) -> None:
    link = _temporary(target.parent / "latest")
    link.symlink_to(target.name)
    link.rename(target.parent / "latest")
    sync_folder(target.parent)


def _prune(target: pathlib.Path, keep: int) -> None:
    """Removes old checkpoints. Those after `target` are damaged, or training would have resumed from them: they stay for inspection."""
    kept = 0
    older = [entry for entry in checkpoints(target.parent) if int(entry.name[5:]) <= int(target.name[5:])]
    for checkpoint in reversed(older):
        if kept == keep:
            _remove(checkpoint)
        elif _looks_whole(checkpoint):
            kept += 1


def _looks_whole(checkpoint: pathlib.Path) -> bool:
    try:
        return all((checkpoint / name).stat().st_size == size for name, (size, _) in read_manifest(checkpoint)[1].items())
    except (Damaged, OSError):
        return False


# Reading.

class _Number(float):
    """A number that keeps its original spelling."""
    text: str

    def __new__(cls, text: str) -> "_Number":
        self = super().__new__(cls, text)
        self.text = text
        return self


def _canonical(value: Any) -> str:
    """JSON as runtime/checkpoint writes it: keys sorted, no white space, numbers unchanged."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_canonical(key)}:{_canonical(value[key])}" for key in sorted(value, key=str.encode)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_canonical, value)) + "]"
    return value.text if isinstance(value, _Number) else json.dumps(value, ensure_ascii=False)


def _hash_holds(text: bytes, manifest: Dict[str, Any]) -> bool:
    told = manifest.get("sha256")
    if not isinstance(told, str) or len(told) != 64:
        return False
    as_text = hashlib.sha256(text.replace(told.encode(), _NO_HASH.encode(), 1)).hexdigest()
    rest = {key: value for key, value in manifest.items() if key != "sha256"}
    return told in (as_text, hashlib.sha256(_canonical(rest).encode()).hexdigest())


def read_manifest(checkpoint: pathlib.Path) -> Tuple[Info, Written]:
    """Raises Damaged."""
    path = checkpoint / MANIFEST
    try:
        if path.stat().st_size > _MAX_MANIFEST:
            raise Damaged(f"{path} is damaged: it is too large")
        text = path.read_bytes()
    except FileNotFoundError:
        raise Damaged(f"{checkpoint} is not a checkpoint: it has no {MANIFEST}, which is written last") from None
    try:
        manifest = json.loads(text, parse_float=_Number)
        if manifest["format"] != "dlflow-checkpoint" or manifest["version"] != 1:
            raise Damaged(f"{path} belongs to another program or version")
        if not _hash_holds(text, manifest):
            raise Damaged(f"{path} is damaged: its hash does not match")
        metrics = {name: math.nan if value is None else float(value) for name, value in manifest["metrics"].items()}
        files = {name: (int(file["bytes"]), str(file["sha256"])) for name, file in manifest["files"].items()}
        if any("/" in name or name in ("", ".", "..") for name in files):
            raise Damaged(f"{path} is damaged: a name in it is not that of a file")
        return Info(int(manifest["step"]), int(manifest["epoch"]), int(manifest["samples"]), metrics, str(manifest["model"])), files
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Damaged(f"{path} is damaged: {error}") from None


def verify(checkpoint: pathlib.Path) -> Info:
    """Checks every byte of a checkpoint. Raises Damaged."""
    info, files = read_manifest(checkpoint)
    for name in ("model" + TENSORS, "optimizer" + TENSORS, STATE):
        if name not in files:
            raise Damaged(f"{checkpoint / MANIFEST} does not list {name}")
    for name, (size, _) in files.items():
        path = checkpoint / name
        found = path.stat().st_size if path.exists() else None
        if found != size:
            raise Damaged(f"{path} is missing" if found is None else f"{path} has {found} bytes, but its manifest declares {size}")
    for name, (_, digest) in files.items():
        if (found_digest := hash_file(checkpoint / name)[1]) != digest:
            raise Damaged(f"{checkpoint / name} is damaged: its SHA-256 is {found_digest}, but its manifest declares {digest}")
    return info


def hash_file(path: pathlib.Path) -> Tuple[int, str]:
    hasher, size = hashlib.sha256(), 0
    with open(path, "rb", buffering=0) as file:
        while block := file.read(1 << 22):
            hasher.update(block)
            size += len(block)
    return size, hasher.hexdigest()


def read_state(checkpoint: pathlib.Path) -> Any:
    try:
        return json.loads((checkpoint / STATE).read_bytes())
    except ValueError as error:
        raise Damaged(f"{checkpoint / STATE} is not JSON: {error}") from None


def read_tensors(checkpoint: pathlib.Path, name: str) -> Dict[str, Tensor]:
    return _safetensors.read(str(checkpoint / name))[0]
