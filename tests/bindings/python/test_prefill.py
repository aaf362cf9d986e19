"""Rows of prefill: plans made in the background, while the server's own kernels compute."""

import gc
import logging
import os
import time
import types
import weakref

import pytest

torch = pytest.importorskip("torch")

import sinter
from sinter.torch import servers
from sinter.torch.runtime import launch, store as store_module, upgrade
from sinter.torch.serve import between_op

from conftest import S8
from test_torch import FakeContext, LINE, layer_tensors, store  # noqa: F401

MB = 10**6


class FakeSlot:
    """A slot of one size; its build ends by ``end``, with a plan or an error. `there`: it has ended."""

    def __init__(self, context, size, there):
        self.generation, self.error, self.callbacks = 2 if there else 0, None, []
        self._goes_on = context.measures
        self.plan = types.SimpleNamespace(digest=f"later {size}", workspace_size=size * MB, context=context)
        self.build = types.SimpleNamespace(add_done_callback=self.add, result=self.result)

    def add(self, callback):
        callback() if self.generation > 1 else self.callbacks.append(callback)

    def end(self, error=None):
        self.error, self.generation = error, self.generation if error else 2
        for callback in self.callbacks:
            callback()

    def result(self, timeout):
        raise self.error

    def _plan(self, shares_workspace):
        assert not shares_workspace
        return self.plan


class SlotContext(FakeContext):
    """Makes slots; `there`: sizes that the cache has; `misses`: those that a cache must have and has not; `measures`: slots measure plans."""

    def __init__(self, there=(), misses=(), measures=False):
        super().__init__()
        self.slots, self.there, self.misses, self.must_hit, self.measures = {}, there, misses, bool(misses), measures

    def prepare(self, chain, size):
        assert self.must_hit
        if size in self.misses:
            raise sinter.Error(sinter.Status.CACHE_MISS, f"no record for {size} rows")

    def slot(self, chain, size):
        assert size not in self.misses
        self.slots[size] = FakeSlot(self, size, size in self.there)
        return self.slots[size]

    def stats(self):
        return types.SimpleNamespace(module_bytes=3 * MB)


@pytest.fixture
def serving(store):
    """`store` as a plugin sets it up, and its context."""
    def make(**options):
        context = SlotContext(**options)
        store.use(context)
        store.settings = store_module.Settings((8, 32), "torch", later=(64, 96, 128), log="server")
        return context

    return make


def test_plans_for_more_rows_are_taken_once_they_are_there(store, serving):
    context = serving()
    assert store.find(0, LINE, 40) is None and context.prepared == [8, 32]
    assert list(context.slots) == [128, 64, 96], "full batches first"
    for size, rows in ((96, 65), (64, 40), (128, 128)):
        assert store.find(0, LINE, rows) is None
        context.slots[size].end()
        assert store.find(0, LINE, rows).digest == f"later {size}" == store.find(0, LINE, rows).digest
    assert store.find(0, LINE, 129) is None and store.find(0, LINE, 9).digest == "32"
    assert len(context.slots) == 3 and context.prepared == [8, 32] and store.counts().prepared == 5


def test_a_plan_that_measuring_chose_takes_the_predicted_ones_place(store, serving, monkeypatch):
    monkeypatch.setattr(upgrade, "_PAUSE_SECONDS", 0.0)
    context = serving(measures=True)
    store.find(0, LINE, 1)
    slot = context.slots[64]
    slot.end()
    assert store.find(0, LINE, 40) is slot.plan and store.find(0, LINE, 40) is slot.plan
    predicted, slot.plan, slot.generation = slot.plan, types.SimpleNamespace(digest="measured"), 3
    store.capturing = True
    assert store.find(0, LINE, 40) is predicted, "what is captured stays as it is"
    store.capturing = False
    assert store.find(0, LINE, 40).digest == "measured" == store.find(0, LINE, 64).digest
    made = weakref.ref(slot)
    context.slots.clear()
    del slot
    gc.collect()
    assert made() is None, "nothing more is measured"


