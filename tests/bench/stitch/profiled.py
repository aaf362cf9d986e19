"""What the GPU's streams ran, by JAX's profiler: it records every kernel of the process, no matter which code launched it."""

import glob
import gzip
import json
import os
import tempfile

# Lines of a GPU's plane in a profile that repeat what the streams' lines say.
DERIVED_LINES = ("XLA", "Steps", "Framework", "Source", "Launch", "Async", "TensorFlow", "Scope", "Module")


def device_trace(jax, folder):
    """A profile of only the device, where this JAX can leave the host out."""
    try:
        options = jax.profiler.ProfileOptions()
        options.host_tracer_level = options.python_tracer_level = 0
        return jax.profiler.trace(folder, profiler_options=options)
    except (AttributeError, TypeError):
        return jax.profiler.trace(folder)


def profiled_events(folder):
    """[(name, microseconds)] of what the GPU's streams ran, from a profile's folder."""
    found = glob.glob(os.path.join(folder, "**", "*.xplane.pb"), recursive=True)
    try:
        from jax.profiler import ProfileData
        return [event for path in found for event in plane_events(ProfileData.from_file(path))]
    except ImportError:
        found = glob.glob(os.path.join(folder, "**", "*.trace.json.gz"), recursive=True)
        return [event for path in found for event in trace_events(path)]


def plane_events(profile):
    events = []
    for plane in profile.planes:
        if "/device:GPU" not in plane.name:
            continue
        lines = list(plane.lines)
        streams = [line for line in lines if line.name.startswith("Stream")]
        for line in streams or [line for line in lines if not line.name.startswith(DERIVED_LINES)]:
            events += [(event.name, event.duration_ns / 1e3) for event in line.events]
    return events


def trace_events(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        items = json.load(file)["traceEvents"]
    devices = {i["pid"] for i in items
               if i.get("name") == "process_name" and "/device:GPU" in i["args"].get("name", "")}
    streams = {(i["pid"], i["tid"]) for i in items
               if i.get("name") == "thread_name" and i["pid"] in devices and i["args"]["name"].startswith("Stream")}
    return [(i["name"], i["dur"]) for i in items if i.get("ph") == "X" and (i["pid"], i["tid"]) in streams]


def is_copy(name):
    name = name.lower()
    return name.startswith("memcpy") or name.startswith("memset")


def profile(call, wait, calls):
    """{us, kernels, copies} of one of `calls` calls of call(i); wait() returns when they are finished."""
    import jax
    jax.devices()  # the profiler sees a GPU only once its backend is there
    wait()
    with tempfile.TemporaryDirectory() as folder:
        with device_trace(jax, folder):
            for i in range(calls):
                call(i)
            wait()
        events = profiled_events(folder)
    if not events:
        raise RuntimeError("the profile has no events of the GPU")
    copies = sum(is_copy(name) for name, _ in events)
    return {"us": sum(us for _, us in events) / calls, "kernels": round((len(events) - copies) / calls),
            "copies": round(copies / calls)}
