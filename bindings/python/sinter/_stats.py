"""Counters of a context. Written by ./dev bindings from include/sinter/*.h; do not edit."""

from __future__ import annotations

import ctypes
import dataclasses
from typing import Any

from . import _abi
from ._library import call


@dataclasses.dataclass(frozen=True)
class Stats:
    """Counters since the context was made; ``sinter_stats`` of sinter.h explains each."""

    nvrtc_loaded: int
    prepares: int
    plan_hits: int
    searched: int
    kernels_compiled: int
    kernel_hits: int
    kernels_loaded: int
    launches: int
    waits: int
    wrong_kernels: int
    non_resident_fallbacks: int
    cache_memory_hits: int
    cache_local_hits: int
    cache_puts: int
    cache_put_failures: int
    cache_quarantined: int
    cache_misses: int
    cache_absent: int
    cache_damaged: int
    cache_foreign_arch: int
    cache_other_format: int
    cache_other_toolchain: int
    cache_refused_owner: int
    cache_in_quarantine: int
    cache_disabled: int
    cache_io_errors: int
    search_us: float
    compile_us: float
    tuned_plans: int
    tuned_refused: int
    cache_pack_hits: int
    cache_packs_open: int
    cache_packs_refused: int
    cache_puts_dropped: int
    cache_evicted: int
    cache_remote_hits: int
    cache_remote_puts: int
    cache_remote_errors: int
    cache_remote_down: int
    cache_remote_opened: int
    compile_seconds_saved: float
    gpu_time_saved_us: float
    modules_loaded: int
    module_bytes: int
    modules_unloaded: int
    slots_building: int
    slot_upgrades: int
    slot_failures: int
    slots_measuring: int
    slot_measurements: int
    slot_measured_wins: int
    slot_measurements_given_up: int
    prepare_failures: int
    must_hit_misses: int
    measurements: int
    measured_wins: int
    measurements_given_up: int


def read_stats(context: Any) -> Stats:
    """The counters of a C context."""
    stats = _abi.Stats()
    call("sinter_context_get_stats", context, ctypes.byref(stats))
    return Stats(**{field.name: getattr(stats, field.name) for field in dataclasses.fields(Stats)})
