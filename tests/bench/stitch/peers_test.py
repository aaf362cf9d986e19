#!/usr/bin/env python3
"""What of the comparison of peers needs no GPU: the graphs in PyTorch and JAX where they are installed, limits, supervision.

SINTER_LIBRARY names libsinter.so. Exits 77 without NumPy.
"""

import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
import unittest

try:
    import numpy
except ImportError:
    print("skipped: no NumPy")
    sys.exit(77)

import dram
import drawing
import emit_torch
import graphs
import large
import peers
import problems
import results_file
import rounding
import sinter_abi
from interpret import JaxFramework, NumpyFramework, interpret

try:
    import torch
except ImportError:
    torch = None
try:
    import jax
except ImportError:
    jax = None

EVERY = {**graphs.PROBLEMS, **large.LARGE}
BOUNDS = {"bf16": (5e-3, 0.05), "f32": (1e-5, 1e-4)}


def reduced(name):
    problem = EVERY[name]
    graph = problem.graph("reduced")
    return graph, drawing.draw_inputs(graph, 1, problem.draws, problem.reduced)


class Frameworks(unittest.TestCase):
    def expect_close(self, name, got, inputs, graph):
        wanted = interpret(graph, NumpyFramework(), inputs)
        for i, (out, want, value) in enumerate(zip(got, wanted, problems.Case(name, "", graph).outputs())):
            out, what = numpy.asarray(out, dtype=numpy.float64), f"{name} output {i}"
            self.assertEqual(list(out.shape), value["dims"], what)
            rms = numpy.sqrt(numpy.mean(want**2))
            relative, largest = numpy.sqrt(numpy.mean((out - want) ** 2)) / rms, numpy.abs(out - want).max() / rms
            bounds = BOUNDS.get(value["dtype"], (0.01, 0.2))
            self.assertLessEqual(relative, bounds[0], what)
            self.assertLessEqual(largest, bounds[1], what)

    @unittest.skipIf(torch is None, "no PyTorch")
    def test_torch_computes_every_graph(self):
        names = {"f32": "float32", "bf16": "bfloat16", "s32": "int32", "pred": "bool", "e4m3": "float8_e4m3fn"}
        for name in EVERY:
            graph, inputs = reduced(name)
            if "e4m3" in json.dumps(graph) and not hasattr(torch, "float8_e4m3fn"):
                continue
            for wide in ("float", "double"):
                with self.subTest(name, wide=wide):
                    run = emit_torch.torch_function(torch, graph, "cpu", wide)
                    given = [torch.from_numpy(x).to(getattr(torch, names[i["dtype"]]))
                             for i, x in zip(graph["inputs"], inputs)]
                    outputs = run(*given)
                    for out, value in zip(outputs, problems.Case(name, "", graph).outputs()):
                        self.assertEqual(out.dtype, getattr(torch, names[value["dtype"]]))
                    self.expect_close(name, [out.double().numpy() for out in outputs], inputs, graph)

    @unittest.skipIf(jax is None, "no JAX")
    def test_jax_computes_every_graph(self):
        framework = JaxFramework()
        for name in EVERY:
            with self.subTest(name):
                graph, inputs = reduced(name)
                given = [jax.numpy.asarray(x, dtype=framework.dtypes[i["dtype"]]) for i, x in zip(graph["inputs"], inputs)]
                outputs = jax.jit(lambda *xs, graph=graph: tuple(interpret(graph, framework, xs)))(*given)
                for out, value in zip(outputs, problems.Case(name, "", graph).outputs()):
                    self.assertEqual(out.dtype, framework.dtypes[value["dtype"]])
                self.expect_close(name, [numpy.asarray(out).astype(numpy.float64) for out in outputs], inputs, graph)

    def test_torch_source_is_python_for_every_graph(self):
        for name, problem in EVERY.items():
            for size in ("full", "reduced"):
                source = emit_torch.torch_source(problem.graph(size))
                compile(source, name, "exec")
                self.assertNotIn("None", source)

    def test_torch_source_widens_where_it_computes(self):
        source = emit_torch.torch_source(graphs.PROBLEMS["llama_swiglu"].graph("reduced"))
        self.assertIn("v3 = v1.to(torch.float32)", source)
        self.assertIn("torch.sigmoid(", source)
        self.assertTrue(source.rstrip().endswith("return (v8,)"), source)


