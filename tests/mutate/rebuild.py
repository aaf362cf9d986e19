"""Builds programs of a build folder once more, with other texts in place of some sources.

It compiles and links again only what those sources reach, into a folder of its own. The build folder is one of ninja.
"""

import concurrent.futures
import json
import pathlib
import re
import subprocess


class Rebuild:
    """`sources`, a folder as the root is, holds the files that differ. `out` takes what is built, as the build folder has it."""

    def __init__(self, root: pathlib.Path, build: pathlib.Path, sources: pathlib.Path, out: pathlib.Path, jobs: int):
        self.root, self.build, self.sources, self.out, self.jobs = root, build, sources, out, jobs
        edges = json.loads(self._ninja("compdb"))
        self._commands = {edge["output"]: edge["command"] for edge in edges}
        self._changed = {str(root / file.relative_to(sources)) for file in sources.rglob("*") if file.is_file()}
        self._deps = self._read_deps()
        self._made: dict = {}  # by output: whether a changed source reaches it
        self._order: list = []  # the outputs that one reaches; each comes after what it needs

    def make(self, outputs: list) -> int:
        """Builds those of `outputs`, paths in the build folder, that changed sources reach. Returns the number of commands."""
        for output in outputs:
            self._visit(output)
        compiled = [output for output in self._order if output.endswith(".o")]
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(self._compile, compiled))
        for output in self._order:
            if not output.endswith(".o"):
                self._link(output)
        return len(self._order)

    def path(self, text: str) -> str:
        """`text` with the new path of each output that was built again."""
        for output in self._order:
            text = re.sub(re.escape(str(self.build / output)) + r"(?![\w.])", str(self.out / output), text)
        return text

    def _ninja(self, tool: str) -> str:
        return subprocess.run(["ninja", "-C", str(self.build), "-t", tool], check=True, capture_output=True, text=True).stdout \
            .removeprefix(f"ninja: Entering directory `{self.build}'\n")

    def _read_deps(self) -> dict:
        """By object: the files that it was compiled from."""
        found, current = {}, ""
        for line in self._ninja("deps").splitlines():
            if line.startswith("    "):
                found[current].append(line.strip())
            elif ":" in line:
                current = line.split(":", 1)[0]
                found[current] = []
        return found

    def _visit(self, output: str) -> bool:
        if output in self._made:
            return self._made[output]
        self._made[output] = False  # also ends what names itself
        command = self._commands.get(output, "")
        if output.endswith(".o"):
            again = not self._changed.isdisjoint(self._deps.get(output, []))
        else:
            again = any([self._visit(word) for word in command.split() if word in self._commands and word != output])
        if again:
            self._order.append(output)
        self._made[output] = again
        return again

    def _replaced(self, output: str) -> str:
        """The command that built `output`, with the new paths."""
        words = re.split(r"(\s+)", self._commands[output])
        return "".join(str(self.out / word) if self._made.get(word) else word for word in words)

    def _is_fresh(self, output: str) -> bool:
        """Whether an earlier run compiled it from the same files."""
        made = self.out / output
        return made.exists() and all(pathlib.Path(self._new_source(file)).stat().st_mtime < made.stat().st_mtime
                                     for file in self._deps[output])

    def _compile(self, output: str) -> None:
        if self._is_fresh(output):
            return
        command = self._replaced(output).replace(f"{output}.d ", f"{self.out / output}.d ")
        source = pathlib.Path(command.split()[-1])
        with_new = source
        if str(source) in self._changed:
            with_new = self.sources / source.relative_to(self.root)
        elif self.build in source.parents:  # one that includes several
            with_new = self.out / source.relative_to(self.build)
            with_new.parent.mkdir(parents=True, exist_ok=True)
            with_new.write_text(re.sub(r'"(.*)"', lambda path: f'"{self._new_source(path[1])}"', source.read_text()))
        command = command.replace(f" -c {source}", f" -w -c {with_new}")
        command = command.replace(" -I", f" -I{self.sources} -I{self.sources / 'include'} -I", 1)
        self._run(output, command)

    def _new_source(self, path: str) -> str:
        return str(self.sources / pathlib.Path(path).relative_to(self.root)) if path in self._changed else path

    def _link(self, output: str) -> None:
        self._run(output, self._replaced(output))
        if re.search(r"\.so\.[\d.]+$", output):  # programs ask for it by the name of its major version
            made = self.out / output
            alias = made.with_name(re.sub(r"(\.so\.\d+)\..*", r"\1", made.name))
            alias.unlink(missing_ok=True)
            alias.symlink_to(made.name)

    def _run(self, output: str, command: str) -> None:
        (self.out / output).parent.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(command, shell=True, cwd=self.build, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{output}: {command}\n{done.stdout}{done.stderr}")
