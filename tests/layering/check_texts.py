#!/usr/bin/env python3
"""Fails where the Python package or a plugin reads facts out of the library's English: errors have fields, a search has numbers.

A text of the library is the `str()` or an argument of a caught exception, `message`, `compile_log` and `note` of anything, what `explain()` and
`summary()` return, the stage that a progress callback gets, and a name that one of these was assigned to. Such a text may be shown, kept and passed on.
It may not be searched, split, sliced or compared.

Usage: check_texts.py ROOT. Prints `file:line: why` for each finding; exits 1 when there is one.
"""

import ast
import os
import sys

from check_imports import modules_of

# Files that may use regular expressions, and the texts of others that they read.
EXPRESSIONS = {
    "bindings/python/sinter/_nvrtc.py": "names of library files",
    "bindings/python/sinter/_shape.py": "strides, as the chain's JSON writes them",
    "bindings/python/sinter/torch/servers.py": "versions of servers",
}
ATTRIBUTES = {"message", "compile_log", "note"}
CALLS = {"explain", "summary"}
STAGES = {"stage"}
SEARCHES = {"find", "index", "rfind", "rindex", "count", "startswith", "endswith", "split", "rsplit", "splitlines", "partition", "rpartition",
            "removeprefix", "removesuffix", "replace", "__contains__", "match", "search", "fullmatch", "findall", "finditer"}


class Reader(ast.NodeVisitor):
    """The findings of one function or module; inner functions see the names of outer ones."""

    def __init__(self, names, caught):
        self.names, self.caught, self.found = set(names), set(caught), []

    def is_text(self, node):
        if isinstance(node, ast.Name):
            return node.id in self.names
        if isinstance(node, ast.Attribute):
            return node.attr in ATTRIBUTES
        if isinstance(node, ast.Subscript):  # error.args[0]
            return isinstance(node.value, ast.Attribute) and node.value.attr == "args" and self.is_error(node.value.value)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return node.func.id in ("str", "repr") and len(node.args) == 1 and self.is_error(node.args[0])
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return node.func.attr in CALLS or node.func.attr in ("lower", "strip") and self.is_text(node.func.value)
        return isinstance(node, ast.BoolOp) and any(self.is_text(value) for value in node.values)

    def is_error(self, node):
        return isinstance(node, ast.Name) and node.id in self.caught or isinstance(node, ast.Attribute) and node.attr == "error"

    def forbid(self, node, why):
        self.found.append((node.lineno, why))

    def visit_ExceptHandler(self, node):
        if node.name:
            self.caught.add(node.name)
        self.generic_visit(node)

    def visit_Assign(self, node):
        pairs = [(target, node.value) for target in node.targets]
        for target, value in list(pairs):
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs += zip(target.elts, value.elts)
        for target, value in pairs:
            if isinstance(target, ast.Name) and self.is_text(value):
                self.names.add(target.id)
        self.generic_visit(node)

    def visit_Compare(self, node):
        sides = [node.left, *node.comparators]
        shown = [side for side in sides if self.is_text(side)]
        empty = all(isinstance(side, ast.Constant) and side.value in (None, "") for side in sides if side not in shown)
        if shown and not empty and not all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
            self.forbid(node, "compares a text of the library")
        self.generic_visit(node)

    def visit_Subscript(self, node):
        if self.is_text(node.value):
            self.forbid(node, "slices a text of the library")
        self.generic_visit(node)

    def visit_Call(self, node):
        if isinstance(node.func, ast.Attribute) and node.func.attr in SEARCHES:
            if self.is_text(node.func.value) or any(map(self.is_text, node.args)):
                self.forbid(node, f"{node.func.attr}() reads a text of the library")
        self.generic_visit(node)

    def visit_FunctionDef(self, node):
        arguments = {each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
        errors = {each.arg for each in node.args.args if each.annotation is not None and ast.unparse(each.annotation) in ("Error", "'Error'")}
        inner = Reader((self.names - arguments) | (arguments & STAGES), self.caught | errors)
        for statement in node.body:
            inner.visit(statement)
        self.found += inner.found

    visit_AsyncFunctionDef = visit_FunctionDef


def readings_of(text, path):
    tree = ast.parse(text)
    reader = Reader((), ())
    reader.visit(tree)
    found = reader.found
    if path not in EXPRESSIONS:
        found += [(node.lineno, "imports re, which no file of EXPRESSIONS does") for node in ast.walk(tree)
                  if isinstance(node, ast.Import) and any(alias.name == "re" for alias in node.names)
                  or isinstance(node, ast.ImportFrom) and node.module == "re"]
    return sorted(set(found))


def main(root):
    found = []
    for _, path, _ in modules_of(root):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            found += [(path, line, why) for line, why in readings_of(file.read(), path)]
    for path, line, why in found:
        print("%s:%d: %s: ask for error.op, .field, .value and .bound, or context.search()" % (path, line, why))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
