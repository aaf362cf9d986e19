"""The C ABI of include/sinter as ctypes declarations. Written by ./dev bindings from include/sinter/*.h; do not edit.

The wheel carries the library that it was built with, so the experimental functions are those of the same commit.
"""

from __future__ import annotations

import ctypes
import enum
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from typing import Any, Dict, Tuple

DTYPE_F32 = 1
DTYPE_F16 = 2
DTYPE_BF16 = 3
DTYPE_S32 = 4
DTYPE_PRED = 5
DTYPE_E4M3 = 6
DTYPE_S8 = 7
DTYPE_S64 = 8
NO_VALUE = 0
MAX_RANK = 6
DIM_M = -1
INPUT_CONSTANT = 1
MATMUL_TRANSPOSE_A = 1
MATMUL_TRANSPOSE_B = 2
WINDOW_EXCLUDE_PADS = 1
REDUCE_KEEPDIMS = 1
ATTENTION_CAUSAL = 1
GROUPED_UP_FIRST = 1
GROUPED_INTERLEAVED = 2
GROUPED_WEIGHT_ON_INPUT = 4
QUANTIZE_UE8M0 = 1
ACCUMULATE_FAST = 1
GROUP_NO_TIMEOUT = 1
GROUP_DESCRIPTORS = 2
VERSION_MAJOR = 0
VERSION_MINOR = 1
VERSION_PATCH = 0
PREPARE_BATCH_INVARIANT = 1
PREPARE_MUST_HIT = 2
PREPARE_VERIFY = 4
PREPARE_NO_BUILD = 8
SLOT_MANUAL = 1
TUNE_BATCH_INVARIANT = 1
TUNE_KEEP = 2
LAUNCH_PDL = 1
GRAPH_PDL = 1
X_EVENT_LOOK_UP = 1
X_EVENT_SEARCH = 2
X_EVENT_COMPILE = 3
X_EVENT_LOAD = 4
X_EVENT_UNLOAD = 5
X_EVENT_TUNE = 6
X_EVENT_FALLBACK = 7
X_EVENT_UPGRADE = 8

UNARY: Dict[str, int] = {"neg": 1, "abs": 2, "exp": 3, "log": 4, "sqrt": 5, "rsqrt": 6, "tanh": 7, "erf": 8,
    "sigmoid": 9, "relu": 10, "reciprocal": 11, "square": 12, "sin": 13, "cos": 14, "floor": 15, "not": 16,
    "ceil_pow2": 17, "log1p": 18, "expm1": 19, "ceil": 20, "round": 21, "trunc": 22, "tan": 23, "asin": 24, "acos": 25,
    "atan": 26, "sinh": 27, "cosh": 28, "asinh": 29, "acosh": 30, "atanh": 31, "erfc": 32, "exp2": 33, "log2": 34,
    "log10": 35}
BINARY: Dict[str, int] = {"add": 1, "sub": 2, "mul": 3, "div": 4, "max": 5, "min": 6, "pow": 7, "and": 8, "or": 9,
    "fmod": 10, "copysign": 11, "atan2": 12, "hypot": 13}
COMPARE: Dict[str, int] = {"eq": 1, "ne": 2, "lt": 3, "le": 4, "gt": 5, "ge": 6}
REDUCE: Dict[str, int] = {"sum": 1, "max": 2, "min": 3, "mean": 4}
ACTIVATION: Dict[str, int] = {"identity": 0, "relu": 1, "gelu_tanh": 2, "gelu_erf": 3, "silu": 4}
LAYOUT: Dict[str, int] = {"oi": 1, "io": 2}
FILTER: Dict[str, int] = {"ohwi": 1, "hwio": 2}
CHECKPOINT: Dict[str, int] = {"rows": 1, "awq": 2, "gptq": 3, "gptq_v2": 4, "compressed_tensors": 5}
SWITCH: Dict[str, int] = {"default": 0, "on": 1, "off": 2}
GRANULARITY: Dict[str, int] = {"tensor": 1, "row": 2, "group": 3, "static": 4}
CHOICE: Dict[str, int] = {"best": 0, "fused": 1, "unfused": 2}


class Status(enum.IntEnum):
    """Why a call failed. 1 to 16 are the codes of gRPC."""

    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16
    COMPILE_FAILED = 100
    NO_LEGAL_PLAN = 101
    DRIVER = 102
    CACHE_CORRUPT = 103
    STREAM_CAPTURING = 104
    CACHE_MISS = 105


class LogLevel(enum.IntEnum):
    """How much a context logs."""

    ERROR = 1
    WARN = 2
    INFO = 3
    DEBUG = 4
    OFF = 5


class _Sized(ctypes.Structure):
    """A struct that begins with its own size; the rest is zero, which means the defaults."""

    def __init__(self, **values: Any) -> None:
        super().__init__(struct_size=ctypes.sizeof(type(self)), **values)


