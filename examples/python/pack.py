"""Plans for machines without a compiler: one machine fills a pack, another prepares from it alone. Neither needs a GPU.

The command `sinter` must be in the PATH. Who ships packs signs them: `sinter warm --sign key.pem`, `pack_keys="public.pem"`.
"""

import os
import subprocess
import sys
import tempfile

import sinter

CHAIN = "gated_ffn m=M n=3072 k=1024 l=1024 act=silu dtype=bf16"


def main():
    with tempfile.TemporaryDirectory() as folder:
        pack = os.path.join(folder, "models.pack")
        warm = ["sinter", "warm", CHAIN, "-m", "1,128", "--target", "h200", "--cache-dir", os.path.join(folder, "cache")]
        subprocess.run([*warm, "--pack", pack], check=True)
        print(f"{pack}: {os.path.getsize(pack)} bytes")
        # must_hit: a plan that the pack lacks is an error, and nothing is compiled.
        with sinter.Context(target="h200", cache_dir="", packs=[pack], unsigned_packs=True, must_hit=True) as context:
            for m in (1, 128):
                plan = context.prepare(CHAIN, m=m)
                print(f"m = {m}: {plan.name}, {plan.kernel_count} kernels")
            return 0 if context.stats().kernels_compiled == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
