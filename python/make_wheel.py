"""usage: make_wheel.py FOLDER ABOUT LIBRARY LICENSE

Makes FOLDER/dlflow-VERSION-py3-none-manylinux_X_Y_MACHINE.whl of the package beside this file, the metadata in ABOUT (METADATA,
entry_points.txt) and libdlflow_runtime.so, and prints its path. A wheel is a zip file with a list of its files.
"""

import base64
import hashlib
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

PACKAGE = pathlib.Path(__file__).resolve().parent / "dlflow"


def glibc_of(library):
    """The oldest version of glibc that has all that `library` needs: the wheel's name says it."""
    symbols = subprocess.run(["objdump", "-T", library], text=True, capture_output=True, check=True).stdout
    versions = [tuple(map(int, version.split("."))) for version in re.findall(r"GLIBC_(\d+\.\d+)", symbols)]
    return max(versions)


def stripped(library):
    """Its bytes without what only a debugger reads."""
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / library.name
        shutil.copy(library, copy)
        if shutil.which("strip"):
            subprocess.run(["strip", "--strip-unneeded", copy], check=True)
        return copy.read_bytes()


def contents(about, library, license_file, tag):
    """Name in the wheel -> bytes."""
    version = re.search(r"^Version: (.*)$", (about / "METADATA").read_text(), re.MULTILINE)[1]
    info = f"dlflow-{version}.dist-info"
    files = {f"dlflow/{path.relative_to(PACKAGE)}": path.read_bytes() for path in sorted(PACKAGE.rglob("*"))
             if path.suffix == ".py" or path.name == "py.typed"}
    files[f"dlflow/{library.name}"] = stripped(library)
    for name in ("METADATA", "entry_points.txt"):
        files[f"{info}/{name}"] = (about / name).read_bytes()
    files[f"{info}/LICENSE"] = license_file.read_bytes()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: dlflow\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    lines = [f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}"
             for name, data in files.items()]
    record = f"{info}/RECORD"
    files[record] = "\n".join([*lines, f"{record},,"]).encode() + b"\n"
    return version, files


def write(path, files):
    """The same files make the same bytes."""
    when = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), 315532800))[:6]  # a zip file knows no time before 1980
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, when)
            entry.external_attr = (0o755 if name.endswith(".so") else 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)


def main(folder, about, library, license_file):
    folder, about, library = pathlib.Path(folder), pathlib.Path(about), pathlib.Path(library)
    major, minor = glibc_of(library)
    tag = f"py3-none-manylinux_{major}_{minor}_{platform.machine()}"
    version, files = contents(about, library, pathlib.Path(license_file), tag)
    for earlier in folder.glob("dlflow-*.whl"):
        earlier.unlink()
    path = folder / f"dlflow-{version}-{tag}.whl"
    temporary = path.with_suffix(".tmp")
    write(temporary, files)
    temporary.rename(path)
    print(path)


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
