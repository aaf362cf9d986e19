#!/usr/bin/env python3
"""Makes vLLM 0.24.0 small enough to be carried to a machine that has PyTorch 2.11 and a Hopper GPU but no network: FOLDER/vllm.tar.xz, 22 MB.

Usage: bundle.py FOLDER [--wheels FOLDER]    needs the network, pip with zstandard, and strip; ptxas and fatbinary of CUDA 13 for Marlin's experts

The wheel of vLLM has 279 MB, most of it code for other GPUs. Its extensions are cut to sm_90, FlashAttention 3 is kept for heads of 64, 128 and
256 in bf16, and what the engine does not import is left out. Packages that machines with PyTorch and transformers usually lack go along.
The machine with the GPU has Python 3.12 on x86-64. README.md says how vLLM is started there.

FlashInfer is left out, so vLLM's sampler must be asked for; without the variable an engine fails when it loads a model. Blocks of e4m3 then run by
DeepGEMM, which compiles its kernels with the machine's nvcc at first use; VLLM_DEEP_GEMM_WARMUP=skip compiles only those that are used. Also left
out: FlashAttention 2, FlashAttention 3 for f16, softcaps and heads of 96 and 192, Marlin's dense kernels for other formats than int4 with bf16,
paged attention of the first version, selective scan, structured output.
"""

import argparse
import fnmatch
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

import extensions

VLLM = "vllm==0.24.0"
ARCH = 90

#: What the engine and the server import besides PyTorch, torchvision, transformers, huggingface_hub, numpy, Triton, numba, aiohttp, httpx, prometheus_client,
#: protobuf, psutil, regex, requests, sentencepiece, tiktoken, einops, cloudpickle, tqdm and OpenCV.
PACKAGES = (
    "annotated-types==0.8.0", "blake3==1.0.11", "cachetools==8.0.2", "cbor2==6.3.0", "compressed-tensors==0.17.0", "distro==1.9.0",
    "fastapi==0.136.3", "jiter==0.19.0", "jmespath==1.1.0", "loguru==0.7.3", "mistral-common==1.13.1", "model-hosting-container-standards==0.1.16",
    "msgspec==0.23.0", "openai==2.54.0", "openai-harmony==0.0.8", "partial-json-parser==0.2.1.1.post7", "prometheus-fastapi-instrumentator==8.1.0",
    "pybase64==1.5.1", "pydantic==2.14.4", "pydantic-core==2.50.5", "pydantic-extra-types==2.11.1", "python-multipart==0.0.34", "pyzmq==27.3.0",
    "setproctitle==1.3.8", "sniffio==1.3.1", "starlette==1.10.0", "typing-extensions==4.16.0", "typing-inspection==0.4.5", "uvicorn==0.54.0",
    "watchfiles==1.3.0",
)

#: Files of wheels that stay behind: tests, other extensions, headers of other GPUs' kernels, tokenizers.
LEFT_OUT = (
    "vllm/vllm-rs", "vllm/_qutlass_C*", "vllm/_flashmla*", "vllm/_rust_*", "vllm/spinloop*", "vllm/vllm_flash_attn/_vllm_fa2_C*",
    "vllm/third_party/fmha_sm100/*", "vllm/third_party/deep_gemm/_C.cpython-31[0134]-*", "*/swagger-ui-bundle.js", "mistral_common/data/*",
    "vllm/kernels/helion/configs/*", "*/RECORD", "*/test/*", "*/tests/*",
)

#: Kernels without which vLLM's engine runs: attention of the first version, GPTQ, Marlin of other formats than int4 and mxfp4.
DROPPED = {
    "vllm/_C_stable_libtorch.abi3.so": ("paged_attention_v[12]_kernel", "selective_scan_fwd_kernel", "gptq19shuffle", "6marlin6MarlinILl1125899906909952E",
                                        "6marlin6MarlinILl1125899906909960ELl(2814749767172868|1125899906843648|1125899923621888)E"),
    "vllm/_moe_C_stable_libtorch.abi3.so": (),
    "vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so": ("flash_fwd_hdim(?!(64|128|256)_bf16)", "flash_fwd_hdim[0-9a-z_]+_softcap"),
}

#: Kernels that vLLM ships as PTX only and that are worth assembling: Marlin's of experts of mxfp4 with rows of bf16, and those around them.
ASSEMBLED = ("marlin_moe_wna166MarlinILl1125899906909960ELl562949953487106E", "marlin_repack_kernel", "13MarlinDefault")

#: A package that is imported for names which only structured output uses: any name is a class.
STAND_IN = '''"""Stands in for a package that is not here: its names exist, and nothing else."""


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (), {})
'''
STAND_INS = ("llguidance/__init__.py", "llguidance/hf.py", "llguidance/torch.py", "xgrammar/__init__.py", "xgrammar/openai_tool_call_schema.py",
             "xgrammar/structural_tag.py")


def download(folder):
    """The wheels, of Python 3.12 on x86-64."""
    platforms = [f"--platform=manylinux_2_{n}_x86_64" for n in (35, 34, 31, 28, 27, 26, 24, 17)] + ["--platform=manylinux2014_x86_64"]
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--python-version=3.12", "--implementation=cp"]
    subprocess.run([*command, *platforms, "-d", folder, VLLM, *PACKAGES], check=True)
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".whl"))


def unpack(wheel, site):
    """Adds the files of a wheel that are wanted to `site`."""
    with zipfile.ZipFile(wheel) as file:
        for name in file.namelist():
            if name.endswith("/") or any(fnmatch.fnmatch(name, pattern) for pattern in LEFT_OUT):
                continue
            path = os.path.join(site, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            data = file.read(name)
            if name in DROPPED:
                data = extensions.cut(data, ARCH, DROPPED[name], ASSEMBLED)
            with open(path, "wb") as out:
                out.write(data)
            if name in DROPPED:
                subprocess.run(["strip", "--strip-all", path], check=True)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="where vllm.tar.xz is written")
    parser.add_argument("--wheels", help="where wheels are kept; a second run does not download them again")
    options = parser.parse_args(arguments)
    if not shutil.which("ptxas"):
        print("no ptxas on PATH: the driver will assemble Marlin's kernels of mxfp4, in minutes", file=sys.stderr)
    os.makedirs(options.folder, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        wheels = options.wheels or os.path.join(folder, "wheels")
        site = os.path.join(folder, "site")
        for wheel in download(wheels):
            unpack(wheel, site)
        for name in STAND_INS:
            path = os.path.join(site, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(STAND_IN)
        out = os.path.join(options.folder, "vllm.tar.xz")
        with tarfile.open(out, "w:xz") as archive:
            for name in sorted(os.listdir(site)):
                archive.add(os.path.join(site, name), name)
    print(f"{out}: {os.path.getsize(out) / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
