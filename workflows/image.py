#!/usr/bin/python3
"""Makes an image from the Debian packages of this machine, without a registry and without root:

    workflows/image.py build/bin/dlflow-train build/bin/dlflow-evaluate -o images/dlflow.tar
    workflows/image.py --package python3-torch --wheel build/dlflow-*.whl -o images/pytorch.tar

The image has busybox and all packages with libraries of the programs, and Open MPI with its components if they open it.
It does not contain the programs themselves, since a run brings its own. Named packages come with the Python packages that
they depend on and with their libraries; a wheel is unpacked where Debian's Python finds it.
"""

import argparse
import hashlib
import io
import json
import os
import pathlib
import re
import subprocess
import tarfile
import zipfile

LEFT_OUT = ("/usr/share/doc/", "/usr/share/man/", "/usr/share/locale/", "/usr/share/lintian/", "/usr/share/bug/",
            "/usr/share/gdb/")
ALWAYS = ["busybox-static"]
# Packages with libraries that are opened at run time: of Open MPI 4 and 5, and of PMIx before and since Debian 13.
PLUGINS = {"libopenmpi3": ["libopenmpi3", "openmpi-common"], "libopenmpi40": ["libopenmpi40", "openmpi-common"],
           "libpmix2": ["libpmix2"], "libpmix2t64": ["libpmix2t64"]}
WHEELS = "usr/lib/python3/dist-packages"
MERGED = ("bin", "lib", "lib64", "sbin")  # links to the same names below usr


def lines(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout.splitlines()


def libraries(files):
    """The libraries that the dynamic loader finds for `files`, including indirect ones."""
    found = set()
    for line in lines("ldd", *files):
        path = next((word for word in line.split() if word.startswith("/") and not word.endswith(":")), None)
        if path:
            found.add(path)
    return found


def owners(paths):
    """The packages that own the paths; dpkg lists some under their old name, from before /lib became /usr/lib."""
    names = set()
    for path in paths:
        names |= {path, os.path.realpath(path)}
    names |= {name[len("/usr"):] for name in names if name.startswith("/usr/lib")}
    found = lines("dpkg-query", "--search", *sorted(names))
    return {line.split(":")[0] for line in found if not line.startswith("diversion ")}


def files_of(packages):
    listed = subprocess.run(["dpkg-query", "--listfiles", *sorted(packages)], stdout=subprocess.PIPE, text=True, check=True).stdout
    return sorted({path for path in listed.splitlines() if path.startswith("/") and not path.startswith(LEFT_OUT)})


def opened_mpi(programs):
    """Open MPI's library, if a program comes with the plug-in that opens it at run time."""
    if not any(os.path.exists(os.path.join(os.path.dirname(program), "../lib/dlflow/libdlflow_mpi_40.so")) for program in programs):
        return []
    return [line.split()[-1] for line in lines("/sbin/ldconfig", "--print-cache") if line.split()[0] == "libmpi.so.40"]


def needed_packages(programs):
    opened = opened_mpi(programs)
    packages = owners(libraries([*programs, *opened]) | set(opened))
    further = [name for key, names in PLUGINS.items() if key in packages for name in names]
    plugins = shared_objects(further) if further else []
    return packages | set(further) | owners(libraries(plugins) if plugins else []) | set(ALWAYS)


def python_packages(names):
    """These installed packages, and the Python packages that they depend on."""
    needs = {}
    for line in lines("dpkg-query", "--show", "--showformat=${Package}\\t${Pre-Depends}, ${Depends}\\n"):
        package, depends = line.split("\t")
        needs[package] = re.findall(r"(?:lib)?python3[\w.+-]*", depends)
    missing = [name for name in names if name not in needs]
    if missing:
        raise SystemExit(f"not installed: {' '.join(missing)}")
    found, waiting = set(), list(names)
    while waiting:
        package = waiting.pop()
        if package in needs and package not in found:
            found.add(package)
            waiting += needs[package]
    return found


def shared_objects(packages):
    return [path for path in files_of(packages) if re.search(r"\.so(\.|$)", path) and os.path.isfile(path)]


def alternatives(files):
    """Links of Debian's alternatives to one of `files`: link -> target."""
    links = {}
    for selection in lines("update-alternatives", "--get-selections"):
        name, _, target = selection.split(maxsplit=2)
        if target not in files:
            continue
        about = lines("update-alternatives", "--query", name)
        master = next(line.split(" ", 1)[1] for line in about if line.startswith("Link: "))
        slaves = dict(line.split() for line in about[:about.index("")] if line.startswith(" "))
        for own, link in {name: master, **slaves}.items():
            choice = f"/etc/alternatives/{own}"
            if os.path.islink(choice):
                links |= {choice: os.readlink(choice), link: choice}
    return links


def write_layer(file, packages, wheels):
    """The layer and the number of its files."""
    with tarfile.open(file, "w") as tar:
        for name in MERGED:
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
            tar.addfile(link)
        count = 0
        files = files_of(packages)
        for path in files:
            top, *below = path[1:].split("/")
            merged = "/usr" + path if top in MERGED else path
            is_folder = os.path.isdir(path) and not os.path.islink(path)
            if not os.path.lexists(path) or is_folder or (top in MERGED and not below):
                continue
            tar.add(path, merged[1:], recursive=False)
            count += 1
        for path, target in alternatives(set(files)).items():
            link = tarfile.TarInfo(("/usr" + path if path[1:].split("/")[0] in MERGED else path)[1:])
            link.type, link.linkname = tarfile.SYMTYPE, target
            tar.addfile(link)
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as archive:
                for name in archive.namelist():
                    content = tarfile.TarInfo(f"{WHEELS}/{name}")
                    content.size = archive.getinfo(name).file_size
                    tar.addfile(content, archive.open(name))
        for applet in lines("busybox", "--list"):
            link = tarfile.TarInfo(f"usr/bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            if applet != "busybox":
                tar.addfile(link)
        return count


def write_image(output, layer):
    def add(tar, name, content):
        info = tarfile.TarInfo(name)
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    with open(layer, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    with tarfile.open(output, "w") as tar:
        tar.add(layer, "layer.tar")
        add(tar, "config.json", json.dumps({"architecture": "amd64", "os": "linux", "config": {
            "Env": ["PATH=/usr/bin:/bin"]}, "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]}}).encode())
        add(tar, "manifest.json", json.dumps([{"Config": "config.json", "RepoTags": ["dlflow:debian"],
                                               "Layers": ["layer.tar"]}]).encode())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("programs", nargs="*", metavar="PROGRAM")
    parser.add_argument("--package", action="append", default=[], metavar="NAME", help="an installed package, with its Python packages and its libraries")
    parser.add_argument("--wheel", action="append", default=[], metavar="FILE", help="a Python wheel")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    layer = arguments.output.with_suffix(".layer")
    named = python_packages(arguments.package)
    packages = named | needed_packages(arguments.programs + (shared_objects(named) if named else []))
    count = write_layer(layer, packages, arguments.wheel)
    write_image(arguments.output, layer)
    layer.unlink()
    size = arguments.output.stat().st_size / 2**20
    print(f"{arguments.output}: {len(packages)} packages, {count} files, {size:.0f} MiB")


if __name__ == "__main__":
    main()
