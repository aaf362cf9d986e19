"""One vLLM engine of a row of architectures.jsonl, in a process that architectures.py forked: its results, and the time of its decoding graph.

Weights are random and the same in each engine of a row. ``prepare`` runs before the fork: it imports what engines need, so that they start without
these seconds. It must leave the GPU alone, because a process that opened it cannot be forked.
"""

import contextlib
import importlib
import json
import math
import os
import random
import statistics
import sys
import time
import zlib

import piece_errors

#: Fields of all configs: a small vocabulary and few layers. Widths are the row's.
COMMON = {"vocab_size": 32768, "dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "tie_word_embeddings": False,
          "max_position_embeddings": 4096, "num_hidden_layers": 4, "rms_norm_eps": 1e-5, "hidden_act": "silu"}

#: Arguments of all engines.
ENGINE = {"load_format": "dummy", "skip_tokenizer_init": True, "seed": 1, "enable_prefix_caching": False, "max_model_len": 256, "gdn_prefill_backend": "triton",
          "kv_cache_memory_bytes": 1 << 28, "gpu_memory_utilization": 0.02}

#: What engines import when they start, as far as it is known. A module that cannot be imported yet is left to them.
MODULES = (
    "torch._dynamo", "torch._inductor.compile_fx", "torch._inductor.standalone_compile", "torch._inductor.codegen.triton", "torch._inductor.fx_passes.post_grad",
    "torch._inductor.fx_passes.joint_graph", "torch._inductor.kernel.mm", "triton.compiler", "triton.backends.nvidia.compiler", "vllm.v1.engine.core", "vllm.v1.engine.llm_engine",
    "vllm.v1.executor.uniproc_executor", "vllm.v1.worker.gpu_worker", "vllm.v1.worker.gpu_model_runner", "vllm.v1.core.sched.scheduler",
    "vllm.v1.attention.backends.flash_attn", "vllm.v1.attention.backends.triton_attn", "vllm.v1.attention.backends.mla.triton_mla",
    "vllm.v1.attention.backends.mamba2_attn", "vllm.v1.attention.backends.gdn_attn", "vllm.compilation.backends", "vllm.compilation.passes.pass_manager",
    "vllm.model_executor.warmup.kernel_warmup", "vllm.model_executor.model_loader", "vllm.model_executor.layers.quantization.mxfp4",
    "sinter", "sinter.torch", "sinter.torch.servers", "sinter.torch.backend.server_pass", "sinter_vllm._graphs", "sinter_vllm._layers", "sinter_vllm._sampler",
)

TOP = 20  # the most probable tokens that are compared
PROMPTS = 8  # of each kind


def read(path):
    """The rows of a list: {name, architecture, type, config, and perhaps attention, decode_only and env}."""
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def config(row):
    """What config.json of a row's model holds."""
    return {"architectures": [row["architecture"]], "model_type": row["type"], **COMMON, **row["config"]}


def prepare(rows):
    """Imports vLLM, the compiler and the models of `rows`, and names the configs that have no class. Returns what could not be imported."""
    import torch

    def refuse():
        raise RuntimeError("the GPU may not be opened before the fork")

    own, torch.cuda._lazy_init, missing = torch.cuda._lazy_init, refuse, []
    counting, torch._C._cuda_getDeviceCount = torch._C._cuda_getDeviceCount, lambda: 1  # to count them opens them
    try:
        for name in MODULES:
            _guarded(missing, name, lambda: importlib.import_module(name))
        from transformers import AutoConfig, PretrainedConfig
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING
        from vllm.model_executor.models.registry import ModelRegistry
        from vllm.transformers_utils.config import _CONFIG_REGISTRY

        for row in rows:
            # A class that is registered need not be asked for its interfaces in a process of its own.
            _guarded(missing, row["name"], lambda: ModelRegistry.register_model(row["architecture"], ModelRegistry.models[row["architecture"]].load_model_cls()))
            if row["type"] not in _CONFIG_REGISTRY and row["type"] not in CONFIG_MAPPING:
                AutoConfig.register(row["type"], _config_class(PretrainedConfig, row["type"]))
        _one_configuration()
    finally:
        torch.cuda._lazy_init, torch._C._cuda_getDeviceCount = own, counting
    return missing


