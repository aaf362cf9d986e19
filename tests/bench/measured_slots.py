"""What slots gain that measure while they serve: a loop of real layers' products, each at a number of rows that is drawn, launched from slots.

usage: measured_slots.py OUT.json [SEED [SECONDS]]   SEED: hexadecimal, draws rows log-uniformly from 1 to 1,024. SECONDS: of the loop.
The loop runs until each slot has measured. A line a second: the median and the 99th percentile of a step, and the measurements so far. At the
end the same step by predicted plans and by the slots' plans, in turns, as CUDA graphs. Times are in microseconds; no cache holds the weights.
"""

import json
import random
import statistics
import sys
import time

import measured_rows
import rows_file
import sinter
import source_state
import torch

MOST_ROWS_LOG2 = 10
ROUNDS = 15


class Layer:
    """One product of the loop: its slot, its plan by prediction, and its operands."""

    def __init__(self, served, predicted, layer, m):
        name, has_bias, n, k = layer
        line = f"matmul m=M n={n} k={k}" + (" bias1=1" if has_bias else "")
        self.name, self.m = name, m
        self.slot, self.predicted = served.slot(line, m=m), predicted.prepare(line, m=m)
        self.operands = [measured_rows.values(m, k), measured_rows.values(n, k)] + ([measured_rows.values(n)] if has_bias else [])

    def by_slot(self):
        return self.slot.plan()(*self.operands)

    def by_prediction(self):
        return self.predicted(*self.operands)


def seconds_of(layers, served, seconds):
    """A row of what the loop saw in each second, until every slot has measured or `seconds` are over."""
    stats = served.stats
    until, rows = time.monotonic() + seconds, []
    while time.monotonic() < until:
        second, times = time.monotonic() + 1, []
        while time.monotonic() < second:
            begin = time.perf_counter()
            for layer in layers:
                layer.by_slot()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - begin) * 1e6)
        times.sort()
        now = stats()
        ended = now.slot_measurements + now.slot_measurements_given_up
        rows.append(dict(median=round(statistics.median(times), 1), p99=round(times[len(times) * 99 // 100], 1), measured=ended))
        if ended == len(layers):
            break
    return rows


def main(out, seed="0", seconds="240"):
    torch.manual_seed(0)
    draw = random.Random(int(seed, 16))
    drawn = [int(round(2 ** draw.uniform(0, MOST_ROWS_LOG2))) for _ in measured_rows.LAYERS]
    results = {"machine": {"gpu": torch.cuda.get_device_name()}, **source_state.of_library(), "torch": torch.__version__, "seed": seed, "seconds": [], "layers": []}
    # A cache on disk could hold choices that an earlier process measured.
    with sinter.Context(slot_measure=True, cache_dir="") as served, sinter.Context(measure=-1, cache_dir="") as predicted:
        layers = [Layer(served, predicted, layer, m) for layer, m in zip(measured_rows.LAYERS, drawn)]
        while any(layer.slot.generation < 2 for layer in layers):
            time.sleep(0.01)
        results["seconds"] = seconds_of(layers, served, float(seconds))
        now = served.stats()
        results["counts"] = dict(measured=now.slot_measurements, another=now.slot_measured_wins, given_up=now.slot_measurements_given_up)
        rows_file.write(out, results)
        steps = {"predicted": [layer.by_prediction for layer in layers], "slots": [layer.by_slot for layer in layers]}
        timers = {name: measured_rows.timer([lambda calls=calls: [call() for call in calls]]) for name, calls in steps.items()}
        turns = [{name: once() for name, once in timers.items()} for _ in range(ROUNDS)]
        results["step"] = {name: round(statistics.median(turn[name] for turn in turns), 2) for name in steps}
        for layer in layers:
            results["layers"].append(dict(layer=layer.name, M=layer.m, same=layer.predicted.digest == layer.slot.plan().digest))
        rows_file.write(out, results)
    print(json.dumps({"step": results["step"], **results["counts"]}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
