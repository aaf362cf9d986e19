#!/usr/bin/env python3
"""Reads every #include line of a source tree and reports what the layering table or a fence forbids.

Usage: check_includes.py ROOT [BUILD_FOLDER...]. Prints `file:line: why` for each finding; exits 1 when there is one.
Folders whose name begins with `build` or `.`, `bundle` and the given build folders are not read.
"""

import os
import re
import sys

# folder -> folders whose headers it may include, in addition to its own. The first row whose folder holds a file decides, so rows run from special to
# general. Rows name only rows of the layers below them.
BELOW_ENGINE = ["src/base", "src/chain", "src/normal", "src/model", "src/draw", "src/product", "src/attention", "src/collective", "src/stitch", "src/grouped", "src/four_bit", "src/mma", "src/reference", "src/plan",
                "src/standin", "src/fusion", "src/explain"]
TABLE = [
    ("include", []),
    ("src/base", []),
    ("src/device/ptx", []),
    ("src/device/ranks", ["src/device/ptx"]),
    ("src/device/tile", ["src/device/ptx"]),
    ("src/device/pipeline", ["src/device/ptx", "src/device/tile"]),
    ("src/device/handover", ["src/device/ptx", "src/device/tile", "src/device/pipeline"]),
    ("src/device/attention", ["src/device/ptx", "src/device/tile", "src/device/pipeline"]),
    ("src/device/kernels", ["src/device"]),
    ("src/device", ["src/device"]),
    ("runtime", ["src/base"]),
    ("cache", ["src/base"]),
    ("src/chain", ["src/base"]),
    ("src/normal", ["src/base", "src/chain"]),
    ("src/model", ["src/base"]),
    ("src/draw", ["src/base"]),
    ("src/stitch", ["src/base", "src/chain", "src/model"]),
    ("src/product", ["src/base", "src/chain", "src/model", "src/stitch"]),
    ("src/collective", ["src/base", "src/chain", "src/model", "src/product"]),
    ("src/grouped", ["src/base", "src/chain", "src/model", "src/product"]),
    ("src/four_bit", ["src/base", "src/chain", "src/model", "src/product"]),
    ("src/mma", ["src/base", "src/chain", "src/model", "src/product"]),
    ("src/attention", ["src/base", "src/chain", "src/normal", "src/model", "src/stitch", "src/product"]),
    ("src/reference", ["src/base", "src/chain", "src/product"]),
    ("src/plan/codegen.cc", ["src/base", "src/chain", "src/model", "src/product", "src/attention", "src/collective", "src/stitch", "src/grouped", "src/four_bit", "src/mma", "src/device"]),
    ("src/plan", ["src/base", "src/chain", "src/model", "src/product", "src/attention", "src/collective", "src/stitch", "src/grouped", "src/four_bit", "src/mma"]),
    ("src/standin/compiler.cc", ["src/device", "runtime/nvrtc"]),
    ("src/standin", ["src/base", "src/chain", "src/grouped", "src/model", "src/product", "src/stitch", "src/plan", "src/device/stitch"]),
    ("src/fusion", ["src/base", "src/chain", "src/model", "src/product", "src/attention", "src/collective", "src/stitch", "src/grouped", "src/four_bit", "src/mma", "src/plan", "src/standin"]),
    ("src/explain", ["src/base", "src/chain", "src/grouped", "src/model", "src/draw", "src/product", "src/stitch", "src/plan", "src/fusion"]),
    ("src/engine/wiring_cache.cc", BELOW_ENGINE + ["src/engine", "cache"]),
    ("src/engine/wiring.cc", BELOW_ENGINE + ["src/device", "src/engine", "runtime", "cache"]),
    ("src/engine", BELOW_ENGINE + ["src/device", "cache/record", "cache/store"]),
    ("src/capi", BELOW_ENGINE + ["src/engine", "include"]),
    ("src/cli", BELOW_ENGINE + ["src/engine", "src/capi", "include"]),
    ("bindings", ["include"]),
    ("examples", ["include"]),
    ("tests", ["include", "src", "runtime", "cache", "tests"]),
]

# What an include of the project looks like: a path from the root, or a public header.
PROJECT_FOLDERS = ("include/", "src/", "runtime/", "cache/", "bindings/", "examples/", "tests/")
PUBLIC_PREFIX = "sinter/"
# Headers of the device library name each other as the run-time compiler sees them: from src/device.
DEVICE_ROOT = "src/device/"
DEVICE_FOLDERS = ("ptx/", "tile/", "pipeline/", "handover/", "kernels/", "attention/", "ranks/")

