#!/usr/bin/env python3
"""Writes the man page and the completions of bash, zsh and fish from the command's own help, which also lists kinds, keys and models.

Usage: shell_files.py SINTER FOLDER. The folder gets man/, bash-completion/, zsh/ and fish/, arranged as under share/.
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
    or_file: bool  # in addition to the choices
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
            joined[-1] += " " + line.strip()
        else:
            joined.append(line)
    return [ENTRY.fullmatch(line) for line in joined]


def option_of(entry):
    choices = re.fullmatch(r"\{(.*)\}", entry["bound"] or "")
    bounds = re.fullmatch(r"(\S+)\.\.(\S+)", entry["bound"] or "")
    words = choices[1].split(",") if choices else []
    return Option(entry["names"].split(","), entry["value"] or "", [word for word in words if word != "PATH"], "PATH" in words,
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


def read_kinds(sinter, top):
    """The keys of each kind of chain, with the words that a key may be."""
    kinds = {}
    for kind in re.findall(r"^  (\w+)  +\S", top.tail.partition("\n\n")[0], re.M):
        shown = subprocess.run([sinter, "help", kind], capture_output=True, text=True, check=True).stdout
        keys = {}
        for key, values in re.findall(r"^  (\w+) +.*\n((?: {11}.*\n)+)", shown, re.M):
            words = values.split(", a list of")[0].strip().split(", ")
            keys[key] = words if all(re.fullmatch(r"\w+", word) for word in words) else []
        kinds[kind] = keys
    return kinds


# Verbs that take a chain, or a kind of one.
CHAIN_VERBS = (("run",), ("plan",), ("tune",), ("warm",), ("help",), ("cache", "export"))


# ---------------------------------------------------------------- The man page

EXAMPLES = (
    ("What is missing on this machine, and the way out", "sinter doctor"),
    ("Prepare, run, check and time a gated FFN", "sinter run gated_ffn m=128 n=3072 k=1024 l=1024 act=silu layout=oi dtype=bf16"),
    ("What would run, and why, on a machine without a GPU", "sinter plan --target h200 softmax rows=M cols=4096 --m 512"),
    ("Draw the plan", "sinter plan --target h200 --svg - matmul m=64 n=4096 k=4096 > plan.svg"),
    ("Measure the best-ranked candidates of a list, and keep what wins", "sinter tune --file problems.txt --out tuned.set"),
    ("Compile a whole workload ahead, and sign it as one file",
     "sinter warm --target h200 --m 1,16,64 --pack model.pack --sign key.pem problems.txt"),
    ("Serve from that file", "sinter run --use-pack model.pack --pack-keys public.pem --file problems.txt S8"),
    ("The keys of a kind of chain", "sinter help gated_ffn"),
)
FILES = (
    ("$SINTER_CACHE_DIR, else $XDG_CACHE_HOME/sinter, else ~/.cache/sinter", "The cache: plans and compiled kernels. Removing it costs time only."),
    ("problem file", "One chain a line, an id before its kind where it is to be named; # begins a comment."),
    ("tuning set", "Text that sinter tune writes, with a digest at its end. --tuning-set, SINTER_TUNING_SET."),
    ("pack", "Sealed records of many plans, which sinter warm --pack and sinter cache export write. --use-pack, SINTER_PACKS."),
    ("model file", "The figures of a GPU, key = value [provenance] a line; sinter device --model and --measure print one. --target, SINTER_DEVICE_MODEL."),
    ("key.pem, public.pem", "openssl genpkey -algorithm ed25519 -out key.pem; openssl pkey -in key.pem -pubout -out public.pem. "
     "Others may not read the first, nor write the second."),
)


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
           "sinter \\- fuse chains of GPU operators by the fastest plan that its cost model finds", ".SH SYNOPSIS", ".B sinter",
           ".I COMMAND", "[\\fIOPTION\\fR]... [\\fIARGUMENT\\fR]...", ".SH DESCRIPTION", roff(top.help), ".SH OPTIONS"]
    out += man_of(top)[2:] + [".SH COMMANDS"]
    for verb in verbs[1:]:
        out += man_of(verb)
    out += [".SH KINDS OF CHAINS", ".nf", roff("\n".join(line[2:] for line in kinds.strip().splitlines()[1:])), ".fi", ".SH EXAMPLES"]
    for text, line in EXAMPLES:
        out += [".TP", roff(text + ":"), f".B {roff(line)}"]
    out += [".SH FILES"]
    for name, text in FILES:
        out += [".TP", f".I {roff(name)}", roff(text)]
    out += [".SH ENVIRONMENT", roff("sinter doctor --json lists every variable with its value; docs/configuration.md tells what each means."),
            ".SH EXIT STATUS", roff(exits.strip())]
    return "\n".join(out) + "\n"


# ---------------------------------------------------------------- Completions

def key(path):
    return " ".join(path)


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def bash_chains(kinds):
    """Cases of kinds with their keys, and of kinds and keys with the words that are their values."""
    keys, values = [], []
    for kind, fields in kinds.items():
        keys.append(f"    {kind}) keys={quoted(' '.join(f'{name}=' for name in fields))} ;;")
        values += [f"    '{kind} {name}') words={quoted(' '.join(words))} ;;" for name, words in fields.items() if words]
    return chr(10).join(keys), chr(10).join(values)


def bash(verbs, kinds):
    kind_keys, key_values = bash_chains(kinds)
    takers = "|".join(quoted(key(path)) for path in CHAIN_VERBS)
    words, values, flags = [], [], []
    for verb in verbs:
        names = [name for option in verb.options for name in option.names]
        names += ["-v", "--verbose"] if "-v,--verbose" in verb.tail else []  # the command's own, taken after a verb too
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
# The keys of a kind of chain.
_sinter_keys() {{
  keys=
  case $1 in
{kind_keys}
  esac
}}
# What a key of a kind may be.
_sinter_values() {{
  words=
  case $1 in
{key_values}
  esac
}}
# The kinds, or after a kind its keys; readline takes '=' for a word.
_sinter_chain() {{
  local keys kind= i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    _sinter_keys "${{COMP_WORDS[i]}}"
    [[ -z $keys ]] || kind=${{COMP_WORDS[i]}}
  done
  if [[ $at == = ]]; then
    at= && _sinter_values "$kind ${{COMP_WORDS[COMP_CWORD - 1]}}"
  elif [[ $before == = ]]; then
    _sinter_values "$kind ${{COMP_WORDS[COMP_CWORD - 2]}}"
  elif [[ -n $kind ]]; then
    _sinter_keys "$kind"
    words="$words $keys"
  else
    words="$words {' '.join(kinds)}"
  fi
}}
_sinter() {{
  local at=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} path= words verbs i
  _sinter_words ''
  for ((i = 1; i < COMP_CWORD; ++i)); do
    [[ " $verbs " == *" ${{COMP_WORDS[i]}} "* ]] || continue
    path="${{path:+$path }}${{COMP_WORDS[i]}}"
    _sinter_words "$path"
  done
  case $path in
    {takers}) _sinter_chain ;;
  esac
  case "${{path:+$path }}$before" in
{chr(10).join(values)}
    {'|'.join(flags)}) words= ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$at")
  [[ ${{COMPREPLY[0]}} != *= ]] || compopt -o nospace 2>/dev/null || :
}}
complete -o default -F _sinter sinter
"""


