"""./dev mutate: how many plausible faults the tests notice.

Runs each test of the list on the build folder as it is, which must pass; builds all mutants of C++ into one build beside it; then
runs each mutant's test with that mutant on. It is noticed if the test fails within the time limit.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import mutants as lists
from rebuild import Rebuild

_SKIPPED = 77


class Tests:
    """The tests of a build folder, run as ctest does. `rebuilt` may hold programs to take instead."""

    def __init__(self, root: pathlib.Path, build: pathlib.Path):
        self.root, self.build, self.rebuilt = root, build, None
        text = subprocess.run(["ctest", "--test-dir", str(build), "--show-only=json-v1"], check=True, capture_output=True, text=True)
        self._tests = {test["name"]: test for test in json.loads(text.stdout)["tests"]}

    def command(self, mutant: lists.Mutant) -> list:
        """As it is; of a part of the test if the mutant names one."""
        if mutant.test not in self._tests:
            raise SystemExit(f"mutant {mutant.id}: the build folder has no test {mutant.test}")
        command = list(self._tests[mutant.test]["command"])
        if not mutant.only:
            return command
        if "pytest" in command:
            folder = f"{self.root}/tests/bindings/python"
            files = [word for word in command if word.startswith(folder) and not word.endswith(".ini")]
            return [word for word in command if word not in files] + [f"{folder}/{file}" for file in mutant.only.split()]
        return [word for word in command if not word.startswith("--of=")] + [f"--gtest_filter={mutant.only}"]

    def programs(self, mutant: lists.Mutant) -> list:
        """What of the build folder the test runs or loads, as paths in it."""
        words = self.command(mutant) + list(self._properties(mutant)[0].values())
        found = [word for word in words if word.startswith(f"{self.build}/bin/") or word.startswith(f"{self.build}/lib/")]
        return [os.path.relpath(word, self.build) for word in found]

    def run(self, mutant: lists.Mutant, on: bool, limit: float, tree: dict) -> dict:
        """How the test ends: "passed", "failed", "timed out" or "skipped". `tree`: folders that stand for those of the root."""
        variables, folder = self._properties(mutant)
        command = self.command(mutant)
        environment = {**os.environ, **variables}
        if on:
            environment["MUTANT"] = str(mutant.id)
        if on and self.rebuilt is not None and mutant.compiled:
            command = [self.rebuilt.path(word) for word in command]
            environment.update({name: self.rebuilt.path(value) for name, value in variables.items()})
        for old, new in tree.items():
            environment.update({name: value.replace(old, new) for name, value in variables.items()})
            command = [word.replace(old, new) for word in command]
        start = time.monotonic()
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   errors="replace", start_new_session=True)
        try:
            output, _ = process.communicate(timeout=limit)
            end = {0: "passed", _SKIPPED: "skipped"}.get(process.returncode, "failed")
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            output, end = process.communicate()[0], "timed out"
        return {"end": end, "seconds": round(time.monotonic() - start, 1), "output": output[-2000:]}

    def _properties(self, mutant: lists.Mutant) -> tuple:
        properties = {row["name"]: row["value"] for row in self._tests[mutant.test]["properties"]}
        variables = dict(row.split("=", 1) for row in properties.get("ENVIRONMENT", []))
        return variables, properties.get("WORKING_DIRECTORY", self.build)


class Run:
    """One run over the `chosen` mutants of those `listed`."""

    def __init__(self, arguments: argparse.Namespace, listed: list, chosen: list):
        self.root, self.build, self.work = arguments.root, arguments.build, arguments.build / "mutate"
        self.limit, self.jobs, self.listed, self.chosen = arguments.seconds, arguments.jobs, listed, chosen
        self.tests = Tests(self.root, self.build)

    def unchanged(self) -> None:
        """Every test that the mutants name passes without one."""
        whole = {(mutant.test, mutant.only): mutant for mutant in self.chosen}
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            results = list(pool.map(lambda mutant: self.tests.run(mutant, False, self.limit, {}), whole.values()))
        for (name, only), result in zip(whole, results):
            if result["end"] != "passed":
                raise SystemExit(f"{name} {only}: {result['end']} without a mutant, in {result['seconds']} s:\n{result['output']}")
        say(f"{len(whole)} tests pass without a mutant, the slowest in {max(result['seconds'] for result in results)} s")

    def rebuild(self) -> None:
        compiled = [mutant for mutant in self.chosen if mutant.compiled]
        if not compiled:
            return
        start = time.monotonic()
        sources = self.work / "sources"
        lists.write_all(self.root, self.listed, sources)  # all of them: another choice then finds the same build
        self.tests.rebuilt = Rebuild(self.root, self.build, sources, self.work, self.jobs)
        count = self.tests.rebuilt.make(sorted({program for mutant in compiled for program in self.tests.programs(mutant)}))
        say(f"all mutants are in one build: {count} commands, {time.monotonic() - start:.0f} s")

    def one(self, mutant: lists.Mutant) -> dict:
        tree = {}
        if not mutant.compiled:
            folder = pathlib.Path(*pathlib.Path(mutant.file).parts[:2])  # bindings/LANGUAGE
            copy = self.work / str(mutant.id) / folder
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(self.root / folder, copy)
            (self.work / str(mutant.id) / mutant.file).write_text(lists.with_one(self.root, mutant))
            tree = {str(self.root / folder): str(copy)}
        result = self.tests.run(mutant, True, self.limit, tree)
        result["noticed"] = result["end"] == "failed"
        say(f"{mutant.id:3} {'noticed' if result['noticed'] else 'NOT NOTICED':11} {result['end']:9} {result['seconds']:5.1f} s  "
            f"{mutant.file}: {mutant.wrong}")
        return {"id": mutant.id, "file": mutant.file, "wrong": mutant.wrong, "test": mutant.test, **result}

    def all(self) -> list:
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            return list(pool.map(self.one, self.chosen))


def say(text: str) -> None:
    print(text, flush=True)


def read_arguments() -> argparse.Namespace:
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(prog="./dev mutate", description="How many plausible faults the tests notice: tests/mutate.")
    parser.add_argument("ids", nargs="*", type=int, help="mutants of the list; without any, all")
    parser.add_argument("--check", action="store_true", help="look whether each mutant's text is in its file, and run nothing")
    parser.add_argument("--seconds", type=float, default=60, help="the time limit of a test")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="commands at once")
    parser.add_argument("--least", type=int, default=0, help="fail if fewer are noticed")
    parser.add_argument("--root", type=pathlib.Path, default=root, help=argparse.SUPPRESS)
    parser.add_argument("--build", type=pathlib.Path, default=root / "build", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    arguments = read_arguments()
    try:
        listed = lists.read()
    except ValueError as error:
        sys.exit(str(error))
    wrong = lists.check(arguments.root, listed)
    if wrong or arguments.check:
        print("\n".join(wrong))
        return 1 if wrong else 0
    chosen = [mutant for mutant in listed if not arguments.ids or mutant.id in arguments.ids]
    run = Run(arguments, listed, chosen)
    run.unchanged()
    run.rebuild()
    results = run.all()
    noticed = sum(result["noticed"] for result in results)
    report = run.work / "report.json"
    run.work.mkdir(exist_ok=True)
    report.write_text(json.dumps({"mutants": len(results), "noticed": noticed, "results": results}, indent=1) + "\n")
    say(f"{noticed} of {len(results)} noticed; {report}")
    return 0 if noticed >= arguments.least else 1


if __name__ == "__main__":
    sys.exit(main())