def _config_class(base, kind):
    """Stands for a class that a checkpoint brings. vLLM only reads fields of it, in `block_configs` fields of fields."""

    class Fields(dict):
        __getattr__ = dict.get

    def of(value):
        return Fields({key: of(one) for key, one in value.items()}) if isinstance(value, dict) else [of(one) for one in value] if isinstance(value, list) else value

    class Config(base):
        model_type = kind

        def __init__(self, block_configs=None, **named):
            super().__init__(**named)
            if block_configs:
                self.block_configs = of(block_configs)

    return Config


def _guarded(missing, name, f):
    try:
        f()
    except Exception as error:  # whatever it needs: an engine that needs it too will say so
        missing.append(f"{name}: {type(error).__name__}: {error}"[:200])


def _one_configuration():
    """Mixers' kernels for prompts try configurations, each compiled in seconds. Nothing here measures them, so they take the first."""
    from triton.runtime.autotuner import Autotuner

    for name, module in list(sys.modules.items()):
        if name.startswith("vllm.model_executor.layers."):
            for kernel in list(vars(module).values()):
                while kernel is not None and not isinstance(kernel, Autotuner):
                    kernel = vars(kernel).get("fn") if hasattr(kernel, "__dict__") and type(kernel).__module__.startswith("triton") else None
                if kernel is not None:
                    kernel.configs = kernel.configs[:1]


def arguments(row, folder, options):
    """Arguments of vllm.LLM for a row, whose config.json is written to `folder`."""
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config(row), file)
    most = max(options["rows"])
    return {**ENGINE, "model": folder, "max_num_seqs": most, "max_num_batched_tokens": most,
            "compilation_config": {"cudagraph_capture_sizes": sorted(options["rows"])},
            **({"attention_backend": row["attention"]} if row.get("attention") else {})}


def run(row, how, folder, options, answer, asked):
    """Starts an engine, hands its results to `answer`, and for each line of `asked` the times of its graphs.

    `how`: "vllm", or "sinter" with the plugin. `options`: {"rows": numbers of sequences whose graphs are measured, "errors": whether pieces are compared with
    float64}.
    """
    begin = time.perf_counter()
    reports = []
    if how == "sinter":
        _keep_reports(reports)
    from vllm import LLM

    llm = LLM(**arguments(row, folder, options))
    ready = time.perf_counter() - begin
    llm.apply_model(fill)
    said = {"ready_s": ready, "scores": scores(llm, row)}
    if how == "vllm":
        with uncompiled():
            said["uncompiled"] = scores(llm, row)
    if options.get("errors"):
        said["pieces"] = errors(llm)
    package = sys.modules.get("sinter.torch")
    said["layers"] = package.counts().layers if how == "sinter" and package else 0
    said["graphs"] = [{"ops": one.nodes, "taken": [part.name for part in one.taken], "left": [list(left) for left in one.left]} for one in reports]
    answer({**said, "all_s": time.perf_counter() - begin})
    for line in asked:
        answer({"graph_us": {str(m): replay(llm, m, int(line)) for m in options["rows"]}})


def _keep_reports(reports):
    """Makes the plugin's pass leave its reports here too."""
    from sinter_vllm import _graphs

    own = _graphs._report

    def report(config, installed, servers, log):
        own(config, installed, servers, log)
        reports.extend(installed.reports)

    _graphs._report = report