def test_a_slot_that_measures_is_asked_once_in_a_while(store, serving):
    context = serving(measures=True)
    store.find(0, LINE, 1)
    context.slots[64].end()
    for _ in range(3):
        store.find(0, LINE, 40)
    context.slots[64].generation = 3  # measured since
    predicted, context.slots[64].plan = context.slots[64].plan, None
    assert store.find(0, LINE, 40) is predicted


@pytest.mark.parametrize("by", ["SINTER_MEASURE", "SINTER_SLOT_MEASURE", ""])
def test_a_servers_plans_are_measured_by_a_variable(store, gpu, monkeypatch, by):
    """That holds for plans that are prepared at once, and for plans built in the background."""
    if by:
        monkeypatch.setenv(by, "2" if by == "SINTER_MEASURE" else "1")
    with sinter.Context(0, driver_path=os.environ["FAKE_LIBCUDA"], cache_dir="", log_level="off") as context:
        store.use(context)
        store.settings = store_module.Settings((8,), "torch", later=(64,), log="server")
        assert store.find(0, LINE, 8).bucket == 8
        stats = context.stats()
        assert stats.measurements + stats.measurements_given_up == (by == "SINTER_MEASURE")
        until, begun = time.monotonic() + 60, lambda stats: stats.slots_measuring + stats.slot_measurements + stats.slot_measurements_given_up
        while store.find(0, LINE, 64) is None or begun(context.stats()) != bool(by):
            assert time.monotonic() < until
            time.sleep(0.01)
        plans = store._on(0).plans(LINE)
        assert plans.later.is_final(64) == (not by) and (64 in plans.by_rows) == (not by), "the plan that is measured takes its place"
        store.reset()


def test_a_stand_in_is_not_taken(store, serving):
    context = serving()
    store.find(0, LINE, 1)
    context.slots[64].generation = 1
    assert store.find(0, LINE, 64) is None
    context.slots[64].end(sinter.Error(sinter.Status.COMPILE_FAILED, "no"))
    assert store.find(0, LINE, 64) is None and store.counts().failed == 1
    context.slots[96].end()
    assert store.find(0, LINE, 65).digest == "later 96"


def test_nothing_is_begun_under_capture(store, serving):
    context = serving()
    store.capturing = True
    assert store.find(0, LINE, 40) is None and not context.slots and context.prepared == []
    store.capturing = False
    store.find(0, LINE, 8)
    store.capturing = True
    assert store.find(0, LINE, 40) is None and len(context.slots) == 3
    context.slots[64].end()
    assert store.find(0, LINE, 40).digest == "later 64"


def test_what_fails_is_the_servers_for_good(store, serving, caplog):
    context = serving()
    with caplog.at_level(logging.INFO, "server"):
        store.find(0, LINE, 1)
        context.slots[96].end(sinter.Error(sinter.Status.COMPILE_FAILED, "too old a compiler"))
        for _ in range(3):
            assert store.find(0, LINE, 96) is None
        context.slots[64].end()
        context.slots[128].end()
        assert store.find(0, LINE, 64).digest == "later 64"
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2 and "up to 96 rows: " in said[0] and "too old a compiler" in said[0]
    assert "2 plans for up to 128 rows are there" in said[1] and "3.0 MB" in said[1] and "up to 128 MB of PyTorch's" in said[1]
    assert store.counts().failed == 1


def test_plans_of_the_cache_are_there_at_once(store, serving, caplog):
    with caplog.at_level(logging.INFO, "server"):
        serving(there=(64, 96, 128))
        assert store.find(0, LINE, 100).digest == "later 128"
    assert "3 plans for up to 128 rows are there" in caplog.text


