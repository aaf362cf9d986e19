#!/usr/bin/env python3
"""Holds docs/ and README.md against the code: variables, options, paths, the example in C, names of distributions.

Usage: check_pages.py ROOT C_COMPILER. Prints what differs; exits 1 when something does.
"""

import glob
import os
import re
import subprocess
import sys
import tempfile

README_WORDS, GUIDE_WORDS, SENTENCE_WORDS = 900, 1300, 25
CONFIGURATION, README, FLEET = "docs/configuration.md", "README.md", "docs/fleet.md"
GUIDES = tuple(f"docs/{name}.md" for name in (
    "README", "attention", "batch-invariant", "chains", "eight-bit", "experts", "four-bit", "limits", "measured-plans", "numerics", "ops",
    "own-server", "serving", "tokens", "training", "troubleshooting", "vllm"))
# PyPI's `sinter` is another project, so a wheel of ours must neither be called nor require that.
DISTRIBUTIONS = {"bindings/python": "sinter-gpu", "bindings/python/plugins/sinter-vllm": "sinter-gpu-vllm",
                 "bindings/python/plugins/sinter-sglang": "sinter-gpu-sglang"}


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def tables(page, head):
    """Cells of all rows of the tables whose first column has this head."""
    rows, inside = [], False
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        inside = bool(cells) and (inside or cells[0] == head)
        if inside and cells[0] != head and not cells[0].startswith("---"):
            rows.append(cells)
    return rows


def names(cell):
    """The text in backticks, up to the first blank or `=`."""
    return [re.split(r"[ =]", word)[0] for word in re.findall(r"`([^`]+)`", cell)]


def differ(what, page, code):
    """Lines that say what one side has and the other lacks."""
    return [f"{what}: the page lacks {name}" for name in sorted(set(code) - set(page))] + \
           [f"{what}: the code has no {name}" for name in sorted(set(page) - set(code))]


def context_fields(header):
    """The fields of sinter_context_options."""
    body = re.search(r"typedef struct sinter_context_options \{(.*?)\n\} sinter_context_options;", header, re.S)[1]
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    return [re.search(r"(\w+)$", field.strip())[1] for field in body.split(";") if field.strip()]


def check_variables(root):
    page = read(root, CONFIGURATION)
    runtime, tests = page.split("## Variables of tests")
    rows = tables(runtime, "variable")
    code = re.findall(r'"(SINTER_[A-Z0-9_]*[A-Z0-9])"', read(root, "src/base/config.cc"))
    options = context_fields(read(root, "include/sinter/sinter.h"))
    named = [name for row in rows for name in names(row[3]) if name in options or re.fullmatch(r"[a-z_]+", name)]
    named = [name for name in named if not name.startswith("sinter_")]
    named += [name for row in tables(runtime, "field") for name in names(row[0])]
    return differ("variables", [names(row[0])[0] for row in rows], code) + \
        differ("fields of sinter_context_options", named, set(options) - {"struct_size", "flags"}) + \
        check_test_variables(root, [names(row[0])[0] for row in tables(tests, "variable")], code)


def check_test_variables(root, page, runtime):
    """Variables that only tests read, by getenv, os.environ or a function of theirs called Variable."""
    found = set()
    for pattern in ("*.cc", "*.py", "*.h"):
        for path in glob.glob(os.path.join(root, "tests", "**", pattern), recursive=True):
            found.update(re.findall(r'(?:getenv|environ\.get|Variable)\("(SINTER_[A-Z_]+)"', read(root, path)))
    return differ("variables of tests", page, found - set(runtime))


def check_build_options(root):
    text = "".join(read(root, path) for path in ("CMakeLists.txt", "runtime/CMakeLists.txt", "src/standin/CMakeLists.txt",
                                                 "src/package/packages.cmake", "src/package/maintainer.cmake",
                                                 "tests/bindings/CMakeLists.txt"))
    code = re.findall(r"(?:option|find_path)\((SINTER_\w+)", text) + re.findall(r"find_library\((SINTER_\w+_LIBRARY)", text)
    code += re.findall(r"set\((SINTER_\w+) [^)]* CACHE ", text)
    page = [names(row[0])[0] for row in tables(read(root, CONFIGURATION), "option of CMake")]
    return differ("options of CMake", [name for name in page if name.startswith("SINTER_")], code)


