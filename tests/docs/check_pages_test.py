#!/usr/bin/env python3
"""What check_pages.py reads of pages and code, and that a difference on either side is named."""

import os
import tempfile
import unittest

import check_pages

PAGE = """| variable | allowed |
|---|---|
| `SINTER_A` | `0` `1` |

| option | |
|---|---|
| `SINTER_B` | |
"""
HEADER = """typedef struct sinter_context_options {
  uint32_t struct_size; /* a; b */
  const char* const* packs;
  sinter_log_callback
      log; /* NULL: standard error */
} sinter_context_options;
"""


class Reading(unittest.TestCase):
    def test_tables_are_told_by_their_head(self):
        self.assertEqual(check_pages.tables(PAGE, "variable"), [["`SINTER_A`", "`0` `1`"]])

    def test_fields_of_the_options(self):
        self.assertEqual(check_pages.context_fields(HEADER), ["struct_size", "packs", "log"])

    def test_names_in_backticks(self):
        self.assertEqual(check_pages.names("`cache_dir`; `\"\"`: memory, `SINTER_CACHE=off`"), ["cache_dir", '""', "SINTER_CACHE"])

    def test_distributions_that_pip_would_fetch(self):
        self.assertEqual(check_pages.fetched("`pip install sinter` x\npip install build/wheel/sinter_gpu-*.whl 'sinter-gpu[nvrtc]'  # sinter\n"
                                             "pip install sinter_gpu-*.whl torch"), ["sinter", "sinter-gpu[nvrtc]"])

    def test_prose_is_sentences_without_code_and_tables(self):
        page = "# Head\n\nOne [two](three.md) `four five`. Six\nseven.\n\n| a | b |\n```sh\nfalse\n```\n- eight\n- nine\n"
        self.assertEqual(check_pages.prose(page), ["One two code. Six seven.", "eight", "nine"])
        self.assertEqual(check_pages.long_sentences("word " * 24 + "end. " + "word " * 25 + "end."), ["word " * 25 + "end."])

    def test_metrics_and_histograms(self):
        code = 'out.Counter("a_total", "A.");\nout.Histogram("b_seconds", "B.");\neach("c_total",\n'
        self.assertEqual(check_pages.metric_names(code), ({"a_total", "b_seconds", "c_total"}, {"b_seconds"}))

    def test_instructions_of_a_dockerfile(self):
        self.assertEqual(check_pages.instructions("# c\nFROM a AS b\n\nRUN x && \\\n    y\n"), [("FROM", "a AS b"), ("RUN", "x && y")])


class Dockerfiles(unittest.TestCase):
    def wrong(self, text):
        with tempfile.TemporaryDirectory() as root:
            for path, content in (("dev", "build/wheel/*.whl"), ("src/base/config.cc", '"SINTER_PACKS"'), ("Dockerfile", text), ("there", "")):
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(content)
            return check_pages.check_dockerfile(root, "Dockerfile")

    def test_what_is_not_there_is_named(self):
        right = "FROM a AS b\nCOPY build/wheel/sinter_gpu-*.whl there /w/\nRUN make /w/x\nFROM a\nCOPY --from=b /w/x /y\nENV SINTER_PACKS=1\n"
        self.assertEqual(self.wrong(right), [])
        for before, after, error in (("there /w/", "gone /w/", "there is no gone"), ("from=b", "from=c", "there is no stage c"),
                                     ("b /w/x", "b /w/z", "no command makes /w/z"), ("SINTER_PACKS", "SINTER_PACK", "the library has no SINTER_PACK"),
                                     ("ENV", "ADD", "ADD is not an instruction")):
            self.assertIn(error, "\n".join(self.wrong(right.replace(before, after))))


class Differing(unittest.TestCase):
    def test_both_sides_are_named(self):
        self.assertEqual(check_pages.differ("kinds", ["a", "b"], ["b", "c"]), ["kinds: the page lacks c", "kinds: the code has no a"])
        self.assertEqual(check_pages.differ("kinds", ["a"], ["a"]), [])


if __name__ == "__main__":
    unittest.main()
