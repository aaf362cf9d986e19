#!/usr/bin/env python3
"""Reports figures of a chip in the code of the search and of the planner: they belong in the device model.

Usage: check_figures.py ROOT. Prints `file:line: why` for each finding; exits 1 when there is one.

Three things are looked for under FOLDERS, outside of comments and strings:
- a constant of a floating-point type,
- a floating-point number other than 0 and 1,
- a whole number above 128 that is an [architecture] figure of src/base/models/h200.model, 1024 excepted, which is
  many other things as well.
ALLOWED holds what is neither the chip's nor the cost model's, each with its reason. An entry that nothing needs is a
finding too.
"""

import os
import re
import sys

from check_includes import without_comments_and_strings

FOLDERS = ("src/model", "src/product", "src/stitch", "src/plan/description.cc", "src/plan/stitch_description.cc", "src/fusion", "src/explain/fusion.cc")
MODEL = "src/base/models/h200.model"
BYTES = "bytes of an element, or a factor of two that the formula has"

# (file, name or number): why it may stand there.
ALLOWED = {
    # What the search tries, and what it says of it.
    ("src/stitch/search/hand_load.cc", "kWorth"): "which values are tried, not what they cost",
    ("src/stitch/search/hand_load.cc", "kRepeated"): "which values are tried, not what they cost",
    ("src/stitch/search/hand_load.cc", "0.1"): "kWorth",
    ("src/stitch/search/hand_load.cc", "1.5"): "kRepeated",
    ("src/stitch/search/stitch_search.cc", "kMostBehind"): "which programs are tried",
    ("src/stitch/search/packed_search.cc", "kAsGood"): "a tie-break between sums that are nearly equal",
    ("src/stitch/search/packed_search.cc", "1.01"): "kAsGood",
    ("src/fusion/stitch/kernel_choice.cc", "kJoinedPartsShare"): "a tie-break between plans that are nearly equal",
    ("src/fusion/stitch/kernel_choice.cc", "1.06"): "kJoinedPartsShare",
    ("src/fusion/plan_choice.cc", "kWorthNaming"): "what a report names",
    ("src/fusion/plan_choice.cc", "0.25"): "kWorthNaming",
    ("src/fusion/plan_choice.cc", "kNothing"): "what prints as 0.01 us",
    ("src/fusion/plan_choice.cc", "0.005"): "kNothing",
    ("src/plan/description.cc", "kRounding"): "rounding errors",
    ("src/plan/description.cc", "1.001"): "kRounding",
    ("src/plan/stitch_description.cc", "kRounding"): "rounding errors",
    ("src/plan/stitch_description.cc", "1e-9"): "kRounding",
    ("src/fusion/stitch/remote_fusion.cc", "kLeastMoveGain"): "rounding errors of equal sums",
    ("src/fusion/stitch/remote_fusion.cc", "1e-6"): "kLeastMoveGain",
    ("src/fusion/stitch/remote_fusion.cc", "kLeastGain"): "rounding errors of equal sums",
    ("src/fusion/stitch/remote_fusion.cc", "1e-9"): "kLeastGain",
    ("src/fusion/stitch/kernel_choice.cc", "kSlow"): "which kernels are looked at again",
    ("src/fusion/stitch/kernel_choice.cc", "kSlowUs"): "which kernels are looked at again",
    ("src/fusion/stitch/kernel_choice.cc", "1.5"): "kSlow",
    ("src/fusion/stitch/kernel_choice.cc", "kShortTextShare"): "what a shorter text, compiled sooner, may cost",
    ("src/fusion/stitch/kernel_choice.cc", "1.1"): "kShortTextShare",
    ("src/fusion/stitch/evaluators.h", "kIllegal"): "below every score",
    ("src/fusion/stitch/evaluators.h", "1e30"): "kIllegal",
    ("src/stitch/search/stitch_load.cc", "1e9"): "stands for a symbolic dimension",
    ("src/stitch/search/stitch_cost_model.cc", "0.5"): "the mean of the last round's part",
    # The paper's counts.
    ("src/product/sequence.cc", "2.0"): BYTES,
    ("src/stitch/body_work.h", "kMostSteps"): "a bound of what planning may take",
    ("src/stitch/body_work.h", "1e12"): "kMostSteps",
    ("src/stitch/slots.cc", "kWorthTurning"): "which places are turned: part of a kernel's code, which knows no model",
    ("src/stitch/slots.cc", "1.5"): "kWorthTurning",
    ("src/stitch/code/keep_text.cc", "kDearIssue"): "what source keeps in registers: part of a kernel's code, which knows no model",
    ("src/stitch/code/keep_text.cc", "kSpecialIssue"): "the same",
    # Bytes.
    ("src/product/search/costs.cc", "2.0"): BYTES,
    ("src/product/search/costs.cc", "4.0"): BYTES,
    ("src/product/search/product_load.cc", "2.0"): BYTES,
}