def fill(model):
    """Random weights of a sane size, the same in each engine of a model. Runs where the model is."""
    import torch

    with torch.no_grad():
        tied = not any("lm_head" in key for key, _ in model.named_parameters())
        for key, tensor in model.named_parameters():
            if not tensor.is_floating_point() or any(word in key for word in ("A_log", "dt_bias", "conv1d", "e_score", "alpha_")) or key.endswith(".D"):
                continue
            generator = torch.Generator(tensor.device).manual_seed(zlib.crc32(key.encode()))
            if tensor.dim() <= 1:
                tensor.uniform_(*((0.5, 1.5) if _is_norm(key) else (-0.1, 0.1)), generator=generator)
                continue
            is_head = "lm_head" in key or tied and "embed" in key
            reach = 3 / math.sqrt(tensor.shape[-1]) if is_head else 1.0 if "embed" in key else 1 / math.sqrt(tensor.shape[-1])
            flat = tensor.data.reshape(-1, tensor.shape[-1]) if tensor.is_contiguous() else tensor.data
            for some in flat.split(65536):
                some.copy_(torch.randn(some.shape, generator=generator, device=tensor.device) * reach)


def _is_norm(key):
    return key.endswith("weight") and any(word in key.lower() for word in ("norm", "ln_", "ln."))


def prompts(count, length, seed=0):
    """The same of every engine."""
    draw = random.Random(1000 * count + length + 1000000 * seed)
    return [{"prompt_token_ids": [draw.randrange(10, 32000) for _ in range(length)]} for _ in range(count)]


def scores(llm, row):
    """{kind: {token: log probability} of the most probable tokens after each prompt}. `decode`: prompts of one token, computed together, so by the
    graph that is measured. `prompt`: prompts of eight tokens, each a step of eight rows."""
    from vllm import SamplingParams

    asked = SamplingParams(temperature=0, max_tokens=1, ignore_eos=True, detokenize=False, logprobs=TOP)
    found = {}
    for kind, length in (("decode", 1),) if row.get("decode_only") else (("decode", 1), ("prompt", 8)):
        made = llm.generate(prompts(PROMPTS, length), asked, use_tqdm=False)
        found[kind] = [{str(token): one.logprob for token, one in result.outputs[0].logprobs[0].items()} for result in made]
    return found


def errors(llm):
    """What ``piece_errors.of_pieces`` finds in a step of eight sequences."""
    from vllm import SamplingParams

    asked = SamplingParams(temperature=0, max_tokens=1, ignore_eos=True, detokenize=False)
    with uncompiled(skip_compiled=False):
        return piece_errors.of_pieces(lambda: llm.generate(prompts(PROMPTS, 1), asked, use_tqdm=False))


@contextlib.contextmanager
def uncompiled(skip_compiled=True):
    """Makes the model's forward run without graphs, and op by op, without compiled pieces."""
    from vllm.config import CUDAGraphMode
    from vllm.v1.worker import gpu_model_runner

    own = gpu_model_runner.set_forward_context

    def plain(*arguments, **named):
        return own(*arguments, **{**named, "skip_compiled": skip_compiled, "cudagraph_runtime_mode": CUDAGraphMode.NONE})

    gpu_model_runner.set_forward_context = plain
    try:
        yield
    finally:
        gpu_model_runner.set_forward_context = own


def replay(llm, m, seed):
    """Microseconds of the graph of a decoding step of `m` sequences, without the output matrix; None if there is no such graph. Before it is
    replayed it computes prompts of one token, drawn by `seed`: engines then have the same rows, and mixtures mostly the same experts."""
    import torch
    from vllm import SamplingParams
    from vllm.compilation.cuda_graph import CUDAGraphWrapper

    asked = SamplingParams(temperature=0, max_tokens=1, ignore_eos=True, detokenize=False)
    llm.generate(prompts(m, 1, seed), asked, use_tqdm=False)
    for wrapper in list(CUDAGraphWrapper._all_instances):
        for descriptor, entry in wrapper.concrete_cudagraph_entries.items():
            if wrapper.runtime_mode.name != "FULL" or entry.cudagraph is None or descriptor.num_tokens != m:
                continue
            for _ in range(5):
                entry.cudagraph.replay()
            torch.cuda.synchronize()
            times = []
            for _ in range(5):
                begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                begin.record()
                for _ in range(16):
                    entry.cudagraph.replay()
                end.record()
                end.synchronize()
                times.append(begin.elapsed_time(end) / 16 * 1000)
            return statistics.median(times)
    return None
