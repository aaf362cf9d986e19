"""What compiled graphs call for their parts: calls that only launch, on the fake driver, and Inductor's code that makes them."""

import functools
import sys
import types

import pytest

torch = pytest.importorskip("torch", reason="no torch here: the backend for torch.compile is not tested")

import sinter
import sinter.torch
from sinter._binding import Bound
from sinter.torch.backend import direct_calls
from sinter.torch.runtime import part as part_module, run_chain
from torch._inductor.utils import run_and_get_code

N = torch.nn
FFN = "gated_ffn m=M n=3072 k=1024 l=1024 act=silu dtype=bf16"
M = 128


@pytest.fixture
def device(gpu, monkeypatch):
    """The fake GPU, whose memory is the host's. Outputs of one form always have the same address."""
    made = types.SimpleNamespace(stream=0, capturing=False, slow=0)
    own = run_chain.run_on

    def run_on(*given):
        made.slow += 1
        return own(*given)

    monkeypatch.setattr(run_chain, "run_on", run_on)
    monkeypatch.setattr(run_chain, "current_of_torch", lambda index: made.stream)
    monkeypatch.setattr(run_chain, "workspace_of_call", lambda plan, *_: aligned(plan.workspace_size))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: made.capturing)
    monkeypatch.setattr(part_module, "_stream_of", lambda index: made.stream)
    monkeypatch.setattr(part_module, "_is_capturing", lambda: made.capturing)
    monkeypatch.setattr(part_module, "_empty", functools.lru_cache(lambda *form: torch.empty_strided(*form[:2], dtype=form[2])))
    run_chain.store.use(gpu)
    yield made
    run_chain.store.reset()


def aligned(size):
    """Bytes of the host where a GPU's allocator could have put them."""
    memory = torch.zeros(size + 256, dtype=torch.uint8)
    return memory[-memory.data_ptr() % 256 :][:size]


def part_of(chain, tensors=(), fits=True, how="block"):
    return part_module.Part(run_chain.pack(chain, (), tensors), how, 0, fits)


def inputs_of(chain, m=0):
    return [torch.zeros(info.shape, dtype=run_chain.DTYPES[str(info.dtype)]) for info in chain.inputs(m)]


def ffn(**more):
    """A part with a workspace, and its inputs for M rows."""
    chain = sinter.Chain.from_text(FFN)
    return part_of(chain, **more), inputs_of(chain, M)


def product(tensors=()):
    """A part without M."""
    b = sinter.Builder()
    x, w = b.input("bf16", [64, 64]), b.constant("bf16", [128, 64])
    b.output((x @ w.T).cast("bf16"))
    return part_of(b.finish(), tensors)


def counted(call):
    """How many functions of Python, and of C from Python, a call runs."""
    counts = {"call": 0, "c_call": -1}  # the last is setprofile

    def count(frame, event, argument):
        if event in counts:
            counts[event] += 1

    sys.setprofile(count)
    call()
    sys.setprofile(None)
    return counts["call"], counts["c_call"]


@pytest.mark.parametrize("line", ["softmax rows=M cols=64 dtype=bf16", FFN, ""])
def test_a_call_runs_one_function_of_python_whatever_the_chain_is(device, monkeypatch, line):
    m = M if line else 0
    part = part_of(sinter.Chain.from_text(line)) if line else product()
    chain = run_chain.carried(part._chain).chain
    inputs = inputs_of(chain, m)
    monkeypatch.setattr(part_module, "_stream_of", {0: 0}.__getitem__)
    monkeypatch.setattr(part_module, "_is_capturing", bool)
    for _ in range(2):
        part(m, inputs)
    before = sinter.torch.graph_counts().launches
    python, c = counted(lambda: part(m, inputs))
    assert device.slow == 1 and sinter.torch.graph_counts().launches == before + 1
    comprehensions = sys.version_info < (3, 12)
    assert python <= 2 + comprehensions and c <= 8, (python, c)  # with the lambda above
    (info,), (result,) = chain.outputs(m), part(m, inputs)
    assert (result.shape, result.stride(), result.dtype) == (info.shape, info.strides, torch.bfloat16)


def test_the_kernels_get_the_addresses_of_each_call(device, monkeypatch):
    part, inputs = ffn()
    bound = []
    monkeypatch.setattr(part_module, "Bound", lambda plan, addresses, space: bound.append([*addresses]) or Bound(plan, addresses, space))
    part(M, inputs)
    for _ in range(3):
        (y,) = part(M, inputs)
    assert bound == [[x.data_ptr() for x in (*inputs, y)]], "equal addresses are bound once"
    other = [inputs[0].clone(), *inputs[1:]]
    part(M, other)
    assert bound[1:] == [[x.data_ptr() for x in (*other, y)]]
    part(M, inputs)
    assert len(bound) == 2


def test_bindings_do_not_pile_up(device):
    part, inputs = ffn()
    kept = [inputs[0].clone() for _ in range(3 * part_module._MOST_BOUND)]
    for x in kept:
        part(M, [x, *inputs[1:]])
        assert len(part._bound) <= part_module._MOST_BOUND
    assert device.slow == 1


