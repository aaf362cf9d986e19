"""The C ABI of ``include/sinter/sinter.h`` and the experimental functions that the package uses, as ctypes declarations.

The wheel carries the library that it was built with, so the experimental functions are those of the same commit.
``tests/bindings/python`` compares every struct with the header.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from typing import Any, Dict, Tuple

MAX_RANK = 6
DIM_M = -1
INPUT_CONSTANT = 1
TRANSPOSE_A = 1
TRANSPOSE_B = 2
REDUCE_KEEPDIMS = 1
QUANTIZE_UE8M0 = 1
ACCUMULATE_FAST = 1
LAUNCH_PDL = 1
GRAPH_PDL = 1
PREPARE_BATCH_INVARIANT = 1
PREPARE_MUST_HIT = 2
PREPARE_VERIFY = 4
PREPARE_NO_BUILD = 8
SLOT_MANUAL = 1
TUNE_BATCH_INVARIANT = 1
TUNE_KEEP = 2

# A context's pointer-sized user_data is c_void_p here: an integer key of the caller's.
LogCallback = ctypes.CFUNCTYPE(None, c_void_p, c_int32, c_char_p)
ProgressCallback = ctypes.CFUNCTYPE(None, c_void_p, c_char_p, c_double)
ReadyCallback = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_int32)


class _Options(ctypes.Structure):
    """A struct that begins with its own size; the rest is zero, which means the defaults."""

    def __init__(self, **values: Any) -> None:
        super().__init__(struct_size=ctypes.sizeof(type(self)), **values)


class ContextOptions(_Options):
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
    ]


class Stats(_Options):
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
    ]


class InputOptions(_Options):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("name", c_char_p),
        ("strides", POINTER(c_int64)),
        ("stride_m_powers", POINTER(c_int32)),
    ]


class MatmulOptions(_Options):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32)]


class Conv2dOptions(_Options):
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


class ReduceOptions(_Options):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32)]


class SoftmaxOptions(_Options):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("scale", c_double),
        ("mask", c_int32),
        ("reserved", c_int32),
    ]


class NormOptions(_Options):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("eps", c_double),
        ("gamma", c_int32),
        ("beta", c_int32),
    ]


class LinearOptions(_Options):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("layout", c_int32),
        ("activation", c_int32),
        ("bias", c_int32),
        ("reserved", c_int32),
    ]


class GemmChainOptions(_Options):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("layout", c_int32),
        ("activation", c_int32),
        ("bias1", c_int32),
        ("bias2", c_int32),
    ]


class GatedFfnOptions(_Options):
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


class Scaled(ctypes.Structure):
    _fields_ = [("codes", c_int32), ("scale", c_int32)]


class QuantizeOptions(_Options):
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


class OutputOptions(_Options):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("strides", POINTER(c_int64)),
        ("stride_m_powers", POINTER(c_int32)),
        ("alias", c_int32),
        ("reserved", c_int32),
    ]


class TensorInfo(_Options):
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


class PrepareOptions(_Options):
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
    ]


class TuneOptions(_Options):
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


# The C names of the structs above.
STRUCTS: Dict[str, type] = {
    "sinter_context_options": ContextOptions,
    "sinter_stats": Stats,
    "sinter_input_options": InputOptions,
    "sinter_matmul_options": MatmulOptions,
    "sinter_conv2d_options": Conv2dOptions,
    "sinter_reduce_options": ReduceOptions,
    "sinter_softmax_options": SoftmaxOptions,
    "sinter_norm_options": NormOptions,
    "sinter_linear_options": LinearOptions,
    "sinter_gemm_chain_options": GemmChainOptions,
    "sinter_gated_ffn_options": GatedFfnOptions,
    "sinter_scaled": Scaled,
    "sinter_quantize_options": QuantizeOptions,
    "sinter_output_options": OutputOptions,
    "sinter_tensor_info": TensorInfo,
    "sinter_prepare_options": PrepareOptions,
    "sinter_tune_options": TuneOptions,
}

_Prototype = Tuple[Any, Tuple[Any, ...]]
_handle = c_void_p
_out = POINTER(c_void_p)
_error = POINTER(c_void_p)
_value = c_int32
_out_value = POINTER(c_int32)
_dims = POINTER(c_int64)
_digest = POINTER(c_uint8)


def _fallible(*arguments: Any) -> _Prototype:
    """A function that returns a status and takes a last ``sinter_error**``."""
    return c_int32, (*arguments, _error)


PROTOTYPES: Dict[str, _Prototype] = {
    "sinter_version": (c_uint32, ()),
    "sinter_build_info": (c_char_p, ()),
    "sinter_error_release": (None, (_handle,)),
    "sinter_error_get_code": (c_int32, (_handle,)),
    "sinter_error_get_message": (c_char_p, (_handle,)),
    "sinter_error_get_driver_result": (c_int32, (_handle,)),
    "sinter_error_get_compile_log": (c_char_p, (_handle,)),
    "sinter_context_create": _fallible(POINTER(ContextOptions), _out),
    "sinter_context_release": (None, (_handle,)),
    "sinter_context_has_device": (c_int32, (_handle,)),
    "sinter_context_get_tuning_digest": _fallible(_handle, _digest),
    "sinter_context_deny_toolchains": _fallible(_handle, c_char_p),
    "sinter_context_get_stats": _fallible(_handle, POINTER(Stats)),
    "sinter_context_write_metrics": _fallible(_handle, c_size_t, c_char_p, POINTER(c_size_t)),
    "sinter_chain_create": _fallible(_out),
    "sinter_chain_release": (None, (_handle,)),
    "sinter_chain_add_input": _fallible(_handle, c_int32, c_uint32, _dims, POINTER(InputOptions), _out_value),
    "sinter_chain_add_scalar": _fallible(_handle, c_double, c_int32, _out_value),
    "sinter_chain_add_iota": _fallible(_handle, c_int32, c_uint32, _dims, c_int32, _out_value),
    "sinter_chain_add_matmul": _fallible(_handle, _value, _value, POINTER(MatmulOptions), _out_value),
    "sinter_chain_add_conv2d": _fallible(_handle, _value, _value, POINTER(Conv2dOptions), _out_value),
    "sinter_chain_add_unary": _fallible(_handle, c_int32, _value, _out_value),
    "sinter_chain_add_binary": _fallible(_handle, c_int32, _value, _value, _out_value),
    "sinter_chain_add_compare": _fallible(_handle, c_int32, _value, _value, _out_value),
    "sinter_chain_add_select": _fallible(_handle, _value, _value, _value, _out_value),
    "sinter_chain_add_cast": _fallible(_handle, _value, c_int32, _out_value),
    "sinter_chain_add_broadcast": _fallible(_handle, _value, c_uint32, _dims, _out_value),
    "sinter_chain_add_transpose": _fallible(_handle, _value, c_uint32, POINTER(c_int32), _out_value),
    "sinter_chain_add_reshape": _fallible(_handle, _value, c_uint32, _dims, _out_value),
    "sinter_chain_add_slice": _fallible(_handle, _value, c_uint32, _dims, _dims, _dims, _out_value),
    "sinter_chain_add_concat": _fallible(_handle, c_uint32, POINTER(_value), c_int32, _out_value),
    "sinter_chain_add_reduce": _fallible(
        _handle, c_int32, _value, c_uint32, POINTER(c_int32), POINTER(ReduceOptions), _out_value
    ),
    "sinter_chain_add_activation": _fallible(_handle, c_int32, _value, _out_value),
    "sinter_chain_add_softplus": _fallible(_handle, _value, _out_value),
    "sinter_chain_add_clamp": _fallible(_handle, _value, c_double, c_double, _out_value),
    "sinter_chain_add_swiglu": _fallible(_handle, _value, _value, _out_value),
    "sinter_chain_add_softmax": _fallible(_handle, _value, c_int32, POINTER(SoftmaxOptions), _out_value),
    "sinter_chain_add_layernorm": _fallible(_handle, _value, POINTER(NormOptions), _out_value),
    "sinter_chain_add_rmsnorm": _fallible(_handle, _value, POINTER(NormOptions), _out_value),
    "sinter_chain_add_rope": _fallible(_handle, _value, _value, _value, _out_value),
    "sinter_chain_add_lstm_cell": _fallible(_handle, _value, _value, _out_value, _out_value),
    "sinter_chain_add_gru_cell": _fallible(_handle, _value, _value, _value, _out_value),
    "sinter_chain_add_linear": _fallible(_handle, _value, _value, POINTER(LinearOptions), _out_value),
    "sinter_chain_add_gemm_chain": _fallible(_handle, _value, _value, _value, POINTER(GemmChainOptions), _out_value),
    "sinter_chain_add_gated_ffn": _fallible(
        _handle, _value, _value, _value, _value, POINTER(GatedFfnOptions), _out_value
    ),
    "sinter_chain_add_quantize": _fallible(_handle, _value, POINTER(QuantizeOptions), POINTER(Scaled)),
    "sinter_chain_add_scaled_matmul": _fallible(_handle, Scaled, Scaled, POINTER(LinearOptions), _out_value),
    "sinter_chain_add_scaled_gemm_chain": _fallible(
        _handle, Scaled, Scaled, Scaled, POINTER(QuantizeOptions), POINTER(GemmChainOptions), _out_value
    ),
    "sinter_chain_add_scaled_gated_ffn": _fallible(
        _handle, Scaled, Scaled, Scaled, Scaled, POINTER(QuantizeOptions), POINTER(GatedFfnOptions), _out_value
    ),
    "sinter_chain_add_output": _fallible(_handle, _value, POINTER(OutputOptions)),
    "sinter_chain_finish": _fallible(_handle),
    "sinter_chain_get_input_count": (c_uint32, (_handle,)),
    "sinter_chain_get_output_count": (c_uint32, (_handle,)),
    "sinter_chain_uses_m": (c_int32, (_handle,)),
    "sinter_chain_get_buffer": _fallible(_handle, c_uint32, c_int64, POINTER(TensorInfo)),
    "sinter_cancel_create": _fallible(_out),
    "sinter_cancel_release": (None, (_handle,)),
    "sinter_cancel_request": (None, (_handle,)),
    "sinter_prepare_many": _fallible(
        _handle, c_uint32, _out, POINTER(c_int64), POINTER(PrepareOptions), _out, POINTER(c_int32)
    ),
    "sinter_prepare_async": _fallible(_handle, _handle, c_int64, POINTER(PrepareOptions), _out),
    "sinter_pending_release": (None, (_handle,)),
    "sinter_pending_poll": (c_int32, (_handle,)),
    "sinter_pending_on_ready": _fallible(_handle, ReadyCallback, c_void_p),
    "sinter_pending_get_fd": (c_int32, (_handle,)),
    "sinter_pending_get": _fallible(_handle, c_int64, _out),
    "sinter_slot_create": _fallible(_handle, _handle, c_int64, POINTER(PrepareOptions), c_uint32, _out),
    "sinter_slot_release": (None, (_handle,)),
    "sinter_slot_acquire": _fallible(_handle, _out),
    "sinter_slot_get_generation": (c_uint64, (_handle,)),
    "sinter_slot_offer": _fallible(_handle, _handle),
    "sinter_slot_switch": _fallible(_handle),
    "sinter_slot_get_build": _fallible(_handle, _out),
    "sinter_tuning_set_create": _fallible(_out),
    "sinter_tuning_set_release": (None, (_handle,)),
    "sinter_tuning_set_add_file": _fallible(_handle, c_char_p),
    "sinter_tuning_set_write": _fallible(_handle, c_char_p),
    "sinter_tuning_set_get_count": (c_uint64, (_handle,)),
    "sinter_tuning_set_get_digest": _fallible(_handle, _digest),
    "sinter_plan_release": (None, (_handle,)),
    "sinter_plan_get_digest": _fallible(_handle, _digest),
    "sinter_plan_get_bucket": (c_int64, (_handle,)),
    "sinter_plan_get_buffer_count": (c_uint32, (_handle,)),
    "sinter_plan_get_workspace_size": (c_uint64, (_handle,)),
    "sinter_plan_init_workspace": _fallible(_handle, c_uint64, c_uint64, c_void_p),
    "sinter_plan_explain": _fallible(_handle, c_size_t, c_char_p, POINTER(c_size_t)),
    "sinter_plan_bind": _fallible(_handle, c_uint32, POINTER(c_uint64), c_uint64, _out),
    "sinter_binding_release": (None, (_handle,)),
    "sinter_binding_add_to_graph": _fallible(
        _handle, c_void_p, c_uint32, POINTER(c_void_p), c_uint32, POINTER(c_int64), c_uint32, _out
    ),
    "sinter_graph_nodes_release": (None, (_handle,)),
    "sinter_graph_nodes_get_count": (c_uint32, (_handle,)),
    "sinter_graph_nodes_get": (c_void_p, (_handle, c_uint32)),
    "sinter_graph_nodes_update": _fallible(_handle, c_void_p, _handle, c_uint32, POINTER(c_int64)),
    "sinter_binding_launch": _fallible(_handle, c_void_p, c_uint32, POINTER(c_int64), c_uint32),
    "sinter_plan_launch": _fallible(
        _handle, c_void_p, c_uint32, POINTER(c_int64), c_uint32, POINTER(c_uint64), c_uint64, c_uint32
    ),
    # Experimental: the header promises nothing across versions.
    "sinter_x_text_release": (None, (_handle,)),
    "sinter_x_text_get": (c_char_p, (_handle,)),
    "sinter_x_chain_from_text": _fallible(c_char_p, _out, POINTER(c_int64), _out),
    "sinter_x_chain_from_json": _fallible(c_char_p, _out),
    "sinter_x_chain_to_json": _fallible(_handle, _out),
    "sinter_x_chain_to_text": _fallible(_handle, _out),
    "sinter_x_chain_get_digest": _fallible(_handle, _digest),
    "sinter_x_chain_get_flops": (c_double, (_handle, c_int64)),
    "sinter_x_problem_help": _fallible(c_char_p, _out),
    "sinter_x_context_describe": _fallible(_handle, _out),
    "sinter_x_cache_flush": _fallible(_handle),
    "sinter_x_end_calls": _fallible(c_void_p),
    "sinter_x_device_alloc": _fallible(_handle, c_uint64, POINTER(c_uint64)),
    "sinter_x_device_free": (None, (_handle, c_uint64, c_uint64)),
    "sinter_x_device_fill": _fallible(_handle, c_uint64, c_uint64, c_uint8),
    "sinter_x_reference_run": _fallible(
        _handle, c_int64, c_uint32, POINTER(c_void_p), c_uint32, POINTER(c_void_p), c_uint32
    ),
    "sinter_x_plan_get_name": (c_char_p, (_handle,)),
    "sinter_x_plan_get_kernel_count": (c_uint32, (_handle,)),
    "sinter_x_plan_get_predicted_us": (c_double, (_handle,)),
    "sinter_x_plan_to_json": _fallible(_handle, _out),
    "sinter_x_plan_summary": _fallible(_handle, _out),
    "sinter_x_plan_svg": _fallible(_handle, _out),
    "sinter_x_plan_get_source": _fallible(_handle, c_uint32, _out),
    "sinter_x_tune": _fallible(_handle, _handle, c_int64, POINTER(TuneOptions), _out),
}