LogCallback = ctypes.CFUNCTYPE(None, c_void_p, c_int32, c_char_p)


ProgressCallback = ctypes.CFUNCTYPE(None, c_void_p, c_char_p, c_double)


class InputOptions(_Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("name", c_char_p),
        ("strides", POINTER(c_int64)),
        ("stride_m_powers", POINTER(c_int32)),
    ]


class MatmulOptions(_Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
    ]


class Conv2dOptions(_Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("filter", c_int32),
        ("groups", c_int32),
        ("stride_height", c_int32),
        ("stride_width", c_int32),
        ("dilation_height", c_int32),
        ("dilation_width", c_int32),
        ("pad_top", c_int32),
        ("pad_bottom", c_int32),
        ("pad_left", c_int32),
        ("pad_right", c_int32),
    ]


class WindowOptions(_Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("height", c_int32),
        ("width", c_int32),
        ("stride_height", c_int32),
        ("stride_width", c_int32),
        ("dilation_height", c_int32),
        ("dilation_width", c_int32),
        ("pad_top", c_int32),
        ("pad_bottom", c_int32),
        ("pad_left", c_int32),
        ("pad_right", c_int32),
    ]


class ReduceOptions(_Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
    ]


class SoftmaxOptions(_Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("scale", c_double),
        ("mask", c_int32),
        ("reserved", c_int32),
    ]


class AttentionOptions(_Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("scale", c_double),
        ("bias", c_int32),
        ("mask", c_int32),
    ]


class NormOptions(_Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("eps", c_double),
        ("gamma", c_int32),
        ("beta", c_int32),
    ]


class NextTokenOptions(_Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("count", c_int32),
        ("temperature", c_int32),
        ("k", c_int32),
        ("top_p", c_int32),
        ("min_p", c_int32),
        ("reserved", c_int32),
    ]


class LinearOptions(_Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("layout", c_int32),
        ("activation", c_int32),
        ("bias", c_int32),
        ("reserved", c_int32),
    ]


class GemmChainOptions(_Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("layout", c_int32),
        ("activation", c_int32),
        ("bias1", c_int32),
        ("bias2", c_int32),
    ]


class GatedFfnOptions(_Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("layout", c_int32),
        ("activation", c_int32),
        ("bias_gate", c_int32),
        ("bias_up", c_int32),
        ("bias2", c_int32),
        ("reserved", c_int32),
    ]


class GroupedGatedFfnOptions(_Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("layout", c_int32),
        ("activation", c_int32),
        ("bias1", c_int32),
        ("bias2", c_int32),
        ("alpha", c_double),
        ("beta", c_double),
        ("limit", c_double),
    ]


class Scaled(ctypes.Structure):
    _fields_ = [
        ("codes", c_int32),
        ("scale", c_int32),
    ]


class QuantizeOptions(_Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("granularity", c_int32),
        ("codes", c_int32),
        ("eps", c_double),
        ("upper_bound", c_double),
        ("static_scale", c_int32),
        ("reserved", c_int32),
    ]


class OutputOptions(_Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("strides", POINTER(c_int64)),
        ("stride_m_powers", POINTER(c_int32)),
        ("alias", c_int32),
        ("reserved", c_int32),
    ]


class TensorInfo(_Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("dtype", c_int32),
        ("rank", c_uint32),
        ("bytes", c_uint64),
        ("dims", c_int64 * MAX_RANK),
        ("strides", c_int64 * MAX_RANK),
        ("name", c_char_p),
    ]


Exchange = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p, c_size_t, c_void_p)


class GroupOptions(_Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("rank", c_int32),
        ("size", c_int32),
        ("slot_bytes", c_uint64),
        ("peers", POINTER(c_uint64)),
        ("bytes", c_uint64),
        ("exchange", Exchange),
        ("user_data", c_void_p),
        ("timeout_ms", c_uint32),
        ("reserved", c_uint32),
    ]


class ContextOptions(_Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("device", c_int32),
        ("log_level", c_int32),
        ("target", c_char_p),
        ("cache_dir", c_char_p),
        ("dump_dir", c_char_p),
        ("nvrtc_path", c_char_p),
        ("driver_path", c_char_p),
        ("cache", c_int32),
        ("must_hit", c_int32),
        ("batch_invariant", c_int32),
        ("verify", c_int32),
        ("log", LogCallback),
        ("log_user_data", c_void_p),
        ("tuning_set", c_char_p),
        ("packs", POINTER(c_char_p)),
        ("pack_count", c_uint32),
        ("unsigned_packs", c_int32),
        ("pack_keys", c_char_p),
        ("cache_read_only", c_int32),
        ("cache_store", c_char_p),
        ("cache_max_bytes", c_uint64),
        ("remote", c_char_p),
        ("remote_name_space", c_char_p),
        ("remote_key_file", c_char_p),
        ("remote_password_file", c_char_p),
        ("remote_publish", c_int32),
        ("must_hit_verified", c_int32),
        ("deny_toolchains", c_char_p),
        ("module_cache_bytes", c_uint64),
        ("device_model", c_char_p),
        ("slot_measure", c_int32),
        ("measure", c_int32),
    ]


