"""The backend's parts that need no torch: partitions, arrays and the chains of nodes as torch.fx has them."""

import importlib
import json
import math
import pathlib
import sys
import types

import pytest

import sinter


@pytest.fixture(scope="module")
def modules():
    """sinter.torch's modules without the package's own import of torch, where there is none."""
    stand_in = None
    try:
        import torch  # noqa: F401
    except ImportError:
        stand_in = types.ModuleType("sinter.torch")
        stand_in.__path__ = [str(pathlib.Path(sinter.__file__).parent / "torch")]
        sys.modules["sinter.torch"] = stand_in
    folders = {
        "convert": ("arrays", "converter", "aten"),
        "partition": ("partition", "supported"),
        "gate": ("gate", "generated_kernels", "library_kernels", "sizes"),
        "runtime": ("buckets",),
    }
    yield types.SimpleNamespace(**{name: importlib.import_module(f"sinter.torch.{folder}.{name}") for folder, names in folders.items() for name in names})
    if stand_in is not None:
        for name in [name for name in sys.modules if name.startswith("sinter.torch")]:
            del sys.modules[name]


class Node:
    """A node of torch.fx with the value that it says it has."""

    op = "call_function"

    def __init__(self, target, *args, shape=(8, 64), dtype="torch.bfloat16", strides=None, **kwargs):
        self.target, self.args, self.kwargs, self.name = target, args, kwargs, target
        self.op = "placeholder" if target == "input" else "call_function"
        self.users = {}
        self.all_input_nodes = [a for a in args if isinstance(a, Node)]
        for node in self.all_input_nodes:
            node.users[self] = None
        if strides is None:
            strides = [1] * len(shape)
            for i in range(len(shape) - 2, -1, -1):
                strides[i] = strides[i + 1] * shape[i + 1]
        size = 4 if dtype.endswith("32") else 2
        self.meta = {"val": types.SimpleNamespace(
            shape=shape, dtype=dtype, layout="torch.strided", stride=lambda: tuple(strides), element_size=lambda: size,
            device=types.SimpleNamespace(type="cuda"), storage_offset=lambda: 0)}


def kinds_of(modules, taken, views=(), several=()):
    kind = modules.partition.Kind
    return lambda node: kind(node in taken, node not in views, node in views, node in several)


def test_a_path_that_leaves_a_part_does_not_come_back(modules):
    a = Node("a")
    b = Node("b", a)
    outside = Node("outside", b)
    c = Node("c", b, outside)
    parts = modules.partition.partition([a, b, outside, c], kinds_of(modules, {a, b, c}))
    assert parts == [[a, b], [c]]


def test_what_is_made_of_weights_goes_to_who_reads_it(modules):
    weight, x = Node("input"), Node("input")
    folded = Node("folded", weight)
    outside = Node("outside", x)
    used = Node("used", outside, folded)
    assert modules.partition.partition([weight, x, folded, outside, used], kinds_of(modules, {folded, used})) == [[folded, used]]


def test_views_at_a_parts_border_stay_outside(modules):
    x = Node("input")
    first = Node("view", x)
    work = Node("work", first)
    inner = Node("view", work)
    more = Node("work", inner)
    last = Node("view", more)
    nodes = [x, first, work, inner, more, last]
    parts = modules.partition.partition(nodes, kinds_of(modules, set(nodes[1:]), views={first, inner, last}))
    assert parts == [[work, inner, more]]


def test_parts_are_bounded_and_cut_where_little_crosses(modules):
    x, nodes = Node("input"), []
    at = x
    for _ in range(20):  # blocks of five with a residual: one value crosses between blocks, two within
        inner = at
        for _ in range(4):
            inner = Node("work", inner)
            nodes.append(inner)
        at = Node("add", inner, at)
        nodes.append(at)
    parts = modules.partition.partition([x, *nodes], kinds_of(modules, set(nodes)), most=32)
    assert sorted(map(len, parts)) == [10, 30, 30, 30]
    assert all(part[-1].target == "add" for part in parts)


def test_a_part_is_not_cut_between_several_results_and_their_users(modules):
    x, nodes = Node("input"), []
    at = x
    for _ in range(12):
        pair = Node("pair", at)
        left, right = Node("getitem", pair), Node("getitem", pair)
        at = Node("add", left, right)
        nodes += [pair, left, right, at]
    pairs = {node for node in nodes if node.target == "pair"}
    for part in modules.partition.partition([x, *nodes], kinds_of(modules, set(nodes), several=pairs), most=9):
        assert all(user in part for node in part if node in pairs for user in node.users)


