#!/usr/bin/env python3
"""The command understands the lines that README.md and docs/*.md print, and has the kinds of docs/chains.md.

Usage: commands_test.py ROOT SINTER
"""

import glob
import os
import re
import subprocess
import sys
import unittest

ROOT, SINTER = sys.argv[1:3]
del sys.argv[1:3]


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def output_of(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False).stdout


def keys_of(help_text):
    """What `sinter help KIND` says of the keys, as docs/chains.md writes them: name, or name=default."""
    keys = re.findall(r"^  (\w+) .*?(?:; default (\S+)|; \w+)?$", help_text.split("keys:\n")[1], re.M)
    return [name + "=" + default if default else name for name, default in keys]


class Commands(unittest.TestCase):
    def setUp(self):
        pages = [os.path.join(ROOT, "README.md"), *sorted(glob.glob(os.path.join(ROOT, "docs", "*.md")))]
        self.text = "\n".join(text_of(page) for page in pages)
        words = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", self.text, flags=re.S))
        blocks = re.findall(r"```\w*\n(.*?)```", self.text, re.S)
        self.lines = words + [re.sub(r"^\$ ", "", line) for block in blocks for line in block.splitlines()]

    def test_the_command_knows_its_verbs_and_options(self):
        lines = [re.sub(r"\s+#.*", "", line) for line in self.lines if line.startswith("sinter ")]
        self.assertGreater(len(lines), 5)
        for line in lines:
            words = line.split()
            verbs = words[1:3] if words[1] == "cache" else words[1:2]
            shown = output_of(SINTER, *verbs, "--help")
            self.assertIn(" ".join(["sinter", *verbs]), shown, line)
            for option in re.findall(r"(?<!\S)--[a-z-]+", line):
                self.assertIn(option, shown, line)

    def test_the_dockerfile_runs_commands_that_there_are(self):
        text = re.sub(r"^#.*\n", "", text_of(os.path.join(ROOT, "examples", "docker", "Dockerfile")), flags=re.M)
        commands = re.findall(r"(?:^RUN |&& |^)\s*sinter ([^&\n]*)", text, re.M)
        self.assertGreater(len(commands), 1)
        for command in commands:
            words = command.split()
            verbs = words[:2] if words[0] == "cache" else words[:1]
            shown = output_of(SINTER, *verbs, "--help")
            for option in re.findall(r"(?<!\S)--?[a-z-]+", command):
                self.assertRegex(shown, r"(?<!\S)%s\b" % option, command)

    def test_the_dockerfiles_workload_is_of_chains_that_there_are(self):
        workload = os.path.join(ROOT, "examples", "docker", "workload.txt")
        for line in text_of(workload).splitlines()[1:]:
            shown = output_of(SINTER, "plan", "--target", "h200", "--cache-dir", "", "--must-hit", "-m", "8", "--file", workload, line.split()[0])
            self.assertIn("CACHE_MISS", shown)

    def test_dev_knows_its_verbs(self):
        usage = output_of(os.path.join(ROOT, "dev"), "help")
        verbs = re.findall(r"\./dev ([a-z]+)((?: \[?--[a-z-]+)*)", self.text)
        self.assertGreater(len(verbs), 2)
        for verb, options in verbs:
            self.assertRegex(usage, r"\n  %s\b" % verb)
            for option in re.findall(r"--[a-z-]+", options):
                self.assertIn(option, usage)

    def test_kinds_have_the_keys_and_defaults_of_the_page(self):
        rows = re.findall(r"^\| `(\w+) ([^`]+)` \|", text_of(os.path.join(ROOT, "docs", "chains.md")), re.M)
        listed = output_of(SINTER, "help").split("Kinds of chains")[1].split("Exit status")[0]
        self.assertEqual(sorted(kind for kind, _ in rows), re.findall(r"^  (\w+) ", listed, re.M))
        for kind, keys in rows:
            self.assertEqual(sorted(keys.split()), sorted(keys_of(output_of(SINTER, "help", kind))), kind)


if __name__ == "__main__":
    unittest.main()
