"""usage: bill_of_materials.py FILE VERSION PACKAGE...

Writes FILE, an SPDX 2.3 document of dlflow and of the libraries that are part of it, which are those of Debian's PACKAGEs.
The same packages make the same bytes, whenever that is.
"""

import json
import os
import re
import subprocess
import sys
import time


def version_of(package):
    """As dpkg has it; of no version where there is no dpkg."""
    try:
        return subprocess.run(["dpkg-query", "-W", "-f=${Version}", package], text=True, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""


def entry(name, version, licence):
    about = {"SPDXID": "SPDXRef-" + re.sub("[^A-Za-z0-9.-]", "-", name), "name": name, "downloadLocation": "NOASSERTION",
             "filesAnalyzed": False, "licenseConcluded": licence, "licenseDeclared": licence, "copyrightText": "NOASSERTION"}
    return {**about, "versionInfo": version} if version else about


def document(version, packages):
    own = entry("dlflow", version, "Apache-2.0")
    parts = [{**entry(name, version_of(name), "NOASSERTION"), "comment": f"Its licence is in libraries/{name}."} for name in packages]
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", 0))))
    parents = [("SPDXRef-DOCUMENT", "DESCRIBES", own)] + [("SPDXRef-dlflow", "CONTAINS", part) for part in parts]
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"dlflow-{version}",
            "comment": "The shared libraries in lib/dlflow of the tarball are not listed.",
            "documentNamespace": f"https://spdx.org/spdxdocs/dlflow-{version}",
            "creationInfo": {"created": created, "creators": ["Organization: The dlflow authors"]}, "packages": [own, *parts],
            "relationships": [{"spdxElementId": parent, "relationshipType": kind, "relatedSpdxElement": part["SPDXID"]}
                              for parent, kind, part in parents]}


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    with open(sys.argv[1], "w", encoding="utf-8") as bill:
        json.dump(document(sys.argv[2], sys.argv[3:]), bill, indent=1)