class Stats(_Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("nvrtc_loaded", c_uint32),
        ("prepares", c_uint64),
        ("plan_hits", c_uint64),
        ("searched", c_uint64),
        ("kernels_compiled", c_uint64),
        ("kernel_hits", c_uint64),
        ("kernels_loaded", c_uint64),
        ("launches", c_uint64),
        ("waits", c_uint64),
        ("wrong_kernels", c_uint64),
        ("non_resident_fallbacks", c_uint64),
        ("cache_memory_hits", c_uint64),
        ("cache_local_hits", c_uint64),
        ("cache_puts", c_uint64),
        ("cache_put_failures", c_uint64),
        ("cache_quarantined", c_uint64),
        ("cache_misses", c_uint64),
        ("cache_absent", c_uint64),
        ("cache_damaged", c_uint64),
        ("cache_foreign_arch", c_uint64),
        ("cache_other_format", c_uint64),
        ("cache_other_toolchain", c_uint64),
        ("cache_refused_owner", c_uint64),
        ("cache_in_quarantine", c_uint64),
        ("cache_disabled", c_uint64),
        ("cache_io_errors", c_uint64),
        ("search_us", c_double),
        ("compile_us", c_double),
        ("tuned_plans", c_uint64),
        ("tuned_refused", c_uint64),
        ("cache_pack_hits", c_uint64),
        ("cache_packs_open", c_uint64),
        ("cache_packs_refused", c_uint64),
        ("cache_puts_dropped", c_uint64),
        ("cache_evicted", c_uint64),
        ("cache_remote_hits", c_uint64),
        ("cache_remote_puts", c_uint64),
        ("cache_remote_errors", c_uint64),
        ("cache_remote_down", c_uint64),
        ("cache_remote_opened", c_uint64),
        ("compile_seconds_saved", c_double),
        ("gpu_time_saved_us", c_double),
        ("modules_loaded", c_uint64),
        ("module_bytes", c_uint64),
        ("modules_unloaded", c_uint64),
        ("slots_building", c_uint64),
        ("slot_upgrades", c_uint64),
        ("slot_failures", c_uint64),
        ("slots_measuring", c_uint64),
        ("slot_measurements", c_uint64),
        ("slot_measured_wins", c_uint64),
        ("slot_measurements_given_up", c_uint64),
        ("prepare_failures", c_uint64),
        ("must_hit_misses", c_uint64),
        ("measurements", c_uint64),
        ("measured_wins", c_uint64),
        ("measurements_given_up", c_uint64),
    ]


class PrepareOptions(_Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("deadline_us", c_int64),
        ("cancel", c_void_p),
        ("progress", ProgressCallback),
        ("progress_user_data", c_void_p),
        ("stream", c_void_p),
        ("choice", c_int32),
        ("threads", c_uint32),
        ("measure", c_int32),
        ("reserved", c_int32),
        ("measure_budget_us", c_int64),
    ]


ReadyCallback = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_int32)


class TuneOptions(_Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("deadline_us", c_int64),
        ("top_k", c_int32),
        ("reserved", c_int32),
        ("switch_margin", c_double),
        ("stream", c_void_p),
        ("into", c_void_p),
    ]


class XCheck(_Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("within", c_uint32),
        ("relative", c_double),
        ("max_over_rms", c_double),
        ("relative_bound", c_double),
        ("max_bound", c_double),
        ("count", c_int64),
        ("nans", c_int64),
    ]


class XTimeOptions(_Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("calls", c_uint32),
        ("replays", c_uint32),
    ]


XGive = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_uint64)


class XRemoteStore(_Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("user_data", c_void_p),
        ("get", ctypes.CFUNCTYPE(c_int32, c_void_p, c_char_p, c_int64, XGive, c_void_p)),
        ("put", ctypes.CFUNCTYPE(c_int32, c_void_p, c_char_p, c_void_p, c_uint64, c_int64, c_int32, c_int64)),
        ("try_lease", ctypes.CFUNCTYPE(c_int32, c_void_p, c_char_p, c_char_p, c_int64, c_int64)),
        ("release", ctypes.CFUNCTYPE(c_int32, c_void_p, c_char_p, c_char_p, c_int64)),
        ("add_member", ctypes.CFUNCTYPE(c_int32, c_void_p, c_char_p, c_char_p, c_int64, c_int64)),
        ("members", ctypes.CFUNCTYPE(c_int32, c_void_p, c_char_p, c_int64, XGive, c_void_p)),
        ("destroy", ctypes.CFUNCTYPE(None, c_void_p)),
    ]


