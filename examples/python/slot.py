"""A loop that never waits for a plan: it takes what its slot holds and goes on. Without a GPU it prepares for an H200."""

import sys
import time

import sinter

CHAIN = "gated_ffn m=M n=3072 k=1024 l=1024 act=silu dtype=bf16"


def context():
    try:
        return sinter.Context()
    except sinter.Error:  # no GPU
        return sinter.Context(target="h200")


def main():
    seen, steps, end = 0, 0, time.monotonic() + 120
    with context() as opened:
        slot = opened.slot(CHAIN, m=128)  # returns at once; the build is in the background
        while seen < 2 and time.monotonic() < end:
            generation = slot.generation
            if generation > seen:  # between two steps: bind, and capture graphs again
                seen, plan = generation, slot.plan()
                print(f"step {steps}: generation {seen}, {plan.name}, {plan.kernel_count} kernels")
            else:
                slot.plan()  # the plan so far, or None; the build's error, where it failed
            steps += 1
            time.sleep(0.005)  # a step with the plan at hand, or with the server's own kernels
        slot.close()
    return 0 if seen == 2 else 1


if __name__ == "__main__":
    sys.exit(main())
