#!/usr/bin/env python3
"""Kernels of TileLang and TVM for the GEMM chains and gated FFNs of problem lists, for paper_peers.py. Needs no GPU.

Usage:
  paper_kernels.py tilelang FOLDER LIST..   writes CUDA sources of TileLang's candidates; needs tilelang 0.1.15
  paper_kernels.py tvm FOLDER LIST..        the same of TVM; needs apache-tvm 0.27.0.post1 with apache-tvm-ffi 0.1.14.post0
  paper_kernels.py build FOLDER             compiles all sources in FOLDER by nvcc, all cores; FOLDER/include has TileLang's headers

The two packages need different versions of apache-tvm-ffi, so each has its own environment. A PEER.jsonl in FOLDER has one stage of one
problem a line: what it reads and writes, and its candidates with their sources. `build` adds PEER.built.json and libraries.

TileLang, bf16, weights [out, in]: the GEMM of its example_gemm_autotune.py, with ReLU or with two accumulators for gate and up, as its
example_fusedmoe_tilelang.py has them; for the second GEMM also its split-K example: f32 sums by atomics, zeroed before and cast after.
TVM, fp16 (its tensor-core rules have no bf16), weights [in, out]: Relax, fusion of elementwise ops, dlight's default schedule, untuned.
MetaSchedule measures on a GPU; of schedules drawn from its space without one, most do not compile in this version. Version 0.1.15 of
apache-tvm-ffi crashes.
"""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys

KINDS = ("gemm_chain", "gated_ffn")
PEERS = ("tilelang", "tvm")
# block_m, block_n, block_k, stages, threads
FIRST = [(64, 64, 64, 3, 128), (64, 128, 64, 3, 128), (128, 64, 64, 3, 128), (128, 64, 64, 3, 256), (128, 128, 64, 3, 256),
         (64, 64, 128, 3, 128), (64, 64, 64, 2, 128), (128, 64, 64, 4, 256), (64, 32, 128, 4, 128), (128, 64, 32, 3, 256)]
GATED = [(64, 64, 64, 3, 128), (128, 64, 64, 3, 256), (128, 64, 64, 2, 256), (128, 128, 64, 2, 256), (64, 128, 64, 2, 128),
         (128, 32, 64, 4, 256), (64, 32, 128, 3, 128)]
SECOND = [(64, 64, 64, 3, 128), (128, 64, 64, 4, 256), (64, 32, 128, 4, 128)]
SPLITS = (1, 2, 4, 8)
PER_SOURCE = 24  # kernels in one run of nvcc, which reads TileLang's headers once


def problems(paths):
    """(id, line, kind, {extent: number}) of the lists' problems."""
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for line in file:
                words = line.split("#")[0].split()
                if len(words) < 2 or words[1] not in KINDS:
                    continue
                keys = dict(word.split("=") for word in words[2:])
                if (keys["act"], keys["layout"], keys["dtype"]) != ("silu" if words[1] == "gated_ffn" else "relu", "oi", "bf16"):
                    raise ValueError(f"{words[0]}: has act={keys['act']} layout={keys['layout']} dtype={keys['dtype']}; "
                                     "only relu, or silu with a gate, in oi and bf16 is measured here")
                yield words[0], " ".join(words[1:]), words[1], {key: int(keys[key]) for key in "mnkl"}


def configurations(gated, p):
    """[(reads, writes, extents, [(configuration, split)])] of TileLang's two stages."""
    first = GATED if gated else FIRST
    second = [(one, split) for one in SECOND for split in SPLITS if one[1] <= p["l"] and p["n"] % (split * one[2]) == 0]
    return [(["x", "gate", "up"] if gated else ["x", "up"], "c", (p["m"], p["n"], p["k"]), [(one, 1) for one in first]),
            (["c", "down"], "y", (p["m"], p["l"], p["n"]), second)]


def separated(source):
    """(what comes before the first kernel, the rest) of a CUDA source."""
    at = source.index('extern "C" __global__')
    return source[:at], source[at:]


def renamed(body, number):
    """A kernel and its entry points with names of their own; `error_buf` is named in a macro of TileLang's headers."""
    kernel = re.search(r"__global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\(", body).group(1)
    body = re.sub(rf"\b{kernel}\b", f"kernel_{number}", body)
    body = re.sub(r"\b(int) (call|init)\(", rf"\1 \2_{number}(", body)
    body = re.sub(r"\bget_last_error\b", f"get_last_error_{number}", body)
    return f"#define error_buf error_buf_{number}\n{body}\n#undef error_buf\n"


