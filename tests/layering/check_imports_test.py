#!/usr/bin/env python3
"""Plants violations and legal lines, and expects check_imports.py to tell them apart."""

import os
import sys
import tempfile
import unittest

import check_imports

FILES = {
    "bindings/python/sinter/__init__.py": "",
    "bindings/python/sinter/_plan.py": "",
    "bindings/python/sinter/torch/__init__.py": "",
    "bindings/python/sinter/torch/servers.py": "",
    "bindings/python/plugins/sinter-vllm/sinter_vllm/__init__.py": "",
}
for name in ("convert", "runtime", "partition", "graph", "gate", "serve", "backend"):
    FILES["bindings/python/sinter/torch/%s/__init__.py" % name] = ""
    FILES["bindings/python/sinter/torch/%s/a.py" % name] = ""

VIOLATIONS = [
    ("sinter/_plan.py", "import sinter.torch"),
    ("sinter/_plan.py", "def f():\n    from .torch import servers"),
    ("sinter/torch/convert/a.py", "from ..runtime.a import x"),
    ("sinter/torch/convert/a.py", "from .. import servers"),
    ("sinter/torch/runtime/a.py", "from ..convert import a"),
    ("sinter/torch/partition/a.py", "from ..gate.a import x"),
    ("sinter/torch/graph/a.py", "import sinter.torch.gate.a"),
    ("sinter/torch/gate/a.py", "from ..backend import a"),
    ("sinter/torch/serve/a.py", "from ..backend.a import x"),
    ("sinter/torch/backend/a.py", "from ..serve.a import x"),
    ("plugins/sinter-vllm/sinter_vllm/__init__.py", "from sinter.torch.serve import a"),
    ("plugins/sinter-vllm/sinter_vllm/__init__.py", "from sinter.torch import runtime"),
    ("plugins/sinter-vllm/sinter_vllm/__init__.py", "from .runtime import experts"),
    ("sinter/torch/gate/a.py", "from .gone import x"),
]
LEGAL = [
    ("sinter/_plan.py", "import torch\nfrom . import _plan"),
    ("sinter/torch/convert/a.py", "from ..._plan import x\nfrom . import a\nfrom torch.fx import Graph"),
    ("sinter/torch/gate/a.py", "from ..convert.a import x\nfrom ..runtime import a\nfrom ..graph.a import y"),
    ("sinter/torch/backend/a.py", "from . import compile_with\nfrom ..gate.a import x\nimport sinter"),
    ("sinter/torch/servers.py", "from .serve.a import x\nfrom .runtime import a"),
    ("plugins/sinter-vllm/sinter_vllm/__init__.py", "import sinter\nfrom sinter.torch import servers\nfrom vllm import x"),
]


class Imports(unittest.TestCase):
    def findings(self, path, text):
        with tempfile.TemporaryDirectory() as root:
            for name, content in {**FILES, "bindings/python/" + path: text}.items():
                os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
                with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                    file.write(content)
            return check_imports.check_tree(root)[0]

    def test_violations_are_found(self):
        for path, text in VIOLATIONS:
            found = self.findings(path, text)
            self.assertEqual(len(found), 1, (path, text, found))
            self.assertIn("bindings/python/" + path + ":", found[0])

    def test_legal_lines_are_none(self):
        for path, text in LEGAL:
            self.assertEqual(self.findings(path, text), [], (path, text))

    def test_a_tree_without_python_is_no_success(self):
        with tempfile.TemporaryDirectory() as root:
            self.assertEqual(check_imports.main(["check_imports.py", root]), 1)


if __name__ == "__main__":
    sys.exit(0 if unittest.main(exit=False).result.wasSuccessful() else 1)
