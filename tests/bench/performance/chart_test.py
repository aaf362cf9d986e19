#!/usr/bin/env python3
"""The chart has a mark for each row where its ratios are, on pages of both colours."""

import contextlib
import io
import unittest
from xml.etree import ElementTree

import chart
import page

SVG = "{http://www.w3.org/2000/svg}"
ROWS = [("FFNs, <fp8>", "`torch.compile`", [1.0, 4.0]), ("norms", "XLA", [0.95, 1.1]), ("convolutions", "cuDNN", [2.0, 26.6])]


class Chart(unittest.TestCase):
    def setUp(self):
        self.image = ElementTree.fromstring(chart.svg(ROWS))
        self.rows = self.image.findall(SVG + "g")

    def lines(self, number):
        return {line.get("class"): (float(line.get("x1")), float(line.get("x2"))) for line in self.rows[number].findall(SVG + "line")}

    def test_each_row_says_its_figures(self):
        self.assertEqual([row.find(SVG + "title").text for row in self.rows], [
            "FFNs, <fp8> (2), against torch.compile: lowest 1.00, geometric mean 2.00, highest 4.00",
            "norms (2), against XLA: lowest 0.95, geometric mean 1.02, highest 1.10",
            "convolutions (2), against cuDNN: lowest 2.00, geometric mean 7.29, highest 26.60"])

    def test_the_axis_is_logarithmic_and_the_dot_is_the_mean(self):
        self.assertAlmostEqual(chart.at(2) - chart.at(1), chart.at(4) - chart.at(2), delta=0.2)
        self.assertEqual(self.lines(0), {"range": (chart.at(1), chart.at(4))})
        self.assertEqual(float(self.rows[0].find(SVG + "circle").get("cx")), chart.at(2))

    def test_cases_in_which_a_baseline_is_faster_have_a_colour_of_their_own(self):
        self.assertEqual(self.lines(1), {"below": (chart.at(0.95), chart.at(1)), "range": (chart.at(1), chart.at(1.1))})

    def test_a_range_beyond_the_axis_ends_in_an_arrow_with_its_number(self):
        self.assertEqual(self.lines(2)["range"][1], chart.RIGHT)
        self.assertIn("to 26.6", [text.text for text in self.rows[2].findall(SVG + "text")])

    def test_a_committed_chart_with_another_figure_fails_the_check_of_pages(self):
        text = page.made()[page.CHART]
        self.assertEqual(page.check({page.CHART: text}), 0)
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(page.check({page.CHART: text.replace("lowest 0.", "lowest 1.")}), 1)

    def test_every_mark_has_a_colour_on_light_and_on_dark_pages(self):
        light, dark = self.image.find(SVG + "style").text.split("@media (prefers-color-scheme: dark)")
        for kind in {mark.get("class") for mark in self.image.iter() if mark.get("class")} - {"name"}:
            for style in (light, dark):
                self.assertRegex(style, rf"\.{kind} {{ (fill|stroke): ", kind)


if __name__ == "__main__":
    unittest.main()