class XEvent(_Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("kind", c_int32),
        ("bucket", c_int64),
        ("us", c_double),
        ("bytes", c_uint64),
        ("chain_digest", c_uint8 * 32),
        ("plan_digest", c_uint8 * 32),
        ("subject", c_char_p),
        ("tier", c_char_p),
        ("reason", c_char_p),
    ]


XEventCallback = ctypes.CFUNCTYPE(None, c_void_p, POINTER(XEvent))


XFunction = ctypes.CFUNCTYPE(None)


# By their C names.
STRUCTS: Dict[str, type] = {
    "sinter_input_options": InputOptions,
    "sinter_matmul_options": MatmulOptions,
    "sinter_conv2d_options": Conv2dOptions,
    "sinter_window_options": WindowOptions,
    "sinter_reduce_options": ReduceOptions,
    "sinter_softmax_options": SoftmaxOptions,
    "sinter_attention_options": AttentionOptions,
    "sinter_norm_options": NormOptions,
    "sinter_next_token_options": NextTokenOptions,
    "sinter_linear_options": LinearOptions,
    "sinter_gemm_chain_options": GemmChainOptions,
    "sinter_gated_ffn_options": GatedFfnOptions,
    "sinter_grouped_gated_ffn_options": GroupedGatedFfnOptions,
    "sinter_scaled": Scaled,
    "sinter_quantize_options": QuantizeOptions,
    "sinter_output_options": OutputOptions,
    "sinter_tensor_info": TensorInfo,
    "sinter_group_options": GroupOptions,
    "sinter_context_options": ContextOptions,
    "sinter_stats": Stats,
    "sinter_prepare_options": PrepareOptions,
    "sinter_tune_options": TuneOptions,
    "sinter_x_check": XCheck,
    "sinter_x_time_options": XTimeOptions,
    "sinter_x_remote_store": XRemoteStore,
    "sinter_x_event": XEvent,
}
# Result and arguments of each function.
PROTOTYPES: Dict[str, Tuple[Any, Tuple[Any, ...]]] = {
    "sinter_chain_create": (c_int32, (POINTER(c_void_p), POINTER(c_void_p))),
    "sinter_chain_retain": (None, (c_void_p,)),
    "sinter_chain_release": (None, (c_void_p,)),
    "sinter_chain_add_input": (c_int32, (c_void_p, c_int32, c_uint32, POINTER(c_int64), POINTER(InputOptions),
        POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_scalar": (c_int32, (c_void_p, c_double, c_int32, POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_iota": (c_int32, (c_void_p, c_int32, c_uint32, POINTER(c_int64), c_int32, POINTER(c_int32),
        POINTER(c_void_p))),
    "sinter_chain_add_matmul": (c_int32, (c_void_p, c_int32, c_int32, POINTER(MatmulOptions), POINTER(c_int32),
        POINTER(c_void_p))),
    "sinter_chain_add_grouped_matmul": (c_int32, (c_void_p, c_int32, c_int32, c_int32, POINTER(MatmulOptions),
        POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_grouped_matmul_ends": (c_int32, (c_void_p, c_int32, c_int32, c_int32, POINTER(MatmulOptions),
        POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_all_reduce": (c_int32, (c_void_p, c_int32, c_int32, POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_all_gather": (c_int32, (c_void_p, c_int32, c_int32, c_int32, POINTER(c_int32),
        POINTER(c_void_p))),
    "sinter_chain_add_reduce_scatter": (c_int32, (c_void_p, c_int32, c_int32, c_int32, POINTER(c_int32),
        POINTER(c_void_p))),
    "sinter_chain_add_conv2d": (c_int32, (c_void_p, c_int32, c_int32, POINTER(Conv2dOptions), POINTER(c_int32),
        POINTER(c_void_p))),
    "sinter_chain_add_unary": (c_int32, (c_void_p, c_int32, c_int32, POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_binary": (c_int32, (c_void_p, c_int32, c_int32, c_int32, POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_compare": (c_int32, (c_void_p, c_int32, c_int32, c_int32, POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_select": (c_int32, (c_void_p, c_int32, c_int32, c_int32, POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_cast": (c_int32, (c_void_p, c_int32, c_int32, POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_broadcast": (c_int32, (c_void_p, c_int32, c_uint32, POINTER(c_int64), POINTER(c_int32),
        POINTER(c_void_p))),
    "sinter_chain_add_transpose": (c_int32, (c_void_p, c_int32, c_uint32, POINTER(c_int32), POINTER(c_int32),
        POINTER(c_void_p))),
    "sinter_chain_add_reshape": (c_int32, (c_void_p, c_int32, c_uint32, POINTER(c_int64), POINTER(c_int32),
        POINTER(c_void_p))),
    "sinter_chain_add_slice": (c_int32, (c_void_p, c_int32, c_uint32, POINTER(c_int64), POINTER(c_int64),
        POINTER(c_int64), POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_concat": (c_int32, (c_void_p, c_uint32, POINTER(c_int32), c_int32, POINTER(c_int32),
        POINTER(c_void_p))),
    "sinter_chain_add_gather": (c_int32, (c_void_p, c_int32, c_int32, c_int32, POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_scatter": (c_int32, (c_void_p, c_int32, c_int32, c_int32, POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_top_k": (c_int32, (c_void_p, c_int32, c_int32, POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_cumsum": (c_int32, (c_void_p, c_int32, POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_random": (c_int32, (c_void_p, c_int32, c_int32, c_uint32, POINTER(c_int64), POINTER(c_int32),
        POINTER(c_void_p))),
    "sinter_chain_add_window": (c_int32, (c_void_p, c_int32, c_int32, POINTER(WindowOptions), POINTER(c_int32),
        POINTER(c_void_p))),
    "sinter_chain_add_reduce": (c_int32, (c_void_p, c_int32, c_int32, c_uint32, POINTER(c_int32),
        POINTER(ReduceOptions), POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_activation": (c_int32, (c_void_p, c_int32, c_int32, POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_softplus": (c_int32, (c_void_p, c_int32, POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_clamp": (c_int32, (c_void_p, c_int32, c_double, c_double, POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_max_pool2d": (c_int32, (c_void_p, c_int32, POINTER(WindowOptions), POINTER(c_int32),
        POINTER(c_void_p))),
    "sinter_chain_add_avg_pool2d": (c_int32, (c_void_p, c_int32, POINTER(WindowOptions), POINTER(c_int32),
        POINTER(c_void_p))),
    "sinter_chain_add_argmax": (c_int32, (c_void_p, c_int32, POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_argmin": (c_int32, (c_void_p, c_int32, POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_swiglu": (c_int32, (c_void_p, c_int32, c_int32, POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_softmax": (c_int32, (c_void_p, c_int32, c_int32, POINTER(SoftmaxOptions), POINTER(c_int32),
        POINTER(c_void_p))),
    "sinter_chain_add_attention": (c_int32, (c_void_p, c_int32, c_int32, c_int32, POINTER(AttentionOptions),
        POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_layernorm": (c_int32, (c_void_p, c_int32, POINTER(NormOptions), POINTER(c_int32),
        POINTER(c_void_p))),
    "sinter_chain_add_rmsnorm": (c_int32, (c_void_p, c_int32, POINTER(NormOptions), POINTER(c_int32),
        POINTER(c_void_p))),
    "sinter_chain_add_rope": (c_int32, (c_void_p, c_int32, c_int32, c_int32, POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_lstm_cell": (c_int32, (c_void_p, c_int32, c_int32, POINTER(c_int32), POINTER(c_int32),
        POINTER(c_void_p))),
    "sinter_chain_add_gru_cell": (c_int32, (c_void_p, c_int32, c_int32, c_int32, POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_next_token": (c_int32, (c_void_p, c_int32, c_int32, c_int32, POINTER(NextTokenOptions),
        POINTER(c_int32), POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_linear": (c_int32, (c_void_p, c_int32, c_int32, POINTER(LinearOptions), POINTER(c_int32),
        POINTER(c_void_p))),
    "sinter_chain_add_gemm_chain": (c_int32, (c_void_p, c_int32, c_int32, c_int32, POINTER(GemmChainOptions),
        POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_gated_ffn": (c_int32, (c_void_p, c_int32, c_int32, c_int32, c_int32, POINTER(GatedFfnOptions),
        POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_grouped_gated_ffn": (c_int32, (c_void_p, c_int32, c_int32, c_int32, c_int32, c_int32,
        POINTER(GroupedGatedFfnOptions), POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_quantize": (c_int32, (c_void_p, c_int32, POINTER(QuantizeOptions), POINTER(Scaled),
        POINTER(c_void_p))),
    "sinter_chain_add_dequantize_u4": (c_int32, (c_void_p, c_int32, c_int32, c_int32, POINTER(c_int32),
        POINTER(c_void_p))),
    "sinter_chain_add_dequantize_e2m1": (c_int32, (c_void_p, c_int32, c_int32, POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_dequantize_u4_packed": (c_int32, (c_void_p, c_int32, c_int32, c_int32, POINTER(c_int32),
        POINTER(c_void_p))),
    "sinter_chain_add_dequantize_e2m1_packed": (c_int32, (c_void_p, c_int32, c_int32, POINTER(c_int32),
        POINTER(c_void_p))),
    "sinter_chain_add_pack_codes": (c_int32, (c_void_p, c_int32, c_int32, POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_pack_scales": (c_int32, (c_void_p, c_int32, c_int32, POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_pack_zeros": (c_int32, (c_void_p, c_int32, c_int32, POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_dequantize_e8m0": (c_int32, (c_void_p, c_int32, POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_scaled_matmul": (c_int32, (c_void_p, Scaled, Scaled, POINTER(LinearOptions), POINTER(c_int32),
        POINTER(c_void_p))),
    "sinter_chain_add_scaled_gemm_chain": (c_int32, (c_void_p, Scaled, Scaled, Scaled, POINTER(QuantizeOptions),
        POINTER(GemmChainOptions), POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_scaled_gated_ffn": (c_int32, (c_void_p, Scaled, Scaled, Scaled, Scaled, POINTER(QuantizeOptions),
        POINTER(GatedFfnOptions), POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_scaled_grouped_matmul": (c_int32, (c_void_p, Scaled, Scaled, c_int32, POINTER(MatmulOptions),
        POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_scaled_grouped_gated_ffn": (c_int32, (c_void_p, Scaled, c_int32, c_int32, Scaled, Scaled,
        POINTER(QuantizeOptions), POINTER(GroupedGatedFfnOptions), POINTER(c_int32), POINTER(c_void_p))),
    "sinter_chain_add_output": (c_int32, (c_void_p, c_int32, POINTER(OutputOptions), POINTER(c_void_p))),
    "sinter_chain_finish": (c_int32, (c_void_p, POINTER(c_void_p))),
    "sinter_chain_get_input_count": (c_uint32, (c_void_p,)),
    "sinter_chain_get_output_count": (c_uint32, (c_void_p,)),
    "sinter_chain_uses_m": (c_int32, (c_void_p,)),
    "sinter_chain_get_buffer": (c_int32, (c_void_p, c_uint32, c_int64, POINTER(TensorInfo), POINTER(c_void_p))),
    "sinter_group_get_room_bytes": (c_uint64, (c_int32, c_uint64)),
    "sinter_group_create": (c_int32, (c_void_p, POINTER(GroupOptions), POINTER(c_void_p), POINTER(c_void_p))),
    "sinter_group_create_local": (c_int32, (POINTER(c_void_p), c_uint32, POINTER(GroupOptions), POINTER(c_void_p),
        POINTER(c_void_p))),
    "sinter_group_retain": (None, (c_void_p,)),
    "sinter_group_release": (None, (c_void_p,)),
    "sinter_group_get_status": (c_int32, (c_void_p, POINTER(c_int32), POINTER(c_void_p))),
    "sinter_plan_bind_group": (c_int32, (c_void_p, c_uint32, POINTER(c_uint64), c_uint64, c_void_p, POINTER(c_void_p),
        POINTER(c_void_p))),
    "sinter_group_abort": (c_int32, (c_void_p, POINTER(c_void_p))),
    "sinter_group_close": (c_int32, (c_void_p, POINTER(c_void_p))),
    "sinter_version": (c_uint32, ()),
    "sinter_build_info": (c_char_p, ()),
    "sinter_status_name": (c_char_p, (c_int32,)),
    "sinter_error_retain": (None, (c_void_p,)),
    "sinter_error_release": (None, (c_void_p,)),
    "sinter_error_get_code": (c_int32, (c_void_p,)),
    "sinter_error_get_message": (c_char_p, (c_void_p,)),
    "sinter_error_get_op": (c_int32, (c_void_p,)),
    "sinter_error_get_field": (c_char_p, (c_void_p,)),
    "sinter_error_get_value": (c_char_p, (c_void_p,)),
    "sinter_error_get_bound": (c_char_p, (c_void_p,)),
    "sinter_error_get_driver_result": (c_int32, (c_void_p,)),
    "sinter_error_get_compile_log": (c_char_p, (c_void_p,)),
    "sinter_context_create": (c_int32, (POINTER(ContextOptions), POINTER(c_void_p), POINTER(c_void_p))),
    "sinter_context_retain": (None, (c_void_p,)),
    "sinter_context_release": (None, (c_void_p,)),
    "sinter_context_has_device": (c_int32, (c_void_p,)),
    "sinter_context_get_tuning_digest": (c_int32, (c_void_p, POINTER(c_uint8), POINTER(c_void_p))),
    "sinter_context_deny_toolchains": (c_int32, (c_void_p, c_char_p, POINTER(c_void_p))),
    "sinter_context_get_stats": (c_int32, (c_void_p, POINTER(Stats), POINTER(c_void_p))),
    "sinter_context_write_metrics": (c_int32, (c_void_p, c_size_t, c_char_p, POINTER(c_size_t), POINTER(c_void_p))),
    "sinter_cancel_create": (c_int32, (POINTER(c_void_p), POINTER(c_void_p))),
    "sinter_cancel_retain": (None, (c_void_p,)),
    "sinter_cancel_release": (None, (c_void_p,)),
    "sinter_cancel_request": (None, (c_void_p,)),
    "sinter_prepare": (c_int32, (c_void_p, c_void_p, c_int64, POINTER(PrepareOptions), POINTER(c_void_p),
        POINTER(c_void_p))),
    "sinter_context_search": (c_int32, (c_void_p, c_void_p, c_int64, POINTER(PrepareOptions), POINTER(c_void_p),
        POINTER(c_void_p))),
    "sinter_search_retain": (None, (c_void_p,)),
    "sinter_search_release": (None, (c_void_p,)),
    "sinter_search_get_bucket": (c_int64, (c_void_p,)),
    "sinter_search_get_kernel_count": (c_uint32, (c_void_p,)),
    "sinter_search_get_predicted_us": (c_double, (c_void_p,)),
    "sinter_search_get_unfused_us": (c_double, (c_void_p,)),
    "sinter_search_get_workspace_size": (c_uint64, (c_void_p,)),
    "sinter_search_get_choice": (c_int32, (c_void_p,)),
    "sinter_search_is_measured": (c_int32, (c_void_p,)),
    "sinter_search_get_name": (c_char_p, (c_void_p,)),
    "sinter_search_get_note": (c_char_p, (c_void_p,)),
    "sinter_prepare_many": (c_int32, (c_void_p, c_uint32, POINTER(c_void_p), POINTER(c_int64), POINTER(PrepareOptions),
        POINTER(c_void_p), POINTER(c_int32), POINTER(c_void_p))),
    "sinter_prepare_async": (c_int32, (c_void_p, c_void_p, c_int64, POINTER(PrepareOptions), POINTER(c_void_p),
        POINTER(c_void_p))),
    "sinter_pending_retain": (None, (c_void_p,)),
    "sinter_pending_release": (None, (c_void_p,)),
    "sinter_pending_poll": (c_int32, (c_void_p,)),
    "sinter_pending_get": (c_int32, (c_void_p, c_int64, POINTER(c_void_p), POINTER(c_void_p))),
    "sinter_pending_on_ready": (c_int32, (c_void_p, ReadyCallback, c_void_p, POINTER(c_void_p))),
    "sinter_pending_get_fd": (c_int32, (c_void_p,)),
    "sinter_slot_create": (c_int32, (c_void_p, c_void_p, c_int64, POINTER(PrepareOptions), c_uint32, POINTER(c_void_p),
        POINTER(c_void_p))),
    "sinter_slot_retain": (None, (c_void_p,)),
    "sinter_slot_release": (None, (c_void_p,)),
    "sinter_slot_acquire": (c_int32, (c_void_p, POINTER(c_void_p), POINTER(c_void_p))),
    "sinter_slot_get_generation": (c_uint64, (c_void_p,)),
    "sinter_slot_offer": (c_int32, (c_void_p, c_void_p, POINTER(c_void_p))),
    "sinter_slot_switch": (c_int32, (c_void_p, POINTER(c_void_p))),
    "sinter_slot_get_build": (c_int32, (c_void_p, POINTER(c_void_p), POINTER(c_void_p))),
    "sinter_tuning_set_create": (c_int32, (POINTER(c_void_p), POINTER(c_void_p))),
    "sinter_tuning_set_retain": (None, (c_void_p,)),
    "sinter_tuning_set_release": (None, (c_void_p,)),
    "sinter_tuning_set_add_file": (c_int32, (c_void_p, c_char_p, POINTER(c_void_p))),
    "sinter_tuning_set_write": (c_int32, (c_void_p, c_char_p, POINTER(c_void_p))),
    "sinter_tuning_set_get_count": (c_uint64, (c_void_p,)),
    "sinter_tuning_set_get_digest": (c_int32, (c_void_p, POINTER(c_uint8), POINTER(c_void_p))),
    "sinter_tune": (c_int32, (c_void_p, c_void_p, c_int64, POINTER(TuneOptions), POINTER(c_void_p))),
    "sinter_plan_retain": (None, (c_void_p,)),
    "sinter_plan_release": (None, (c_void_p,)),
    "sinter_plan_get_digest": (c_int32, (c_void_p, POINTER(c_uint8), POINTER(c_void_p))),
    "sinter_plan_get_bucket": (c_int64, (c_void_p,)),
    "sinter_plan_get_max_m": (c_int64, (c_void_p,)),
    "sinter_plan_get_buffer_count": (c_uint32, (c_void_p,)),
    "sinter_plan_get_workspace_size": (c_uint64, (c_void_p,)),
    "sinter_plan_init_workspace": (c_int32, (c_void_p, c_uint64, c_uint64, c_void_p, POINTER(c_void_p))),
    "sinter_plan_explain": (c_int32, (c_void_p, c_size_t, c_char_p, POINTER(c_size_t), POINTER(c_void_p))),
    "sinter_plan_bind": (c_int32, (c_void_p, c_uint32, POINTER(c_uint64), c_uint64, POINTER(c_void_p),
        POINTER(c_void_p))),
    "sinter_binding_retain": (None, (c_void_p,)),
    "sinter_binding_release": (None, (c_void_p,)),
    "sinter_binding_launch": (c_int32, (c_void_p, c_void_p, c_uint32, POINTER(c_int64), c_uint32, POINTER(c_void_p))),
    "sinter_plan_launch": (c_int32, (c_void_p, c_void_p, c_uint32, POINTER(c_int64), c_uint32, POINTER(c_uint64),
        c_uint64, c_uint32, POINTER(c_void_p))),
    "sinter_binding_add_to_graph": (c_int32, (c_void_p, c_void_p, c_uint32, POINTER(c_void_p), c_uint32,
        POINTER(c_int64), c_uint32, POINTER(c_void_p), POINTER(c_void_p))),
    "sinter_graph_nodes_retain": (None, (c_void_p,)),
    "sinter_graph_nodes_release": (None, (c_void_p,)),
    "sinter_graph_nodes_get_count": (c_uint32, (c_void_p,)),
    "sinter_graph_nodes_get": (c_void_p, (c_void_p, c_uint32)),
    "sinter_graph_nodes_update": (c_int32, (c_void_p, c_void_p, c_void_p, c_uint32, POINTER(c_int64),
        POINTER(c_void_p))),
    "sinter_x_text_release": (None, (c_void_p,)),
    "sinter_x_text_get": (c_char_p, (c_void_p,)),
    "sinter_x_chain_from_text": (c_int32, (c_char_p, POINTER(c_void_p), POINTER(c_int64), POINTER(c_void_p),
        POINTER(c_void_p))),
    "sinter_x_problem_help": (c_int32, (c_char_p, POINTER(c_void_p), POINTER(c_void_p))),
    "sinter_x_chain_from_json": (c_int32, (c_char_p, POINTER(c_void_p), POINTER(c_void_p))),
    "sinter_x_chain_to_json": (c_int32, (c_void_p, POINTER(c_void_p), POINTER(c_void_p))),
    "sinter_x_chain_to_text": (c_int32, (c_void_p, POINTER(c_void_p), POINTER(c_void_p))),
    "sinter_x_chain_get_digest": (c_int32, (c_void_p, POINTER(c_uint8), POINTER(c_void_p))),
    "sinter_x_chain_get_flops": (c_double, (c_void_p, c_int64)),
    "sinter_x_chain_get_value": (c_int32, (c_void_p, c_int32, POINTER(TensorInfo), POINTER(c_void_p))),
    "sinter_x_reference_run": (c_int32, (c_void_p, c_int64, c_uint32, POINTER(c_void_p), c_uint32, POINTER(c_void_p),
        c_uint32, POINTER(c_void_p))),
    "sinter_x_reference_check": (c_int32, (c_void_p, c_int64, c_uint32, POINTER(c_void_p), c_uint32, POINTER(c_void_p),
        c_int64, c_uint32, POINTER(XCheck), POINTER(c_void_p))),
    "sinter_x_device_alloc": (c_int32, (c_void_p, c_uint64, POINTER(c_uint64), POINTER(c_void_p))),
    "sinter_x_device_free": (None, (c_void_p, c_uint64, c_uint64)),
    "sinter_x_device_fill": (c_int32, (c_void_p, c_uint64, c_uint64, c_uint8, POINTER(c_void_p))),
    "sinter_x_time": (c_int32, (c_void_p, c_uint32, POINTER(c_void_p), c_uint32, POINTER(c_int64),
        POINTER(XTimeOptions), POINTER(c_double), POINTER(c_void_p))),
    "sinter_x_context_describe": (c_int32, (c_void_p, POINTER(c_void_p), POINTER(c_void_p))),
    "sinter_x_context_create": (c_int32, (POINTER(ContextOptions), POINTER(XRemoteStore), POINTER(c_void_p),
        POINTER(c_void_p))),
    "sinter_x_cache_flush": (c_int32, (c_void_p, POINTER(c_void_p))),
    "sinter_x_context_on_event": (c_int32, (c_void_p, XEventCallback, c_void_p, POINTER(c_void_p))),
    "sinter_x_end_calls": (c_int32, (XFunction, POINTER(c_void_p))),
    "sinter_x_plan_to_json": (c_int32, (c_void_p, POINTER(c_void_p), POINTER(c_void_p))),
    "sinter_x_plan_summary": (c_int32, (c_void_p, POINTER(c_void_p), POINTER(c_void_p))),
    "sinter_x_plan_svg": (c_int32, (c_void_p, POINTER(c_void_p), POINTER(c_void_p))),
    "sinter_x_plan_get_source": (c_int32, (c_void_p, c_uint32, POINTER(c_void_p), POINTER(c_void_p))),
    "sinter_x_tune": (c_int32, (c_void_p, c_void_p, c_int64, POINTER(TuneOptions), POINTER(c_void_p),
        POINTER(c_void_p))),
}
