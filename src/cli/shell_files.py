#!/usr/bin/env python3
"""Writes the man page and the completions of bash, zsh and fish from the command's own help.

Usage: shell_files.py SINTER FOLDER. The folder gets man/, bash-completion/, zsh/ and fish/, as they lie under share/.
"""

import gzip
import os
import re
import subprocess
import sys
from typing import Dict, List, NamedTuple, Tuple


class Option(NamedTuple):
    names: List[str]  # -m, --m
    value: str  # "" for a flag
    choices: List[str]
    help: str


class Verb(NamedTuple):
    path: Tuple[str, ...]  # ("cache", "ls")
    help: str
    positionals: List[Tuple[str, str]]
    options: List[Option]
    verbs: List[str]
    tail: str  # what follows the lists


ENTRY = re.compile(r"  (?P<names>\S+)(?: (?P<value>TEXT|INT|UINT|FLOAT)(?::(?P<bound>\S+))?(?: \.\.\.)?)?(?P<needed> REQUIRED)?"
                   r"(?: (?:Excludes|Needs):(?: --[a-z-]+)+)*\s*(?P<help>.*)")


def entries(lines):
    """Each entry of a list as a match of ENTRY, what it takes on further lines joined to it."""
    joined = []
    for line in lines:
        if line.startswith("   "):
            joined[-1] += "  " + line.strip()
        else:
            joined.append(line)
    return [ENTRY.fullmatch(line) for line in joined]


def option_of(entry):
    choices = re.fullmatch(r"\{(.*)\}", entry["bound"] or "")
    bounds = re.fullmatch(r"(\S+)\.\.(\S+)", entry["bound"] or "")
    return Option(entry["names"].split(","), entry["value"] or "", choices[1].split(",") if choices else [],
                  entry["help"] + (f"; {bounds[1]} to {bounds[2]}" if bounds else "") + ("; needed" if entry["needed"] else ""))


def read(sinter, path=()):
    """The verb and all below it, outermost first."""
    shown = subprocess.run([sinter, *path, "--help"], capture_output=True, text=True, check=True).stdout
    sections: Dict[str, List[str]] = {}
    lines, current = shown.splitlines(), ""
    for line in lines[1:]:
        if re.fullmatch(r"(Positionals|Options|Subcommands):", line):
            current = line[:-1]
        elif not line and current:
            current = "tail"
        sections.setdefault(current, []).append(line)
    lists = {name: entries(sections.get(name, [""])[1:]) for name in ("Positionals", "Options", "Subcommands")}
    verbs = [entry["names"] for entry in lists["Subcommands"]]
    own = Verb(path, lines[0], [(entry["names"], entry["help"]) for entry in lists["Positionals"]],
               [option_of(entry) for entry in lists["Options"]], verbs, "\n".join(sections.get("tail", [])).strip())
    return [own] + [below for verb in verbs for below in read(sinter, (*path, verb))]


# ---------------------------------------------------------------- The man page

def roff(text):
    return re.sub(r"^([.'])", r"\\&\1", text.replace("\\", "\\e").replace("-", "\\-"), flags=re.M)


def man_of(verb):
    words = " ".join(("sinter", *verb.path))
    out = [f".SS \"{roff(words)}\"", roff(verb.help[:1].upper() + verb.help[1:] + ".")]
    for name, text in verb.positionals:
        out += [".TP", f".I {roff(name)}", roff(text)]
    for option in verb.options:
        value = f" \\fI{roff(option.value)}\\fR" if option.value else ""
        out += [".TP", f"\\fB{roff(', '.join(option.names))}\\fR{value}",
                roff(option.help + (f" ({', '.join(option.choices)})" if option.choices else ""))]
    return out


def man_page(verbs, version):
    top = verbs[0]
    kinds, _, exits = top.tail.partition("Exit status: ")
    out = [f".TH SINTER 1 \"\" \"sinter {version}\" \"User Commands\"", ".SH NAME",
           "sinter \\- fuse chains of GPU operators into few kernels", ".SH SYNOPSIS", ".B sinter",
           ".I COMMAND", "[\\fIOPTION\\fR]... [\\fIARGUMENT\\fR]...", ".SH DESCRIPTION", roff(top.help), ".SH OPTIONS"]
    out += man_of(top)[2:] + [".SH COMMANDS"]
    for verb in verbs[1:]:
        out += man_of(verb)
    out += [".SH KINDS OF CHAINS", ".nf", roff("\n".join(line.strip() for line in kinds.strip().splitlines()[1:])), ".fi",
            ".SH ENVIRONMENT", roff("sinter doctor --json lists every variable with its value; docs/configuration.md tells what each means."),
            ".SH EXIT STATUS", roff(exits.strip())]
    return "\n".join(out) + "\n"


