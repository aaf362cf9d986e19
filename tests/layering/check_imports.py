#!/usr/bin/env python3
"""Reads every import of the Python package and of the servers' plugins, and reports what the table forbids.

Usage: check_imports.py ROOT. Prints `file:line: why` for each finding; exits 1 when there is one.
"""

import ast
import os
import sys

PACKAGE = "bindings/python"
# A module or package -> those of sinter that it may import, in addition to its own. The first row that holds a module decides, so rows run from
# special to general.
CONVERT, RUNTIME, PARTITION, GRAPH, GATE, SERVE = ("sinter.torch." + name for name in ("convert", "runtime", "partition", "graph", "gate", "serve"))
TABLE = [
    (CONVERT, ["sinter"]),
    (RUNTIME, ["sinter"]),
    (PARTITION, ["sinter", CONVERT]),
    (GRAPH, ["sinter", CONVERT, RUNTIME]),
    (GATE, ["sinter", CONVERT, RUNTIME, PARTITION, GRAPH]),
    ("sinter.torch.backend", ["sinter", CONVERT, RUNTIME, PARTITION, GRAPH, GATE]),
    (SERVE, ["sinter", RUNTIME]),
    ("sinter.torch", ["sinter", "sinter.torch"]),
    ("sinter", ["sinter"]),
    ("sinter_vllm", ["sinter", "sinter.torch.servers"]),
    ("sinter_sglang", ["sinter", "sinter.torch.servers"]),
]


def within(module, of):
    """Whether a module is `of` or lies in it. What `sinter` holds is all but `sinter.torch`, which rows name by itself."""
    if of == "sinter" and within(module, "sinter.torch"):
        return False
    return module == of or module.startswith(of + ".")


def modules_of(root):
    """(module, path from `root`, whether it is a package) of each source file."""
    homes = [PACKAGE]
    plugins = os.path.join(root, PACKAGE, "plugins")
    if os.path.isdir(plugins):
        homes += [os.path.join(PACKAGE, "plugins", name) for name in sorted(os.listdir(plugins))]
    for home in homes:
        for folder, names, files in os.walk(os.path.join(root, home)):
            names[:] = sorted(name for name in names if name not in ("plugins", "build", "__pycache__"))
            for file in sorted(files):
                path = os.path.relpath(os.path.join(folder, file), root)
                parts = os.path.relpath(os.path.join(folder, file[:-3]), os.path.join(root, home)).split(os.sep)
                if file.endswith(".py") and parts[0].startswith("sinter"):
                    package = parts[-1] == "__init__"
                    yield ".".join(parts[:-1] if package else parts), path, package


def imports_of(text, module, package, known):
    """(line, imported module) of each import, those inside functions too."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            parts = module.split(".") if package else module.split(".")[:-1]
            base = parts[: len(parts) - node.level + 1] if node.level else []
            target = ".".join(base + (node.module.split(".") if node.module else []))
            for alias in node.names:
                named = target + "." + alias.name
                yield node.lineno, named if named in known else target


def allowed_of(module):
    for row, allowed in TABLE:
        if within(module, row):
            return [row] + allowed
    return []


def check_tree(root):
    """All findings of a tree as `file:line: why`, and the number of files read."""
    findings, modules = [], list(modules_of(root))
    known = {module for module, _, _ in modules}
    homes = {module.split(".")[0] for module in known}
    for module, path, package in modules:
        with open(os.path.join(root, path), encoding="utf-8") as source:
            text = source.read()
        allowed = allowed_of(module)
        for line, target in imports_of(text, module, package, known):
            ours = target.split(".")[0] in homes
            if ours and target not in known:
                findings.append("%s:%d: imports %s, which does not exist" % (path, line, target))
            elif ours and not within(target, module) and not any(within(target, name) for name in allowed):
                findings.append("%s:%d: imports %s: %s may import %s" % (path, line, target, module, ", ".join(allowed[1:]) or "nothing of sinter"))
    return findings, len(modules)


def main(argv):
    if len(argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    findings, count = check_tree(argv[1])
    for finding in findings:
        print(finding)
    print("%d files, %d findings" % (count, len(findings)))
    if count == 0:
        print("no Python file under %s" % os.path.join(argv[1], PACKAGE), file=sys.stderr)
    return 1 if findings or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