@pytest.mark.parametrize("misses, left", [((), (64, 96, 128)), ((96,), (64, 96, 128)), ((96, 128), (64,)), ((64, 96, 128), ())])
def test_rows_that_no_cache_has_are_given_up(store, serving, misses, left):
    serving(misses=misses)
    store.settle()
    assert store.settings.later == (64, 96, 128)
    store.find(0, LINE, 8)
    store.settle()
    assert store.settings.later == left


@pytest.mark.parametrize("by", ["argument", "environment"])
def test_what_no_cache_has_is_known_at_once_and_warned_of_by_nobody(store, monkeypatch, tmp_path, by):
    if by == "environment":
        monkeypatch.setenv("SINTER_MUST_HIT", "1")
    lines, must_hit = [], True if by == "argument" else None
    options = dict(cache_dir=str(tmp_path), must_hit=must_hit, log=lambda *line: lines.append(line), log_level="warn")
    with sinter.Context(target="h200", **options) as context:
        assert context.must_hit
        for _ in range(10):
            later = store._later(context, S8, store_module.Settings((8,), "torch", later=(640, 1024, 8192), log="server"))
            assert later.largest() == 0
    assert not lines


def test_without_any_plan_all_rows_are_given_up(store, serving):
    context = serving()
    context.fails = sinter.Error(sinter.Status.NO_LEGAL_PLAN, "no")
    assert store.find(0, LINE, 8) is None
    store.settle()
    assert store.settings.later == () and store.settings.sizes == (8, 32)


# ---------------------------------------------------------------- A real plan of a slot


def test_plans_of_slots_are_taken_by_another_thread(gpu, need_compiler, store, caplog):
    store.use(gpu)
    store.settings = store_module.Settings((8,), "torch", later=(640, 1024), log="server")
    with caplog.at_level(logging.INFO, "server"):
        assert store.find(0, S8, 1).bucket == 8
        for _ in range(1200):
            if store.find(0, S8, 700) is not None and store.find(0, S8, 513) is not None:
                break
            time.sleep(0.05)
    assert store.find(0, S8, 700).bucket == 1024 and store.find(0, S8, 513).bucket == 640 and store.find(0, S8, 1025) is None
    assert "2 plans for up to 1024 rows are there" in caplog.text and store.counts().prepared == 3


def test_workspaces_are_not_made_for_such_plans(gpu, need_compiler):
    before = gpu._workspaces._wanted
    slot = gpu.slot(S8, m=8192)
    for _ in range(1200):
        if slot.generation > 1:
            break
        time.sleep(0.05)
    plan = slot._plan(shares_workspace=False)
    assert plan.workspace_size > before == gpu._workspaces._wanted and not plan.shares_workspace
    assert slot.plan().shares_workspace and gpu._workspaces._wanted >= plan.workspace_size


def test_such_a_plan_computes_in_memory_of_the_call(monkeypatch):
    launched, made = [], []

    def space(plan, stream, device):
        made.append(torch.empty(plan.workspace_size, dtype=torch.uint8))
        return made[-1]

    workspaces = types.SimpleNamespace(address=lambda stream, size: 4096)
    plan = types.SimpleNamespace(workspace_size=64, shares_workspace=True, context=types.SimpleNamespace(_workspaces=workspaces))
    plan._launch = lambda addresses, workspace, *rest: launched.append(workspace)
    monkeypatch.setattr(launch, "current_of_torch", lambda device: 0)
    monkeypatch.setattr(launch, "workspace_of_call", space)
    launch.launch(plan, (16,), 700, 0)
    plan.shares_workspace = False
    launch.launch(plan, (16,), 700, 0)
    assert launched == [4096, made[0].data_ptr()] and len(made) == 1


# ---------------------------------------------------------------- The server's kernels


