"""usage: make_image.py TARBALL IMAGE

Makes IMAGE, an OCI layout in a tar, from the tarball of a release: its programs, the libraries in lib/dlflow and their licences in /usr, plus
glibc and libstdc++ of this machine. The programs run in it with any container runtime, whatever the system's C library is. The same inputs
give the same bytes.
"""

import glob
import gzip
import hashlib
import io
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tarfile
import tempfile

# glibc opens these at run time to resolve host names.
OPENED = ("libresolv.so.2", "libnss_files.so.2", "libnss_dns.so.2")
WANTED = re.compile(r"[^/]+/((bin/dlflow|lib/dlflow/(libdlflow_mpi|.*\.so\.)|share/doc/dlflow/(LICENSE$|libraries/|dlflow\.spdx)).*)")


def add(archive, name, data, mode=0o644):
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    archive.addfile(entry, io.BytesIO(data))


def tar_of(files):
    """name -> (bytes, mode); folders include their content."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for folder in sorted({str(parent) for name in files for parent in list(pathlib.PurePosixPath(name).parents)[:-1]}):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        for name in sorted(files):
            add(archive, name, *files[name])
    return stream.getvalue()


def needed(data):
    """The libraries that a program or library requests from the loader."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        header = subprocess.run(["objdump", "-p", file.name], text=True, capture_output=True, check=True).stdout
    return re.findall(r"^ +NEEDED +(\S+)$", header, re.MULTILINE)


def add_system(files):
    """The libraries that the loader needs and the release lacks, except MPI, which the site provides."""
    loader, = glob.glob("/lib64/ld-linux*.so.*") or glob.glob("/lib/ld-linux*.so.*")
    files[loader[1:]] = (pathlib.Path(loader).read_bytes(), 0o755)
    known = {pathlib.PurePosixPath(name).name for name in files}
    wanted = [name for data, _ in list(files.values()) if data.startswith(b"\x7fELF") for name in needed(data)]
    wanted += OPENED
    while wanted:
        name = wanted.pop()
        if name in known or name.startswith("libmpi"):
            continue
        known.add(name)
        path = pathlib.Path(f"/lib/{platform.machine()}-linux-gnu", name)
        files[str(path)[1:]] = (path.read_bytes(), 0o644)
        wanted += needed(path.read_bytes())


def root(tarball):
    files = {}
    with tarfile.open(tarball) as release:
        for entry in release:
            if entry.isfile() and (wanted := WANTED.fullmatch(entry.name)):
                files["usr/" + wanted[1]] = (release.extractfile(entry).read(), entry.mode)
    add_system(files)
    return tar_of(files)


def descriptor(kind, data, **more):
    return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": "sha256:" + hashlib.sha256(data).hexdigest(), "size": len(data), **more}


def layout(layer, version):
    packed = gzip.compress(layer, mtime=0)
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    config = json.dumps({"architecture": machine, "os": "linux", "config": {"Env": ["PATH=/usr/bin"]},
                         "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]}}).encode()
    manifest = json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                           "config": descriptor("config.v1+json", config), "layers": [descriptor("layer.v1.tar+gzip", packed)]}).encode()
    named = descriptor("manifest.v1+json", manifest, annotations={"org.opencontainers.image.ref.name": version})
    index = json.dumps({"schemaVersion": 2, "manifests": [named]}).encode()
    blobs = {f"blobs/sha256/{hashlib.sha256(data).hexdigest()}": (data, 0o644) for data in (packed, config, manifest)}
    return {"oci-layout": (b'{"imageLayoutVersion": "1.0.0"}', 0o644), "index.json": (index, 0o644), **blobs}


def main(tarball, image):
    version = re.search(r"dlflow-([\d.]+)-", os.path.basename(tarball))[1]
    pathlib.Path(image).write_bytes(tar_of(layout(root(tarball), version)))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