class TileLang:
    """Sources of the candidates of a stage."""

    def __init__(self):
        import tilelang
        import tilelang.language as language
        from tilelang.engine.lower import lower
        from tilelang.jit.adapter.wrapper import TLWrapper

        self.tvm, self.language, self.lower, self.wrapper = tilelang.tvm, language, lower, TLWrapper
        self.target = self.tvm.target.Target({"kind": "cuda", "arch": "sm_90a"})

    def gemm(self, extents, configuration, gated, relu, split):
        T = self.language
        M, N, K = extents
        block_m, block_n, block_k, stages, threads = configuration
        part = K // split
        dtype, out = T.bfloat16, T.float32 if split > 1 else T.bfloat16

        @T.prim_func
        def plain(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K), dtype), C: T.Tensor((M, N), out)):
            with T.Kernel(T.ceildiv(N, block_n), T.ceildiv(M, block_m), split, threads=threads) as (bx, by, bz):
                a = T.alloc_shared((block_m, block_k), dtype)
                b = T.alloc_shared((block_n, block_k), dtype)
                c = T.alloc_fragment((block_m, block_n), T.float32)
                T.clear(c)
                for k in T.Pipelined(T.ceildiv(part, block_k), num_stages=stages):
                    T.copy(A[by * block_m, bz * part + k * block_k], a)
                    T.copy(B[bx * block_n, bz * part + k * block_k], b)
                    T.gemm(a, b, c, transpose_B=True)
                if relu:
                    for i, j in T.Parallel(block_m, block_n):
                        c[i, j] = T.max(c[i, j], 0)
                if split > 1:
                    T.atomic_add(C[by * block_m, bx * block_n], c)
                else:
                    stored = T.alloc_shared((block_m, block_n), dtype)
                    T.copy(c, stored)
                    T.copy(stored, C[by * block_m, bx * block_n])

        @T.prim_func
        def with_gate(A: T.Tensor((M, K), dtype), G: T.Tensor((N, K), dtype), U: T.Tensor((N, K), dtype), C: T.Tensor((M, N), dtype)):
            with T.Kernel(T.ceildiv(N, block_n), T.ceildiv(M, block_m), threads=threads) as (bx, by):
                a = T.alloc_shared((block_m, block_k), dtype)
                g = T.alloc_shared((block_n, block_k), dtype)
                u = T.alloc_shared((block_n, block_k), dtype)
                gate = T.alloc_fragment((block_m, block_n), T.float32)
                up = T.alloc_fragment((block_m, block_n), T.float32)
                stored = T.alloc_shared((block_m, block_n), dtype)
                T.clear(gate)
                T.clear(up)
                for k in T.Pipelined(T.ceildiv(K, block_k), num_stages=stages):
                    T.copy(A[by * block_m, k * block_k], a)
                    T.copy(G[bx * block_n, k * block_k], g)
                    T.copy(U[bx * block_n, k * block_k], u)
                    T.gemm(a, g, gate, transpose_B=True)
                    T.gemm(a, u, up, transpose_B=True)
                for i, j in T.Parallel(block_m, block_n):
                    up[i, j] = up[i, j] * gate[i, j] * (1.0 / (1.0 + T.exp2(-gate[i, j] * 1.44269504)))
                T.copy(up, stored)
                T.copy(stored, C[by * block_m, bx * block_n])

        return with_gate if gated else plain

    def source(self, function):
        tvm = self.tvm
        with tvm.transform.PassContext(opt_level=3), self.target:
            made = self.lower(function, target=self.target)
        wrapper = self.wrapper(self.target)
        wrapper.assign_optimized_module(tvm.IRModule({function.attrs["global_symbol"]: function}))
        wrapper.assign_pass_configs({})
        wrapper.assign_host_module(made.host_mod)
        wrapper.assign_device_module(made.device_mod)
        # A kernel that does not wait for its predecessor must not be launched early.
        return wrapper.wrap(made.kernel_source).replace("config.numAttrs = 1;", "config.numAttrs = 0;")

    def stages(self, kind, p):
        gated = kind == "gated_ffn"
        for reads, writes, extents, choices in configurations(gated, p):
            candidates, first = [], writes == "c"
            for configuration, split in choices:
                words = "x".join(map(str, configuration)) + (f" split {split}" if split > 1 else "")
                try:
                    function = self.gemm(extents, configuration, gated and first, first and not gated, split)
                    candidates.append({"configuration": words, "args": [*reads, writes], "sums": split > 1, "source": self.source(function)})
                except Exception as error:  # a configuration that the compiler refuses leaves the others
                    print(f"  {words}: {type(error).__name__}: {str(error).splitlines()[-1][:150]}", flush=True)
            yield {"reads": reads, "writes": writes, "candidates": candidates}


