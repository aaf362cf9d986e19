"""Draws: the same everywhere, of each group, without a choice."""

import collections
import unittest

import drawn


class Drawn(unittest.TestCase):
    LISTED = {f"{group}{i}": group for group, count in (("a", 100), ("b", 10), ("c", 1)) for i in range(count)}

    def test_a_draw_is_a_function_of_seed_and_ids(self):
        self.assertAlmostEqual(drawn.place("2e68e7c", "bert_base@1"), 0.8029597, 6)
        self.assertEqual(drawn.order(self.LISTED, "2e68e7c"), drawn.order(dict(reversed(list(self.LISTED.items()))), "2e68e7c"))
        self.assertNotEqual(drawn.order(self.LISTED, "2e68e7c"), drawn.order(self.LISTED, "2e68e7d"))
        self.assertEqual(sorted(drawn.order(self.LISTED, "2e68e7c")), sorted(self.LISTED))

    def test_the_first_rows_have_each_group_and_then_its_share(self):
        order = drawn.order(self.LISTED, "1234567")
        self.assertEqual({row[0] for row in order[:3]}, {"a", "b", "c"})
        of = collections.Counter(row[0] for row in order[:56])
        self.assertTrue(48 <= of["a"] <= 52 and 4 <= of["b"] <= 6, of)

    def test_numbers_of_rows_have_each_octave_alike(self):
        found = [drawn.rows("1234567", i) for i in range(13000)]
        self.assertTrue(all(1 <= m <= 8192 for m in found))
        self.assertTrue(all(850 < sum(2**i <= m < 2 ** (i + 1) for m in found) < 1150 for i in range(3, 12)))
        self.assertLessEqual(max(drawn.rows("1234567", i, 64) for i in range(1000)), 64)


if __name__ == "__main__":
    unittest.main()