def test_several_results_stay_together_where_one_is_read_further_on(modules):
    x = Node("input")
    pair = Node("pair", x)
    left, right = Node("getitem", pair), Node("getitem", pair)
    outside = Node("outside", left)
    last = Node("add", right, outside)
    kinds = kinds_of(modules, {pair, left, right, last}, several={pair})
    assert modules.partition.partition([x, pair, left, right, outside, last], kinds) == [[pair, left, right], [last]]


def convert(modules, part, symbol=None):
    rows = modules.arrays.Rows(symbol)
    return modules.converter.Converter(part, rows, modules.aten.TABLE, lambda node: node.name == "weight").convert()


def test_a_product_with_its_activation_becomes_a_chain(modules):
    x, w = Node("input"), Node("input", shape=(64, 32), strides=(1, 64))
    product = Node("aten.mm.default", x, w, shape=(8, 32))
    wide = Node("prims.convert_element_type.default", product, None, shape=(8, 32), dtype="torch.float32")
    y = Node("aten.relu.default", wide, shape=(8, 32), dtype="torch.float32")
    Node("outside", y)
    made = convert(modules, [product, wide, y])
    lines = str(made.chain)
    assert "transpose" not in lines and "matmul" in lines and made.chain.output_count == 1
    assert made.chain.inputs()[1].shape == (32, 64), "the weight lies as it is stored"
    assert [border.order for border in made.inputs] == [(0, 1), (1, 0)]


@pytest.mark.parametrize("name", ["aten.sum.dim_IntList", "aten.relu.default"])
def test_a_product_is_rounded_where_a_sum_reads_it(modules, name):
    """Another kernel does, which reads 16 bits as torch's does; an activation is the product's own kernel's."""
    product = Node("aten.mm.default", Node("input"), Node("input", shape=(64, 32)), shape=(8, 32))
    wide = Node("prims.convert_element_type.default", product, None, shape=(8, 32), dtype="torch.float32")
    by_name = Node(name, wide, *([[0]] if "sum" in name else []), shape=(32,) if "sum" in name else (8, 32), dtype="torch.float32")
    times = Node("aten.mul.Tensor", wide, 2.0, shape=(8, 32), dtype="torch.float32")
    for node in (by_name, times):
        Node("outside", node)
    text = convert(modules, [product, wide, by_name, times]).chain.to_json()
    assert any(op["op"] == "cast" and op["dtype"] == "bf16" for op in json.loads(text)["ops"]) == ("sum" in name)


def test_an_error_of_the_library_names_the_graphs_node(modules):
    x, w = Node("input", dtype="torch.float32"), Node("input", shape=(64, 64), dtype="torch.float32")
    before = Node("aten.relu.default", x, dtype="torch.float32")
    product = Node("aten.mm.default", before, w, dtype="torch.float32")
    Node("outside", product)
    made = convert(modules, [before, product])
    context = sinter.Context(target="h200", cache_dir="")
    with pytest.raises(sinter.Error) as failure:
        context.prepare(made.chain)
    number = int(str(failure.value).split("op ")[1].split()[0])
    assert made.nodes[number] is product


def test_an_error_behind_a_silu_names_the_graphs_node(modules):
    x, w = Node("input", dtype="torch.float32"), Node("input", shape=(64, 64), dtype="torch.float32")
    before = Node("aten.silu.default", Node("aten.neg.default", x, dtype="torch.float32"), dtype="torch.float32")
    product = Node("aten.mm.default", before, w, dtype="torch.float32")
    last = Node("aten.relu.default", product, dtype="torch.float32")
    Node("outside", last)
    made = convert(modules, [before.args[0], before, product, last])
    with pytest.raises(sinter.Error) as failure:
        sinter.Context(target="h200", cache_dir="").prepare(made.chain)
    assert made.nodes[int(str(failure.value).split("op ")[1].split()[0])] is product


