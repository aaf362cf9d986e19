"""The graphs that peers are measured on, by name, with their sizes in bytes and the limit of the chip."""

import json
import os

import graphs
import large
from dag import SIZES, count

HERE = os.path.dirname(os.path.abspath(__file__))
MEMORY_CHAINS = os.path.join(HERE, "..", "problems", "memory_chains.txt")
BYTES_PER_US = 4.30e6  # what one memory-bound kernel reaches on an H200
LATENCY_US = 1.5


class Case:
    """One graph at the size it is measured at. `line` and `m` for those that the text form has."""

    def __init__(self, name, group, graph, line=None, m=0, draws=None, sizes=None, symbolic=None):
        self.name, self.group, self.graph, self.line, self.m = name, group, graph, line, m
        self.symbolic = symbolic  # the graph with the symbol M, of a line
        self.draws, self.sizes = draws or {}, sizes or {}

    def with_rows(self, m):
        """The graph of a line with another number of rows."""
        return at_m(self.symbolic, m)

    @property
    def text(self):
        return json.dumps(self.graph)

    def outputs(self):
        """The op or input that makes each output."""
        values = {v["id"]: v for v in self.graph["inputs"] + self.graph["ops"]}
        return [values[out["value"]] for out in self.graph["outputs"]]

    def bytes(self):
        """Bytes of the distinct elements of all inputs and outputs."""
        return sum(distinct(v) * SIZES[v["dtype"]] for v in self.graph["inputs"] + self.outputs())

    def limit_us(self):
        return self.bytes() / BYTES_PER_US + LATENCY_US


def distinct(value):
    """Elements in memory: an axis of stride 0 has one."""
    strides = value.get("strides", [1] * len(value["dims"]))
    return count([d for d, s in zip(value["dims"], strides) if s != 0])


def at_m(graph, m):
    """The graph with the symbol M replaced."""
    replace = lambda d: m if d == "M" else d
    text = json.loads(json.dumps(graph))
    for item in text["inputs"] + text["ops"]:
        for key in ("dims", "limits"):
            if key in item:
                item[key] = [replace(d) for d in item[key]]
        if any(isinstance(s, str) for s in item.get("strides", [])):
            raise ValueError("strides with M are not supported here")
    return text


def memory_chains(library):
    """The single memory-bound chains of the text list."""
    cases = []
    with open(MEMORY_CHAINS, encoding="utf-8") as file:
        for line in file:
            words = line.split("#")[0].split()
            if words:
                line = " ".join(words)
                chain, m = library.chain_from_line(line)
                symbolic = json.loads(library.chain_to_json(chain))
                cases.append(Case(words[0], "memory_chains", at_m(symbolic, m), line, m, symbolic=symbolic))
    return cases


def named(cases, name):
    """The case of a name. `N4-m37`: chain N4 of the text list with 37 rows."""
    found = {case.name: case for case in cases}
    chain, _, m = name.rpartition("-m")
    if name in found or chain not in found or not m.isdigit() or found[chain].line is None:
        return found[name]
    of = found[chain]
    return Case(name, of.group, of.with_rows(int(m)), of.line, int(m))


def all_cases(library, size="full"):
    """In the order of the lists. Without a library the text list is left out."""
    cases = memory_chains(library) if library else []
    for group, problems in (("stitch_graphs", graphs.PROBLEMS), ("large", large.LARGE)):
        for name, problem in problems.items():
            cases.append(Case(name, group, problem.graph(size), draws=problem.draws, sizes=problem.sizes(size)))
    return cases