class Cases(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.library = sinter_abi.Library()
        cls.cases = {case.name: case for case in problems.all_cases(cls.library)}

    def test_all_lists_are_there(self):
        groups = [case.group for case in self.cases.values()]
        self.assertEqual([groups.count(g) for g in ("memory_chains", "stitch_graphs")], [8, 22])
        self.assertGreaterEqual(groups.count("large"), 8)

    def test_limits_are_bytes_over_bandwidth(self):
        self.assertEqual(self.cases["N1"].bytes(), 2 * 8192 * 1024 * 2 + 2 * 1024 * 2)
        self.assertAlmostEqual(self.cases["N1"].limit_us(), 9.3, places=1)
        self.assertAlmostEqual(self.cases["transformer_xent"].limit_us(), 123.4, places=0)
        self.assertAlmostEqual(self.cases["bert_attn_softmax"].limit_us(), 7.35, places=1)
        self.assertAlmostEqual(self.cases["adam"].limit_us(), 164.3 + 25e6 * 2 / 4.3e6 - 11.6, places=0)

    def test_m_is_replaced_and_a_repeated_axis_counts_once(self):
        graph = {"inputs": [{"id": 0, "dtype": "bf16", "dims": ["M", 4], "strides": [0, 1]}],
                 "ops": [{"id": 1, "op": "slice", "in": [0], "starts": [0, 0], "limits": ["M", 2], "steps": [1, 1],
                          "dtype": "bf16", "dims": ["M", 2]}],
                 "outputs": [{"value": 1}]}
        case = problems.Case("x", "", problems.at_m(graph, 7))
        self.assertEqual(case.graph["ops"][0]["limits"], [7, 2])
        self.assertEqual(case.bytes(), 2 * 4 + 2 * 14)

    def test_a_chain_of_the_text_list_has_any_number_of_rows(self):
        cases = list(self.cases.values())
        few, as_listed = problems.named(cases, "N7-m37"), problems.named(cases, f"N7-m{self.cases['N7'].m}")
        self.assertEqual((few.name, few.group, few.m), ("N7-m37", "memory_chains", 37))
        self.assertEqual(few.outputs()[0]["dims"], [37, 4096])
        self.assertEqual(as_listed.graph, self.cases["N7"].graph)
        self.assertEqual([case.name for case in peers.selected(cases, "N1,N7-m37")], ["N1", "N7-m37"])
        for unknown in ("N99-m3", "adam-m3", "N7-m", "N7-mx"):
            with self.assertRaises(SystemExit):
                peers.selected(cases, unknown)

    def test_chains_of_the_text_list_can_be_walked(self):
        for name in ("N1", "N3", "N5", "N6", "N8"):
            case = self.cases[name]
            small = json.loads(json.dumps(case.graph).replace(str(case.m), "3"))
            inputs = drawing.draw_inputs(small, 1)
            for out in interpret(small, NumpyFramework(), inputs):
                self.assertTrue(numpy.isfinite(out).all())


FAKE_WORKER = """
import json, sys, time
print(json.dumps({"machine": {"gpu": "none"}}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    if request["graph"] == "hangs": time.sleep(60)
    if request["graph"] == "dies": sys.exit(3)
    if request["graph"] == "wrong": print(json.dumps({"error": "output 0 is wrong"}), flush=True)
    else:
        us = {"sinter": 4, "unfused": 8, "torch": 6, "torch_max": 5, "xla": 10, "sinter_kernels": 2}[request["step"]]
        result = {"us": us, "kernels": us // 2, "host_us": 1.0, "rel_error": 0.0, "max_error": 0.0, "copies": 0}
        if request["step"] == "xla": result["wall_us"] = 20
        print(json.dumps({"result": result}), flush=True)
"""


class Layout(unittest.TestCase):
    def test_declarations_are_found_in_a_checkout_and_in_a_bundle(self):
        with tempfile.TemporaryDirectory() as bundle:
            package = os.path.join(bundle, "python", "sinter")
            os.makedirs(package)
            shutil.copy(os.path.join(sinter_abi.ROOT, "bindings", "python", "sinter", "_abi.py"), package)
            self.assertTrue(sinter_abi.generated_abi(bundle).__file__.startswith(bundle))


class Supervision(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "out.json")
        self.workers = peers.Workers([sys.executable, "-c", FAKE_WORKER])

    def tearDown(self):
        self.workers.stop()
        self.folder.cleanup()

    def case(self, name, ops=1):
        g = graphs.Dag()
        x = g.input("x", "f32", 4300)
        for _ in range(ops):
            x = x + 1
        g.output(x)
        return problems.Case(name, "group", g.to_dict())

    def run_all(self, names, wanted=("sinter", "torch"), limit=20.0, **options):
        rows = results_file.Results(self.path)
        with contextlib.redirect_stdout(io.StringIO()):
            complete = peers.supervise([self.case(n) for n in names], list(wanted), self.workers, rows, limit, **options)
        if not os.path.exists(self.path):
            return complete, {}
        with open(self.path, encoding="utf-8") as file:
            return complete, {row["id"]: row for row in json.load(file)["rows"]}

    def test_a_step_that_dies_or_is_wrong_is_noted_and_the_next_runs(self):
        complete, rows = self.run_all(["dies", "wrong", "good"])
        self.assertTrue(complete)
        self.assertEqual(rows["dies"]["notes"], ["sinter: the process ended with 3", "torch: the process ended with 3"])
        self.assertEqual(rows["wrong"]["notes"][0], "sinter: output 0 is wrong")
        self.assertEqual((rows["good"]["sinter_us"], rows["good"]["torch_compile_us"]), (4, 6))

    def test_a_step_that_hangs_is_stopped(self):
        _, rows = self.run_all(["hangs", "good"], ("sinter",), limit=2.0)
        self.assertEqual(rows["hangs"]["notes"], ["sinter: no answer within 2.0 s"])
        self.assertEqual(rows["good"]["sinter_us"], 4)

    def test_a_step_that_the_end_of_the_call_cuts_is_not_noted(self):
        complete, rows = self.run_all(["good", "hangs"], ("sinter",), limit=60.0, seconds=2.0)
        self.assertFalse(complete)
        self.assertEqual((list(rows), rows["good"]["notes"]), (["good"], []))

    def test_derived_figures_follow_the_schema(self):
        _, rows = self.run_all(["good"], peers.STEPS)
        row = rows["good"]
        self.assertAlmostEqual(row["limit_us"], 2 * 4 * 4300 / 4.3e6 + 1.5)
        self.assertEqual([row[key] for key in ("torch_compile_us", "xla_us", "xla_wall_us", "best_peer_us")], [5, 10, 20, 5])
        self.assertEqual([row[key] for key in ("kernels", "torch_kernels", "xla_kernels")], [2, 2, 5])
        text = "\n".join(results_file.summary([row]))
        self.assertIn("better peer / Sinter: geometric mean 1.250", text)
        self.assertIn("XLA's kernels / Sinter's kernels: geometric mean 5.000", text)
        self.assertIn("kernels / XLA's: geometric mean 0.400", text)

    def test_a_peer_is_compared_by_its_own_measure(self):
        row = {"torch_compile_us": 6, "sinter_us": 4, "xla_us": 3, "sinter_kernel_us": 2.5}
        self.assertEqual(results_file.better_peer_ratio(row), 1.2)
        self.assertEqual(results_file.better_peer_ratio({**row, "xla_us": 5}), 1.5)
        self.assertEqual(results_file.better_peer_ratio({**row, "xla_us": None}), 1.5)
        self.assertEqual(results_file.better_peer_ratio({**row, "sinter_kernel_us": 9}), 0.75, "kernels take less than their graph")
        self.assertIsNone(results_file.better_peer_ratio({**row, "sinter_kernel_us": None}))
        self.assertIsNone(results_file.better_peer_ratio({**row, "sinter_us": None}))
        self.assertIsNone(results_file.better_peer_ratio(dict.fromkeys(row)))

    def test_what_is_profiled_has_a_process_of_its_own(self):
        self.run_all(["good"], ("sinter", "torch"))
        self.assertIsNone(self.workers.profiling.process)
        self.run_all(["good"], ("sinter_kernels", "xla"))
        self.assertIsNotNone(self.workers.profiling.process)
        self.assertNotEqual(self.workers.profiling.process.pid, self.workers.timing.process.pid)

    def test_a_second_run_goes_on_where_the_first_ended(self):
        self.assertEqual(self.run_all(["a", "b"], seconds=0), (False, {}))
        self.assertTrue(self.run_all(["a"])[0])
        before = os.path.getmtime(self.path)
        self.workers.stop()
        _, rows = self.run_all(["a"])
        self.assertIsNone(self.workers.timing.process, "nothing was left to run")
        self.assertEqual((sorted(rows), os.path.getmtime(self.path)), (["a"], before))

    def test_what_is_too_large_to_tune_is_left_out(self):
        self.assertNotIn("torch_max", peers.steps_of(self.case("x", 500), peers.STEPS))
        self.assertIn("torch_max", peers.steps_of(self.case("x", 5), peers.STEPS))


class Dram(unittest.TestCase):
    CSV = """==PROF== Connected
"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","range","dram__bytes_read.sum","byte","1,000"
"0","range","dram__bytes_write.sum","byte","10"
"1","range","dram__bytes_read.sum","byte","500"
"1","range","dram__bytes_write.sum","byte","20"
"""

    def test_a_row_gets_the_sums_of_its_steps(self):
        row = {"steps": {"torch": {"us": 5, "dram_read_bytes": 9, "dram_write_bytes": 1}, "torch_max": {"us": 4},
                         "sinter": {"us": 3, "dram_read_bytes": 1500.0, "dram_write_bytes": 30.0}}}
        dram.derive(row)
        self.assertEqual((row["dram_bytes"], row["torch_dram_bytes"], row["xla_dram_bytes"]), (1530.0, None, None))

    def test_a_contestant_is_run_once_for_all_graphs(self):
        arguments = type("A", (), {"ncu": "ncu", "library": "/x/libsinter.so"})
        command = dram.command_of(arguments, ["adam", "N1"], "xla", "/tmp/log")
        self.assertIn("dram__bytes_read.sum,dram__bytes_write.sum", command)
        self.assertEqual(command[-7:], ["--once", "--only", "adam,N1", "--peers", "xla", "--library", "/x/libsinter.so"])

    def test_ranges_are_told_apart_by_their_order(self):
        with tempfile.TemporaryDirectory() as folder:
            ncu = os.path.join(folder, "ncu")
            with open(ncu, "w", encoding="utf-8") as file:
                file.write(f"#!{sys.executable}\nimport sys\n"
                           f"open(sys.argv[sys.argv.index('--log-file') + 1], 'w').write({self.CSV!r})\n")
            os.chmod(ncu, 0o700)
            arguments = type("A", (), {"ncu": ncu, "library": None, "limit": 20})
            self.assertEqual(dram.count(arguments, ["a", "b"], "torch"),
                             [{"dram_read": 1000.0, "dram_write": 10.0}, {"dram_read": 500.0, "dram_write": 20.0}])
            with self.assertRaisesRegex(RuntimeError, "2 ranges"):
                dram.count(arguments, ["a"], "torch")


@unittest.skipIf(torch is None, "no PyTorch")
class Checks(unittest.TestCase):
    def test_outputs_are_compared_by_the_bounds_of_their_dtype(self):
        import on_device
        want = torch.linspace(-2, 2, 4001)
        self.assertTrue(on_device.compare(want.clone(), want, "f32")[2])
        self.assertFalse(on_device.compare(want * 1.0001, want, "f32")[2])
        self.assertTrue(on_device.compare(want * 1.001, want, "bf16")[2])
        bad = want.clone()
        bad[7] = float("nan")
        self.assertFalse(on_device.compare(bad, want, "bf16")[2])
        self.assertFalse(on_device.compare(want.int() + 1, want.int(), "s32")[2])

    def test_e4m3_is_compared_by_steps(self):
        import on_device
        grid = torch.from_numpy(numpy.concatenate([-rounding.E4M3_MAGNITUDES[::-1], rounding.E4M3_MAGNITUDES]))
        steps = on_device.e4m3_steps(grid).numpy()
        numpy.testing.assert_array_equal(steps, list(range(-126, 1)) + list(range(127)))
        want = grid.repeat(8)
        out = want.clone()
        out[200] = float(rounding.E4M3_MAGNITUDES[200 - 127 + 1])
        self.assertTrue(on_device.compare(out, want, "e4m3")[2])
        out[200] = float(rounding.E4M3_MAGNITUDES[200 - 127 + 2])
        self.assertFalse(on_device.compare(out, want, "e4m3")[2])

    def test_tensors_are_prepared_and_wrong_outputs_found(self):
        import on_device
        for name in ("adam", "ln_backward", "transformer_xent", "bert_layer_forward"):
            problem = EVERY[name]
            case = problems.Case(name, "", problem.graph("reduced"), draws=problem.draws, sizes=problem.reduced)
            prepared = on_device.Prepared(case, "cpu")
            outputs = emit_torch.torch_function(torch, case.graph, "cpu")(*prepared.inputs)
            self.assertLess(prepared.check(outputs)["rel_error"], 5e-3)
            with self.assertRaisesRegex(RuntimeError, "output 0 .* is wrong"):
                prepared.check(prepared.outputs())


if __name__ == "__main__":
    unittest.main()