@pytest.mark.parametrize("form", ["positional", "named"])
def test_a_sum_with_a_factor(modules, form):
    x = Node("input", dtype="torch.float32")
    alpha = ((3,), {}) if form == "positional" else ((), {"alpha": 3})
    y = Node("aten.sub.Scalar", x, 2, *alpha[0], dtype="torch.float32", **alpha[1])
    Node("outside", y)
    (number,) = [op["value"] for op in json.loads(convert(modules, [y]).chain.to_json())["ops"] if op["op"] == "scalar"]
    assert float(number) == 2 * 3


def test_what_a_handler_cannot_compute_names_its_node(modules):
    x = Node("input", shape=(8, 1), dtype="torch.float32")
    before = Node("aten.relu.default", x, shape=(8, 1), dtype="torch.float32")
    variance = Node("aten.var.correction", before, [-1], shape=(8,), dtype="torch.float32")
    power = Node("aten.pow.Tensor_Scalar", before, "two", shape=(8, 1), dtype="torch.float32")
    for node, why in ((variance, "a variance of 1 values with correction 1"), (power, "could not convert")):
        Node("outside", node)
        with pytest.raises(modules.arrays.Refused, match=why) as refused:
            convert(modules, [before, node])
        assert refused.value.node is node
        node.users.clear()
        before.users.clear()


def test_what_no_chain_holds_is_named(modules):
    why = modules.supported.why_left
    x = Node("input")
    assert why(Node("aten.cumprod.default", x, 0), "cuda") == "a scan"
    assert why(Node("aten.add.Tensor", x, Node("input", dtype="torch.int64")), "cuda") == "dtype int64"
    assert why(Node("aten.add.Tensor", x, 1), "cpu") == "on cuda"
    f32 = Node("input", dtype="torch.float32", shape=(64, 64))
    assert why(Node("aten.mm.default", f32, f32, dtype="torch.float32"), "cuda") == modules.supported.OF_F32
    large = Node("input", shape=(8, 128, 128))
    assert why(Node("aten.bmm.default", large, large, shape=(8, 128, 128)), "cuda") == "a batched product"
    head = Node("input", shape=(64, 1001))
    padded = Node("aten.constant_pad_nd.default", head, [0, 7], shape=(64, 1008))
    turned = Node("aten.permute.default", padded, [1, 0], shape=(1008, 64))
    for w in (padded, turned):
        assert why(Node("aten.mm.default", x, w, shape=(8, 1008)), "cuda") == "a product whose second operand Inductor pads"
    rows = Node("aten.constant_pad_nd.default", x, [0, 0, 0, 8], shape=(16, 64))
    assert why(Node("aten.mm.default", rows, Node("input", shape=(64, 64)), shape=(16, 64)), "cuda") is None
    assert why(Node("aten.mm.default", x, head, shape=(8, 1001)), "cuda") is None
    assert why(Node("aten.add.Tensor", x, x), "cuda") is None


def test_the_gate_counts_kernels_and_bytes(modules):
    gate = modules.gate
    figures = sinter.Context(target="h200", cache_dir="").describe()["model"]
    x, w = Node("input", shape=(1024, 1024)), Node("input", shape=(1024, 1024))
    product = Node("aten.mm.default", x, w, shape=(1024, 1024))
    bias = Node("aten.add.Tensor", product, Node("input", shape=(1024,)), shape=(1024, 1024))
    y = Node("aten.relu.default", bias, shape=(1024, 1024))
    Node("outside", y)
    assert gate.flop_of(product, int) == 2 * 1024**3
    assert gate.border_bytes([bias, y], int) == 2 * (2 * 1024**2 + 1024)
    one, two = (gate.inductor_us(part, figures, int) for part in ([product], [product, bias, y]))
    assert modules.library_kernels.PRODUCT_START_US < one < two - gate.MEMORY_START_US
    assert gate.worth_a_try([product, bias, y]) and not gate.worth_a_try([product])
    small = Node("aten.relu.default", Node("aten.neg.default", Node("input")))
    assert not gate.worth_a_try([small.all_input_nodes[0], small])


