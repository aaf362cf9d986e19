"""Layers split over two GPUs: the chain by the reference, plans that ranks compare, and vLLM's and SGLang's models with a rank a thread."""

import ctypes
import logging
import os
import sys
import threading
import types

import pytest

torch = pytest.importorskip("torch")

import sinter
import sinter.torch
from sinter import Error, Status
from sinter.torch import servers
from sinter.torch.runtime import groups as groups_module, registered_chain, store
from sinter.torch.serve import between, between_op
from sinter.torch.serve.between_chain import between_chain

import test_plugins
from test_group import Meeting, on_all, on_gpu
from test_plugins import Model, clean, close, module, sglang, vllm  # noqa: F401
from test_torch import layer_tensors, layer_weights
from test_vllm_rows import Ops, compiled, inputs, most_rows, plain, MOST, PLANNED  # noqa: F401

two_gpus = pytest.mark.skipif(os.environ.get("FAKE_LIBCUDA_GPUS") != "2", reason="the fake driver has one GPU")

HIDDEN, INNER, Q, COLUMNS = 64, 96, 128, 192


def parts_of(weights):
    """The parts of o, norm, gate_up, down, next_norm and next on each of two ranks."""
    o, norm, gate_up, down, next_norm, next = weights
    gate, up = gate_up.chunk(2)
    halves = lambda w, dim: [half.contiguous() for half in w.chunk(2, dim)]
    both = [torch.cat(pair) for pair in zip(halves(gate, 0), halves(up, 0))]
    return [list(one) for one in zip(halves(o, 1), [norm] * 2, both, halves(down, 1), [next_norm] * 2, halves(next, 0))]


class OneGroup:
    """The attributes of a group that are used, except launches."""

    def __init__(self, rank=0, size=2, gather=None):
        self.rank, self.size, self._exchange = rank, size, types.SimpleNamespace(gather=gather)

    _agree = sinter.Group._agree


# ---------------------------------------------------------------- The chain


def by_reference(chain, rows, inputs_of_ranks):
    """Outputs of each rank."""
    given = [tensor.contiguous() for of_rank in inputs_of_ranks for tensor in of_rank]
    made = [torch.empty(info.shape, dtype=torch.bfloat16) for _ in inputs_of_ranks for info in chain.outputs(rows)]
    addresses = lambda tensors: (ctypes.c_void_p * len(tensors))(*[tensor.data_ptr() for tensor in tensors])
    sinter._library.call("sinter_x_reference_run", chain._get(), rows, len(given), addresses(given), len(made), addresses(made), 1)
    return [made[i : i + chain.output_count] for i in range(0, len(made), chain.output_count)]


