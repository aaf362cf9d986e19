#!/usr/bin/env python3
"""The man page and the completions name every command and option, and shells take them.

Usage: shell_files_test.py SINTER SHARE
"""

import gzip
import os
import re
import shutil
import subprocess
import sys
import unittest

SINTER, SHARE = sys.argv[1:3]
del sys.argv[1:3]
MAN = os.path.join(SHARE, "man/man1/sinter.1.gz")
BASH = os.path.join(SHARE, "bash-completion/completions/sinter")
ZSH = os.path.join(SHARE, "zsh/vendor-completions/_sinter")
FISH = os.path.join(SHARE, "fish/vendor_completions.d/sinter.fish")


def text_of(path):
    with open(path, "rb") as file:
        raw = file.read()
    return (gzip.decompress(raw) if path.endswith(".gz") else raw).decode()


def run(*command, **kwargs):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **kwargs)
    if done.returncode != 0:
        raise AssertionError(done.stdout)
    return done.stdout


def verbs(path=()):
    """Every command with its options, outermost first."""
    shown = run(SINTER, *path, "--help")
    yield path, re.findall(r"^  (?:-\w,)?(--[a-z-]+)", shown, re.M)
    for name in re.findall(r"^  ([a-z]+)  ", shown.partition("Subcommands:\n")[2].partition("\n\n")[0], re.M):
        yield from verbs((*path, name))


class ShellFiles(unittest.TestCase):
    def setUp(self):
        self.verbs = dict(verbs())
        self.assertGreater(len(self.verbs), 15)

    def complete(self, *words):
        """What bash offers for the last word."""
        script = f'source "{BASH}"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _sinter; echo "${{COMPREPLY[@]}}"'
        return run("bash", "-c", script, "bash", "sinter", *words).split()

    def test_the_man_page_has_every_command_and_option(self):
        page = text_of(MAN).replace("\\-", "-")
        for path, options in self.verbs.items():
            head = f".SS \"{' '.join(('sinter', *path))}\"\n" if path else ".SH OPTIONS\n"
            self.assertIn(head, page)
            section = re.split(r"^\.S[SH] ", page.partition(head)[2], flags=re.M)[0]
            for option in options:
                self.assertRegex(section, r"(?m)^\\fB(-\w, )?%s\\fR" % option, path)

    def test_bash_offers_every_command_and_option(self):
        for path, options in self.verbs.items():
            below = [name[-1] for name in self.verbs if name[:-1] == path and name]
            self.assertEqual(set(below) - set(self.complete(*path, "")), set(), path)
            anywhere = {"--verbose"} if path not in ((), ("version",), ("help",)) else set()
            self.assertEqual(set(self.complete(*path, "--")) - anywhere, set(options) - anywhere, path)
        self.assertEqual(self.complete("--version", "cache", "tr"), ["trim"])
        self.assertEqual(self.complete("plan", "--choice", ""), ["best", "fused", "unfused"])
        self.assertEqual(self.complete("plan", "--pack-keys", ""), [])  # readline offers files
        self.assertEqual(self.complete("plan", "--target", "h"), ["h200", "h100"])

    def test_bash_offers_kinds_their_keys_and_what_a_key_may_be(self):
        self.assertEqual(self.complete("plan", "gated"), ["gated_ffn"])
        self.assertEqual(self.complete("help", "conv"), ["conv", "conv_chain"])
        self.assertEqual(self.complete("cache", "export", "a.pack", "masked"), ["masked_softmax"])
        self.assertEqual(self.complete("cache", "ls", "masked"), [])
        self.assertEqual(self.complete("run", "softmax", "r"), ["rows="])
        self.assertEqual(self.complete("run", "matmul", "m", "=", "4", "l"), ["layout="])
        self.assertEqual(self.complete("run", "matmul", "act", "=", "gelu"), ["gelu_tanh", "gelu_erf"])
        self.assertEqual(self.complete("run", "matmul", "layout", "="), ["oi", "io"])

    def test_zsh_and_fish_have_kinds_and_keys(self):
        zsh, fish = text_of(ZSH), text_of(FISH)
        self.assertIn("    'plan') _arguments", zsh)
        self.assertRegex(zsh, r"'plan'\) .*_sinter_chain")
        self.assertIn("      softmax) keys=(rows= cols= scale= dtype=) ;;", zsh)
        self.assertRegex(zsh, r"\{compadd h200 h100 a100 [^}]*; _files\}")
        self.assertRegex(fish, r"(?m)^complete .*__fish_seen_subcommand_from plan && __fish_seen_subcommand_from softmax' "
                               r"-a 'rows= cols= scale= dtype=f32 dtype=f16 dtype=bf16'$")
        self.assertRegex(fish, r"(?m)^complete .*'__fish_seen_subcommand_from plan' -l target -r -a 'h200 h100 a100 ")

    def test_the_man_page_has_examples_and_files(self):
        page = text_of(MAN).replace("\\-", "-")
        examples = re.findall(r"(?m)^\.B (sinter .*)$", page.partition(".SH EXAMPLES\n")[2].partition(".SH ")[0])
        self.assertGreater(len(examples), 5)
        for line in examples:  # each is a command that is understood, with options that it has
            words = line.split()[1:]
            path = tuple(words[:2]) if tuple(words[:2]) in self.verbs else (words[0],)
            self.assertIn(path, self.verbs, line)
            for option in re.findall(r" (--[a-z-]+)", line):
                self.assertIn(option, self.verbs[path], line)
        files = page.partition(".SH FILES\n")[2].partition(".SH ")[0]
        for part in ("SINTER_CACHE_DIR", "problem file", "tuning set", "pack", "key.pem"):
            self.assertIn(part, files)

    def test_zsh_and_fish_have_every_command_and_option(self):
        zsh, fish = text_of(ZSH), text_of(FISH)
        for path, options in self.verbs.items():
            case = re.search(r"(?m)^    '%s'\) .*" % " ".join(path), zsh)[0]
            seen = " && ".join(f"__fish_seen_subcommand_from {word}" for word in path) or "__fish_use_subcommand"
            lines = "\n".join(line for line in fish.splitlines() if f"-n '{seen}'" in line) + "\n"
            for option in options:
                self.assertIn(f"'*{option}[", case)
                self.assertRegex(lines, f" -l {option[2:]} ")
            if path:
                self.assertIn(f" -a {path[-1]} -d ", fish)

    def test_the_shells_and_man_read_them(self):
        for shell, *command in (("zsh", "-n", ZSH), ("fish", "-n", FISH), ("bash", "-n", BASH)):
            if shutil.which(shell):
                self.assertEqual(run(shell, *command), "")
        if shutil.which("groff"):
            self.assertEqual(run("groff", "-man", "-Tutf8", "-ww", "-z", input=text_of(MAN)), "")


if __name__ == "__main__":
    unittest.main()