def test_the_gate_counts_no_kernel_that_inductor_has_beyond_a_part_too(modules):
    """A GEMM plus residual that the next kernel outside would recompute saves no kernel, so the GEMM must win by itself."""
    gate, figures = modules.gate, sinter.Context(target="h200", cache_dir="").describe()["model"]

    def part(*after):
        product = Node("aten.mm.default", Node("input", shape=(8, 1024)), Node("input", shape=(1024, 4096)), shape=(8, 4096))
        y = Node("aten.add.Tensor", product, Node("input", shape=(8, 4096)), shape=(8, 4096))
        nodes = [*product.args, product, y.args[1], y]
        for name in after:
            nodes.append(Node(name, nodes[-1], *([y] if name == "aten.mul.Tensor" else []), shape=(8, 4096)))
        gate.tell_ahead(nodes)
        return [product, y], nodes[-1]

    alone, _ = part("outside")
    joined, outside = part("aten.view.default", "aten.tanh.default")
    behind, _ = part("aten.mm.default", "aten.mul.Tensor")
    assert gate.inductor_us(behind, figures, int) == gate.inductor_us(alone, figures, int), "what reads the sum behind a product is another kernel"
    gone, us = gate.inductor_us(alone, figures, int), gate.inductor_us(joined, figures, int)
    assert gate.MEMORY_START_US < gone - us < gate.MEMORY_START_US + 0.2
    assert gate.inductor_us(joined, figures, int, {outside}) == gone, "what is outside is a plan's"
    assert gate.share_of_limit(alone, gone, figures, int) == 1 and gate.share_of_limit(joined, us, figures, int) == gate._LONE_SHARE < 1


def test_the_gate_counts_a_kernel_for_each_piece_that_the_part_alone_connects(modules):
    """An example is a sum of tensors that hold many rows' gradients: Inductor computes all in one kernel, and without the sum each in its own."""
    gate, figures = modules.gate, sinter.Context(target="h200", cache_dir="").describe()["model"]
    shape, writes = (32, 256, 36), lambda node: node.target == "laid"

    def part(pieces):
        given = [Node("input", shape=(256, 36)) for _ in range(4)]
        laid = [Node("laid", each, shape=shape) for each in given]
        if pieces < len(laid):
            laid = [Node("aten.add.Tensor", *laid[:2], shape=shape), *laid[2:]] if pieces == 3 else laid
        total, nodes = laid[0], []
        for each in laid[1:]:
            total = Node("aten.add.Tensor", total, each, shape=shape)
            nodes.append(total)
        Node("aten.mm.default", total)
        order = [*given, *[node for each in given for node in each.users], *(laid[:1] if pieces == 3 else []), *nodes]
        gate.tell_ahead(order, writes)
        return gate._beyond_us(nodes, set(nodes), (), figures, int), nodes

    four, nodes = part(4)
    three, _ = part(3)
    each = modules.generated_kernels.memory_us(2 * 32 * 256 * 36, figures) - gate.MEMORY_START_US
    assert four - three == pytest.approx(gate.MEMORY_START_US + each, rel=1e-6)
    assert gate.inductor_us(nodes, figures, int) == 0, "what is left of one kernel takes longer than that kernel"
    gate.tell_ahead([i for node in nodes for i in node.all_input_nodes if i.target == "laid"])
    gate.tell_ahead(nodes)
    assert gate._beyond_us(nodes, set(nodes), (), figures, int) == 0, "what a library computes is in no kernel of the part's"


def test_no_kernel_of_inductors_reaches_over_a_product(modules):
    gate = modules.gate
    weight = lambda k, n: Node("input", shape=(k, n))
    x = Node("aten.relu.default", Node("input", shape=(128, 64)), shape=(128, 64))
    h = Node("aten.relu.default", Node("aten.mm.default", x, weight(64, 256), shape=(128, 256)), shape=(128, 256))
    y = Node("aten.add.Tensor", Node("aten.mm.default", h, weight(256, 64), shape=(128, 64)), x, shape=(128, 64))
    z = Node("aten.relu.default", y, shape=(128, 64))
    Node("outside", z)
    nodes = [x, h.args[0], h, y.args[0], y, z]
    assert [set(group) for group in modules.generated_kernels.memory_groups(nodes)] == [{x}, {h}, {y, z}], "the residual joins no kernels"


def test_what_is_computed_of_saved_values_is_computed_where_a_product_meets_it(modules):
    """An example is the slope of an activation in a backward graph."""
    gate, saved = modules.gate, Node("input", shape=(128, 256))
    slope = Node("aten.tanh.default", saved, shape=(128, 256))
    product = Node("aten.mm.default", Node("input"), Node("input", shape=(64, 256)), shape=(128, 256))
    y = Node("aten.mul.Tensor", product, slope, shape=(128, 256))
    Node("outside", y)
    assert [set(group) for group in modules.generated_kernels.memory_groups([slope, product, y])] == [{slope, y}]


