#!/usr/bin/env python3
"""Runs every line that the pages print for a first evening, as a reader would type it.

Usage: walk.py ROOT BUILD WORK C_COMPILER CXX_COMPILER. Each page has a folder of its own below WORK, in which its blocks are run one after
another; exports of shell blocks hold for those behind. Prints a line a block, and what is not run; exits 1 when something failed, 77 where
no kernel can be compiled.

A block of code says its language: sh, console (commands behind `$ `, then lines that their output has, whatever the numbers), python, c,
cpp, go, rust, toml, or text, which is no code. `<!-- not run: REASON -->` in the line above is not seen by readers, and names one of REASONS.
Such lines are counted, and Python among them is checked for names that the package does not have.
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys

PAGES = ("README.md", "docs/serving.md", "docs/vllm.md", "docs/own-server.md", "docs/attention.md", "docs/experts.md", "docs/eight-bit.md",
         "docs/four-bit.md", "docs/tokens.md", "docs/training.md", "docs/troubleshooting.md", "examples/README.md", "bindings/README.md",
         "bindings/cpp/README.md", "bindings/go/README.md", "bindings/python/README.md", "bindings/rust/sinter/README.md")
REASONS = {
    "gpu": "needs a GPU",
    "builds": "builds for minutes; what runs this test is such a build",
    "package": "needs a package that ./dev wheel or ./dev package made, or a server beside it",
    "torch": "needs torch, where it is not installed",
}
# Lines that no run on a machine without a GPU, torch and packages reaches. A new one needs a reason, and its number here.
MOST_NOT_RUN = 64
# Tests that compile the blocks of a language as they are printed.
COMPILED_BY = {"go": ("tests/bindings/go.cmake", "README.md go "), "rust": ("bindings/rust/sinter/src/lib.rs", "include_str!(\"../README.md\")")}
LANGUAGES = ("sh", "console", "python", "c", "cpp", "go", "rust", "text")
# What pages assume to be there: a model's config, and names of folders that a reader replaces.
CONFIG = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5,
          "torch_dtype": "bfloat16"}


class Block:
    def __init__(self, page, line, language, lines, reason):
        self.page, self.line, self.language, self.lines, self.reason = page, line, language, lines, reason
        self.text = "\n".join(lines) + "\n"

    def __str__(self):
        return f"{self.page}:{self.line}"

    def count(self):
        """Lines that are code."""
        return len([line for line in self.lines if line.strip() and not line.strip().startswith("#")])


def blocks_of(page, text):
    """The fenced blocks of a page."""
    found, lines, at = [], text.splitlines(), 0
    while at < len(lines):
        head = re.fullmatch(r"```(\w*)", lines[at])
        if head:
            end = lines.index("```", at + 1)
            mark = re.fullmatch(r"<!-- not run: (\w+) -->", lines[at - 1]) if at else None
            found.append(Block(page, at + 1, head[1], lines[at + 1:end], mark and mark[1]))
            at = end
        at += 1
    return found


def wrong_marks(text, blocks):
    """Marks that belong to no block, or that nobody knows."""
    marks = re.findall(r"<!-- not run: .*? -->", text)
    wrong = [f"{block}: '{block.reason}' is no reason of {', '.join(REASONS)}" for block in blocks if block.reason not in (None, *REASONS)]
    wrong += [f"{block}: its language is '{block.language}', not one of {', '.join(LANGUAGES)}" for block in blocks
              if block.language not in LANGUAGES]
    if len(marks) != len([block for block in blocks if block.reason]):
        wrong.append(f"{blocks[0].page if blocks else 'page'}: a mark 'not run' is not in the line above a block")
    return wrong


def plain(text):
    """Text without its numbers, except 0.0: a second run, which finds its plan in the cache, searches for 0.0 ms."""
    return re.sub(r"\d[\d.,]*", lambda number: number[0] if number[0] == "0.0" else "#", text).strip()


# What variables are called in the pages' Python, and what they are.
OWNERS = {"sinter": "sinter", "context": "sinter.Context", "plan": "sinter.Plan", "slot": "sinter.Slot", "binding": "sinter.Binding"}


def taken_names(text):
    """Names that Python takes from the package, such as sinter.Plan.bind; names of sinter.torch need torch."""
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)]
    return sorted({f"{OWNERS[node.value.id]}.{node.attr}" for node in found if node.value.id in OWNERS} - {"sinter.torch"})


class Walker:
    def __init__(self, root, build, work, c_compiler, cxx_compiler):
        self.root, self.build, self.work = (os.path.abspath(path) for path in (root, build, work))
        self.compilers = {"c": [c_compiler, "-std=c99"], "cpp": [cxx_compiler, "-std=c++17", "-x", "c++"]}
        self.prefix = os.path.join(self.work, "prefix")
        self.wrong, self.not_run = [], []

    def environment(self):
        return {**os.environ, "PATH": os.path.join(self.build, "bin") + os.pathsep + os.environ["PATH"],
                "PYTHONPATH": os.path.join(self.root, "bindings", "python"), "CC": self.compilers["c"][0],
                "LIBSINTER_PATH": os.path.join(self.build, "lib", "libsinter.so.0"), "SINTER_CACHE_DIR": os.path.join(self.folder, "cache")}

    def walk(self, page):
        with open(os.path.join(self.root, page), encoding="utf-8") as file:
            text = file.read()
        blocks = blocks_of(page, text)
        self.wrong += wrong_marks(text, blocks)
        self.make_folder(page, blocks)
        self.exports = []
        for block in blocks:
            if block.reason:
                if "./dev demo" in block.text:
                    self.say(block, self.run(*self.demo_command())[0])
                self.not_run.append(block)
                self.check_names(block)
            elif block.language in LANGUAGES and block.language != "text":
                failure = getattr(self, "do_" + block.language)(block)
                if not block.reason:
                    self.say(block, failure)

    def make_folder(self, page, blocks):
        """What a reader has in front of them: the checkout, the program that the page prints, a model's config."""
        self.folder = os.path.join(self.work, re.sub(r"\W", "-", page))
        os.makedirs(self.folder)
        for name in ("bindings", "dev", "examples", "tests"):
            os.symlink(os.path.join(self.root, name), os.path.join(self.folder, name))
        os.symlink(self.build, os.path.join(self.folder, "build"))
        self.write("config.json", json.dumps(CONFIG))
        for block in blocks:
            if block.language == "c":
                self.write("app.c", block.text)

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def say(self, block, failure):
        print(f"{block}: {block.language}, {block.count()} lines: {'failed' if failure else 'fine'}")
        if failure:
            self.wrong.append(f"{block}: {failure}")

    def run(self, *command, allowed=(0,)):
        """"" or why a command failed, and its output."""
        done = subprocess.run(command, cwd=self.folder, env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False, timeout=240, stdin=subprocess.DEVNULL)
        failure = "" if done.returncode in allowed else f"ended with {done.returncode}:\n{done.stdout[-3000:]}"
        return failure, done.stdout

    def shell(self, text, allowed=(0,)):
        text = text.replace("/opt/sinter", self.prefix)
        return self.run("bash", "-eu", "-o", "pipefail", "-c", "\n".join([*self.exports, text]), allowed=allowed)

    def do_sh(self, block):
        # 77: a program that wants a GPU to launch on, and says so.
        failure, _ = self.shell(block.text, allowed=(0, 77))
        self.exports += [line.replace("/opt/sinter", self.prefix) for line in block.lines if line.startswith(("export ", ". "))]
        return failure

    def do_console(self, block):
        expected = []
        for line in [*block.lines, "$ true"]:
            if not line.startswith("$ "):
                expected.append(plain(line))
                continue
            if expected:
                failure, output = self.shell(command)
                lines = [plain(shown) for shown in output.splitlines()]
                missing = [want for want in expected if want not in lines]
                if failure or missing:
                    return failure or f"'{command}' does not print '{missing[0]}' but\n{output}"
            command, expected = line[2:], []
        return ""

    def do_python(self, block):
        if re.search(r"^(import|from) (torch|sinter\.torch)\b", block.text, re.M) and self.run(sys.executable, "-c", "import torch")[0]:
            block.reason = "torch"
            self.not_run.append(block)
            self.check_names(block)
            return ""
        return self.run(sys.executable, "-B", "-c", block.text)[0]

    def check_names(self, block):
        """Python that is not run: it parses, and what it takes from the package is there."""
        if block.language != "python":
            return
        try:
            names = taken_names(block.text)
        except SyntaxError as error:
            self.wrong.append(f"{block}: {error}")
            return
        check = "import sinter, sys; sys.exit(', '.join(n for n in sys.argv[1:] if not eval('hasattr(%s, %r)' % tuple(n.rsplit('.', 1)))) or 0)"
        failure, output = self.run(sys.executable, "-B", "-c", check, *names)
        if failure:
            self.wrong.append(f"{block}: there is no {output.strip()}")

    def do_c(self, block):
        return self.compiled(block)

    def do_cpp(self, block):
        return self.compiled(block)

    def compiled(self, block):
        self.write("block", block.text)
        language = {"c": ["-x", "c"], "cpp": []}[block.language]
        return self.run(*self.compilers[block.language], *language, "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                        "-I", os.path.join(self.root, "include"), "block")[0]

    def do_go(self, block):
        return self.compiled_elsewhere(block)

    def do_rust(self, block):
        return self.compiled_elsewhere(block)

    def compiled_elsewhere(self, block):
        path, words = COMPILED_BY[block.language]
        with open(os.path.join(self.root, path), encoding="utf-8") as file:
            return "" if words in file.read() else f"{path} does not have it compiled"

    def demo_command(self):
        """The words of the command that ./dev demo runs last; its build is what runs this test."""
        with open(os.path.join(self.root, "dev"), encoding="utf-8") as file:
            body = re.search(r"^verb_demo\(\) \{\n(.*?)^\}", file.read(), re.S | re.M)[1]
        problems = re.search(r"problems=(\S+)", body)[1]
        shown = re.search(r"printf '\$ (sinter .*?)\\n' \$problems", body)
        run = re.search(r'"\$build/bin/sinter" (.*)', body)
        command = shown[1].replace("%s", problems) if shown else ""
        if not run or f"sinter {run[1]}".replace("$problems", problems) != command:
            self.wrong.append("dev: verb_demo does not run the command that it shows")
        return command.split()

    def check_demo(self):
        """README.md shows the command of ./dev demo, whose plan its next run finds."""
        command = " ".join(self.demo_command())
        with open(os.path.join(self.root, "README.md"), encoding="utf-8") as file:
            if f"$ {command}\n" not in file.read():
                self.wrong.append(f"README.md and ./dev demo differ: the demo runs '{command}'")


def compiler_is_there(walker):
    walker.folder = walker.work
    return not walker.run("sinter", "run", "rmsnorm rows=M cols=64 dtype=bf16", "-m", "1", "--target", "h200", "--cache-dir", "",
                          allowed=(0, 1, 2))[0]


def main():
    walker = Walker(*sys.argv[1:])
    shutil.rmtree(walker.work, ignore_errors=True)
    os.makedirs(walker.work)
    if not compiler_is_there(walker):
        print("there is no NVRTC")
        return 77
    for page in PAGES:
        walker.walk(page)
    walker.check_demo()
    print("\nnot run:")
    for block in walker.not_run:
        print(f"{block}: {block.count()} lines of {block.language}: {REASONS.get(block.reason, block.reason)}")
    lines = sum(block.count() for block in walker.not_run)
    print(f"{lines} lines, at most {MOST_NOT_RUN}")
    if lines > MOST_NOT_RUN:
        walker.wrong.append(f"{lines} lines are not run, more than {MOST_NOT_RUN}")
    print("\n".join(walker.wrong))
    shutil.rmtree(walker.work, ignore_errors=True)
    return 1 if walker.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
