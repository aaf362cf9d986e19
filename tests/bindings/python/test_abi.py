"""The ctypes declarations against the headers."""

import ast
import ctypes
import graphlib
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import sinter
from sinter import _abi

INCLUDE = pathlib.Path(__file__).parents[3] / "include"


def test_structs_have_the_headers_layout(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    lines = ["#include <stddef.h>", '#include "sinter/sinter_experimental.h"']
    for name, struct in _abi.STRUCTS.items():
        lines.append(f'_Static_assert(sizeof({name}) == {ctypes.sizeof(struct)}, "{name}");')
        for field, *_ in struct._fields_:
            offset, size = getattr(struct, field).offset, getattr(struct, field).size
            lines.append(f'_Static_assert(offsetof({name}, {field}) == {offset}, "{name}.{field}");')
            lines.append(f'_Static_assert(sizeof((({name}*)0)->{field}) == {size}, "size of {name}.{field}");')
    source = tmp_path / "layout.c"
    source.write_text("\n".join(lines))
    subprocess.run([compiler, "-std=c11", f"-I{INCLUDE}", "-fsyntax-only", str(source)], check=True)


def test_every_element_type_has_a_name():
    declared = {name[len("DTYPE_") :]: value for name, value in vars(_abi).items() if name.startswith("DTYPE_")}
    assert declared == {dtype.name: int(dtype) for dtype in sinter.DType}


def test_functions_of_one_operand_are_exported():
    operators = {"neg", "abs", "not"}  # of Python
    assert all(hasattr(sinter, name) and name in sinter.__all__ for name in set(_abi.UNARY) - operators)


def imports_of(file):
    """The package's files that a file imports when it runs: also inside functions, but not only for types."""
    found, open_nodes = set(), [ast.parse(file.read_text())]
    while open_nodes:
        node = open_nodes.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            found |= {node.module.split(".")[0]} if node.module else {alias.name for alias in node.names}
        open_nodes += ast.iter_child_nodes(node)
    return found


def test_files_import_each_other_in_no_circle():
    files = {file.stem: file for file in pathlib.Path(sinter.__file__).parent.glob("*.py")}
    graph = {name: imports_of(file) & set(files) for name, file in files.items() if name != "__init__"}
    assert len(graph) > 20 and "_handle" in graph["_plan"]
    order = list(graphlib.TopologicalSorter(graph).static_order())  # CycleError names the circle
    assert order.index("_plan") < order.index("_context")


def test_import_opens_no_driver_and_no_compiler():
    code = (
        "import sinter, sys; sinter.version(); sinter.Chain.of('silu rows=M cols=64');"
        "maps = open('/proc/self/maps').read(); sys.exit('libcuda' in maps or 'libnvrtc' in maps)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_import_opens_nothing_at_all():
    code = "import sinter, sys; sys.exit('libsinter' in open('/proc/self/maps').read())"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_missing_library_is_named():
    code = "import sinter; sinter.version()"
    environment = {**os.environ, "LIBSINTER_PATH": "/nowhere/libsinter.so"}
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert found.returncode and "UNAVAILABLE: no libsinter: /nowhere/libsinter.so" in found.stderr


def test_a_library_that_is_not_sinter_is_named(tmp_path):
    code = "import sinter; sinter.version()"
    environment = {**os.environ, "LIBSINTER_PATH": "libc.so.6"}
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert found.returncode and "FAILED_PRECONDITION: not a libsinter of this version" in found.stderr


def test_versions_agree():
    assert sinter.version() == sinter.__version__ and sinter.__version__ in sinter.build_info()


def wheels(tmp_path, folder, *names):
    library = tmp_path / folder / "lib"
    library.mkdir(parents=True)
    for name in names:
        (library / name).touch()
    return library


def test_the_nvidia_wheels_compiler_is_found(tmp_path, monkeypatch):
    names = ("libnvrtc.so.12", "libnvrtc.so.13", "libnvrtc.alt.so.13", "libnvrtc-builtins.so.13.99")
    library = wheels(tmp_path, "nvidia/cu13", *names)
    monkeypatch.delenv("SINTER_NVRTC", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert sinter.find_nvrtc() == str(library / "libnvrtc.so.13")
    monkeypatch.setenv("SINTER_NVRTC", "/elsewhere/libnvrtc.so.13")
    assert sinter.find_nvrtc() is None


def test_a_newer_compiler_of_the_system_wins_over_torchs(tmp_path, monkeypatch):
    torchs = wheels(tmp_path, "nvidia/cuda_nvrtc", "libnvrtc.so.12", "libnvrtc-builtins.so.12.8")
    system = wheels(tmp_path, "system", "libnvrtc.so.13", "libnvrtc-builtins.so.13.99")
    monkeypatch.delenv("SINTER_NVRTC", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(system))
    assert sinter.find_nvrtc() == str(system / "libnvrtc.so.13")
    newer = wheels(tmp_path, "nvidia/cu13", "libnvrtc.so.13", "libnvrtc-builtins.so.13.100")
    assert sinter.find_nvrtc() == str(newer / "libnvrtc.so.13")
    assert torchs.exists()  # and was never the answer
