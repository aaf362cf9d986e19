"""The names that count as defined twice."""

import unittest

from check_double_names import doubles

ONE = "\na.o:\n0000000000000000 T _Z5CheckPKc\n0000000000000010 W _Z6Inlinev\n"
OTHER = "\nb.o:\n0000000000000000 T _Z5CheckPKc\n0000000000000000 W _Z6Inlinev\n0000000000000020 T _Z4Onlyv\n"


class DoubleNames(unittest.TestCase):
    def test_two_archives_define_one_function(self):
        self.assertEqual(doubles({"x/liba.a": ONE, "y/libb.a": OTHER}), {"_Z5CheckPKc": ["liba.a(a.o)", "libb.a(b.o)"]})

    def test_two_objects_of_one_archive(self):
        self.assertIn("_Z5CheckPKc", doubles({"liba.a": ONE + OTHER}))

    def test_weak_and_single_ones_are_none(self):
        self.assertEqual(doubles({"liba.a": ONE}), {})


if __name__ == "__main__":
    unittest.main()
