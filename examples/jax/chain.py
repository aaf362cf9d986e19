"""A gated FFN inside a jitted JAX function, as a call of XLA's foreign functions; its gradient is JAX's own.

    python3 chain.py [--build-only] [FLAGS OF THE C++ COMPILER]

Builds sinter_ffi.cc beside a temporary file, with the flags of `pkg-config --cflags --libs sinter` where none are given, and checks the
result against JAX. Needs jax and a C++17 compiler; without a GPU it ends after the build.
"""

import ctypes
import os
import subprocess
import sys
import tempfile

import jax
import jax.numpy as jnp
import sinter

K, N, ROWS = 1024, 3072, 200


def describe():
    """y = (silu(x gate') * (x up')) down'."""
    b = sinter.Builder()
    x = b.input("bf16", (sinter.M, K))
    gate, up, down = b.constant("bf16", (N, K)), b.constant("bf16", (N, K)), b.constant("bf16", (K, N))
    return b.finish(sinter.gated_ffn(x, gate, up, down, activation="silu")).to_json()


def build(flags):
    """The handler's library, in a folder that the process keeps."""
    library = os.path.join(tempfile.mkdtemp(), "libsinter_ffi.so")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sinter_ffi.cc")
    flags = flags or subprocess.run(["pkg-config", "--cflags", "--libs", "sinter"], stdout=subprocess.PIPE, check=True, text=True).stdout.split()
    subprocess.run([os.environ.get("CXX", "c++"), "-std=c++17", "-O2", "-shared", "-fPIC", "-isystem", jax.ffi.include_dir(), source, *flags,
                    "-o", library], check=True)
    return library


def plain(x, gate, up, down):
    hidden = jax.nn.silu((x @ gate.T).astype(jnp.float32)) * (x @ up.T).astype(jnp.float32)
    return hidden.astype(x.dtype) @ down.T


def ffn(chain):
    """The FFN by Sinter forward, by JAX backward."""

    @jax.custom_vjp
    def fused(x, *weights):
        result = jax.ShapeDtypeStruct((x.shape[0], K), x.dtype)
        return jax.ffi.ffi_call("sinter_run", result)(x, *weights, chain=chain, m=x.shape[0])

    fused.defvjp(lambda *operands: (fused(*operands), operands),
                 lambda operands, gradient: jax.vjp(plain, *operands)[1](gradient))
    return fused


def main():
    flags = sys.argv[1:]
    build_only = flags[:1] == ["--build-only"]
    library = build(flags[build_only:])
    if build_only or jax.default_backend() != "gpu":
        print("built; no GPU was used")
        return 0
    jax.ffi.register_ffi_target("sinter_run", jax.ffi.pycapsule(ctypes.CDLL(library).sinter_run), platform="CUDA")
    keys = jax.random.split(jax.random.key(1), 4)
    shapes = (ROWS, K), (N, K), (N, K), (K, N)
    operands = [jax.random.normal(key, shape, jnp.bfloat16) / 32 for key, shape in zip(keys, shapes)]
    fused = ffn(describe())
    found = jax.jit(fused)(*operands).astype(jnp.float32)
    wanted = plain(*(operand.astype(jnp.float32) for operand in operands))
    error = float(jnp.linalg.norm(found - wanted) / jnp.linalg.norm(wanted))
    slope = jax.jit(jax.grad(lambda x: fused(x, *operands[1:]).astype(jnp.float32).sum()))(operands[0])
    print(f"relative error {error:.1e}, gradient of {slope.shape} {slope.dtype}")
    return 0 if error < 1e-2 and bool(jnp.isfinite(slope.astype(jnp.float32)).all()) else 1


if __name__ == "__main__":
    sys.exit(main())