@pytest.mark.parametrize("rows", [1, 7])
def test_a_layer_over_two_ranks_is_the_layer(rows):
    attended, stream, weights = layer_tensors(rows)
    flat = lambda o, norm, gate_up, down, next_norm, next: [o, norm, *gate_up.chunk(2), down, next_norm, next]
    whole = between_chain(HIDDEN, INNER, COLUMNS, Q, (True, True), 1e-6, "silu", "bf16")
    ((total, out),) = by_reference(whole, rows, [[attended, stream, *flat(*weights)]])
    part = between_chain(HIDDEN, INNER // 2, COLUMNS // 2, Q // 2, (True, True), 1e-6, "silu", "bf16", 2)
    given = [[half, stream, *flat(*mine)] for half, mine in zip(attended.chunk(2, 1), parts_of(weights))]
    found = by_reference(part, rows, given)
    assert torch.equal(found[0][0], found[1][0])
    assert close(found[0][0], total) and close(torch.cat([found[0][1], found[1][1]], 1), out)
    assert not torch.equal(by_reference(part, rows, [given[0], given[0]])[0][0], found[0][0])


def test_a_group_is_part_of_a_layers_chain():
    given = dict(zip(layer_weights(), parts_of(list(layer_weights().values()))[0]))
    group, other = OneGroup(), OneGroup()
    alone, split, again, apart = (sinter.torch.BetweenAttentions(**given, **more) for more in ({}, *[dict(group=group)] * 2, dict(group=other)))
    assert alone._key != split._key == again._key == apart._key
    assert split._split is again._split is not apart._split and split._split.name != apart._split.name


PLACE = groups_module._place


@pytest.fixture(autouse=True)
def without_a_gpu(monkeypatch):
    """Layers take a stand-in for a group as well."""
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    own = between.instance
    monkeypatch.setattr(between, "instance", lambda value, kind, name: value if isinstance(value, OneGroup) else own(value, kind, name))


def test_what_is_no_group_is_named():
    with pytest.raises(TypeError, match="group is a int, not a sinter.Group"):
        sinter.torch.BetweenAttentions(**layer_weights(), group=2)
    with pytest.raises(Error, match="no group is called 'group x'"):
        registered_chain._run_cuda([torch.ones(3, 64).bfloat16()], sinter.torch.register_chain(sinter.Chain.of("all_reduce rows=M cols=64 ranks=2")), False, "group x")


def test_a_split_layer_is_compiled_in_one_graph():
    from torch._subclasses.fake_tensor import FakeTensorMode

    given = dict(zip(layer_weights(), parts_of(list(layer_weights().values()))[0]))
    layer = sinter.torch.BetweenAttentions(**given, group=OneGroup())
    with FakeTensorMode(allow_non_fake_inputs=True):
        make = lambda *shape: torch.empty(shape, dtype=torch.bfloat16, device="cuda")
        layer._weights = [make(*weight.shape) for weight in layer._weights]
        stream, out = layer(make(7, Q // 2), make(7, HIDDEN))
    assert stream.shape == (7, HIDDEN) and out.shape == (7, COLUMNS // 2)


# ---------------------------------------------------------------- What ranks compare


class FakePlan:
    def __init__(self, digest="d"):
        self.digest, self.calls = digest, []

    def bind(self, *buffers, group):
        self.calls.append(([tuple(buffer.shape) for buffer in buffers], group))
        return lambda pdl: (buffers[1] + 1, torch.zeros(len(buffers[0]), COLUMNS // 2))


def test_a_layer_finds_plans_by_rows_and_compares_each_once(monkeypatch):
    """Runs in one process: M changes, plans for known rows are not compared again, and zero rows launch nothing."""
    told = []
    group = OneGroup(gather=lambda own: told.append(own) or [own, own])
    layer = sinter.torch.BetweenAttentions(**dict(zip(layer_weights(), parts_of(list(layer_weights().values()))[0])), group=group)
    plans = {}
    monkeypatch.setattr(registered_chain.store, "find_chain", lambda device, chain, key, rows: plans.setdefault(rows, FakePlan()))
    run = lambda rows: registered_chain._run_cuda([torch.ones(rows, Q // 2), torch.ones(rows, HIDDEN), *layer._weights], layer._key, True, layer._split.name)
    for rows in (3, 5, 3, 5):
        stream, out = run(rows)
        assert torch.equal(stream, torch.full((rows, HIDDEN), 2.0)) and out.shape == (rows, COLUMNS // 2)
    assert len(told) == 4 and [len(plan.calls) for plan in plans.values()] == [3, 3] and plans[3].calls[0][1] is group
    assert [value.shape for value in run(0)] == [(0, HIDDEN), (0, COLUMNS // 2)] and 0 not in plans


def test_a_capture_compares_nothing(monkeypatch):
    group = OneGroup(gather=lambda own: pytest.fail("compared"))
    split = groups_module.Split("g", group)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with pytest.raises(Error, match="nothing is compared while a stream captures") as caught:
        split.meet(lambda: [FakePlan()], lambda plan: pytest.fail("bound"))
    assert caught.value.code == Status.STREAM_CAPTURING


def test_a_rank_without_a_plan_is_told_to_all():
    meeting, bound = Meeting(), []
    splits = [groups_module.Split("g", OneGroup(rank, 2, meeting.of(rank))) for rank in range(2)]

    def work(rank, fails):
        def find():
            if rank == fails:
                raise Error(Status.RESOURCE_EXHAUSTED, "no memory")
            return [plan]

        return splits[rank].meet(find, lambda plan: bound.append(rank))

    plan = FakePlan()
    first, second = on_all(lambda rank: work(rank, 1))
    assert (first.code, first.message) == (Status.FAILED_PRECONDITION, "rank 1: no memory")
    assert second.code == Status.RESOURCE_EXHAUSTED and bound == []
    assert on_all(lambda rank: work(rank, None)) == [[plan], [plan]] and sorted(bound) == [0, 1]
    assert on_all(lambda rank: work(rank, None)) == [[plan], [plan]] and meeting.calls == 6 and len(bound) == 2


def test_a_rank_that_cannot_bind_is_told_to_all():
    meeting, plan = Meeting(), FakePlan()
    splits = [groups_module.Split("g", OneGroup(rank, 2, meeting.of(rank))) for rank in range(2)]

    def work(rank):
        def bind(plan):
            if rank == 1:
                raise MemoryError("no room for outputs")

        return splits[rank].meet(lambda: [plan], bind)

    first, second = on_all(work)
    assert (first.code, first.message) == (Status.FAILED_PRECONDITION, "rank 1: MemoryError('no room for outputs')")
    assert isinstance(second, MemoryError) and not any(split.has_met(plan) for split in splits)


@two_gpus
def test_plans_of_two_ranks_are_compared_by_the_library(need_compiler):
    chain = lambda columns: f"all_reduce rows=M cols={columns} ranks=2"
    meeting = Meeting()
    contexts = [on_gpu(rank) for rank in range(2)]
    groups = on_all(lambda rank: sinter.Group(contexts[rank], rank, 2, meeting.of(rank), slot_bytes=1 << 16))
    splits = [groups_module.Split("g", group) for group in groups]
    address = 1 << 24

    def work(rank, columns):
        plan = contexts[rank].prepare(chain(columns), m=16)
        count = plan.chain.input_count + plan.chain.output_count
        buffers = (ctypes.c_uint64 * count)(*[address + (i << 20) for i in range(count)])
        bind = lambda plan: sinter._binding.Bound(plan, buffers, address + (9 << 20), groups[rank])
        splits[rank].meet(lambda: [plan], bind)
        before = contexts[rank].stats().launches
        splits[rank].launch(plan, buffers, address + (9 << 20), 0, 5, True)
        return contexts[rank].stats().launches - before

    assert on_all(lambda rank: work(rank, 64)) == [1, 1]
    for error in on_all(lambda rank: work(rank, 128 << rank)):
        assert isinstance(error, Error) and error.code == Status.FAILED_PRECONDITION and "binds plan" in error.message
    on_all(lambda rank: groups[rank].close())


def test_a_server_asks_for_plans_of_all_sizes_on_all_ranks(monkeypatch, caplog):
    from torch._subclasses.fake_tensor import FakeTensorMode

    monkeypatch.setattr(store.store, "settings", store.Settings((8, 32), "torch", later=(640,)))
    asked, plans = [], {8: FakePlan(), 32: FakePlan()}
    monkeypatch.setattr(store.store, "find", lambda device, key, rows, within: asked.append((rows, within)) or plans[rows])
    group = OneGroup(gather=lambda own: [own, own])
    with FakeTensorMode():
        weights = [torch.empty(w.shape, dtype=torch.bfloat16, device="cuda") for w in parts_of(list(layer_weights().values()))[0]]
        with joined(monkeypatch, group):
            assert servers.planned(weights, 1e-6, False, "tp:0") and servers.planned(weights, 1e-6, False, "tp:0")
            assert asked == [(8, (1, 32)), (32, (1, 32))] * 2 and [len(plan.calls) for plan in plans.values()] == [1, 1]
            assert plans[8].calls[0][0][:3] == [(1, Q // 2), (1, HIDDEN), (HIDDEN, Q // 2)] and len(plans[8].calls[0][0]) == 9
            plans[32] = None
            with caplog.at_level(logging.WARNING, "sinter"):
                assert not servers.planned(weights, 1e-6, False, "tp:0")
    assert "split over 2 GPUs are the server's" in caplog.text and "no plan for 32 rows" in caplog.text


class joined:
    """A group that a server joined."""

    def __init__(self, monkeypatch, group, all_reduce=None):
        self.split = groups_module.Split("tp:0", group, all_reduce)

    def __enter__(self):
        groups_module._by_name["tp:0"] = self.split

    def __exit__(self, *_):
        del groups_module._by_name["tp:0"]


def test_an_operator_takes_only_plans_that_have_met(monkeypatch):
    attended, stream, weights = layer_tensors()
    mine, half = parts_of(weights)[0], attended[:, : Q // 2].contiguous()
    plan, launched = FakePlan(), []
    monkeypatch.setattr(between_op, "launch", lambda plan, addresses, rows, device, pdl, split: launched.append((rows, split)))
    monkeypatch.setattr(between_op.store, "find", lambda device, key, rows, within: plan)
    monkeypatch.setattr(store.store, "settings", store.Settings((8,), "torch"))
    group = OneGroup()
    made = joined(monkeypatch, group, all_reduce=lambda x: 2 * x)
    with made:
        before = between_op._between_cuda(half, stream, mine, 1e-6, False, "tp:0")
        assert launched == []
        made.split.meet(lambda: [plan], lambda plan: None)
        between_op._between_cuda(half, stream, mine, 1e-6, False, "tp:0")
        assert launched == [(3, made.split)]
    linear = torch.nn.functional.linear
    total = stream.double() + 2 * linear(half, mine[0]).double()
    x = total * (total.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt() * mine[1].double()
    gate, up = linear(x, mine[2].double()).chunk(2, -1)
    assert close(before[0], total + 2 * linear(torch.nn.functional.silu(gate) * up, mine[3].double()))
    with joined(monkeypatch, group), pytest.raises(Error, match="no plan that all ranks of 'tp:0' have"):
        monkeypatch.setattr(between_op.store, "find", lambda device, key, rows, within: None)
        between_op._between_cuda(half, stream, mine, 1e-6, False, "tp:0")


# ---------------------------------------------------------------- A server's group


class Distributed:
    """The functions of torch.distributed that the plugin uses, for two threads."""

    def __init__(self, places=None, size=2):
        self.of_thread, self.meeting, self.places, self.size = threading.local(), Meeting(), places, size

    def get_rank(self, group):
        return self.of_thread.rank

    def get_world_size(self, group):
        return self.size

    def all_gather_object(self, parts, mine, group):
        parts[:] = self.meeting.of(self.of_thread.rank)(mine)


def join_both(monkeypatch, dist, contexts, name="tp:0"):
    """The results that both ranks get; the group is taken out of the process again."""
    monkeypatch.setattr(groups_module.importlib, "import_module", lambda name: dist)
    monkeypatch.setattr(store.store, "context", lambda device: contexts(device))
    monkeypatch.setattr(groups_module, "_place", lambda: (dist.places or {}).get(dist.of_thread.rank, PLACE()))
    monkeypatch.setattr(groups_module, "_kept", [])

    def work(rank):
        dist.of_thread.rank = rank
        return servers.join(f"{name} of {rank}", "pg", rank, lambda x: x)

    found = on_all(work)
    made = list(groups_module._kept)
    for split in made:
        groups_module._by_name.pop(split.name)
    return found, made


@two_gpus
def test_a_servers_group_is_made_of_its_ranks_and_watched(monkeypatch, caplog):
    contexts = [on_gpu(rank) for rank in range(2)]
    found, made = join_both(monkeypatch, Distributed(), lambda device: contexts[device])
    assert found == ["", ""] and sorted(split.group.rank for split in made) == [0, 1]
    assert all(split.group.size == 2 and split.group.error is None and split.all_reduce is not None for split in made)
    ended = []
    monkeypatch.setattr(groups_module.os, "kill", lambda process, signal: ended.append(process))
    with caplog.at_level(logging.CRITICAL, "sinter"):
        for split in made:
            split.group.abort()
        for thread in [thread for thread in threading.enumerate() if thread.name == "sinter group"]:
            thread.join(20)
    assert caplog.text.count("results since then are wrong") == 2 and ended == [os.getpid()] * 2
    on_all(lambda rank: made[rank].group.close())


@pytest.mark.parametrize(
    "places, said",
    [
        ({1: ("node7", "other boot", 1)}, "ranks 0 and 1 are on two hosts, .* and node7, and a group is of one"),
        ({0: ("a", "b", 1), 1: ("a", "b", 2)}, "IPC namespaces of their own"),
    ],
)
def test_ranks_that_share_no_memory_have_no_group(monkeypatch, places, said):
    import re

    found, made = join_both(monkeypatch, Distributed(places), lambda device: "a context")
    assert made == [] and all(re.search(said, why) for why in found) and found[0] == found[1]


def test_too_many_ranks_and_a_rank_without_a_driver_have_no_group(monkeypatch):
    found, _ = join_both(monkeypatch, Distributed(size=16), lambda device: "a context")
    assert found == ["they are split over 16 GPUs, and a group has 2 to 8"] * 2

    def context(device):
        if device == 1:
            raise Error(Status.UNAVAILABLE, "no driver")
        return "a context"

    found, _ = join_both(monkeypatch, Distributed(), context)
    assert found == ["rank 1: UNAVAILABLE: no driver"] * 2


@two_gpus
def test_ranks_whose_group_fails_are_told_why(monkeypatch):
    """The failure is like memory handles that cannot be opened: here both ranks have one GPU."""
    context = on_gpu(0)
    found, made = join_both(monkeypatch, Distributed(), lambda device: context)
    assert made == [] and all("have the same GPU" in why for why in found)


# ---------------------------------------------------------------- vLLM


class Ranks:
    """Two threads that sum in the order of ranks."""

    def __init__(self):
        self.of_thread, self.meeting, self.sums = threading.local(), Meeting(), [0, 0]

    def all_reduce(self, x):
        rank = self.of_thread.rank
        self.sums[rank] += 1
        first, second = self.meeting.of(rank)(x)
        return (first.float() + second.float()).to(x.dtype)

    def run(self, work):
        def on(rank):
            self.of_thread.rank = rank
            with torch.no_grad():
                return work(rank)

        found = on_all(on)
        for one in found:
            if isinstance(one, Exception):
                raise one
        return found


def shard(model, whole, rank):
    """A rank's part of the weights of `whole`, whose form `model` has."""
    mine = lambda w, dim: w.chunk(2, dim)[rank].contiguous()
    for to, of in zip(model.layers, whole.layers):
        q, kv = of.self_attn.qkv_proj.weight.data.chunk(2)
        gate, up = of.mlp.gate_up_proj.weight.data.chunk(2)
        to.self_attn.qkv_proj.weight.data = torch.cat([mine(q, 0), mine(kv, 0)])
        to.self_attn.o_proj.weight.data = mine(of.self_attn.o_proj.weight.data, 1)
        to.mlp.gate_up_proj.weight.data = torch.cat([mine(gate, 0), mine(up, 0)])
        to.mlp.down_proj.weight.data = mine(of.mlp.down_proj.weight.data, 1)
        for name in ("input_layernorm", "post_attention_layernorm"):
            getattr(to, name).weight.data = getattr(of, name).weight.data
    model.norm.weight.data = whole.norm.weight.data
    return model


@pytest.fixture
def ranks(vllm, monkeypatch):
    """vLLM's group of two ranks, and a join by the plugin that succeeds."""
    made = Ranks()
    made.joins, made.why, made.split = [], "", groups_module.Split("tp:0", OneGroup(), made.all_reduce)
    tp = types.SimpleNamespace(unique_name="tp:0", cpu_group="cpu group", world_size=2)
    module(monkeypatch, "vllm.distributed", get_tp_group=lambda: tp, tensor_model_parallel_all_reduce=made.all_reduce)

    def join(name, process_group, device, all_reduce, reason):
        made.joins.append((name, process_group, all_reduce))
        if not reason and not made.why:
            groups_module._by_name[name] = made.split
        return reason or made.why

    monkeypatch.setattr(servers, "join", join)
    made.tp = tp
    yield made
    groups_module._by_name.pop("tp:0", None)


def both(vllm, ranks, which=0):
    """A whole model without the plugin, and two ranks' parts of it with the plugin."""
    import sinter_vllm

    kind, mlp = vllm.models[which]
    own, parts = kind(mlp), [kind(mlp, parts=2) for _ in range(2)]
    for rank, part in enumerate(parts):
        shard(part, own, rank)
    wanted = {rows: Model.__call__(own, *inputs(rows)) for rows in (3, MOST + 1)}
    sinter_vllm.register()
    return wanted, parts


@pytest.mark.parametrize("which", [0, 1, 2])
def test_split_layers_are_linked_over_a_group(vllm, ranks, which, caplog):
    import sinter_vllm

    wanted, parts = both(vllm, ranks, which)

    given = inputs(3)

    def step(rank):
        with Ops() as ops:
            return parts[rank](*given), ops.sinters()

    with caplog.at_level(logging.INFO, sinter_vllm.LOGGER):
        found = ranks.run(step)
    for result, operators in found:
        assert close(result, wanted[3]) and operators == ["sinter.between_attentions.default"] * 2 + ["sinter.gated_mlp.default"]
    # In the two linked layers the operator sums, by vLLM's kernels because there is no plan; in the last one vLLM and the MLP's forward do.
    assert ranks.sums == [6, 6] and ranks.joins[0][:2] == ("tp:0", "cpu group")
    assert "3 layers from attention to attention, over 2 GPUs, for up to 48 rows" in caplog.text and "background" not in caplog.text
    assert parts[0].vllm_config.additional_config == {"sinter": f"up to {PLANNED} rows, over 2 GPUs"}
    assert parts[0].vllm_config.compilation_config.compile_ranges_endpoints == [PLANNED, 8192]


def test_rows_beyond_plans_are_summed_by_vllm(vllm, ranks):
    wanted, parts = both(vllm, ranks)
    given = {rows: inputs(rows) for rows in (3, MOST + 1)}  # seeded, so not by two threads
    ranks.run(lambda rank: parts[rank](*given[3]))
    ranks.sums = [0, 0]

    def step(rank):
        with Ops() as ops:
            return parts[rank](*given[MOST + 1]), ops.sinters()

    for result, operators in ranks.run(step):
        assert close(result, wanted[MOST + 1]) and operators == []
    assert ranks.sums == [6, 6]


def test_graphs_of_split_layers_name_the_group(vllm, ranks):
    """Below the plans' end they hold the operators, above it vLLM's, with its sums. The sum of this one rank doubles."""
    library = torch.library.Library("vllm", "FRAGMENT")
    try:
        library.define("all_reduce(Tensor tensor, str group_name) -> Tensor")
        library.impl("all_reduce", lambda tensor, group_name: 2 * tensor, "CompositeExplicitAutograd")
        torch.library.register_fake("vllm::all_reduce", lambda tensor, group_name: torch.empty_like(tensor), lib=library)
        named = lambda x: torch.ops.vllm.all_reduce(x, group_name="tp:0")
        sys.modules["vllm.distributed"].tensor_model_parallel_all_reduce = named
        kind, mlp = vllm.models[0]
        wanted, (part, _) = {}, both(vllm, ranks)[1]
        for rows in (3, MOST + 1):
            own = shard(plain(kind, mlp, parts=2), kind(mlp), 0)
            wanted[rows] = Model.__call__(own, *inputs(rows))
        ranks.split.all_reduce = named
        part(*inputs(3))
        for compile_range, operators, sums in (((1, PLANNED), 2, 2), ((PLANNED + 1, 8192), 0, 6)):
            with torch.no_grad():
                step, graphs = compiled(vllm, part.forward, compile_range)
                rows = 3 if operators else MOST + 1
                assert close(step(*inputs(rows)), wanted[rows])
            calls = [str(node.target) for node in graphs[0].nodes if node.op == "call_function"]
            assert sum("between_attentions" in call for call in calls) == operators
            assert sum("all_reduce" in call for call in calls) == sums
    finally:
        library._destroy()


WHY = {
    "no group": "their containers have IPC namespaces of their own",
    "sequence parallel": "sequence parallelism",
    "micro-batches": "micro-batches run on two streams",
    "some of the ranks": "split over 2 GPUs of 4",
    "in several ways": "split over GPUs in several ways",
    "no plan": "",
}


@pytest.mark.parametrize("how", WHY)
def test_split_layers_without_a_group_are_mlps(vllm, ranks, how, caplog, monkeypatch):
    """Each rank's part by Sinter, the sum by vLLM."""
    wanted, parts = both(vllm, ranks)
    for part in parts:
        config = part.vllm_config
        if how == "sequence parallel":
            config.compilation_config.pass_config = types.SimpleNamespace(enable_sp=True)
        if how == "micro-batches":
            config.parallel_config = types.SimpleNamespace(use_ubatching=True)
        if how == "in several ways":
            part.layers[1].self_attn.o_proj.reduce_results = False
    if how == "some of the ranks":
        ranks.tp.world_size = 4
    if how == "no plan":
        monkeypatch.setattr(servers, "planned", lambda *given: False)
    ranks.why = WHY[how] if how == "no group" else ""

    given = inputs(3)

    def step(rank):
        with Ops() as ops:
            return parts[rank](*given), ops.sinters()

    with caplog.at_level(logging.WARNING, "sinter"):
        found = ranks.run(step)
    for result, operators in found:
        assert operators == ["sinter.gated_mlp.default"] * 3
        assert how == "in several ways" or close(result, wanted[3])
    assert WHY[how] in caplog.text and ranks.sums == ([5, 5] if how == "in several ways" else [6, 6])


def test_norms_of_split_layers_stay_apart(vllm, ranks, monkeypatch):
    """Numbers that can be folded on one rank may not be on another."""
    monkeypatch.setenv("SINTER_VLLM_FOLD", "1")
    monkeypatch.setattr(servers, "folding_pays", lambda weights, eps: True)
    wanted, parts = both(vllm, ranks)
    given = inputs(3)
    for result in ranks.run(lambda rank: parts[rank](*given)):
        assert close(result, wanted[3])
    assert not any(hasattr(part, "sinter_folded") for part in parts)


def test_mlps_that_leave_the_sum_are_not_summed(vllm, ranks):
    import sinter_vllm

    sinter_vllm.register()
    mlp = vllm.LlamaMLP(parts=2, sums=False)
    x = torch.ones(3, 64).bfloat16()
    assert close(mlp(x), mlp.own(x)) and ranks.sums == [0, 0]


# ---------------------------------------------------------------- SGLang


@pytest.mark.parametrize("change", ["", "sums", "decode_attn_tp", "sp_active", "older"])
def test_sglangs_split_mlps_leave_the_sum_to_its_layers(sglang, monkeypatch, change):
    import sinter_sglang

    monkeypatch.setattr(sinter_sglang, "_is_hopper", lambda x: True)
    if change != "older":
        flags = types.SimpleNamespace(sp_active=change == "sp_active")
        module(monkeypatch, "sglang.srt.runtime_context", get_forward=lambda: flags)
    sinter_sglang.register()
    forward = sglang.registry.apply("sglang.srt.models.llama.LlamaMLP.forward", lambda self, x, forward_batch=None: self.own(x))
    monkeypatch.setattr(test_plugins, "all_reduce", lambda x: x)
    mlp = test_plugins.Mlp(parts=2, sums=change == "sums")
    mlp.down_proj.use_decode_attn_tp = change == "decode_attn_tp"
    x = torch.ones(3, 64).bfloat16()
    assert close(forward(mlp, x), mlp.own(x)) and mlp.own_calls == 1 + (change != "")


def test_a_config_names_the_plans_of_one_rank(context, need_compiler):
    config = dict(hidden_size=64, intermediate_size=128, num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=1e-5, torch_dtype="bfloat16")
    made = servers.prepare_config(config, context, [8], ranks=2)
    key = between_op.between_key(between_op.Extents(64, 64, 64, 32), 1e-5, torch.bfloat16, False, 2)
    assert set(made) == {(key, 8), ("gated_ffn m=M n=64 k=64 l=64 act=silu layout=oi dtype=bf16", 8)}
    for ranks, said in ((3, "ranks is 3: 4 heads"), (9, "ranks")):
        with pytest.raises(Error, match=said):
            servers.prepare_config(config, context, [8], ranks=ranks)
