"""Single parts that the backend took: each one's plan and Inductor's code for its nodes, in CUDA graphs, interleaved and kernel by kernel."""

import collections
import contextlib
import statistics
import unittest.mock

REPLAYS = 5  # of which each kernel's median time is reported
COLD = 2  # times the L2 cache are weights, so that no call finds them there


class Parts:
    """Distinct parts, by the digests of their chains, as their nodes were before an operator took their place."""

    def __init__(self):
        self._nodes = {}
        self._weights = {}  # which inputs of a chain nothing in the graph computes: told while the nodes are there
        self._readers = collections.defaultdict(set)  # of what the whole graph is given: first nodes of parts

    @contextlib.contextmanager
    def kept(self):
        """Keeps the parts that are compiled meanwhile."""
        from sinter.torch.backend import planner as planner_module

        own = planner_module.Planner._judged

        def judged(planner, part):  # before nodes of any part are erased
            found = own(planner, part)
            if found is not None:
                self._keep(found)
            return found

        with unittest.mock.patch.object(planner_module.Planner, "_judged", judged):
            yield

    def _keep(self, part):
        from sinter.torch.convert.op_table import viewed
        from sinter.torch.gate import measure

        self._weights.setdefault(part.made.chain.digest, measure._weights(part.made))
        found = measure.as_graph(part.nodes)
        if found is None:
            return
        graph, given = found
        weights = [viewed(node) if measure.is_given(node) else None for node in given]
        for node in weights:
            if node is not None:
                self._readers[node].add(part.nodes[0])
        kept = graph, [(node.meta["val"], measure._below(node, part.nodes)) for node in given], weights
        self._nodes.setdefault(part.made.chain.digest, kept)

    def timed(self, taken, turn, tell=lambda rows: None):
        """A row of each distinct part of `taken`, in microseconds. Others may use the GPU while Inductor compiles; `tell`: is called with
        the rows so far."""
        distinct = {part.made.chain.digest: part for part in taken}
        counts = collections.Counter(part.made.chain.digest for part in taken)
        rows = []
        for digest, part in distinct.items():
            row = {"chain": digest[:12], "parts": counts[digest], "ops": len(part.nodes), "limit_us": part.limit_us}
            try:
                row.update(self._timed(part, turn))
            except Exception as error:
                row["error"] = f"{type(error).__name__}: {error}"[-300:]
            rows.append(row)
            tell(rows)
        return rows

    def _timed(self, part, turn):
        import torch
        from sinter.torch.gate import measure
        from sinter.torch.runtime import run_chain
        from sinter.torch.runtime.store import store

        device, chain = torch.device("cuda", torch.cuda.current_device()), part.made.chain
        with turn.given():
            plan = part.plan or store.context(device.index).prepare(chain, part.m or None)
            sides = {"sinter": self._by_plan(part, plan, device), "inductor": self._by_inductor(part, device)}
        given = self._nodes.get(chain.digest, (None, None, []))[2]
        warm = any(len(self._readers[node]) > 1 for node in given if node is not None)  # the part before this one has read the weights
        l2_bytes = store.context(device.index).describe()["model"]["l2_bytes"]
        with turn.alone(), torch.no_grad():
            sets = {name: [side.inputs, *([] if warm else measure._copies(side, COLD * l2_bytes))] for name, side in sides.items()}
            torch.cuda.synchronize()
            graphs = {name: measure._captured(side.call, sets[name]) for name, side in sides.items()}
            times = measure.in_turns(list(graphs.values()))
            kernels = {name: kernels_of(graph, len(sets[name])) for name, graph in graphs.items()}
        planned = [(in_words(kernel), kernel["predicted"]["total_us"]) for kernel in plan.to_json()["kernels"]]
        each = {name: us / len(sets[name]) for name, us in zip(graphs, times)}
        told = {"predicted_us": plan.predicted_us, "expected_us": run_chain.expected_us(plan), "warm": warm}
        return {**told, **each, "planned": planned, "kernels": kernels}

    def _by_plan(self, part, plan, device):
        from sinter.torch.gate import measure
        from sinter.torch.runtime.run_chain import run_plan

        chain = part.made.chain
        inputs = measure.drawn(chain, part.m, str(device))
        return measure.Side(lambda values: run_plan(chain, plan, values, part.m), inputs, self._weights[chain.digest])

    def _by_inductor(self, part, device):
        from sinter.torch.gate import measure
        from sinter.torch.runtime.fallback import Fallback

        chain = part.made.chain
        if chain.digest not in self._nodes:
            inputs = measure.drawn(chain, part.m, str(device))
            code = measure.compiled(Fallback(chain).traced(inputs, part.m), inputs)
            return measure.Side(lambda values: code(*values), inputs, self._weights[chain.digest])
        graph, given, weights = self._nodes[part.made.chain.digest]
        inputs = [measure._like(val, device, below) for val, below in given]
        code = measure.compiled(graph, inputs)
        return measure.Side(lambda values: code(*values), inputs, [i for i, node in enumerate(weights) if node is not None])


def kernels_of(graph, calls):
    """Name and microseconds of each kernel of a call, in order: what it added to the time, medians of all calls where all run the same."""
    import torch

    graph.replay()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(REPLAYS):
            graph.replay()
            torch.cuda.synchronize()
    events = [e for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    events = sorted((e.time_range.start, e.time_range.end, e.name) for e in events)
    took, before = [], 0.0
    for start, end, name in events:
        took.append((name[:120], max(0.0, end - max(start, before))))
        before = max(before, end)
    each = len(took) // (REPLAYS * calls)
    if each * REPLAYS * calls != len(took):
        return took
    return [(took[i][0], statistics.median(us for _, us in took[i::each])) for i in range(each)]


def in_words(kernel):
    """What a plan's kernel is, in a few words."""
    if "sequence" not in kernel:
        return f"{kernel['family']} {kernel.get('ops', '')}".strip()
    of, schedule = kernel["sequence"], kernel["schedule"]
    rows = " of transposed rows" if of.get("rows") == "transposed" else ""
    tile = f"{schedule.get('block_m')}x{schedule.get('first', {}).get('block_n')}"
    return f"{kernel['family']} {of.get('bucket')}x{of.get('k')}x{of.get('n')}{rows} {tile} {of.get('program1', '')[:40]}".strip()


def lines_of(row):
    """A row in words, and a line for each kernel of the plan and of Inductor's code."""
    if "error" in row:
        return f"part {row['chain']} ({row['parts']} of {row['ops']} ops): {row['error']}"
    lines = [
        f"part {row['chain']} ({row['parts']} of {row['ops']} ops{', weights warm' if row['warm'] else ''}): plan {row['sinter']:.1f} us, predicted "
        f"{row['predicted_us']:.1f}; Inductor {row['inductor']:.1f}, estimated {row['limit_us']:.1f}; Inductor / plan {row['inductor'] / row['sinter']:.3f}"
    ]
    run = [each for each in row["kernels"]["sinter"] if not each[0].startswith("Mem")]
    if len(run) == len(row["planned"]):
        lines += [f"  plan {us:8.2f} us, predicted {predicted:8.2f}  {what}" for (_, us), (what, predicted) in zip(run, row["planned"])]
    else:
        lines += [f"  plan {us:8.2f} us  {name}" for name, us in row["kernels"]["sinter"]]
    return "\n".join(lines + [f"  Inductor {us:8.2f} us  {name[:90]}" for name, us in row["kernels"]["inductor"]])
