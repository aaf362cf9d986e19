"""The whole path of the Python package, with everything given back: a program for valgrind. Exits 77 without a compiler."""

import asyncio
import gc
import os
import sys

import sinter

CHAIN = "gated_ffn m=M n=256 k=64 l=64 act=silu dtype=bf16"


def refused(call, *arguments, **named):
    try:
        call(*arguments, **named)
    except sinter.Error:
        return
    sys.exit(f"{call} was not refused")


def describe():
    builder = sinter.Builder()
    x = builder.input("bf16", ("M", 64))
    refused(lambda: x @ x)
    return builder.finish(sinter.silu(x).cast("bf16"))


def prepare(context):
    heard = []
    context.prepare(describe(), m=8)
    plan = context.prepare(CHAIN, m=20, progress=lambda *now: heard.append(now))
    plan.explain(), plan.svg(), plan.to_json(), plan.digest
    asyncio.run(context.prepare_async(CHAIN, m=20)._wait())
    context.prepare_async(CHAIN, m=4000).close()  # cancelled
    context.prepare_many([CHAIN, CHAIN], [1, 20])
    refused(context.prepare, CHAIN, m=-1)
    refused(context.prepare, CHAIN, m=6000, no_build=True, batch_invariant=True)
    context.stats(), context.metrics(), context.describe()
    return plan


def take_slots(context):
    slot = context.slot(CHAIN, m=20)
    slot.build.result()
    slot.plan()
    refused(slot.switch)
    slot.close()
    failing = context.slot(CHAIN, m=7000, must_hit=True)
    refused(failing.build.result)
    refused(failing.plan)
    failing.close()
    context.slot(CHAIN, m=5000, progress=lambda *_: None).close()  # cancelled


def main():
    try:
        with sinter.Context(target="h200", log=lambda *_: None) as context:
            prepare(context)
            take_slots(context)
    except sinter.Error as error:
        if error.code == sinter.Status.UNAVAILABLE:
            print(error)
            sys.exit(77)
        raise
    if os.environ.get("FAKE_LIBCUDA"):
        with sinter.Context(0, driver_path=os.environ["FAKE_LIBCUDA"]) as context:
            plan = prepare(context)
            addresses = [number << 20 for number in range(1, 6)]
            plan(*addresses[:4], out=addresses[4], m=20)
            binding = plan.bind(*addresses[:4], out=addresses[4], m=20)
            binding()
            refused(plan.bind, *[address + 2 for address in addresses[:4]], out=addresses[4], m=20)
            del plan, binding
            take_slots(context)
    gc.collect()  # what cycles of an error's frames hold


if __name__ == "__main__":
    main()
