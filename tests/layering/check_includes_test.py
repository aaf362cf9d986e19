#!/usr/bin/env python3
"""Plants violations and legal lines, and expects check_includes.py to tell them apart."""

import os
import sys
import tempfile
import unittest

import check_includes
import check_test_sources

VIOLATIONS = [
    ("include/sinter/sinter.h", '#include "src/base/status.h"'),
    ("src/base/a.h", '#include "src/chain/chain.h"'),
    ("src/base/a.cc", "#include <sinter/sinter.h>"),
    ("runtime/driver/a.cc", '#include "cache/record/record.h"'),
    ("runtime/driver/a.cc", '#include "src/chain/chain.h"'),
    ("cache/record/a.cc", '#include "src/plan/plan.h"'),
    ("cache/record/a.cc", '#include "runtime/driver/driver.h"'),
    ("src/chain/a.cc", '#include "src/plan/plan.h"'),
    ("src/reference/a.cc", '#include "src/plan/plan.h"'),
    ("src/plan/a.cc", '#include "src/fusion/fusion.h"'),
    ("src/product/a.cc", '#include "src/plan/plan.h"'),
    ("src/stitch/a.cc", '#include "src/product/schedule.h"'),
    ("src/fusion/a.cc", '#include "src/device/device_library.h"'),
    ("src/plan/a.cc", '#include "src/device/device_library.h"'),
    ("src/plan/codegen.cc", '#include "runtime/launch/launch.h"'),
    ("src/device/a.cc", '#include "src/base/digest.h"'),
    ("src/device/ptx/a.cuh", '#include "tile/tile.cuh"'),
    ("src/device/tile/a.cuh", '#include "src/device/kernels/chain.cuh"'),
    ("src/engine/engine.cc", '#include "runtime/driver/driver.h"'),
    ("src/engine/engine.cc", '#include "cache/tiers/tiers.h"'),
    ("src/engine/engine.cc", '#include "src/capi/handles.h"'),
    ("src/capi/a.cc", '#include "runtime/driver/driver.h"'),
    ("src/cli/a.cc", '#include "runtime/driver/driver.h"'),
    ("src/cli/a.cc", '#include "cache/tiers/tiers.h"'),
    ("bindings/c/a.c", '#include "src/base/status.h"'),
    ("src/chain/a.cc", '#include "tests/fakes/fake_store.h"'),
    ("elsewhere/a.cc", '#include "src/base/status.h"'),
    ("src/engine/a.cc", "#include <cuda.h>"),
    ("tests/unit/base/a_test.cc", "#include <cuda.h>"),
    ("src/device/kernels/a.cuh", "#include <cuda_fp16.h>"),
    ("src/device/kernels/a.cuh", "#include <cooperative_groups.h>"),
    ("src/device/kernels/a.cuh", "#include <cutlass/cutlass.h>"),
    ("runtime/driver/a.cc", "#include <nvrtc.h>"),
    ("tests/gpu/a_test.cc", "#include <nvrtc.h>"),
    ("cache/tiers/a.cc", '#include "leveldb/table.h"'),
    ("cache/pack/a.cc", "#include <leveldb/table.h>"),
    ("src/engine/wiring.cc", "#include <leveldb/db.h>"),
    ("runtime/driver/a.cc", "#include <cublasLt.h>"),
    ("src/engine/a.cc", 'extern "C" int sinter_x(void) { return 0; }'),
    ("runtime/driver/a.cc", 'const char* home = getenv("HOME");'),
    ("src/cli/a.cc", 'const char* home = std::getenv("HOME");'),
    ("cache/store/a.cc", 'auto* p = ::secure_getenv("HOME");'),
    ("src/engine/a.cc", "const StitchSpec* stitch = StitchOf(kernel.spec);"),
    ("src/base/a.cc", '  #  include   "src/chain/chain.h"  // spaced'),
]