@pytest.mark.parametrize(
    "side, channels, images, us",  # gradients of ResNet-50's batch norms at 32 images by Inductor on an H200, in no cache
    [(56, 256, 4, 132.5), (28, 512, 4, 69.3), (14, 1024, 4, 41.5), (56, 64, 3, 33.2), (28, 128, 3, 21.3), (14, 256, 3, 14.4), (7, 2048, 4, 28.0)],
)
def test_the_gate_knows_what_sums_over_rows_take_that_meet_their_rows_again(modules, side, channels, images, us):
    """Sums over y, the gradients of its readers, and x. With two gradients, their sum where y is not 0 is an output."""
    figures, shape = sinter.Context(target="h200", cache_dir="").describe()["model"], (32 * side * side, channels)
    y, *gradients, x = (Node("input", shape=shape) for _ in range(images))
    gradient = gradients[0] if images == 3 else Node("aten.add.Tensor", *gradients, shape=shape)
    masked = Node("aten.where.self", Node("aten.le.Scalar", y, 0, shape=shape), gradient, shape=shape)
    of_rows = lambda node: Node("aten.sum.dim_IntList", node, [0], True, shape=(1, channels))
    total, along = of_rows(masked), of_rows(Node("aten.mul.Tensor", masked, x, shape=shape))
    spread = Node("aten.sub.Tensor", masked, Node("aten.mul.Tensor", x, along, shape=shape), shape=shape)
    result = Node("aten.sub.Tensor", spread, total, shape=shape)
    for node in [result, total, along, *([masked] if images == 4 else [])]:
        Node("outside", node)
    nodes = [*([gradient] if images == 4 else []), masked.args[0], masked, total, along.args[0], along, spread.args[1], spread, result]
    assert modules.gate.inductor_us(nodes, figures, int) == pytest.approx(us, rel=0.21 if side == 7 else 0.06)


@pytest.mark.parametrize(
    "rows, columns, depth, us",  # bf16 by cuBLAS in a CUDA graph on an H100, weights from memory
    [
        (1, 1000, 768, 4.0), (128, 768, 768, 4.1), (128, 3072, 768, 5.3), (128, 768, 3072, 7.5), (512, 1024, 1024, 5.1),
        (512, 1280, 5120, 18.9), (512, 4096, 14336, 84.0), (1500, 768, 768, 6.5), (2048, 4096, 1024, 26.4), (4096, 4096, 4096, 206.0),
    ],
)
def test_the_gate_knows_what_products_take(modules, rows, columns, depth, us):
    figures = sinter.Context(target="h100", cache_dir="").describe()["model"]
    product = Node("aten.mm.default", Node("input", shape=(rows, depth)), Node("input", shape=(depth, columns)), shape=(rows, columns))
    assert modules.gate.inductor_us([product], figures, int) == pytest.approx(us, rel=0.16)


def test_the_gate_counts_the_matrices_of_a_grouped_product_that_rows_can_need(modules):
    gate, figures = modules.gate, sinter.Context(target="h100", cache_dir="").describe()["model"]

    def us(rows, matrices):
        inputs = [Node("input", shape=(rows, 2048)), Node("input", shape=(matrices, 2048, 1536)), Node("input", shape=(matrices,), dtype="torch.int32")]
        return gate.inductor_us([Node("aten._grouped_mm.default", *inputs, shape=(rows, 1536))], figures, int)

    assert us(8, 128) == pytest.approx(us(8, 8), rel=0.01) and us(1, 128) < us(8, 128) < us(128, 128) / 4


