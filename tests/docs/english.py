#!/usr/bin/env python3
"""Counts habits that make our prose hard to read, in pages, comments and messages, and fails where there are more than MOST.

Usage: english.py ROOT [FILE...]. Without files: all that git tracks, or all of a tree without git. Prints each finding with what to write in its place.
"""

import pathlib
import re
import subprocess
import sys

MOST = 220
ENDINGS_C, ENDINGS_HASH = (".h", ".cc", ".cuh", ".hpp", ".rs", ".go", ".c"), (".py", ".sh", ".cmake", ".txt", ".toml")
# Lists that programs write, and inputs whose lines are data.
DATA = re.compile(r"(^|/)(golden|results|corpus|problems|graphs|kernels|as_typed)/|refused_\w+\.txt$|tests/docs/english(_test)?\.py$")
BE, NUMBER = r"(?:is|are|was|were|be)", r"\d[\d.,]*"

HABITS = {  # a name: where it begins, what to write
    "behind": (r"\bbehind\b(?! (?:a|the|one|its) (?:mutex|lock|flag|interface|proxy|driver|API|pointer)\b)(?<!falls behind)(?<!lag behind)(?<!lags behind)",
               "after, past the end of, that consumes, in the background"),
    "beside": (r"\bbeside\b(?! (?:the point|each other|one another))", "next to, in addition to, compared with, except"),
    "alone": (r"(?<!\bleave )(?<!\bleft )(?<!\bleaves )(?<!\bit )(?<!\bthem )(?<!\brun )(?<!\bruns )(?<!\bran )(?<!\btimed )(?<!\bmeasured )(?<!\bstand )(?<!\bstands )"
              r"(?<!\bbuilt )(?<!\bused )(?<!\bcompiled )(?<!\blet )\b(?<=[a-z`)] )alone\b", "'only' before the noun or the verb"),
    "what": (r"\b(?:of|than|without) what (?:is|are|was|has|a|an|no|none)\b|\b(?:for|by|with|from|to|into) what (?:is|are|has|have|lies|stands|comes)\b"
             r"|(?:^|[.;:] )What (?:is|are|has|lies|stands|comes) [^?]*[.:]$", "a noun: 'the tiles that', 'an op that'"),
    "that of": (rf"(?:^|[.;:,] |\b{BE} |\bas |\bby )(?:that|those) of (?!course|the same)", "the noun again: 'the strides of the caller'"),
    "no noun": (rf"(?<!there )\b{BE} no (?!longer|more|less|worse|better|one|use|need|way|such|matter|reason|point|different|slower|faster|larger|later|earlier)[a-z]"
                rf"|(?<!there )\b(?:is|are) none\b", "a negated verb: 'is not a multiple of'"),
    "told": (rf"\b(?:{BE}|been) told\b|\btells? (?:of|apart)\b", "report, document, pass, distinguish"),
    "for a number": (rf"\b{NUMBER} ?(?:us|ms|s|%|KiB|MB|GB|lines|kernels|instructions) for {NUMBER}(?![\d.,]*[ -]?[a-zA-Z])", "'reduced from 7 to 5 us'"),
    "fragment": (r"(?:^|[.;:] )Of (?!course|these|those|the \d|\d)[a-z`]|(?:^|[.;:] )So (?:is|are|does|do|has|have|may|can|must) ", "a sentence with a subject and a verb"),
    "word": (r"\bbut for\b|\belsewise\b|\blikewise\b|\bway out\b|\banew\b|\bmend(?:s|ed)?\b|\bgiven out\b|\bas (?:it|they) lies?\b|\bin the place of\b",
             "the field's word: except, otherwise, fixed, written as, contiguous, instead of"),
}
HABITS = {name: (re.compile(pattern, re.I if name not in ("fragment", "what") else 0), hint) for name, (pattern, hint) in HABITS.items()}


def prose_of(path, text):
    """(line number, text) of each piece of prose: a page's lines outside of code, else comments and messages of three words or more."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if path.suffix == ".md":
            fenced ^= line.lstrip().startswith("```")
            if not fenced:
                yield number, line.strip().lstrip("-*#> ")
            continue
        mark = "//" if path.suffix in ENDINGS_C else "#"
        comment = re.search(rf"(?:^|\s){mark}[/!]*\s(.*)$", line)
        if comment:
            yield number, comment[1]
            line = line[:comment.start()]
        elif '"""' in line and path.suffix == ".py":
            yield number, line.strip().strip('"')
            continue
        yield from ((number, said) for said in re.findall(r'"((?:[^"\\]|\\.)*)"', line) if said.count(" ") > 1 and not re.search(r"[{};=]", said))


def findings(path, text):
    for number, said in prose_of(path, text):
        said = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "`X`", said))
        for name, (pattern, hint) in HABITS.items():
            if hit := pattern.search(said):
                yield f"{path}:{number}: {name}: {said[max(0, hit.start() - 30):hit.end() + 30].strip()} (write {hint})"


def files_of(root):
    if (root / ".git").exists():
        listed = subprocess.run(["git", "-C", root, "ls-files"], capture_output=True, text=True, check=True).stdout.splitlines()
        paths = [pathlib.Path(name) for name in listed]
    else:
        paths = sorted(path.relative_to(root) for path in root.rglob("*") if path.is_file() and not path.relative_to(root).parts[0].startswith((".", "build", "bundle")))
    return [path for path in paths if (path.suffix == ".md" or path.suffix in ENDINGS_C + ENDINGS_HASH) and not DATA.search(path.as_posix())]


def main():
    root = pathlib.Path(sys.argv[1])
    paths = [pathlib.Path(name) for name in sys.argv[2:]] or files_of(root)
    found = [line for path in paths for line in findings(path, (root / path).read_text(encoding="utf-8"))]
    print("\n".join(found))
    if len(found) > MOST:
        sys.exit(f"{len(found)} findings, must be at most {MOST}: rewrite what the change added (english.py ROOT FILE... checks files)")
    print(f"{len(found)} findings of at most {MOST}")


if __name__ == "__main__":
    main()
