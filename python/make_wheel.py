"""usage: make_wheel.py FOLDER ABOUT LICENSE LIBRARY PROGRAM [PACKAGE...]

Makes FOLDER/dlflow-VERSION-py3-none-manylinux_X_Y_MACHINE.whl of the package beside this file, the metadata in ABOUT (METADATA,
entry_points.txt), libdlflow_runtime.so, the program dlflow and the examples, and prints its path. PACKAGEs of Debian hold the libraries that these two are linked with:
their licences are in it, too, where dpkg has them. A wheel is a zip file with a list of its files.
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
EXAMPLES = PACKAGE.parents[1] / "workflows"


# From these versions on, symbols are only in systems with this glibc 2.X or newer: PEP 600, and auditwheel's table of it.
NEWER_GLIBC = {"GLIBCXX_3.4": {0: 17, 20: 24, 23: 27, 25: 31, 29: 34, 30: 35, 31: 39}, "CXXABI_1.3": {0: 17, 8: 24, 11: 27, 12: 31, 13: 34, 14: 39}}
NEWEST = {"GLIBCXX_3.4": 33, "CXXABI_1.3": 15}


def glibc_of(*binaries):
    """X of the oldest glibc 2.X whose systems have all that `binaries` need: the wheel's name says it."""
    symbols = subprocess.run(["objdump", "-T", *binaries], text=True, capture_output=True, check=True).stdout
    found = [17, *map(int, re.findall(r"\(GLIBC_2\.(\d+)", symbols))]
    for prefix, table in NEWER_GLIBC.items():
        for version in map(int, re.findall(rf"\({re.escape(prefix)}\.(\d+)", symbols)):
            if version > NEWEST[prefix]:
                sys.exit(f"error: make_wheel.py has no glibc for {prefix}.{version}: add it to NEWER_GLIBC, as auditwheel has it")
            found.append(max(glibc for first, glibc in table.items() if version >= first))
    return max(found)


def stripped(binary):
    """Its bytes without what only a debugger reads."""
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / binary.name
        shutil.copy(binary, copy)
        if shutil.which("strip"):
            subprocess.run(["strip", "--strip-unneeded", copy], check=True)
        return copy.read_bytes()


def licences_of(packages):
    """Name -> the text that Debian has of it, and of the common ones that these name."""
    texts = {name: file.read_bytes() for name in packages if (file := pathlib.Path("/usr/share/doc", name, "copyright")).exists()}
    common = {name.decode() for text in texts.values() for name in re.findall(rb"/usr/share/common-licenses/([\w.-]*\w)", text)}
    return {**texts, **{name: pathlib.Path("/usr/share/common-licenses", name).read_bytes() for name in sorted(common)}}


def contents(about, license_file, library, program, tag, packages):
    """Name in the wheel -> bytes."""
    version = re.search(r"^Version: (.*)$", (about / "METADATA").read_text(), re.MULTILINE)[1]
    info = f"dlflow-{version}.dist-info"
    files = {f"dlflow/{path.relative_to(PACKAGE)}": path.read_bytes() for path in sorted(PACKAGE.rglob("*"))
             if path.suffix == ".py" or path.name == "py.typed"}
    files[f"dlflow/{library.name}"] = stripped(library)
    files[f"dlflow-{version}.data/scripts/{program.name}"] = stripped(program)  # which installers put into bin
    files.update((f"dlflow-{version}.data/data/share/dlflow/workflows/{path.relative_to(EXAMPLES)}", path.read_bytes())
                 for path in sorted(EXAMPLES.rglob("*")) if path.suffix in (".yaml", ".py"))
    for name in ("METADATA", "entry_points.txt"):
        files[f"{info}/{name}"] = (about / name).read_bytes()
    files[f"{info}/licenses/LICENSE"] = license_file.read_bytes()
    files.update((f"{info}/licenses/libraries/{name}", text) for name, text in licences_of(packages).items())
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
            entry.external_attr = (0o100755 if name.endswith(".so") or "/scripts/" in name else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)


def main(folder, about, license_file, library, program, *packages):
    folder = folder.resolve()
    tag = f"py3-none-manylinux_2_{glibc_of(library, program)}_{platform.machine()}"
    version, files = contents(about, license_file, library, program, tag, map(str, packages))
    for earlier in folder.glob("dlflow-*.whl"):
        earlier.unlink()
    path = folder / f"dlflow-{version}-{tag}.whl"
    temporary = path.with_suffix(".tmp")
    write(temporary, files)
    temporary.rename(path)
    print(path)


if __name__ == "__main__":
    if len(sys.argv) < 6:
        sys.exit(__doc__)
    main(*map(pathlib.Path, sys.argv[1:]))
