"""Images for tests, made without a registry: from busybox, or from files of this machine's Debian packages."""

import gzip
import hashlib
import io
import json
import os
import pathlib
import tarfile

BUSYBOX = pathlib.Path("/bin/busybox")
APPLETS = "sh cat cp echo env false grep head id kill ls mkdir mv printf ps pwd rm sed seq sleep tail test touch true wc".split()


def file(name, content=b"", mode=0o644):
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), mode
    return info, io.BytesIO(content)


def link(name, target, kind=tarfile.SYMTYPE):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info, None


def folder(name, mode=0o755):
    info = tarfile.TarInfo(name)
    info.type, info.mode = tarfile.DIRTYPE, mode
    return info, None


def layer(*entries):
    """The bytes of a layer."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for info, content in entries:
            tar.addfile(info, content)
    return buffer.getvalue()


def busybox_layer(*further):
    """A system of one static program: 2 MB."""
    entries = [folder("bin"), folder("etc"), file("bin/busybox", BUSYBOX.read_bytes(), 0o755),
               file("etc/image-name", b"busybox\n")]
    return layer(*entries, *(link(f"bin/{name}", "busybox") for name in APPLETS), *further)


def config(layers, env):
    return json.dumps({"architecture": "amd64", "os": "linux", "config": {"Env": env},
                       "rootfs": {"type": "layers", "diff_ids": [digest(data) for data in layers]}}).encode()


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def docker_archive(path, layers, env=("PATH=/bin",)):
    """What `docker save` writes; the path."""
    settings = config(layers, list(env))
    with tarfile.open(path, "w") as tar:
        for number, data in enumerate(layers):
            tar.addfile(*file(f"{number}/layer.tar", data))
        tar.addfile(*file("config.json", settings))
        manifest = [{"Config": "config.json", "RepoTags": ["test:1"],
                     "Layers": [f"{number}/layer.tar" for number in range(len(layers))]}]
        tar.addfile(*file("manifest.json", json.dumps(manifest).encode()))
    return path


def oci_blobs(layers, env=("PATH=/bin",)):
    """The digest of the manifest, and digest -> bytes of all parts. Layers are packed."""
    packed = [gzip.compress(data, 1, mtime=0) for data in layers]
    settings = config(layers, list(env))
    parts = {digest(data): data for data in [*packed, settings]}
    manifest = json.dumps({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": digest(settings),
                   "size": len(settings)},
        "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": digest(data), "size": len(data)}
                   for data in packed]}).encode()
    parts[digest(manifest)] = manifest
    return digest(manifest), parts


def oci_layout(path, layers, env=("PATH=/bin",)):
    """An OCI layout in the folder `path`; the digest of its manifest."""
    manifest, parts = oci_blobs(layers, env)
    blobs = path / "blobs/sha256"
    blobs.mkdir(parents=True)
    for name, data in parts.items():
        (blobs / name[7:]).write_bytes(data)
    (path / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (path / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [
        {"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": manifest, "size": len(parts[manifest]),
         "platform": {"architecture": "amd64", "os": "linux"}}]}))
    return manifest


def rootfs(path, data):
    """The root file system of one layer, as a folder."""
    path.mkdir()
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        tar.extractall(path)
    return path