@pytest.mark.parametrize("how", ["block", "server"])
def test_a_capture_has_a_workspace_in_its_pool(device, how):
    part, inputs = ffn(how=how)
    for device.capturing in (False, False, True):
        part(M, inputs)
    assert run_chain.carried(part._chain).place(0, M).plan.workspace_size
    assert device.slow == (1 if how == "server" else 2), "a server's graphs share the stream's workspace"


def test_streams_have_workspaces_of_their_own(device, gpu):
    part, inputs = ffn()
    part(M, inputs)
    launched, size = [], run_chain.carried(part._chain).place(0, M).plan.workspace_size
    spaces = {stream: gpu._workspaces.address(stream, size) for stream in (0, 1)}  # 1: no stream of the fake driver's
    part._launch = lambda bound, stream, *_: launched.append(stream) or 0
    for device.stream in (0, 1, 1, 0):
        part(M, inputs)
    assert launched == [0, 1, 1, 0] and {space for _, space, *_ in part._bound} == set(spaces.values())


def test_rows_choose_the_plan_and_the_outputs(device):
    part, inputs = ffn()
    for rows in (M, 8, M, 9, 8):
        (y,) = part(rows, [inputs[0][:rows], *inputs[1:]])
        assert y.shape == (rows, 1024)
    assert device.slow == 3 and len({id(each[0]) for each in part._ready.values()}) == 3


def test_an_address_that_is_not_aligned_is_copied(device):
    part, inputs = ffn()
    part(M, inputs)
    apart = torch.zeros(inputs[0].numel() + 1, dtype=torch.bfloat16)[1:].view(inputs[0].shape)
    for _ in range(3):
        part(M, [apart, *inputs[1:]])
    assert device.slow == 4 and not part._bound


def test_weights_that_are_one_input_are_passed_once_while_they_are_adjacent(device):
    whole = torch.zeros(128, 64, dtype=torch.bfloat16)
    part, inputs = product((1, 2)), [torch.zeros(64, 64, dtype=torch.bfloat16), whole[:64], whole[64:]]
    for _ in range(3):
        part(0, inputs)
    assert device.slow == 1
    for _ in range(2):
        part(0, [*inputs[:2], inputs[2].clone()])
    assert device.slow == 3
    part(0, inputs)
    assert device.slow == 3


def test_plans_that_the_process_dropped_are_found_again(device, gpu):
    part, inputs = ffn()
    for _ in range(2):
        part(M, inputs)
    run_chain.store.use(gpu)
    assert not part._ready and not part._bound
    for _ in range(2):
        part(M, inputs)
    assert device.slow == 2


def test_a_plan_that_a_faster_one_may_follow_is_looked_up_in_each_call(device, monkeypatch):
    part, inputs = ffn()
    monkeypatch.setattr(run_chain.Place, "settled", property(lambda place: None))
    for _ in range(2):
        part(M, inputs)
    assert device.slow == 2


def test_inputs_that_inductor_does_not_know_are_checked_in_each_call(device):
    part, inputs = ffn(fits=False)
    for _ in range(2):
        part(M, [inputs[0].t().contiguous().t(), *inputs[1:]])
    assert device.slow == 2


def test_a_profiler_records_the_operator(device):
    chain = sinter.Chain.from_text("softmax rows=M cols=64 dtype=bf16")
    part, inputs = part_of(chain), inputs_of(chain, M)
    part(M, inputs)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        part(M, inputs)
    assert "sinter::run_chain" in {event.key for event in profile.key_averages()}


# ---------------------------------------------------------------- Inductor's code


class Ffn(N.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = N.LayerNorm(64), N.Linear(64, 256), N.Linear(256, 64)

    def forward(self, x):
        return x + self.down(N.functional.gelu(self.up(self.norm(x))))


def code_of(monkeypatch, x, dynamic=None, between=lambda x: x):
    """Inductor's code for a model, and whether its parts know their inputs. Checks the result."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    monkeypatch.setattr("sinter.torch.backend.planner.worth_a_try", lambda *_: True)
    fits, own = [], direct_calls._fits
    monkeypatch.setattr(direct_calls, "_fits", lambda *given: fits.append(own(*given)) or fits[-1])
    model = Ffn().bfloat16().eval()
    options = {"target": "h200", "verify": False, "prepare": "block", "force_disable_caches": True}
    with torch.no_grad():
        f = torch.compile(lambda x: model(between(x)), backend=sinter.torch.sinter_backend, options=options, dynamic=dynamic)
        result, code = run_and_get_code(f, x)
        torch.testing.assert_close(result, model(between(x)), rtol=2e-2, atol=2e-2)
    return "\n".join(code), fits


@pytest.mark.parametrize(
    "dynamic, between",
    [
        (False, lambda x: x.transpose(0, 1)),
        (False, lambda x: x[:, ::2]),
        (True, lambda x: torch.cumprod(x, 0)),
    ],
)
def test_inductors_code_calls_parts_directly(monkeypatch, need_compiler, dynamic, between):
    code, fits = code_of(monkeypatch, torch.randn(4, 12, 64).bfloat16(), dynamic, between)
    assert fits and all(fits)
    assert "sinter_part_" in code and "torch.ops.sinter.run_chain" not in code