def check_paths(root):
    """Links, and words that begin like a path of the tree, name something that is there."""
    wrong = []
    for page in [README, *sorted(os.path.relpath(path, root) for path in glob.glob(os.path.join(root, "docs", "*.md")))]:
        text = read(root, page)
        links = [os.path.join(os.path.dirname(page), link) for link in re.findall(r"\]\(([^)#:]+)[^)]*\)", text)]
        paths = re.findall(r"(?<![\w./*-])((?:bindings|cache|docs|include|runtime|src|tests)/[\w./-]*\w)(?![\w*])", text)
        wrong += [f"{page}: there is no {path}" for path in links + paths if not os.path.exists(os.path.join(root, path))]
    return wrong


def fetched(text):
    """Distributions of ours that `pip install` of a text would look for on PyPI; a file ends in .whl."""
    words = [word.strip("'\"") for line in re.findall(r"pip install ([^\n`#]*)", text) for word in line.split()]
    return [word for word in words if word.startswith("sinter") and not word.endswith(".whl")]


def check_distributions(root):
    """Wheels have their own names, a plugin requires the package by it, and no page lets pip fetch one."""
    wrong = []
    for folder, name in DISTRIBUTIONS.items():
        project = read(root, folder + "/pyproject.toml")
        found, required = re.search(r'^name = "(.*)"', project, re.M)[1], re.findall(r'^dependencies = \["(sinter[\w-]*)', project, re.M)
        wrong += [f"{folder}: the distribution is called {found}, must be {name}"] if found != name else []
        wrong += [f"{folder}: requires {other}, must require sinter-gpu" for other in required if other != "sinter-gpu"]
    pages = [path for pattern in ("*.md", "docs/**/*.md", "bindings/**/*.md", "tests/bench/**/*.md")
             for path in glob.glob(os.path.join(root, pattern), recursive=True)]
    return wrong + [f"{os.path.relpath(path, root)}: pip install {word}: nothing of ours is on PyPI, name the wheel's file"
                    for path in sorted(pages) for word in fetched(read(root, path))]


def prose(text):
    """Paragraphs and list items, without code, tables, comments and addresses of links."""
    text = re.sub(r"<!-- made by .*?: begin -->.*?<!-- made by .*?: end -->|<!--.*?-->|<picture>.*?</picture>|```.*?```", "\n\n", text, flags=re.S)
    text = re.sub(r"^(\||#).*$", "", text, flags=re.M)
    text = re.sub(r"\]\([^)]*\)|[\[*]", "", re.sub(r"`[^`]*`", "code", text))
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n|^(?:-|\d\.) ", text, flags=re.M) if part.strip()]


def long_sentences(text):
    return [sentence for part in prose(text) for sentence in re.split(r"(?<=[.!?])\s+", part) if len(sentence.split()) > SENTENCE_WORDS]


def check_prose(root):
    """README.md and the guides for users have short sentences, and few of them."""
    words = {page: sum(len(part.split()) for part in prose(read(root, page))) for page in (README, *GUIDES)}
    most = {page: README_WORDS if page == README else GUIDE_WORDS for page in words}
    wrong = [f"{page} has {words[page]} words of prose, must have at most {most[page]}" for page in words if words[page] > most[page]]
    return wrong + [f"{page}: a sentence has {len(sentence.split())} words, must have at most {SENTENCE_WORDS}: {sentence}"
                    for page in (README, *GUIDES) for sentence in long_sentences(read(root, page))]


def check_buckets(root):
    """The buckets of docs/fleet.md are those in src/base/dtype.cc."""
    source = read(root, "src/base/dtype.cc")
    few = re.search(r"kFewRows\[\] = \{([^}]*)\}", source)[1].replace(",", " ").split()
    code = few + re.findall(r"kBucketsOfAnOctave = (\d+)", source)
    page = re.search(r"<!-- buckets -->\n {4}([\d ]+)\n {4}then (\d+) an octave", read(root, FLEET))
    return differ("buckets", page[1].split() + [page[2]] if page else [], code)