class Tvm:
    """Sources of dlight's default schedule."""

    def __init__(self):
        import tvm
        import tvm.s_tir.tensor_intrin.cuda  # noqa: F401  registers the tensor cores' intrinsics
        from tvm import relax
        from tvm.s_tir import dlight

        self.tvm, self.relax, self.dlight = tvm, relax, dlight
        self.target = tvm.target.Target({"kind": "cuda", "arch": "sm_90", "max_num_threads": 1024, "registers_per_block": 65536,
                                         "max_shared_memory_per_block": 49152, "max_threads_per_block": 1024, "thread_warp_size": 32,
                                         "l2_cache_size_bytes": 52428800})
        self.building, self.device = sys.modules["tvm.tirx.build"], {}
        to_runtime = self.building.tir_to_runtime

        def kept(host, device, target):
            self.device = device
            return to_runtime(host, device, target)

        self.building.tir_to_runtime = kept

    def chain(self, kind, p):
        relax, op = self.relax, self.relax.op
        builder = relax.BlockBuilder()
        tensor = lambda name, *shape: relax.Var(name, relax.TensorType(shape, "float16"))
        names = ["gate", "up"] if kind == "gated_ffn" else ["up"]
        x, down = tensor("x", p["m"], p["k"]), tensor("down", p["n"], p["l"])
        weights = [tensor(name, p["k"], p["n"]) for name in names]
        with builder.function("main", [x, *weights, down]):
            with builder.dataflow():
                products = [builder.emit(op.matmul(x, one, out_dtype="float32")) for one in weights]
                if len(products) > 1:
                    c = builder.emit(op.multiply(builder.emit(op.nn.silu(products[0])), products[1]))
                else:
                    c = builder.emit(op.nn.relu(products[0]))
                c = builder.emit(op.astype(c, "float16"))
                y = builder.emit(op.astype(builder.emit(op.matmul(c, down, out_dtype="float32")), "float16"))
                out = builder.emit_output(y)
            builder.emit_func_output(out)
        passes = relax.transform
        with self.target:
            return self.tvm.transform.Sequential([passes.LegalizeOps(), passes.AnnotateTIROpPattern(), passes.FoldConstant(),
                                                  passes.FuseOps(), passes.FuseTIR()])(builder.get())

    def calls(self, module):
        """[(function, names of what it reads, name of what it writes)] in order; the last one writes y."""
        found = [(module[one.value.args[0]], [arg.name for arg in one.value.args[1]], one.var.name)
                 for block in module["main"].body.blocks for one in block.bindings if len(getattr(one.value, "args", [])) > 1]
        return [(function, reads, "y" if i + 1 == len(found) else writes) for i, (function, reads, writes) in enumerate(found)]

    def source(self, function, reads, writes):
        """The kernel's source with a C function that launches it on tensors in the order of `args`."""
        tvm = self.tvm
        library = tvm.compile(tvm.IRModule({"main": function.with_attr("global_symbol", "main")}), target=self.target)
        source = library.mod.imports[0].inspect_source()
        (module,) = self.device.values()
        (kernel,) = module.functions.values()
        script = kernel.script()
        extent = {axis: int(size) for axis, size in re.findall(r'launch_thread\("([a-zA-Z.]+)", (?:T\.int64\()?(\d+)', script)}
        shared = sum(int(size) for size in re.findall(r'alloc_buffer\(\((\d+),\), "uint8", scope="shared.dyn"\)', script))
        buffers = {param.name: name for param, name in zip(function.params, [*reads, writes])}
        parameters = re.search(r"main_kernel\(([^)]*)\)", source).group(1).split(",")
        args = [buffers[re.sub(r"_ptr$", "", one.split()[-1])] for one in parameters]
        types = [re.sub(r"__restrict__", "", one).rsplit(None, 1)[0] for one in parameters]
        dims = lambda kind: ", ".join(str(extent.get(f"{kind}.{axis}", 1)) for axis in "xyz")
        declared = ", ".join(f"{one} p{i}" for i, one in enumerate(types))
        passed = ", ".join(f"p{i}" for i in range(len(types)))
        return args, source + f"""
extern "C" int init() {{ return cudaFuncSetAttribute(main_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, {shared}); }}
extern "C" int call({declared}, cudaStream_t stream) {{
  main_kernel<<<dim3({dims('blockIdx')}), dim3({dims('threadIdx')}), {shared}, stream>>>({passed});
  return cudaGetLastError();
}}
"""

    def default(self, module):
        rules, gpu = self.dlight.ApplyDefaultSchedule, self.dlight.gpu
        with self.target:
            return rules(gpu.Matmul(), gpu.GEMV(), gpu.Reduction(), gpu.GeneralReduction(), gpu.Fallback())(module)

    def stages(self, kind, p):
        for function, reads, writes in self.calls(self.default(self.chain(kind, p))):
            args, source = self.source(function, reads, writes)
            yield {"reads": reads, "writes": writes, "candidates": [{"configuration": "dlight", "args": args, "sums": False, "source": source}]}


