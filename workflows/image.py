#!/usr/bin/python3
"""Makes an image from what the Debian packages of this machine hold, without a registry and without root:

    workflows/image.py build/bin/dlflow-train build/bin/dlflow-evaluate -o images/dlflow.tar

The image has busybox and all packages that the programs' libraries come from, Open MPI with its plug-ins if they use it.
The programs themselves are not in it: a run brings its own.
"""

import argparse
import hashlib
import io
import json
import os
import pathlib
import subprocess
import tarfile

LEFT_OUT = ("/usr/share/doc/", "/usr/share/man/", "/usr/share/locale/", "/usr/share/lintian/", "/usr/share/bug/",
            "/usr/share/gdb/")
ALWAYS = ["busybox-static"]
PLUGINS = {"libopenmpi3": ["libopenmpi3", "openmpi-common"], "libpmix2": ["libpmix2"]}  # opened at run time
MERGED = ("bin", "lib", "lib64", "sbin")  # links to the same below usr


def lines(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout.splitlines()


def libraries(files):
    """What the dynamic loader finds for `files`, their own libraries included."""
    found = set()
    for line in lines("ldd", *files):
        path = next((word for word in line.split() if word.startswith("/") and not word.endswith(":")), None)
        if path:
            found.add(path)
    return found


def owners(paths):
    """The packages that the paths belong to; dpkg knows some by the name before /lib became /usr/lib."""
    names = set()
    for path in paths:
        names |= {path, os.path.realpath(path)}
    names |= {name[len("/usr"):] for name in names if name.startswith("/usr/lib")}
    return {line.split(":")[0] for line in lines("dpkg-query", "--search", *sorted(names))}


def files_of(packages):
    return sorted({path for path in lines("dpkg-query", "--listfiles", *sorted(packages))
                   if path.startswith("/") and not path.startswith(LEFT_OUT)})


def needed_packages(programs):
    packages = owners(libraries(programs))
    further = [name for key, names in PLUGINS.items() if key in packages for name in names]
    plugins = [path for path in files_of(further) if path.endswith(".so") and os.path.isfile(path)] if further else []
    return packages | set(further) | owners(libraries(plugins) if plugins else []) | set(ALWAYS)


def write_layer(file, packages):
    """The layer, and how many files it has."""
    with tarfile.open(file, "w") as tar:
        for name in MERGED:
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
            tar.addfile(link)
        count = 0
        for path in files_of(packages):
            top, *below = path[1:].split("/")
            merged = "/usr" + path if top in MERGED else path
            is_folder = os.path.isdir(path) and not os.path.islink(path)
            if not os.path.lexists(path) or is_folder or (top in MERGED and not below):
                continue
            tar.add(path, merged[1:], recursive=False)
            count += 1
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
    parser.add_argument("programs", nargs="+", metavar="PROGRAM")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    layer = arguments.output.with_suffix(".layer")
    packages = needed_packages(arguments.programs)
    count = write_layer(layer, packages)
    write_image(arguments.output, layer)
    layer.unlink()
    size = arguments.output.stat().st_size / 2**20
    print(f"{arguments.output}: {len(packages)} packages, {count} files, {size:.0f} MiB")


if __name__ == "__main__":
    main()
