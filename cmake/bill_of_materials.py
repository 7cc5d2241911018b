"""usage: bill_of_materials.py FILE VERSION PART...

Writes FILE, an SPDX 2.3 document of dlflow and the libraries that are part of it. A PART is a Debian package whose archives or headers are
included, or a shared library installed beside the programs. The same parts always give the same bytes.
"""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time


def version_of(package):
    """A Debian package with its version from dpkg; without a version if dpkg is missing."""
    try:
        return subprocess.run(["dpkg-query", "-W", "-f=${Version}", package], text=True, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""


def entry(name, version, licence):
    about = {"SPDXID": "SPDXRef-" + re.sub("[^A-Za-z0-9.-]", "-", name), "name": name, "downloadLocation": "NOASSERTION",
             "filesAnalyzed": False, "licenseConcluded": licence, "licenseDeclared": licence, "copyrightText": "NOASSERTION"}
    return {**about, "versionInfo": version} if version else about


def part_of(word):
    path = pathlib.Path(word)
    part = {**entry(path.name, "" if path.is_absolute() else version_of(word), "NOASSERTION"), "comment": f"Its licence is in libraries/{path.name}."}
    if path.is_absolute():
        part["checksums"] = [{"algorithm": "SHA256", "checksumValue": hashlib.sha256(path.read_bytes()).hexdigest()}]
    return part


def document(version, words):
    own = entry("dlflow", version, "Apache-2.0")
    parts = [part_of(word) for word in words]
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", 0))))
    parents = [("SPDXRef-DOCUMENT", "DESCRIBES", own)] + [("SPDXRef-dlflow", "CONTAINS", part) for part in parts]
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"dlflow-{version}",
            "documentNamespace": f"https://spdx.org/spdxdocs/dlflow-{version}",
            "creationInfo": {"created": created, "creators": ["Organization: The dlflow authors"]}, "packages": [own, *parts],
            "relationships": [{"spdxElementId": parent, "relationshipType": kind, "relatedSpdxElement": part["SPDXID"]}
                              for parent, kind, part in parents]}


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    pathlib.Path(sys.argv[1]).write_text(json.dumps(document(sys.argv[2], sys.argv[3:]), indent=1) + "\n", encoding="utf-8")