def test_meanwhile_the_servers_kernels_compute(monkeypatch):
    from torch._subclasses.fake_tensor import FakeTensorMode

    asked = []

    def add_norm(x, residual, weight, eps):
        asked.append((residual, eps))
        return x.add_(residual), residual.add_(x)  # in place, as servers have it

    def fused(both):
        asked.append(both)
        return both.chunk(2, -1)[0].contiguous()

    monkeypatch.setattr(store_module.store, "settings", store_module.Settings((8,), "torch", fused, add_norm))
    monkeypatch.setattr(between_op.store, "find", lambda *_: None)
    with FakeTensorMode():
        make = lambda *shape: torch.empty(shape, dtype=torch.bfloat16, device="cuda")
        weights = [make(64, 128), make(64), make(192, 64), make(64, 96), make(64), make(192, 64)]
        attended, stream = make(700, 128), make(700, 64)
        version = stream._version
        total, out = between_op._between_cuda(attended, stream, weights, 1e-5)
    assert len(asked) == 3 and asked[0][1] == asked[2][1] == 1e-5 and asked[0][0] is not stream and stream._version == version
    assert total is asked[0][0] and out.shape == (700, 192)
    attended, stream, weights = layer_tensors()
    between_op._between_cpu(attended, stream, weights, 1e-5)
    assert len(asked) == 3, "on a host torch computes"


# ---------------------------------------------------------------- How many rows


@pytest.fixture
def plain(monkeypatch):
    monkeypatch.setattr(store_module.store, "settings", store_module.Settings())
    monkeypatch.delenv(servers.PREFILL_VARIABLE, raising=False)


@pytest.mark.parametrize(
    "asked, sizes, rows, first, last",
    [
        ("", servers.SIZES, 8192, None, None),
        ("", (1, 8, 48), 2048, None, None),
        ("", (1, 8, 48, 1024), 8192, None, None),
        ("8192", servers.SIZES, 8192, 576, 8192),
        ("8192", servers.SIZES, 2048, 576, 2048),
        ("8192", servers.SIZES, 2050, 576, 2304),
        ("8192", servers.SIZES, 16384, 576, 8192),
        ("8192", (1, 8, 48), 2048, 64, 2048),
        ("8192", (1, 8, 48, 1024), 8192, 1152, 8192),
        ("4096", servers.SIZES, 8192, 576, 4096),
        ("1000", servers.SIZES, 8192, 576, 960),
        ("512", servers.SIZES, 8192, None, None),
        ("0", (1, 8, 48), 8192, None, None),
        ("512", (1, 8, 48), 8192, None, None),
        ("8192", servers.SIZES, 512, None, None),
    ],
)
def test_sizes_of_prefill(plain, monkeypatch, asked, sizes, rows, first, last):
    monkeypatch.setenv(servers.PREFILL_VARIABLE, asked)
    servers.set_up(None, sizes, rows=rows)
    later = store_module.store.settings.later
    assert (later[:1], later[-1:]) == (((first,), (last,)) if first else ((), ()))
    assert servers.largest() == (last or sizes[-1]) and servers.takes(servers.largest()) and not servers.takes(servers.largest() + 1)


@pytest.mark.parametrize("text", ["8193", "-1", "all", "1e3", "99999999999", " 512", "\u0665"])
def test_another_number_of_rows_is_refused(plain, monkeypatch, text):
    monkeypatch.setenv(servers.PREFILL_VARIABLE, text)
    with pytest.raises(sinter.Error, match="SINTER_PREFILL_ROWS is .*0 to 8192.*8192 takes all of it") as caught:
        servers.set_up(None)
    assert caught.value.code == sinter.Status.INVALID_ARGUMENT


def test_captured_sizes_above_512_are_prepared_ahead(plain, monkeypatch):
    assert servers.sizes_for([1, 40, 512, 600, 1000]) == (1, 48, 512, 640, 1024)
    assert servers.sizes_for([72, 104]) == (80, 112)
    assert servers.sizes_for([]) == servers.sizes_for([10**6]) == servers.SIZES
    monkeypatch.setenv(servers.PREFILL_VARIABLE, "0")
    assert servers.sizes_for([1, 40, 512, 600, 1000]) == (1, 48, 512)
