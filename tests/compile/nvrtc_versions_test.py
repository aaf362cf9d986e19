"""nvrtc_versions_test.py SINTER FOLDER [DRIVER]: which chains each NVRTC of PyPI compiles, for Hopper and for other chips.

DRIVER, one without a GPU, is said to be of CUDA 12.0, which takes machine code of any NVRTC 12 and no newer PTX.
Downloads the wheels into FOLDER, pinned by their hashes, unless they are there. Exits with 77 where that cannot be.
"""

import os
import pathlib
import subprocess
import sys

# Version, whether it compiles products of 16-bit elements, requirement.
VERSIONS = [
    ("12.4", False, "nvidia-cuda-nvrtc-cu12==12.4.127", "a178759ebb095827bd30ef56598ec182b85547f1508941a3d560eb7ea1fbf338"),
    ("12.6", False, "nvidia-cuda-nvrtc-cu12==12.6.85", "800927308ccc5dd6246d3f61f7fcef2ed7ec4e59e199090d360d3293f78bd5a2"),
    ("12.8", False, "nvidia-cuda-nvrtc-cu12==12.8.93", "a7756528852ef889772a84c6cd89d41dfa74667e24cca16bb31f8f061e3e9994"),
    ("12.9", True, "nvidia-cuda-nvrtc-cu12==12.9.86", "210cf05005a447e29214e9ce50851e83fc5f4358df8b453155d5e1918094dcb4"),
    ("13.0", True, "nvidia-cuda-nvrtc==13.0.88", "ad9b6d2ead2435f11cbb6868809d2adeeee302e9bb94bcf0539c7a40d80e8575"),
]
PRODUCTS = [
    "matmul m=128 n=1024 k=1024 dtype=bf16",
    "gated_ffn m=128 n=3072 k=1024 l=1024 act=silu dtype=f16",
]
OTHERS = [
    "rmsnorm rows=128 cols=1024",
    "softmax rows=128 cols=1024",
    "scaled_matmul m=64 n=4096 k=4096",
    "scaled_gated_ffn m=64 n=2048 k=1024 l=1024 act=silu",
]
# Chips without wgmma, and the first NVRTC that knows each. What older ones say is "needs NVRTC 12.8 or newer".
# An A100 has no e4m3.
OTHER_CHIPS = [
    ("a100", "12.4", PRODUCTS + [chain for chain in OTHERS if not chain.startswith("scaled")]),
    ("rtx-4090", "12.4", PRODUCTS + OTHERS),
    ("b200", "12.8", PRODUCTS + OTHERS),
    ("rtx-5090", "12.8", PRODUCTS + OTHERS),
]


def fetch(folder, version, requirement, digest):
    folder = folder / version
    found = sorted(folder.glob("nvidia/*/lib/libnvrtc.so.1?"))
    if found:
        return found[0]
    folder.mkdir(parents=True, exist_ok=True)
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{requirement} --hash=sha256:{digest}\n")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary",
           ":all:", "--require-hashes", "--requirement", str(requirements), "--dest", str(folder)]
    if subprocess.run(pip).returncode != 0:
        sys.exit(77)
    for wheel in folder.glob("*.whl"):
        subprocess.run([sys.executable, "-m", "zipfile", "-e", str(wheel), str(folder)], check=True)
        wheel.unlink()
    return sorted(folder.glob("nvidia/*/lib/libnvrtc.so.1?"))[0]


# Whether the doctor finds that a driver of CUDA 12.0 runs what this NVRTC compiles: for the driver's H200, or for a
# model file.
def runs_on_cuda_12(run, driver, model=""):
    told = run("doctor", SINTER_LIBCUDA=driver, FAKE_CUDA="12000", SINTER_DEVICE_MODEL=str(model)).stdout
    assert "compiler" in told, told
    return "the driver is for CUDA 12.0" not in told


def main():
    sinter, folder, driver = sys.argv[1], pathlib.Path(sys.argv[2]), "".join(sys.argv[3:4])
    text = subprocess.run([sinter, "device", "--target", "a100", "--model"], capture_output=True, text=True).stdout
    folder.mkdir(parents=True, exist_ok=True)
    ptx = folder / "ptx.model"
    ptx.write_text(text.replace("arch = sm_80\n", "arch = compute_80\n"))
    wrong = []
    for version, products, requirement, digest in VERSIONS:
        environment = {**os.environ, "SINTER_NVRTC": str(fetch(folder, version, requirement, digest)), "SINTER_CACHE": "off"}

        def run(*words, **variables):
            return subprocess.run([sinter, *words], env={**environment, **variables}, capture_output=True, text=True)

        for chain in PRODUCTS + OTHERS:
            done = run("plan", "--target", "h200", *chain.split())
            refused = all(part in done.stderr for part in (f"this is NVRTC {version}", "C7515", "pip install"))
            fine = done.returncode == 0 if products or chain in OTHERS else done.returncode != 0 and refused
            print(version, "ok" if fine else "WRONG", chain, flush=True)
            if not fine:
                wrong.append((version, chain, done.stderr[-600:]))
        for chip, first, chains in OTHER_CHIPS:
            for chain in chains:
                done = run("plan", "--target", chip, *chain.split())
                fine = done.returncode == 0 if version >= first else f"needs NVRTC {first} or newer" in done.stderr
                print(version, chip, "ok" if fine else "WRONG", chain, flush=True)
                if not fine:
                    wrong.append((version, chip, chain, done.stderr[-600:]))
            told = run("doctor", "--target", chip).stdout
            if version >= first and "fail" in told:
                wrong.append((version, "doctor", chip, told))
        told = run("doctor", "--target", "h200").stdout
        if ("C7515" in told) == products:
            wrong.append((version, "doctor", told))
        if driver and (runs_on_cuda_12(run, driver) != (version < "13") or runs_on_cuda_12(run, driver, ptx)):
            wrong.append((version, "a driver of CUDA 12.0"))
    for case in wrong:
        print(*case, sep="\n", file=sys.stderr)
    sys.exit(bool(wrong))


main()