def metric_names(code):
    """The metrics that src/capi/library.cc writes, and those of them that are histograms."""
    calls = re.findall(r'(Counter|Gauge|Histogram|each)\("(\w+)"', code)
    return {name for _, name in calls}, {name for call, name in calls if call == "Histogram"}


def check_metrics(root):
    """The table in docs/serving.md lists every metric; docs/fleet.md asks for no other."""
    written, histograms = metric_names(read(root, "src/capi/library.cc"))
    rows = tables(read(root, "docs/serving.md"), "about")
    page = [re.split(r"\{", name)[0] for row in rows for name in names(row[1])]
    asked = set(re.findall(r"\bsinter_(\w+)(?=[\[{ )`])", read(root, FLEET))) - {"context_write_metrics", "x_chain_to_json"}
    samples = (written - histograms) | {name + suffix for name in histograms for suffix in ("_bucket", "_sum", "_count")}
    return differ("metrics", page, written) + [f"{FLEET}: there is no metric sinter_{name}" for name in sorted(asked - samples)]


def instructions(dockerfile):
    """Its instructions, comments and continued lines taken away: [(word, rest)]."""
    text = re.sub(r"^#.*\n", "", dockerfile, flags=re.M)
    return [tuple(line.split(None, 1)) for line in re.sub(r"\\\n\s*", "", text).splitlines() if line.strip()]


def check_dockerfile(root, path="examples/docker/Dockerfile"):
    """What it copies is in the tree, made by ./dev, or made by an earlier stage; its variables are the library's."""
    wrong, made = [], ["build/wheel/sinter_gpu-*.whl"] if "build/wheel/*.whl" in read(root, "dev") else []
    variables = re.findall(r'"(SINTER_[A-Z0-9_]*[A-Z0-9])"', read(root, "src/base/config.cc"))
    steps = instructions(read(root, path))
    stages = {match[1]: 0 for match in (re.search(r" AS (\w+)$", rest) for word, rest in steps if word == "FROM") if match}
    runs = " ".join(rest for word, rest in steps if word == "RUN")
    for word, rest in steps:
        sources = [source for source in rest.split()[:-1] if not source.startswith("--")] if word == "COPY" else []
        stage = re.match(r"--from=(\S+)", rest)
        if word == "COPY" and stage:
            wrong += [f"{path}: there is no stage {stage[1]}"] if stage[1] not in stages else []
            wrong += [f"{path}: no command makes {source}" for source in sources if source not in runs]
        elif word == "COPY":
            wrong += [f"{path}: there is no {source}" for source in sources
                      if source not in made and not os.path.exists(os.path.join(root, source))]
        elif word == "ENV":
            wrong += [f"{path}: the library has no {name}" for name in re.findall(r"(\w+)=", rest) if name not in variables]
        elif word not in ("FROM", "RUN", "CMD"):
            wrong.append(f"{path}: {word} is not an instruction that this check knows")
    return wrong


def check_example(root, compiler):
    """The one block of C in README.md is a whole program and compiles as it stands."""
    blocks = re.findall(r"^```c\n(.*?)^```", read(root, README), re.S | re.M)
    if len(blocks) != 1:
        return [f"{README} has {len(blocks)} blocks of C, must have one"]
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "example.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(blocks[0])
        done = subprocess.run([compiler, "-std=c99", "-Wall", "-Wextra", "-Werror", "-I", os.path.join(root, "include"), "-c", source,
                               "-o", os.path.join(folder, "example.o")], capture_output=True, text=True, check=False)
    return [f"the example of {README} does not compile:\n{done.stderr}"] if done.returncode else []


def check(root, compiler):
    return check_variables(root) + check_build_options(root) + check_paths(root) + check_prose(root) + check_distributions(root) + \
        check_buckets(root) + check_metrics(root) + check_dockerfile(root) + check_example(root, compiler)


def main():
    wrong = check(os.path.abspath(sys.argv[1]), sys.argv[2])
    print("\n".join(wrong) or "the pages agree with the code")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