# (what an include matches, folders that may, why)
INCLUDE_FENCES = [
    (re.compile(r"^(cuda|cuda_\w+|cudaTypedefs)\.h(pp)?$"), ("runtime/", "examples/", "tests/examples/", "tests/gpu/", "tests/bench/"),
     "CUDA headers belong in runtime/, examples/, tests/gpu/ and tests/bench/"),
    (re.compile(r"^(cublas\w*|cudnn\w*)\.h$"), ("tests/bench/",), "vendor libraries belong in tests/bench/"),
    (re.compile(r"^(cooperative_groups\b.*|cutlass/.*|cute/.*|cub/.*|cuda/.*)$"), (),
     "no toolkit or CUTLASS device header is used"),
    (re.compile(r"^nvrtc\.h$"), ("runtime/nvrtc/",), "<nvrtc.h> belongs in runtime/nvrtc/"),
    (re.compile(r"^leveldb/"), ("cache/store/", "tests/"), "leveldb/ belongs in cache/store/"),
]
# (what code matches, folders that may, why); strings and comments are not looked at.
CODE_FENCES = [
    (re.compile(r"\b(secure_)?getenv\b"), ("src/base/", "tests/", "bindings/"),
     "the environment is read in src/base/ alone"),
    (re.compile(r'\bextern\s+"C"'), ("src/capi/", "include/", "src/device/", "tests/", "bindings/"),
     'extern "C" definitions belong in src/capi/'),
    # Planning, which gives each kernel its ops, tells families apart.
    (re.compile(r"\bfamily\s*[!=]=\s*&\w+Family\("),
     ("src/fusion/assembly.cc", "src/fusion/fusion.cc", "tests/"),
     "ask the kernel's family, not which one it is: src/plan/family.h"),
    (re.compile(r"\bBodyAs<|\b(StitchOf|HasProducts)\(|\bProductOf\(.*\bspec\b"),
     ("src/plan/", "src/standin/", "src/explain/", "src/fusion/plan_choice.cc", "src/fusion/planner.cc", "src/engine/bound_plan.cc", "src/engine/cache_tools.cc",
      "src/engine/tune.cc", "tests/"),
     "ask the kernel's family, which knows the type of its body: src/plan/family.h"),
]

SUFFIXES = (".h", ".hpp", ".c", ".cc", ".cuh", ".cu", ".inc", ".in")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')
# A comment, a raw string, a string or a character. extern "C" keeps its string: it is matched first.
TOKEN = re.compile(
    r'(?P<keep>\bextern\s+"C")|//[^\n]*|/\*.*?\*/|R"(?P<d>[^()\s\\]{0,16})\(.*?\)(?P=d)"'
    r'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def without_comments_and_strings(text):
    """The text with both blanked, line numbers kept."""
    def blank(match):
        if match.group("keep"):
            return match.group(0)
        return re.sub(r"[^\n]", " ", match.group(0))
    return TOKEN.sub(blank, text)


def within(path, folder):
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def row_of(path):
    for folder, allowed in TABLE:
        if within(path, folder):
            return folder, allowed
    return None, []


def target_of(path, quoted, name):
    """The project path that an include names, or None when it is not of the project."""
    if name.startswith(PROJECT_FOLDERS):
        return name
    if name.startswith(PUBLIC_PREFIX):
        return "include/" + name
    if quoted and path.startswith(DEVICE_ROOT) and name.startswith(DEVICE_FOLDERS):
        return DEVICE_ROOT + name
    return None


def check_include(path, quoted, name):
    """Why `path` may not include `name`, or None."""
    for pattern, folders, why in INCLUDE_FENCES:
        if pattern.search(name) and not path.startswith(tuple(folders)):
            return "includes %s: %s" % (name, why)
    target = target_of(path, quoted, name)
    if target is None:
        return None
    if within(target, "tests") and not within(path, "tests"):
        return "includes %s: nothing includes tests" % name
    folder, allowed = row_of(path)
    if folder is None:
        return "is in no folder of the layering table"
    own = folder if not folder.endswith(".cc") else os.path.dirname(folder)
    if any(within(target, a) for a in [own] + allowed):
        return None
    return "includes %s: %s may include %s" % (name, folder, ", ".join(allowed) or "its own folder only")


def check_text(path, text):
    """(line, why) for each finding in one file."""
    findings = []
    code = without_comments_and_strings(text)
    original = text.split("\n")
    for number, line in enumerate(code.split("\n"), 1):
        # The name of a quoted include was blanked with the strings: read it from the original line.
        if re.match(r"^\s*#\s*include\b", line):
            match = INCLUDE.match(original[number - 1])
            why = match and check_include(path, match.group(1) == '"', match.group(2))
            if why:
                findings.append((number, why))
            continue
        for pattern, folders, why in CODE_FENCES:
            if pattern.search(line) and not path.startswith(folders):
                findings.append((number, why))
    return findings


def source_files(root, skipped):
    for folder, names, files in os.walk(root):
        names[:] = sorted(
            n for n in names
            if not n.startswith((".", "build")) and n != "bundle"
            and os.path.realpath(os.path.join(folder, n)) not in skipped)
        for name in sorted(files):
            if name.endswith(SUFFIXES):
                yield os.path.relpath(os.path.join(folder, name), root)


def check_tree(root, skipped=()):
    """All findings of a tree as `file:line: why`, and the number of files read."""
    findings, count = [], 0
    for path in source_files(root, {os.path.realpath(s) for s in skipped}):
        count += 1
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as source:
            text = source.read()
        findings += ["%s:%d: %s" % (path, line, why) for line, why in check_text(path, text)]
    return findings, count


def main(argv):
    if len(argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    findings, count = check_tree(argv[1], argv[2:])
    for finding in findings:
        print(finding)
    print("%d files, %d findings" % (count, len(findings)))
    if count == 0:
        print("no source file under %s" % argv[1], file=sys.stderr)
        return 1
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
