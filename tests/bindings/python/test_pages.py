"""The Python in the pages runs as it stands."""

import pathlib
import re

import pytest


ROOT = pathlib.Path(__file__).parents[3]


def block(page):
    if not (ROOT / page).exists():
        pytest.skip("the pages are not here")
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)
    assert blocks, page
    return blocks[0]


def test_the_first_page(need_compiler, capsys, monkeypatch, cache_dir):
    monkeypatch.setenv("SINTER_CACHE_DIR", cache_dir)
    code = block("README.md")
    assert len(code.splitlines()) <= 10
    exec(code, {})
    assert capsys.readouterr().out.startswith("plan")


def test_the_packages_page(gpu, buffers, capsys, monkeypatch, cache_dir):
    import os

    monkeypatch.setenv("SINTER_CACHE_DIR", cache_dir)
    monkeypatch.setenv("SINTER_LIBCUDA", os.environ["FAKE_LIBCUDA"])
    x, gate, up, down, y = buffers
    # Without a GPU no library makes the output.
    code = block("bindings/python/README.md").replace("import sinter, torch", "import sinter")
    code = code.replace("plan(x, gate, up, down)", "plan(x, gate, up, down, out=y)")
    exec(code, dict(x=x, gate=gate, up=up, down=down, y=y))
    assert "launches=1" in capsys.readouterr().out
