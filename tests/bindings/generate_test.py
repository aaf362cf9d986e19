"""Tests of ./dev bindings: the committed files are its output, and additions to the headers reach every language at once.

Usage: generate_test.py ROOT WORK
"""

import pathlib
import shutil
import subprocess
import sys
import unittest

ROOT, WORK = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])


def generate(*arguments):
    return subprocess.run([sys.executable, "-B", ROOT / "bindings/generate", *arguments], capture_output=True, text=True)


class Committed(unittest.TestCase):
    def test_files_are_what_the_generator_writes(self):
        done = generate("--check")
        self.assertEqual(done.returncode, 0, f"{done.stdout}{done.stderr}\n`./dev bindings` writes them anew")


class Changed(unittest.TestCase):
    """Generates from changed copies of the headers into a separate tree."""

    def setUp(self):
        shutil.rmtree(WORK, ignore_errors=True)
        shutil.copytree(ROOT / "include", WORK / "include")

    def replace(self, header, old, new):
        path = WORK / "include/sinter" / header
        text = path.read_text()
        self.assertIn(old, text)
        path.write_text(text.replace(old, new, 1))

    def write(self):
        return generate("--root", WORK, "--headers", WORK / "include/sinter")

    def has(self, path, *parts):
        text = (WORK / path).read_text()
        for part in parts:
            self.assertIn(part, text, path)

    def test_a_new_op_is_in_every_language(self):
        self.replace("sinter_types.h", "  SINTER_UNARY_CEIL_POW2 =",
                     "  SINTER_UNARY_LGAMMA = 99, /* logarithm of gamma */\n  SINTER_UNARY_CEIL_POW2 =")
        done = self.write()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.has("include/sinter/sinter.hpp", "kLgamma = SINTER_UNARY_LGAMMA,")
        self.has("bindings/rust/sinter-sys/src/declarations.rs", "SINTER_UNARY_LGAMMA = 99")
        self.has("bindings/rust/sinter/src/words/tables.rs", "    /// Logarithm of gamma.\n    LGAMMA = SINTER_UNARY_LGAMMA,")
        self.has("bindings/go/words.go", "\t// Logarithm of gamma.\n\tUnaryLgamma Unary = C.SINTER_UNARY_LGAMMA")
        self.has("bindings/python/sinter/_abi.py", '"lgamma": 99')
        self.has("bindings/python/sinter/_functions.py", '"lgamma"', 'def lgamma(x: Value) -> Value:\n    """Logarithm of gamma."""')

    def test_a_new_function_of_two_is_in_python(self):
        self.replace("sinter_types.h", "  SINTER_BINARY_FMOD =", "  SINTER_BINARY_LDEXP = 99, /* a 2^b */\n  SINTER_BINARY_FMOD =")
        done = self.write()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.has("bindings/python/sinter/_functions.py", '"ldexp"', "def ldexp(a: Operand, b: Operand) -> Value:")

    def test_a_new_add_is_in_every_language(self):
        self.replace("sinter_chain.h", "/* silu(gate) * up. */",
                     "/* min(max(x, low), high). */\nSINTER_API sinter_status sinter_chain_add_hard_clip(\n    sinter_chain* chain, "
                     "sinter_value x, double low, int32_t axis, sinter_value* out_value,\n    sinter_error** error);\n"
                     "/* silu(gate) * up. */")
        done = self.write()
        self.assertEqual(done.returncode, 0, done.stderr)
        name = "sinter_chain_add_hard_clip"
        self.has("src/capi/sinter.map", f"    {name};")
        self.has("include/sinter/sinter.hpp", "  // min(max(x, low), high).\n  Value HardClip(Value x, double low, int32_t axis) {",
                 f"return Add({{}}, {name}, x, low, axis);")
        self.has("bindings/rust/sinter-sys/src/declarations.rs", f"{name}(chain: *mut sinter_chain, x: sinter_value, low: f64,")
        self.has("bindings/rust/sinter/src/builder/adds.rs", "pub fn hard_clip(self, low: f64, axis: i32) -> Value<'b> {",
                 f"sys::{name}(chain, self.id, low, axis, out, error)")
        self.has("bindings/go/adds.go", "func (b *Builder) HardClip(x Value, low float64, axis int) Value {",
                 f"C.{name}(p, x.id, C.double(low), axis32, out, failed)")
        self.has("bindings/python/sinter/_abi.py", f'"{name}": (c_int32, (c_void_p, c_int32, c_double, c_int32,')
        self.has("bindings/python/sinter/_functions.py", "def hard_clip(x: Value, low: float, axis: int) -> Value:",
                 'b._add("hard_clip", b._own(x), number(low, "low"), integer(axis, "axis", -(2**31), 2**31 - 1))')

    def test_an_add_with_options_has_declarations_alone(self):
        self.replace("sinter_chain.h", "/* silu(gate) * up. */",
                     "SINTER_API sinter_status sinter_chain_add_pool(sinter_chain* chain, sinter_value x,\n"
                     "    const sinter_conv2d_options* options, sinter_value* out_value, sinter_error** error);\n/* silu(gate) * up. */")
        self.assertEqual(self.write().returncode, 0)
        self.has("bindings/rust/sinter-sys/src/declarations.rs", "sinter_chain_add_pool(")
        self.assertNotIn("Pool", (WORK / "bindings/go/adds.go").read_text())

    def test_fields_of_a_struct_follow(self):
        self.replace("sinter.h", "  uint64_t prepares;", "  uint64_t prepares, cold_gets;\n  uint8_t mark[SINTER_MAX_RANK];")
        self.replace("sinter.h", "  uint8_t mark[SINTER_MAX_RANK];\n", "")
        self.replace("sinter_chain.h", "  uint64_t bytes; ", "  uint8_t mark[SINTER_MAX_RANK];\n  uint64_t bytes; ")
        done = self.write()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.has("bindings/rust/sinter-sys/src/declarations.rs", "cold_gets: u64,", "mark: [u8; SINTER_MAX_RANK],")
        self.has("bindings/go/counters.go", "ColdGets ", "uint64(s.cold_gets),")
        self.has("bindings/python/sinter/_stats.py", "    cold_gets: int\n")
        self.has("bindings/python/sinter/_abi.py", '("cold_gets", c_uint64),', '("mark", c_uint8 * MAX_RANK),')

    def test_what_it_cannot_read_is_an_error_that_names_it(self):
        self.replace("sinter.h", "SINTER_API uint32_t sinter_version(void);",
                     "SINTER_API uint32_t sinter_version(void);\nunion sinter_odd { int32_t a; };")
        done = self.write()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("sinter.h: not understood: union sinter_odd", done.stderr)

    def test_an_op_without_a_comment_is_refused(self):
        self.replace("sinter_types.h", "  SINTER_UNARY_CEIL_POW2 =", "  SINTER_UNARY_LGAMMA = 99,\n  SINTER_UNARY_CEIL_POW2 =")
        done = self.write()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("SINTER_UNARY_LGAMMA: a comment must say what it computes", done.stderr)

    def test_a_file_that_was_edited_is_named(self):
        self.assertEqual(self.write().returncode, 0)
        words = WORK / "bindings/go/words.go"
        words.write_text(words.read_text().replace("UnaryNeg", "UnaryMinus"))
        done = generate("--check", "--root", WORK, "--headers", WORK / "include/sinter")
        self.assertEqual((done.returncode, done.stdout), (1, "bindings/go/words.go is not what ./dev bindings writes\n"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