# ---------------------------------------------------------------- Completions

def key(path):
    return " ".join(path)


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def bash(verbs):
    words, values, flags = [], [], []
    for verb in verbs:
        names = [name for option in verb.options for name in option.names]
        words.append(f"    {quoted(key(verb.path))}) words={quoted(' '.join(verb.verbs + names))} verbs={quoted(' '.join(verb.verbs))} ;;")
        for option in verb.options:
            for name in option.names:
                if option.choices:
                    values.append(f"    {quoted(key((*verb.path, name)))}) words={quoted(' '.join(option.choices))} ;;")
                elif option.value:
                    flags.append(quoted(key((*verb.path, name))))
    return f"""# Completion of sinter for bash, made from its help.
_sinter_words() {{
  words= verbs=
  case $1 in
{chr(10).join(words)}
  esac
}}
_sinter() {{
  local at=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} path= words verbs i
  _sinter_words ''
  for ((i = 1; i < COMP_CWORD; ++i)); do
    [[ " $verbs " == *" ${{COMP_WORDS[i]}} "* ]] || continue
    path="${{path:+$path }}${{COMP_WORDS[i]}}"
    _sinter_words "$path"
  done
  case "${{path:+$path }}$before" in
{chr(10).join(values)}
    {'|'.join(flags)}) words= ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$at")
}}
complete -o default -F _sinter sinter
"""


def zsh(verbs):
    cases = []
    for verb in verbs:
        specs = []
        for option in verb.options:
            action = f":{option.value}:({' '.join(option.choices)})" if option.choices else \
                f":{option.value}:_files" if option.value else ""
            text = re.sub(r"([\[\]:])", r"\\\1", option.help)
            specs += [quoted(f"*{name}[{text}]{action}") for name in option.names]
        if verb.verbs:
            specs += [quoted(f":command:({' '.join(verb.verbs)})")]
        specs += [quoted("*::argument:_files")]
        cases.append(f"    {quoted(key(verb.path))}) _arguments -s {' '.join(specs)} ;;")
    nested = " ".join(quoted(key(verb.path)) for verb in verbs[1:])
    return f"""#compdef sinter
# Completion of sinter for zsh, made from its help.
_sinter() {{
  local path_= word
  local -a known=({nested})
  for word in ${{words[2,CURRENT-1]}}; do
    (( ${{known[(Ie)${{path_:+$path_ }}$word]}} )) && path_="${{path_:+$path_ }}$word"
  done
  case $path_ in
{chr(10).join(cases)}
  esac
}}
_sinter "$@"
"""


def fish(verbs):
    helps = {verb.path: verb.help for verb in verbs}
    out = ["# Completion of sinter for fish, made from its help."]
    for verb in verbs:
        seen = " && ".join(f"__fish_seen_subcommand_from {word}" for word in verb.path) or "__fish_use_subcommand"
        for name in verb.verbs:
            fresh = seen if not verb.path else f"{seen} && not __fish_seen_subcommand_from {' '.join(verb.verbs)}"
            out.append(f"complete -c sinter -f -n {quoted(fresh)} -a {name} -d {quoted(helps[(*verb.path, name)])}")
        for option in verb.options:
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            value = f" -x -a {quoted(' '.join(option.choices))}" if option.choices else " -r" if option.value else ""
            out.append(f"complete -c sinter -n {quoted(seen)} {names}{value} -d {quoted(option.help)}")
    return "\n".join(out) + "\n"


def main():
    sinter, folder = sys.argv[1:]
    verbs = read(sinter)
    version = subprocess.run([sinter, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    page = os.path.join(folder, "man/man1/sinter.1.gz")
    os.makedirs(os.path.dirname(page), exist_ok=True)
    with open(page, "wb") as out, gzip.GzipFile("", "wb", fileobj=out, mtime=0) as packed:  # the same bytes every time
        packed.write(man_page(verbs, version).encode())
    for path, text in (("bash-completion/completions/sinter", bash(verbs)),
                       ("zsh/vendor-completions/_sinter", zsh(verbs)),
                       ("fish/vendor_completions.d/sinter.fish", fish(verbs))):
        file = os.path.join(folder, path)
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with open(file, "w", encoding="utf-8") as out:
            out.write(text)


if __name__ == "__main__":
    main()