LEGAL = [
    ("include/sinter/sinter_experimental.h", "#include <sinter/sinter.h>"),
    ("include/sinter/sinter_experimental.h", '#include "sinter/sinter.h"'),
    ("src/base/a.cc", '#include "src/base/status.h"'),
    ("src/base/config.cc", 'const char* v = secure_getenv("HOME");'),
    ("runtime/launch/a.cc", '#include "runtime/driver/driver.h"'),
    ("runtime/launch/a.cc", "#include <cuda.h>"),
    ("runtime/nvrtc/a.cc", "#include <nvrtc.h>"),
    ("tests/gpu/a_test.cc", "#include <cuda.h>"),
    ("tests/bench/a.cc", "#include <cublasLt.h>"),
    ("cache/store/a.cc", '#include "leveldb/table.h"'),
    ("tests/unit/cache/a.cc", "#include <leveldb/table.h>"),
    ("src/product/a.cc", '#include "src/chain/chain.h"'),
    ("src/plan/codegen.cc", '#include "src/device/device_library.h"'),
    ("src/plan/a.cc", 'const char kText[] = "extern \\"C\\" __global__ void k()";'),
    ("src/plan/a.cc", 'const char kText[] = R"cuda(\nextern "C" __global__ void k();\n#include <cuda.h>\n)cuda";'),
    ("src/device/kernels/a.cuh", '#include "ptx/types.cuh"'),
    ("src/device/kernels/a.cuh", 'extern "C" __global__ void k();'),
    ("src/engine/wiring.cc", '#include "runtime/driver/driver.h"'),
    ("src/engine/wiring.cc", '#include "cache/tiers/tiers.h"'),
    ("src/engine/a.cc", '#include "src/plan/codegen.h"'),
    ("src/explain/a.cc", "const StitchSpec* stitch = StitchOf(kernel.spec);"),
    ("src/capi/a.cc", 'extern "C" int sinter_x(void) { return 0; }'),
    ("src/capi/a.cc", '#include "src/engine/engine.h"'),
    ("src/cli/a.cc", '#include "src/cli/options.h"'),
    ("src/cli/a.cc", '#include "sinter/sinter.h"'),
    ("src/cli/a.cc", '#include "src/engine/engine.h"'),
    ("tests/unit/chain/a_test.cc", '#include "src/chain/chain.h"'),
    ("src/chain/a.cc", '// #include "src/plan/plan.h"'),
    ("src/chain/a.cc", '/*\n#include "src/plan/plan.h"\n getenv */'),
    ("src/chain/a.cc", 'const char* s = "getenv";'),
    ("src/chain/a.cc", "#include <vector>"),
    ("src/chain/a.cc", "const char quote = '\"'; const char other = '\\'';"),
]


class CheckText(unittest.TestCase):
    def test_planted_violations_are_found_on_their_line(self):
        for path, line in VIOLATIONS:
            with self.subTest(path=path, line=line):
                findings = check_includes.check_text(path, "#include <string>\n\n" + line + "\n")
                self.assertEqual([number for number, _ in findings], [3])

    def test_legal_lines_pass(self):
        for path, line in LEGAL:
            with self.subTest(path=path, line=line):
                self.assertEqual(check_includes.check_text(path, line + "\n"), [])

    def test_rows_name_rows_below_them_only(self):
        seen = []
        for folder, allowed in check_includes.TABLE:
            for name in allowed:
                known = any(check_includes.within(s, name) or check_includes.within(name, s) for s in seen)
                self.assertTrue(known or check_includes.within(folder, name) or folder == "tests"
                                or check_includes.within(name, os.path.dirname(folder)), (folder, name))
            seen.append(folder)


class CheckTree(unittest.TestCase):
    def write(self, root, path, text):
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as out:
            out.write(text)

    def test_findings_name_file_and_line_and_builds_are_skipped(self):
        with tempfile.TemporaryDirectory() as root:
            self.write(root, "src/chain/a.cc", '\n#include "src/plan/plan.h"\n')
            self.write(root, "build-x/src/chain/a.cc", '#include "src/plan/plan.h"\n')
            self.write(root, "out/src/chain/a.cc", '#include "src/plan/plan.h"\n')
            findings, count = check_includes.check_tree(root, [os.path.join(root, "out")])
            self.assertEqual(count, 1)
            self.assertEqual(len(findings), 1)
            self.assertTrue(findings[0].startswith("src/chain/a.cc:2: includes src/plan/plan.h"))

    def test_an_empty_tree_fails(self):
        with tempfile.TemporaryDirectory() as root:
            self.assertEqual(check_includes.main(["check", root]), 1)

    def test_a_test_source_outside_the_build_is_found(self):
        with tempfile.TemporaryDirectory() as root:
            self.write(root, "tests/unit/a_test.cc", "")
            self.write(root, "tests/unit/b_test.cc", "")
            commands = [{"directory": root, "file": "tests/unit/a_test.cc"}]
            self.assertEqual(check_test_sources.missing_tests(root, commands), ["tests/unit/b_test.cc"])


if __name__ == "__main__":
    sys.exit(unittest.main())
