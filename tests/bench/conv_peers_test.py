#!/usr/bin/env python3
"""What conv_peers.py reads and how turns are taken, without torch or a GPU."""

import os
import sys
import tempfile
import time
import unittest
from types import SimpleNamespace

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import conv_peers  # noqa: E402
import turns  # noqa: E402


class ProblemsTest(unittest.TestCase):
    def test_reads_the_committed_list(self):
        listed = list(conv_peers.problems(os.path.join(HERE, "problems", "conv_chains.txt")))
        self.assertEqual([name for name, _, _ in listed], [f"C{i}" for i in range(1, 9)])
        _, line, numbers = listed[5]
        self.assertEqual((numbers["b"], numbers["ic"], numbers["oc2"], numbers["k1"]), (1, 128, 512, 3))
        self.assertTrue(conv_peers.with_batch(line, 8).startswith("conv_chain b=8 ic=128 "))

    def test_refuses_what_it_would_not_compute(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("X conv_chain b=1 ic=8 h=4 w=4 oc1=8 oc2=8 k1=3 k2=1 act=relu stride=2\n")
            file.flush()
            with self.assertRaisesRegex(ValueError, "X: only stride=1"):
                list(conv_peers.problems(file.name))


class WithinTest(unittest.TestCase):
    def test_ends_what_takes_too_long_whatever_it_catches(self):
        with self.assertRaisesRegex(TimeoutError, "not done within 0.05 s"):
            with turns.within(0.05):
                while True:
                    try:
                        time.sleep(0.001)
                    except Exception:  # pylint: disable=broad-except
                        pass
        with turns.within(0):
            pass


class Clock:
    """Events that read a counter; a graph adds its time to it."""

    now = 0.0

    class Event:
        def __init__(self, enable_timing):
            self.at = None

        def record(self):
            self.at = Clock.now

        def synchronize(self):
            pass

        def elapsed_time(self, end):
            return end.at - self.at


class Graph:
    def __init__(self, name, order):
        self.name, self.order = name, order

    def replay(self):
        self.order.append(self.name)
        Clock.now += {"a": 1.0, "b": 2.0}[self.name]


class CasesTest(unittest.TestCase):
    def test_the_command_line_names_chains_and_images(self):
        listed = ["C1", "C2", "C3"]
        for words, wanted in (({}, {name: None for name in listed}), ({"ids": "C2,C3", "batch": 8}, {"C2": 8, "C3": 8}),
                              ({"cases": "C3@5,C1@37"}, {"C3": 5, "C1": 37})):
            self.assertEqual(conv_peers.asked(SimpleNamespace(**{"ids": "", "batch": None, "cases": "", **words}), listed), wanted)


class TurnsTest(unittest.TestCase):
    def test_every_round_has_each_and_begins_with_another(self):
        order = []
        torch = SimpleNamespace(cuda=SimpleNamespace(Event=Clock.Event))
        graphs = {name: (Graph(name, order), 4) for name in "ab"}
        figures = turns.replayed(torch, graphs, replays=2, rounds=3)
        self.assertEqual("".join(order), "bbaa" + "aabb" + "bbaa" + "aabb")
        self.assertEqual([figures[name]["us"] for name in "ab"], [250.0, 500.0])


if __name__ == "__main__":
    unittest.main()