def test_the_gate_knows_what_grouped_products_take(modules):
    """`tests/bench/torch_backend/grouped_mm.py` measured the expected times."""
    gate, figures = modules.gate, sinter.Context(target="h200", cache_dir="").describe()["model"]
    table = pathlib.Path(__file__).parents[2] / "bench/torch_backend/grouped-mm-h200.tsv"
    rows = [line.split("\t") for line in table.read_text().splitlines() if not line.startswith("#")]
    ratios = []
    for _, *numbers, us in rows:
        matrices, rows, k, columns = map(int, numbers)
        inputs = [Node("input", shape=(rows, k)), Node("input", shape=(matrices, k, columns)), Node("input", shape=(matrices,), dtype="torch.int32")]
        ratios.append(gate.inductor_us([Node("aten._grouped_mm.default", *inputs, shape=(rows, columns))], figures, int) / float(us))
    assert len(ratios) == 32 and 0.68 < min(ratios) and max(ratios) < 1.15, [round(ratio, 2) for ratio in ratios]
    assert math.sqrt(sum(math.log(ratio) ** 2 for ratio in ratios) / len(ratios)) < 0.16


def test_the_gate_counts_copies_to_pixels_of_all_channels(modules):
    gate, figures = modules.gate, sinter.Context(target="h200", cache_dir="").describe()["model"]

    def us(image_last, weight_last, channels=64):
        image = Node("input", shape=(8, channels, 28, 28), strides=(50176, 1, 1792, 64) if image_last else None)
        weight = Node("input", shape=(64, 64, 3, 3), strides=(576, 1, 192, 64) if weight_last else None)
        return gate.inductor_us([Node("aten.convolution.default", image, weight, None, shape=(8, 64, 28, 28))], figures, int)

    assert us(True, True) < us(True, False) < us(False, False), "the weight; image and result, too"
    assert us(False, True, channels=1) == us(True, True, channels=1), "one channel lies either way"


def test_the_gate_counts_an_image_that_is_stored_before_a_pooling(modules):
    gate, figures = modules.gate, sinter.Context(target="h200", cache_dir="").describe()["model"]
    image = Node("input", shape=(32, 64, 112, 112))

    def us(*operands):
        before = Node("aten.relu.default" if len(operands) == 1 else "aten.add.Tensor", *operands, shape=(32, 64, 112, 112))
        pool = Node("aten.avg_pool2d.default", before, [2, 2], shape=(32, 64, 56, 56))
        Node("outside", pool)
        return gate.inductor_us([before, pool], figures, int)

    assert us(image, Node("input", shape=(64, 1, 1))) > 1.8 * us(image)