def generate(maker, path, lists, done):
    """Appends the problems that `done` lacks; a problem's stages are written together."""
    for name, _, kind, p in problems(lists):
        if name in done:
            continue
        stages = [{"id": name, **stage} for stage in maker.stages(kind, p)]
        with open(path, "a", encoding="utf-8") as file:
            file.writelines(json.dumps(stage) + "\n" for stage in stages)
        print(name, [len(stage["candidates"]) for stage in stages], flush=True)


def read(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def sources(stages):
    """{prologue: [(number, body)]}; numbers each candidate and takes its source away."""
    groups, number = {}, 0
    for stage in stages:
        for candidate in stage["candidates"]:
            prologue, body = separated(candidate.pop("source"))
            candidate["number"] = number
            declared = re.search(r"int call\(([^)]*)\)", body).group(1).split(",")
            candidate["types"] = [one.split("*")[0].strip() for one in declared[:len(candidate["args"])]]
            groups.setdefault(prologue, []).append((number, renamed(body, number)))
            number += 1
    return groups


def nvcc(folder, name, prologue, bodies):
    """Compiles bodies into folder/name.so; (numbers that it has, what nvcc said). If one does not compile, each has a file of its own."""
    path = os.path.join(folder, name)
    with open(f"{path}.cu", "w", encoding="utf-8") as file:
        file.write(prologue + "\n".join(body for _, body in bodies))
    command = ["nvcc", "-std=c++20", "-w", "--shared", "-cudart", "shared", "-gencode", "arch=compute_90a,code=sm_90a", "-Xcompiler", "-fPIC",
               f"-I{folder}/include", f"{path}.cu", "-o", f"{path}.so"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode == 0:
        return [(name, [number for number, _ in bodies], "")]
    if len(bodies) == 1:
        return [(name, [], ended.stderr[-500:])]
    return [one for number, body in bodies for one in nvcc(folder, f"{name}_{number}", prologue, [(number, body)])]


def build(folder):
    """Compiles each PEER.jsonl of the folder."""
    jobs, listed = [], {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for peer in PEERS:
            listed[peer] = read(os.path.join(folder, f"{peer}.jsonl"))
            group = 0
            for prologue, bodies in sources(listed[peer]).items():
                for at in range(0, len(bodies), PER_SOURCE):
                    jobs.append((peer, pool.submit(nvcc, folder, f"{peer}_{group}", prologue, bodies[at:at + PER_SOURCE])))
                    group += 1
    library = {}
    for peer, job in jobs:
        for name, numbers, said in job.result():
            library.update({(peer, number): name for number in numbers})
            if said:
                print(f"{name}: {said}", flush=True)
    for peer, stages in listed.items():
        for stage in stages:
            compiled = [one for one in stage["candidates"] if (peer, one["number"]) in library]
            stage["candidates"] = [{**one, "library": library[peer, one["number"]]} for one in compiled]
        with open(os.path.join(folder, f"{peer}.built.json"), "w", encoding="utf-8") as file:
            json.dump(stages, file)
        print(peer, sum(len(stage["candidates"]) for stage in stages), "kernels")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=(*PEERS, "build"))
    parser.add_argument("folder")
    parser.add_argument("lists", nargs="*")
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    if options.what == "build":
        return build(options.folder)
    path = os.path.join(options.folder, f"{options.what}.jsonl")
    generate(TileLang() if options.what == "tilelang" else Tvm(), path, options.lists, {stage["id"] for stage in read(path)})


if __name__ == "__main__":
    main()
