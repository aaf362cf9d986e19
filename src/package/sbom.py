#!/usr/bin/env python3
"""Writes the bill of materials of a build, CycloneDX 1.6: what libsinter.so and the command are linked from and compiled with.

Usage: sbom.py BUILD OUTPUT COMMIT. SOURCE_DATE_EPOCH is its time. Libraries come from the link commands that ninja
ran, headers from the dependencies that it recorded; the Debian packages that own these files are the components, with the notices
that come with them. Equal builds give equal bytes.
"""

import datetime
import json
import os
import re
import shlex
import subprocess
import sys
import uuid

# Only in the static build: position-independent, from Debian's source package (./dev build --self-contained).
BUILT_ABSEIL = "/deps/abseil/"


def output(*command, folder=None):
    return subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True).stdout


def programs(build):
    """The shipped parts."""
    with open(os.path.join(build, "CMakeCache.txt"), encoding="utf-8") as file:
        version = re.search(r"^CMAKE_PROJECT_VERSION:STATIC=(.*)$", file.read(), re.M)[1]
    return version, (f"lib/libsinter.so.{version}", "bin/sinter")


def linked_files(build):
    """Shared libraries that the programs ask for, and archives outside of the build that were put into them."""
    files = {}
    for target in programs(build)[1]:
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", os.path.join(build, target)))
        link = shlex.split(output("ninja", "-C", build, "-t", "commands", "-s", target).strip().splitlines()[-1])
        archives = [os.path.join(build, word) for word in link if word.endswith(".a")]
        archives = [path for path in archives if not path.startswith(build + "/") or BUILT_ABSEIL in path]
        if "-static-libstdc++" in link:
            archives.append("libstdc++.a")
        for how, names in (("shared", needed), ("static", archives)):
            files.update({os.path.realpath(output("c++", f"-print-file-name={name}").strip()): how for name in names})
    return {path: how for path, how in files.items() if not os.path.basename(path).startswith("libsinter")}


def headers(build):
    """Headers of the system that the compilations of the programs read."""
    inputs = set(output("ninja", "-C", build, "-t", "inputs", *programs(build)[1]).splitlines())
    found = set()
    for block in output("ninja", "-C", build, "-t", "deps").split("\n\n"):
        if block.partition(":")[0] in inputs:
            found.update(re.findall(r"^    (/usr/\S+)$", block, re.M))
    return {os.path.realpath(path): "headers" for path in found}


def owners(files):
    """(package, version, source): how it is used, of all files that Debian packages own."""
    # A package names its files as they were before /lib became a link to /usr/lib.
    files = {**files, **{path[4:]: how for path, how in files.items() if path.startswith("/usr/lib/")}}
    paths = sorted(files)
    shown = subprocess.run(["dpkg-query", "-S", *paths], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout
    uses = {}
    for line in shown.splitlines():
        package, _, path = line.partition(": ")
        uses.setdefault(package.split(",")[0], set()).add(files[path])
    for path, use in files.items():
        if BUILT_ABSEIL in path:
            uses.setdefault("libabsl-dev", set()).add(use)
    result = {}
    for package, use in uses.items():
        fields = output("dpkg-query", "-W", "-f", "${Package}\t${Version}\t${source:Package}", package).split("\t")
        result[tuple(fields)] = min(use, key=("static", "shared", "headers").index)
    return result


def parts_of(build):
    """(package, version, source): "static", "shared" or "headers", of a build."""
    return dict(sorted(owners({**headers(build), **linked_files(build)}).items()))


def notice(package):
    """The copyright notices and licences of a package."""
    with open(f"/usr/share/doc/{package}/copyright", encoding="utf-8") as file:
        return file.read()


def licence(package, use):
    """Of CycloneDX: the short names that Debian gives, and the notices themselves of the parts in the programs."""
    text = notice(package)
    found = {"name": "; ".join(sorted(set(re.findall(r"^License: *(\S.*?) *$", text, re.M)))) or "as its text says"}
    if use != "shared":
        found["text"] = {"contentType": "text/plain", "content": text}
    return {"license": found}


def component(package, version, source, use):
    return {"type": "library", "bom-ref": f"{package}@{version}", "name": package, "version": version, "licenses": [licence(package, use)],
            "purl": f"pkg:deb/debian/{package}@{version}?arch=amd64&distro=debian-12",
            "properties": [{"name": "sinter:linked", "value": use}, {"name": "sinter:source", "value": source}]}


def main():
    build, target, commit = sys.argv[1:]
    build = os.path.realpath(build)
    version, _ = programs(build)
    parts = [component(*fields, use) for fields, use in parts_of(build).items()]
    own = {"type": "library", "bom-ref": f"sinter@{version}", "name": "sinter", "version": version,
           "licenses": [{"license": {"id": "Apache-2.0"}}], "properties": [{"name": "sinter:commit", "value": commit}]}
    time = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), datetime.timezone.utc)
    bill = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
            "metadata": {"timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"), "component": own}, "components": parts,
            "dependencies": [{"ref": own["bom-ref"], "dependsOn": [part["bom-ref"] for part in parts]}]}
    bill["serialNumber"] = "urn:uuid:" + str(uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(bill, sort_keys=True)))
    with open(target, "w", encoding="utf-8") as file:
        json.dump(bill, file, indent=2)
        file.write("\n")


if __name__ == "__main__":
    main()