def test_the_gate_expects_of_each_channel_by_itself_what_a_library_takes(modules):
    """Layers of docs/lab/windows.md whose result nothing follows, at 32 images on an H100."""
    gate, figures = modules.gate, sinter.Context(target="h100", cache_dir="").describe()["model"]
    for channels, side, taps, measured in ((96, 56, 7, 85.1), (384, 14, 7, 26.8)):
        strides = (channels * side * side, 1, channels * side, channels)
        image = Node("input", shape=(32, channels, side, side), strides=strides)
        weight, none = Node("input", shape=(channels, 1, taps, taps)), [0, 0]
        moves = [1, 1], [taps // 2] * 2, [1, 1], False, none, channels
        node = Node("aten.convolution.default", image, weight, None, *moves, shape=(32, channels, side, side))
        assert gate.by_channel(node) and gate.inductor_us([node], figures, int) == pytest.approx(measured, rel=0.25)


def test_buckets_are_the_librarys(modules):
    context = sinter.Context(target="h200", cache_dir="")
    buckets, chain = modules.buckets.BUCKETS, sinter.Chain.from_text("gelu rows=1 cols=64")
    assert [context.search(chain, m=low + 1).bucket for low in (0, *buckets[:-1])] == list(buckets)
    assert [modules.buckets.bucket(rows) for rows in (1, 2, 8, 9, 8192, 8193)] == [0, 1, 1, 2, 105, 106]
    assert set(modules.buckets.SIZES + modules.buckets.PREFILL_SIZES) < set(buckets)


def test_rows_by_ids_become_a_gather_and_cost_the_rows_that_are_read(modules):
    table, ids = Node("input", shape=(30000, 64)), Node("input", shape=(8,), dtype="torch.int64")
    rows = Node("aten.embedding.default", table, ids, shape=(8, 64))
    y = Node("aten.relu.default", rows, shape=(8, 64))
    Node("outside", y)
    assert modules.supported.why_left(rows, "cuda") is None
    assert modules.supported.why_left(Node("aten.add.Tensor", ids, ids, shape=(8,), dtype="torch.int64"), "cuda") == "dtype int64"
    made = convert(modules, [rows, y])
    assert [str(info.dtype) for info in made.chain.inputs()] == ["bf16", "s64"] and "gather" in str(made.chain)
    assert modules.gate.border_bytes([rows, y], int) == 2 * 2 * 8 * 64 + 8 * ids.meta["val"].element_size()


def test_a_table_that_inductor_computes_is_counted_by_the_rows_that_are_read(modules):
    gate, figures = modules.gate, sinter.Context(target="h200", cache_dir="").describe()["model"]
    inputs = [Node("input", shape=(30000, 64)), Node("input", shape=(8,), dtype="torch.int64"), Node("input", shape=(64, 64))]
    table = Node("aten.relu.default", inputs[0], shape=(30000, 64))
    rows = Node("aten.embedding.default", table, inputs[1], shape=(8, 64))
    product = Node("aten.mm.default", rows, inputs[2], shape=(8, 64))
    Node("outside", product)
    gate.tell_ahead([*inputs, table, rows, product])
    assert gate.inductor_us([rows], figures, int) == pytest.approx(0, abs=0.1)
    assert gate.inductor_us([product], figures, int) <= gate.inductor_us([rows, product], figures, int)


def test_the_gate_asks_for_the_size_of_symbols_alone(modules):
    class Expression(int):
        is_number = True

    size = types.SimpleNamespace(node=types.SimpleNamespace(expr=Expression(3)))  # which torch calls symbolic, and is a number by now
    assert modules.sizes.sizes_of(types.SimpleNamespace(shape=(2, size)), None) == [2, 3]


def test_no_estimate_is_below_nothing(modules):
    """Ids that are made only for a partition may take more time than its own kernel."""
    gate, figures = modules.gate, sinter.Context(target="h200", cache_dir="").describe()["model"]
    ids = [Node("input", shape=(8,), dtype="torch.int64") for _ in range(2)]
    rows = [Node("aten.embedding.default", Node("input", shape=(30, 64)), each) for each in ids]
    y = Node("aten.add.Tensor", *rows)
    Node("outside", y)
    for each in ids:
        each.meta[gate.IDS_MADE] = True
    assert gate.inductor_us([*rows, y], figures, int) == 0


def test_a_strided_view_that_is_no_order_of_all_elements_is_refused(modules):
    x = Node("input", shape=(8, 64))
    for sizes, strides in (((4, 64), (64, 1)), ((8, 64), (1, 1))):
        view = Node("aten.as_strided.default", x, list(sizes), list(strides), shape=sizes)
        y = Node("aten.relu.default", view, shape=sizes)
        Node("outside", y)
        with pytest.raises(modules.arrays.Refused, match="no other order"):
            convert(modules, [view, y])


def test_products_of_codes_with_scales_of_rows(modules):
    a, w = (Node("input", shape=shape, dtype="torch.float8_e4m3fn", strides=strides) for shape, strides in (((8, 256), None), ((256, 32), (1, 256))))
    scales = [Node("input", shape=shape, dtype="torch.float32") for shape in ((8, 1), (1, 32))]
    bias = Node("input", shape=(32,))
    product = Node("aten._scaled_mm.default", a, w, *scales, bias, None, "torch.bfloat16", True, shape=(8, 32))
    Node("outside", product)
    assert modules.supported.why_left(product, "cuda") is None
    made = convert(modules, [product])
    (scaled,) = [op for op in json.loads(made.chain.to_json())["ops"] if op["op"] == "scaled_matmul"]
    assert "transpose" not in str(made.chain) and scaled.get("accumulate") == "fast"
    sinter.Context(target="h200", cache_dir="").prepare(made.chain)
    columns = Node("aten._scaled_mm.default", a, w, scales[1], scales[0], shape=(8, 32))
    Node("outside", columns)
    with pytest.raises(modules.arrays.Refused, match="a scale of extents"):
        convert(modules, [columns])
    figures = sinter.Context(target="h200", cache_dir="").describe()["model"]
    large = [Node("input", shape=(8192, 8192)) for _ in range(2)]
    codes, plain = (Node(name, *large, shape=(8192, 8192)) for name in ("aten._scaled_mm.default", "aten.mm.default"))
    assert modules.gate.inductor_us([codes], figures, int) < 0.8 * modules.gate.inductor_us([plain], figures, int)
