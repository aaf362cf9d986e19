"""The numbers that count as a figure of the chip."""

import unittest

from check_figures import check_files, figures_of, model_figures

KNOWN = model_figures("sm_count = 132 [architecture]  # of 144\nlaunch_us = 400 [measured]\n"
                      "registers_per_sm = 65536 [architecture]\nreserved = 1024 [architecture]\n")


def names(text):
    return [what for _, what, _ in figures_of(text, KNOWN)]


class Figures(unittest.TestCase):
    def test_figures_of_the_architecture_alone(self):
        self.assertEqual(KNOWN, {132, 65536})

    def test_constants_of_floating_point_types(self):
        self.assertEqual(names("constexpr double kReadUs = 1;"), ["kReadUs"])
        self.assertEqual(names("constexpr double kA = 1,\n    kB = 2;  // us"), ["kA", "kB"])
        self.assertEqual(names("const float kRates[2] = {1, 2};"), ["kRates"])
        self.assertEqual(names("static constexpr double\n    kLater =\n 3;"), ["kLater"])

    def test_numbers(self):
        self.assertEqual(names("us += 0.23 * joins;"), ["0.23"])
        self.assertEqual(names("x = bytes / 4.6e6 + 1e-3;"), ["4.6e6", "1e-3"])
        self.assertEqual(names("const double x = .5f;"), [".5"])
        self.assertEqual(names("int64_t all = 65536 / threads; int sms = 132;"), ["65536", "132"])

    def test_what_is_none(self):
        self.assertEqual(names("// 0.23 us\nText(\"%.2f of 0.5\"); /* 132 */"), [])
        self.assertEqual(names("std::max(0.0, 1.0 / x); a.b2.c1; v1.2.3x; int kBytes = 1024; constexpr int kA = 400;"), [])
        self.assertEqual(names("double Us(const double a, double b) { return a; }"), [])

    def test_lines_and_leave(self):
        files = [("src/product/a.cc", "int a;\n\nconstexpr double kWorth = 1;\n")]
        self.assertRegex(check_files(files, KNOWN, {})[0], r"^src/product/a\.cc:3: kWorth is a constant")
        self.assertEqual(check_files(files, KNOWN, {("src/product/a.cc", "kWorth"): "tried"}), [])
        self.assertRegex(check_files(files, KNOWN, {("src/product/a.cc", "kWorth"): "", ("src/b.cc", "0.5"): ""})[0],
                         "src/b.cc: is allowed 0.5 and has none")


if __name__ == "__main__":
    unittest.main()