def zsh_chain(kinds):
    keys = "\n".join(f"      {kind}) keys=({' '.join(f'{name}=' for name in fields)}) ;;" for kind, fields in kinds.items())
    return f"""# The kinds of chains and files, or after a kind its keys.
_sinter_chain() {{
  local word
  local -a keys
  for word in $words; do
    case $word in
{keys}
    esac
  done
  if (( $#keys )); then
    compadd -S '' -- $keys
  else
    compadd -- {' '.join(kinds)}
    _files
  fi
}}"""


def zsh(verbs, kinds):
    cases = []
    for verb in verbs:
        specs = []
        for option in verb.options:
            choices = ' '.join(option.choices)
            action = f":{option.value}:{{compadd {choices}; _files}}" if option.or_file else \
                f":{option.value}:({choices})" if option.choices else \
                f":{option.value}:_files" if option.value else ""
            text = re.sub(r"([\[\]:])", r"\\\1", option.help)
            specs += [quoted(f"*{name}[{text}]{action}") for name in option.names]
        if verb.verbs:
            specs += [quoted(f":command:({' '.join(verb.verbs)})")]
        specs += [quoted("*::argument:" + ("_sinter_chain" if verb.path in CHAIN_VERBS else "_files"))]
        cases.append(f"    {quoted(key(verb.path))}) _arguments -s {' '.join(specs)} ;;")
    nested = " ".join(quoted(key(verb.path)) for verb in verbs[1:])
    return f"""#compdef sinter
# Completion of sinter for zsh, made from its help.
{zsh_chain(kinds)}
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


def fish_chains(seen, kinds):
    names = " ".join(kinds)
    yield f"complete -c sinter -n {quoted(f'{seen} && not __fish_seen_subcommand_from {names}')} -a {quoted(names)}"
    for kind, fields in kinds.items():
        words = [f"{name}={word}" for name, values in fields.items() for word in values or [""]]
        yield f"complete -c sinter -f -n {quoted(f'{seen} && __fish_seen_subcommand_from {kind}')} -a {quoted(' '.join(words))}"


def fish(verbs, kinds):
    helps = {verb.path: verb.help for verb in verbs}
    out = ["# Completion of sinter for fish, made from its help."]
    for verb in verbs:
        seen = " && ".join(f"__fish_seen_subcommand_from {word}" for word in verb.path) or "__fish_use_subcommand"
        for name in verb.verbs:
            fresh = seen if not verb.path else f"{seen} && not __fish_seen_subcommand_from {' '.join(verb.verbs)}"
            out.append(f"complete -c sinter -f -n {quoted(fresh)} -a {name} -d {quoted(helps[(*verb.path, name)])}")
        for option in verb.options:
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            choices = f" -a {quoted(' '.join(option.choices))}" if option.choices else ""
            value = (" -r" if option.or_file or not choices else " -x") + choices if option.value else ""
            out.append(f"complete -c sinter -n {quoted(seen)} {names}{value} -d {quoted(option.help)}")
        if verb.path in CHAIN_VERBS:
            out += fish_chains(seen, kinds)
    return "\n".join(out) + "\n"


def main():
    sinter, folder = sys.argv[1:]
    verbs = read(sinter)
    kinds = read_kinds(sinter, verbs[0])
    version = subprocess.run([sinter, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    page = os.path.join(folder, "man/man1/sinter.1.gz")
    os.makedirs(os.path.dirname(page), exist_ok=True)
    with open(page, "wb") as out, gzip.GzipFile("", "wb", fileobj=out, mtime=0) as packed:  # the same bytes every time
        packed.write(man_page(verbs, version).encode())
    for path, text in (("bash-completion/completions/sinter", bash(verbs, kinds)),
                       ("zsh/vendor-completions/_sinter", zsh(verbs, kinds)),
                       ("fish/vendor_completions.d/sinter.fish", fish(verbs, kinds))):
        file = os.path.join(folder, path)
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with open(file, "w", encoding="utf-8") as out:
            out.write(text)


if __name__ == "__main__":
    main()
