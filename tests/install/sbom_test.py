#!/usr/bin/env python3
"""The bill of materials of this build: well formed, lists what was linked, has the same bytes again. Usage: sbom_test.py SBOM BUILD WORK"""

import json
import os
import re
import shutil
import subprocess
import sys

SBOM, BUILD, WORK = sys.argv[1:]


def bill_of(path):
    subprocess.run([sys.executable, "-B", SBOM, BUILD, path, "c0ffee"], check=True, env=dict(os.environ, SOURCE_DATE_EPOCH="86400"))
    with open(path, encoding="utf-8") as file:
        return file.read()


def main():
    if not shutil.which("dpkg-query") or not os.path.exists(os.path.join(BUILD, "build.ninja")):
        print("needs ninja's records and Debian's packages")
        return 77
    os.makedirs(WORK, exist_ok=True)
    text = bill_of(os.path.join(WORK, "first.json"))
    assert text == bill_of(os.path.join(WORK, "second.json")), "two bills of one build differ"
    bill = json.loads(text)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", bill["serialNumber"]), bill["serialNumber"]
    assert bill["metadata"]["timestamp"] == "1970-01-02T00:00:00Z"
    linked = {part["name"]: part["properties"][0]["value"] for part in bill["components"]}
    assert len(linked) == len(bill["components"]) and all(part["version"] for part in bill["components"])
    texts = {part["name"]: part["licenses"][0]["license"] for part in bill["components"]}
    assert all(license["name"] for license in texts.values())
    assert {name for name, license in texts.items() if "text" in license} == {name for name, how in linked.items() if how != "shared"}
    assert "Permission is hereby granted" in texts["nlohmann-json3-dev"]["text"]["content"]
    assert not any(name.startswith(("libgtest", "libgmock", "libbenchmark")) for name in linked), "of the tests, not of the programs"
    assert bill["dependencies"][0]["dependsOn"] == [part["bom-ref"] for part in bill["components"]]
    for name, how in (("libleveldb", "shared"), ("libssl", "shared"), ("libc6", "shared"), ("libstdc++6", "shared"),
                      ("nlohmann-json3-dev", "headers"), ("libcli11-dev", "headers")):
        assert any(part.startswith(name) and linked[part] == how for part in linked), f"{name} is not {how}: {linked}"
    needed = subprocess.run(["readelf", "-d", os.path.join(BUILD, "lib", "libsinter.so")], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert "libsnappy" in needed or not any(part.startswith("libsnappy") for part in linked), "offered, not used"
    print(", ".join(sorted(linked)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