FREE = {0.0, 1.0}
ARCHITECTURE = re.compile(r"^\w+ = ([\d.e+]+) \[architecture\]", re.M)
NUMBER = re.compile(r"(?<![\w.])(\d+\.\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)f?(?![\w.])")
WHOLE = re.compile(r"(?<![\w.])(\d+)(?![\w.])")
# `constexpr double kA = 1, kB = 2;` may go over several lines: names are read up to the semicolon.
CONSTANT = re.compile(r"\bconst(?:expr)?\s+(?:double|float)\b([^;]*);")
NAME = re.compile(r"\b(k[A-Z]\w*)\s*(?:\[[^\]]*\]\s*)?=")


def model_figures(text):
    """The whole numbers of a model file that are large enough to be distinctive."""
    values = {float(value) for value in ARCHITECTURE.findall(text)}
    return {int(value) for value in values if value == int(value) and value > 128 and value != 1024}


def figures_of(text, known):
    """(line, what, why) for each figure in one file."""
    code = without_comments_and_strings(text)
    found = []
    for match in CONSTANT.finditer(code):
        for name in NAME.finditer(match.group(1)):
            line = code.count("\n", 0, match.start(1) + name.start()) + 1
            found.append((line, name.group(1), "is a constant of a floating-point type"))
    for number, line in enumerate(code.split("\n"), 1):
        for match in NUMBER.finditer(line):
            if float(match.group(1)) not in FREE:
                found.append((number, match.group(1), "is a floating-point number"))
        for match in WHOLE.finditer(line):
            if int(match.group(1)) in known:
                found.append((number, match.group(1), "is a figure of %s" % MODEL))
    return found


def check_files(files, known, allowed):
    """Findings of (path, text) pairs as `file:line: why`."""
    findings, needed = [], set()
    for path, text in files:
        for line, what, why in figures_of(text, known):
            if (path, what) in allowed:
                needed.add((path, what))
                continue
            findings.append("%s:%d: %s %s: a figure of the chip is a field of DeviceModel, with its provenance in "
                            "src/base/models" % (path, line, what, why))
    for path, what in sorted(set(allowed) - needed):
        findings.append("%s: is allowed %s and has none" % (path, what))
    return findings


def sources(root):
    for top in FOLDERS:
        if top.endswith(".cc"):
            with open(os.path.join(root, top), encoding="utf-8") as source:
                yield top, source.read()
        for folder, names, files in os.walk(os.path.join(root, top)):
            names.sort()
            for name in sorted(files):
                if name.endswith((".cc", ".h")):
                    path = os.path.join(folder, name)
                    with open(path, encoding="utf-8") as source:
                        yield os.path.relpath(path, root), source.read()


def main(argv):
    if len(argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    with open(os.path.join(argv[1], MODEL), encoding="utf-8") as model:
        known = model_figures(model.read())
    files = list(sources(argv[1]))
    findings = check_files(files, known, ALLOWED)
    for finding in findings:
        print(finding)
    print("%d files, %d findings" % (len(files), len(findings)))
    return 1 if findings or not files or not known else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
