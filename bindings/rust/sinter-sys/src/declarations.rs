//! Written by ./dev bindings from include/sinter/*.h; do not edit.
use std::os::raw::{c_char, c_void}; // core::ffi has them since Rust 1.64 and 1.30

opaque! {
    sinter_context sinter_chain sinter_plan sinter_binding sinter_cancel sinter_pending sinter_search sinter_slot sinter_error CUstream_st sinter_group sinter_tuning_set CUgraph_st CUgraphNode_st CUgraphExec_st sinter_graph_nodes
}
pub type sinter_stream = *mut CUstream_st;
pub type sinter_device_ptr = u64;
pub type sinter_status = i32;
pub type sinter_dtype = i32;
pub type sinter_unary = i32;
pub type sinter_binary = i32;
pub type sinter_compare = i32;
pub type sinter_reduce = i32;
pub type sinter_activation = i32;
pub type sinter_layout = i32;
pub type sinter_filter = i32;
pub type sinter_checkpoint = i32;
pub type sinter_switch = i32;
pub type sinter_log_level = i32;
pub type sinter_value = i32;
pub type sinter_log_callback = Option<unsafe extern "C" fn(user_data: usize, level: sinter_log_level, message: *const c_char)>;
pub type sinter_progress_callback = Option<unsafe extern "C" fn(user_data: usize, stage: *const c_char, fraction: f64)>;
pub type sinter_granularity = i32;
pub type sinter_exchange = Option<unsafe extern "C" fn(user_data: usize, send: *const c_void, bytes: usize, recv: *mut c_void) -> sinter_status>;
pub type sinter_choice = i32;
pub type sinter_ready_callback = Option<unsafe extern "C" fn(user_data: usize, pending: *const sinter_pending, status: sinter_status)>;
pub type sinter_graph = *mut CUgraph_st;
pub type sinter_graph_node = *mut CUgraphNode_st;
pub type sinter_graph_exec = *mut CUgraphExec_st;

constants! {
    sinter_status: SINTER_OK = 0, SINTER_CANCELLED = 1, SINTER_UNKNOWN = 2, SINTER_INVALID_ARGUMENT = 3,
        SINTER_DEADLINE_EXCEEDED = 4, SINTER_NOT_FOUND = 5, SINTER_ALREADY_EXISTS = 6, SINTER_PERMISSION_DENIED = 7,
        SINTER_RESOURCE_EXHAUSTED = 8, SINTER_FAILED_PRECONDITION = 9, SINTER_ABORTED = 10, SINTER_OUT_OF_RANGE = 11,
        SINTER_UNIMPLEMENTED = 12, SINTER_INTERNAL = 13, SINTER_UNAVAILABLE = 14, SINTER_DATA_LOSS = 15,
        SINTER_UNAUTHENTICATED = 16, SINTER_ERROR_COMPILE_FAILED = 100, SINTER_ERROR_NO_LEGAL_PLAN = 101,
        SINTER_ERROR_DRIVER = 102, SINTER_ERROR_CACHE_CORRUPT = 103, SINTER_ERROR_STREAM_CAPTURING = 104,
        SINTER_ERROR_CACHE_MISS = 105;
    sinter_dtype: SINTER_DTYPE_F32 = 1, SINTER_DTYPE_F16 = 2, SINTER_DTYPE_BF16 = 3, SINTER_DTYPE_S32 = 4,
        SINTER_DTYPE_PRED = 5, SINTER_DTYPE_E4M3 = 6, SINTER_DTYPE_S8 = 7, SINTER_DTYPE_S64 = 8;
    sinter_unary: SINTER_UNARY_NEG = 1, SINTER_UNARY_ABS = 2, SINTER_UNARY_EXP = 3, SINTER_UNARY_LOG = 4,
        SINTER_UNARY_SQRT = 5, SINTER_UNARY_RSQRT = 6, SINTER_UNARY_TANH = 7, SINTER_UNARY_ERF = 8,
        SINTER_UNARY_SIGMOID = 9, SINTER_UNARY_RELU = 10, SINTER_UNARY_RECIPROCAL = 11, SINTER_UNARY_SQUARE = 12,
        SINTER_UNARY_SIN = 13, SINTER_UNARY_COS = 14, SINTER_UNARY_FLOOR = 15, SINTER_UNARY_NOT = 16,
        SINTER_UNARY_CEIL_POW2 = 17, SINTER_UNARY_LOG1P = 18, SINTER_UNARY_EXPM1 = 19, SINTER_UNARY_CEIL = 20,
        SINTER_UNARY_ROUND = 21, SINTER_UNARY_TRUNC = 22, SINTER_UNARY_TAN = 23, SINTER_UNARY_ASIN = 24,
        SINTER_UNARY_ACOS = 25, SINTER_UNARY_ATAN = 26, SINTER_UNARY_SINH = 27, SINTER_UNARY_COSH = 28,
        SINTER_UNARY_ASINH = 29, SINTER_UNARY_ACOSH = 30, SINTER_UNARY_ATANH = 31, SINTER_UNARY_ERFC = 32,
        SINTER_UNARY_EXP2 = 33, SINTER_UNARY_LOG2 = 34, SINTER_UNARY_LOG10 = 35;
    sinter_binary: SINTER_BINARY_ADD = 1, SINTER_BINARY_SUB = 2, SINTER_BINARY_MUL = 3, SINTER_BINARY_DIV = 4,
        SINTER_BINARY_MAX = 5, SINTER_BINARY_MIN = 6, SINTER_BINARY_POW = 7, SINTER_BINARY_AND = 8,
        SINTER_BINARY_OR = 9, SINTER_BINARY_FMOD = 10, SINTER_BINARY_COPYSIGN = 11, SINTER_BINARY_ATAN2 = 12,
        SINTER_BINARY_HYPOT = 13;
    sinter_compare: SINTER_COMPARE_EQ = 1, SINTER_COMPARE_NE = 2, SINTER_COMPARE_LT = 3, SINTER_COMPARE_LE = 4,
        SINTER_COMPARE_GT = 5, SINTER_COMPARE_GE = 6;
    sinter_reduce: SINTER_REDUCE_SUM = 1, SINTER_REDUCE_MAX = 2, SINTER_REDUCE_MIN = 3, SINTER_REDUCE_MEAN = 4;
    sinter_activation: SINTER_ACTIVATION_IDENTITY = 0, SINTER_ACTIVATION_RELU = 1, SINTER_ACTIVATION_GELU_TANH = 2,
        SINTER_ACTIVATION_GELU_ERF = 3, SINTER_ACTIVATION_SILU = 4;
    sinter_layout: SINTER_LAYOUT_OI = 1, SINTER_LAYOUT_IO = 2;
    sinter_filter: SINTER_FILTER_OHWI = 1, SINTER_FILTER_HWIO = 2;
    sinter_checkpoint: SINTER_CHECKPOINT_ROWS = 1, SINTER_CHECKPOINT_AWQ = 2, SINTER_CHECKPOINT_GPTQ = 3,
        SINTER_CHECKPOINT_GPTQ_V2 = 4, SINTER_CHECKPOINT_COMPRESSED_TENSORS = 5;
    sinter_switch: SINTER_SWITCH_DEFAULT = 0, SINTER_SWITCH_ON = 1, SINTER_SWITCH_OFF = 2;
    sinter_log_level: SINTER_LOG_DEFAULT = 0, SINTER_LOG_ERROR = 1, SINTER_LOG_WARN = 2, SINTER_LOG_INFO = 3,
        SINTER_LOG_DEBUG = 4, SINTER_LOG_OFF = 5;
    sinter_value: SINTER_NO_VALUE = 0;
    usize: SINTER_MAX_RANK = 6;
    i64: SINTER_DIM_M = -1;
    u32: SINTER_INPUT_CONSTANT = 1;
    u32: SINTER_MATMUL_TRANSPOSE_A = 1, SINTER_MATMUL_TRANSPOSE_B = 2;
    u32: SINTER_WINDOW_EXCLUDE_PADS = 1;
    u32: SINTER_REDUCE_KEEPDIMS = 1;
    u32: SINTER_ATTENTION_CAUSAL = 1;
    u32: SINTER_GROUPED_UP_FIRST = 1, SINTER_GROUPED_INTERLEAVED = 2, SINTER_GROUPED_WEIGHT_ON_INPUT = 4;
    sinter_granularity: SINTER_SCALE_TENSOR = 1, SINTER_SCALE_ROW = 2, SINTER_SCALE_GROUP = 3, SINTER_SCALE_STATIC = 4;
    u32: SINTER_QUANTIZE_UE8M0 = 1;
    u32: SINTER_ACCUMULATE_FAST = 1;
    u32: SINTER_GROUP_NO_TIMEOUT = 1, SINTER_GROUP_DESCRIPTORS = 2;
    u32: SINTER_VERSION_MAJOR = 0;
    u32: SINTER_VERSION_MINOR = 1;
    u32: SINTER_VERSION_PATCH = 0;
    sinter_choice: SINTER_CHOICE_BEST = 0, SINTER_CHOICE_FUSED = 1, SINTER_CHOICE_UNFUSED = 2;
    u32: SINTER_PREPARE_BATCH_INVARIANT = 1, SINTER_PREPARE_MUST_HIT = 2, SINTER_PREPARE_VERIFY = 4,
        SINTER_PREPARE_NO_BUILD = 8;
    u32: SINTER_SLOT_MANUAL = 1;
    u32: SINTER_TUNE_BATCH_INVARIANT = 1, SINTER_TUNE_KEEP = 2;
    u32: SINTER_LAUNCH_PDL = 1;
    u32: SINTER_GRAPH_PDL = 1;
}
structs! {
    sized sinter_input_options {
        struct_size: u32,
        flags: u32,
        name: *const c_char,
        strides: *const i64,
        stride_m_powers: *const i32,
    }
    sized sinter_matmul_options {
        struct_size: u32,
        flags: u32,
    }
    sized sinter_conv2d_options {
        struct_size: u32,
        flags: u32,
        filter: sinter_filter,
        groups: i32,
        stride_height: i32,
        stride_width: i32,
        dilation_height: i32,
        dilation_width: i32,
        pad_top: i32,
        pad_bottom: i32,
        pad_left: i32,
        pad_right: i32,
    }
    sized sinter_window_options {
        struct_size: u32,
        flags: u32,
        height: i32,
        width: i32,
        stride_height: i32,
        stride_width: i32,
        dilation_height: i32,
        dilation_width: i32,
        pad_top: i32,
        pad_bottom: i32,
        pad_left: i32,
        pad_right: i32,
    }
    sized sinter_reduce_options {
        struct_size: u32,
        flags: u32,
    }
    sized sinter_softmax_options {
        struct_size: u32,
        flags: u32,
        scale: f64,
        mask: sinter_value,
        reserved: i32,
    }
    sized sinter_attention_options {
        struct_size: u32,
        flags: u32,
        scale: f64,
        bias: sinter_value,
        mask: sinter_value,
    }
    sized sinter_norm_options {
        struct_size: u32,
        flags: u32,
        eps: f64,
        gamma: sinter_value,
        beta: sinter_value,
    }
    sized sinter_next_token_options {
        struct_size: u32,
        flags: u32,
        count: i32,
        temperature: sinter_value,
        k: sinter_value,
        top_p: sinter_value,
        min_p: sinter_value,
        reserved: i32,
    }
    sized sinter_linear_options {
        struct_size: u32,
        flags: u32,
        layout: sinter_layout,
        activation: sinter_activation,
        bias: sinter_value,
        reserved: i32,
    }
    sized sinter_gemm_chain_options {
        struct_size: u32,
        flags: u32,
        layout: sinter_layout,
        activation: sinter_activation,
        bias1: sinter_value,
        bias2: sinter_value,
    }
    sized sinter_gated_ffn_options {
        struct_size: u32,
        flags: u32,
        layout: sinter_layout,
        activation: sinter_activation,
        bias_gate: sinter_value,
        bias_up: sinter_value,
        bias2: sinter_value,
        reserved: i32,
    }
    sized sinter_grouped_gated_ffn_options {
        struct_size: u32,
        flags: u32,
        layout: sinter_layout,
        activation: sinter_activation,
        bias1: sinter_value,
        bias2: sinter_value,
        alpha: f64,
        beta: f64,
        limit: f64,
    }
    plain sinter_scaled {
        codes: sinter_value,
        scale: sinter_value,
    }
    sized sinter_quantize_options {
        struct_size: u32,
        flags: u32,
        granularity: sinter_granularity,
        codes: sinter_dtype,
        eps: f64,
        upper_bound: f64,
        static_scale: sinter_value,
        reserved: i32,
    }
    sized sinter_output_options {
        struct_size: u32,
        flags: u32,
        strides: *const i64,
        stride_m_powers: *const i32,
        alias: sinter_value,
        reserved: i32,
    }
    sized sinter_tensor_info {
        struct_size: u32,
        flags: u32,
        dtype: sinter_dtype,
        rank: u32,
        bytes: u64,
        dims: [i64; SINTER_MAX_RANK],
        strides: [i64; SINTER_MAX_RANK],
        name: *const c_char,
    }
    sized sinter_group_options {
        struct_size: u32,
        flags: u32,
        rank: i32,
        size: i32,
        slot_bytes: u64,
        peers: *const sinter_device_ptr,
        bytes: u64,
        exchange: sinter_exchange,
        user_data: usize,
        timeout_ms: u32,
        reserved: u32,
    }
    sized sinter_context_options {
        struct_size: u32,
        flags: u32,
        device: i32,
        log_level: sinter_log_level,
        target: *const c_char,
        cache_dir: *const c_char,
        dump_dir: *const c_char,
        nvrtc_path: *const c_char,
        driver_path: *const c_char,
        cache: sinter_switch,
        must_hit: sinter_switch,
        batch_invariant: sinter_switch,
        verify: sinter_switch,
        log: sinter_log_callback,
        log_user_data: usize,
        tuning_set: *const c_char,
        packs: *const *const c_char,
        pack_count: u32,
        unsigned_packs: sinter_switch,
        pack_keys: *const c_char,
        cache_read_only: sinter_switch,
        cache_store: *const c_char,
        cache_max_bytes: u64,
        remote: *const c_char,
        remote_name_space: *const c_char,
        remote_key_file: *const c_char,
        remote_password_file: *const c_char,
        remote_publish: sinter_switch,
        must_hit_verified: sinter_switch,
        deny_toolchains: *const c_char,
        module_cache_bytes: u64,
        device_model: *const c_char,
        slot_measure: sinter_switch,
        measure: i32,
    }
    sized sinter_stats {
        struct_size: u32,
        nvrtc_loaded: u32,
        prepares: u64,
        plan_hits: u64,
        searched: u64,
        kernels_compiled: u64,
        kernel_hits: u64,
        kernels_loaded: u64,
        launches: u64,
        waits: u64,
        wrong_kernels: u64,
        non_resident_fallbacks: u64,
        cache_memory_hits: u64,
        cache_local_hits: u64,
        cache_puts: u64,
        cache_put_failures: u64,
        cache_quarantined: u64,
        cache_misses: u64,
        cache_absent: u64,
        cache_damaged: u64,
        cache_foreign_arch: u64,
        cache_other_format: u64,
        cache_other_toolchain: u64,
        cache_refused_owner: u64,
        cache_in_quarantine: u64,
        cache_disabled: u64,
        cache_io_errors: u64,
        search_us: f64,
        compile_us: f64,
        tuned_plans: u64,
        tuned_refused: u64,
        cache_pack_hits: u64,
        cache_packs_open: u64,
        cache_packs_refused: u64,
        cache_puts_dropped: u64,
        cache_evicted: u64,
        cache_remote_hits: u64,
        cache_remote_puts: u64,
        cache_remote_errors: u64,
        cache_remote_down: u64,
        cache_remote_opened: u64,
        compile_seconds_saved: f64,
        gpu_time_saved_us: f64,
        modules_loaded: u64,
        module_bytes: u64,
        modules_unloaded: u64,
        slots_building: u64,
        slot_upgrades: u64,
        slot_failures: u64,
        slots_measuring: u64,
        slot_measurements: u64,
        slot_measured_wins: u64,
        slot_measurements_given_up: u64,
        prepare_failures: u64,
        must_hit_misses: u64,
        measurements: u64,
        measured_wins: u64,
        measurements_given_up: u64,
    }
    sized sinter_prepare_options {
        struct_size: u32,
        flags: u32,
        deadline_us: i64,
        cancel: *mut sinter_cancel,
        progress: sinter_progress_callback,
        progress_user_data: usize,
        stream: sinter_stream,
        choice: sinter_choice,
        threads: u32,
        measure: i32,
        reserved: i32,
        measure_budget_us: i64,
    }
    sized sinter_tune_options {
        struct_size: u32,
        flags: u32,
        deadline_us: i64,
        top_k: i32,
        reserved: i32,
        switch_margin: f64,
        stream: sinter_stream,
        into: *mut sinter_tuning_set,
    }
}
functions! {
    sinter_chain_create(out_chain: *mut *mut sinter_chain, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_retain(chain: *const sinter_chain);
    sinter_chain_release(chain: *const sinter_chain);
    sinter_chain_add_input(chain: *mut sinter_chain, dtype: sinter_dtype, rank: u32, dims: *const i64,
        options: *const sinter_input_options, out_value: *mut sinter_value,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_scalar(chain: *mut sinter_chain, value: f64, dtype: sinter_dtype, out_value: *mut sinter_value,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_iota(chain: *mut sinter_chain, dtype: sinter_dtype, rank: u32, dims: *const i64, axis: i32,
        out_value: *mut sinter_value, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_matmul(chain: *mut sinter_chain, a: sinter_value, b: sinter_value,
        options: *const sinter_matmul_options, out_value: *mut sinter_value,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_grouped_matmul(chain: *mut sinter_chain, a: sinter_value, w: sinter_value, ids: sinter_value,
        options: *const sinter_matmul_options, out_value: *mut sinter_value,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_grouped_matmul_ends(chain: *mut sinter_chain, a: sinter_value, w: sinter_value, ends: sinter_value,
        options: *const sinter_matmul_options, out_value: *mut sinter_value,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_all_reduce(chain: *mut sinter_chain, x: sinter_value, ranks: i32, out_value: *mut sinter_value,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_all_gather(chain: *mut sinter_chain, x: sinter_value, axis: i32, ranks: i32,
        out_value: *mut sinter_value, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_reduce_scatter(chain: *mut sinter_chain, x: sinter_value, axis: i32, ranks: i32,
        out_value: *mut sinter_value, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_conv2d(chain: *mut sinter_chain, x: sinter_value, w: sinter_value,
        options: *const sinter_conv2d_options, out_value: *mut sinter_value,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_unary(chain: *mut sinter_chain, kind: sinter_unary, a: sinter_value, out_value: *mut sinter_value,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_binary(chain: *mut sinter_chain, kind: sinter_binary, a: sinter_value, b: sinter_value,
        out_value: *mut sinter_value, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_compare(chain: *mut sinter_chain, kind: sinter_compare, a: sinter_value, b: sinter_value,
        out_value: *mut sinter_value, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_select(chain: *mut sinter_chain, condition: sinter_value, a: sinter_value, b: sinter_value,
        out_value: *mut sinter_value, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_cast(chain: *mut sinter_chain, a: sinter_value, dtype: sinter_dtype, out_value: *mut sinter_value,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_broadcast(chain: *mut sinter_chain, a: sinter_value, rank: u32, dims: *const i64,
        out_value: *mut sinter_value, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_transpose(chain: *mut sinter_chain, a: sinter_value, rank: u32, permutation: *const i32,
        out_value: *mut sinter_value, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_reshape(chain: *mut sinter_chain, a: sinter_value, rank: u32, dims: *const i64,
        out_value: *mut sinter_value, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_slice(chain: *mut sinter_chain, a: sinter_value, rank: u32, starts: *const i64, limits: *const i64,
        steps: *const i64, out_value: *mut sinter_value, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_concat(chain: *mut sinter_chain, count: u32, operands: *const sinter_value, axis: i32,
        out_value: *mut sinter_value, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_gather(chain: *mut sinter_chain, x: sinter_value, ids: sinter_value, axis: i32,
        out_value: *mut sinter_value, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_scatter(chain: *mut sinter_chain, x: sinter_value, ids: sinter_value, rows: sinter_value,
        out_value: *mut sinter_value, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_top_k(chain: *mut sinter_chain, x: sinter_value, count: i32, out_value: *mut sinter_value,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_cumsum(chain: *mut sinter_chain, x: sinter_value, out_value: *mut sinter_value,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_random(chain: *mut sinter_chain, seed: sinter_value, offset: sinter_value, rank: u32,
        dims: *const i64, out_value: *mut sinter_value, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_window(chain: *mut sinter_chain, x: sinter_value, fill: sinter_value,
        options: *const sinter_window_options, out_value: *mut sinter_value,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_reduce(chain: *mut sinter_chain, kind: sinter_reduce, a: sinter_value, axis_count: u32,
        axes: *const i32, options: *const sinter_reduce_options, out_value: *mut sinter_value,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_activation(chain: *mut sinter_chain, activation: sinter_activation, x: sinter_value,
        out_value: *mut sinter_value, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_softplus(chain: *mut sinter_chain, x: sinter_value, out_value: *mut sinter_value,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_clamp(chain: *mut sinter_chain, x: sinter_value, min: f64, max: f64, out_value: *mut sinter_value,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_max_pool2d(chain: *mut sinter_chain, x: sinter_value, options: *const sinter_window_options,
        out_value: *mut sinter_value, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_avg_pool2d(chain: *mut sinter_chain, x: sinter_value, options: *const sinter_window_options,
        out_value: *mut sinter_value, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_argmax(chain: *mut sinter_chain, x: sinter_value, out_value: *mut sinter_value,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_argmin(chain: *mut sinter_chain, x: sinter_value, out_value: *mut sinter_value,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_swiglu(chain: *mut sinter_chain, gate: sinter_value, up: sinter_value,
        out_value: *mut sinter_value, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_softmax(chain: *mut sinter_chain, x: sinter_value, axis: i32,
        options: *const sinter_softmax_options, out_value: *mut sinter_value,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_attention(chain: *mut sinter_chain, q: sinter_value, k: sinter_value, v: sinter_value,
        options: *const sinter_attention_options, out_value: *mut sinter_value,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_layernorm(chain: *mut sinter_chain, x: sinter_value, options: *const sinter_norm_options,
        out_value: *mut sinter_value, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_rmsnorm(chain: *mut sinter_chain, x: sinter_value, options: *const sinter_norm_options,
        out_value: *mut sinter_value, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_rope(chain: *mut sinter_chain, x: sinter_value, cos: sinter_value, sin: sinter_value,
        out_value: *mut sinter_value, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_lstm_cell(chain: *mut sinter_chain, gates: sinter_value, c: sinter_value, out_h: *mut sinter_value,
        out_c: *mut sinter_value, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_gru_cell(chain: *mut sinter_chain, xg: sinter_value, hg: sinter_value, h: sinter_value,
        out_value: *mut sinter_value, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_next_token(chain: *mut sinter_chain, logits: sinter_value, seed: sinter_value,
        offset: sinter_value, options: *const sinter_next_token_options, out_token: *mut sinter_value,
        out_log_probability: *mut sinter_value, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_linear(chain: *mut sinter_chain, x: sinter_value, w: sinter_value,
        options: *const sinter_linear_options, out_value: *mut sinter_value,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_gemm_chain(chain: *mut sinter_chain, a: sinter_value, w1: sinter_value, w2: sinter_value,
        options: *const sinter_gemm_chain_options, out_value: *mut sinter_value,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_gated_ffn(chain: *mut sinter_chain, a: sinter_value, w_gate: sinter_value, w_up: sinter_value,
        w_down: sinter_value, options: *const sinter_gated_ffn_options, out_value: *mut sinter_value,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_grouped_gated_ffn(chain: *mut sinter_chain, a: sinter_value, ids: sinter_value,
        weights: sinter_value, w1: sinter_value, w2: sinter_value, options: *const sinter_grouped_gated_ffn_options,
        out_value: *mut sinter_value, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_quantize(chain: *mut sinter_chain, x: sinter_value, options: *const sinter_quantize_options,
        out_scaled: *mut sinter_scaled, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_dequantize_u4(chain: *mut sinter_chain, w: sinter_value, scale: sinter_value, zero: sinter_value,
        out_value: *mut sinter_value, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_dequantize_e2m1(chain: *mut sinter_chain, w: sinter_value, scale: sinter_value,
        out_value: *mut sinter_value, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_dequantize_u4_packed(chain: *mut sinter_chain, w: sinter_value, scale: sinter_value,
        zero: sinter_value, out_value: *mut sinter_value, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_dequantize_e2m1_packed(chain: *mut sinter_chain, w: sinter_value, scale: sinter_value,
        out_value: *mut sinter_value, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_pack_codes(chain: *mut sinter_chain, w: sinter_value, checkpoint: sinter_checkpoint,
        out_value: *mut sinter_value, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_pack_scales(chain: *mut sinter_chain, scale: sinter_value, checkpoint: sinter_checkpoint,
        out_value: *mut sinter_value, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_pack_zeros(chain: *mut sinter_chain, zero: sinter_value, checkpoint: sinter_checkpoint,
        out_value: *mut sinter_value, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_dequantize_e8m0(chain: *mut sinter_chain, scale: sinter_value, out_value: *mut sinter_value,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_scaled_matmul(chain: *mut sinter_chain, a: sinter_scaled, w: sinter_scaled,
        options: *const sinter_linear_options, out_value: *mut sinter_value,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_scaled_gemm_chain(chain: *mut sinter_chain, a: sinter_scaled, w1: sinter_scaled, w2: sinter_scaled,
        quantize: *const sinter_quantize_options, options: *const sinter_gemm_chain_options,
        out_value: *mut sinter_value, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_scaled_gated_ffn(chain: *mut sinter_chain, a: sinter_scaled, w_gate: sinter_scaled,
        w_up: sinter_scaled, w_down: sinter_scaled, quantize: *const sinter_quantize_options,
        options: *const sinter_gated_ffn_options, out_value: *mut sinter_value,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_scaled_grouped_matmul(chain: *mut sinter_chain, a: sinter_scaled, w: sinter_scaled,
        ids: sinter_value, options: *const sinter_matmul_options, out_value: *mut sinter_value,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_scaled_grouped_gated_ffn(chain: *mut sinter_chain, a: sinter_scaled, ids: sinter_value,
        weights: sinter_value, w1: sinter_scaled, w2: sinter_scaled, quantize: *const sinter_quantize_options,
        options: *const sinter_grouped_gated_ffn_options, out_value: *mut sinter_value,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_add_output(chain: *mut sinter_chain, value: sinter_value, options: *const sinter_output_options,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_finish(chain: *mut sinter_chain, error: *mut *mut sinter_error) -> sinter_status;
    sinter_chain_get_input_count(chain: *const sinter_chain) -> u32;
    sinter_chain_get_output_count(chain: *const sinter_chain) -> u32;
    sinter_chain_uses_m(chain: *const sinter_chain) -> i32;
    sinter_chain_get_buffer(chain: *const sinter_chain, index: u32, m: i64, info: *mut sinter_tensor_info,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_group_get_room_bytes(size: i32, slot_bytes: u64) -> u64;
    sinter_group_create(context: *mut sinter_context, options: *const sinter_group_options,
        out_group: *mut *mut sinter_group, error: *mut *mut sinter_error) -> sinter_status;
    sinter_group_create_local(contexts: *const *mut sinter_context, size: u32, options: *const sinter_group_options,
        out_groups: *mut *mut sinter_group, error: *mut *mut sinter_error) -> sinter_status;
    sinter_group_retain(group: *const sinter_group);
    sinter_group_release(group: *const sinter_group);
    sinter_group_get_status(group: *const sinter_group, out_rank: *mut i32,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_plan_bind_group(plan: *const sinter_plan, buffer_count: u32, buffers: *const sinter_device_ptr,
        workspace: sinter_device_ptr, group: *const sinter_group, out_binding: *mut *mut sinter_binding,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_group_abort(group: *const sinter_group, error: *mut *mut sinter_error) -> sinter_status;
    sinter_group_close(group: *const sinter_group, error: *mut *mut sinter_error) -> sinter_status;
    sinter_version() -> u32;
    sinter_build_info() -> *const c_char;
    sinter_status_name(status: sinter_status) -> *const c_char;
    sinter_error_retain(error: *const sinter_error);
    sinter_error_release(error: *const sinter_error);
    sinter_error_get_code(error: *const sinter_error) -> sinter_status;
    sinter_error_get_message(error: *const sinter_error) -> *const c_char;
    sinter_error_get_op(error: *const sinter_error) -> i32;
    sinter_error_get_field(error: *const sinter_error) -> *const c_char;
    sinter_error_get_value(error: *const sinter_error) -> *const c_char;
    sinter_error_get_bound(error: *const sinter_error) -> *const c_char;
    sinter_error_get_driver_result(error: *const sinter_error) -> i32;
    sinter_error_get_compile_log(error: *const sinter_error) -> *const c_char;
    sinter_context_create(options: *const sinter_context_options, out_context: *mut *mut sinter_context,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_context_retain(context: *const sinter_context);
    sinter_context_release(context: *const sinter_context);
    sinter_context_has_device(context: *const sinter_context) -> i32;
    sinter_context_get_tuning_digest(context: *const sinter_context, out_digest: *mut u8,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_context_deny_toolchains(context: *mut sinter_context, entries: *const c_char,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_context_get_stats(context: *const sinter_context, stats: *mut sinter_stats,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_context_write_metrics(context: *const sinter_context, capacity: usize, buffer: *mut c_char,
        required: *mut usize, error: *mut *mut sinter_error) -> sinter_status;
    sinter_cancel_create(out_cancel: *mut *mut sinter_cancel, error: *mut *mut sinter_error) -> sinter_status;
    sinter_cancel_retain(cancel: *const sinter_cancel);
    sinter_cancel_release(cancel: *const sinter_cancel);
    sinter_cancel_request(cancel: *mut sinter_cancel);
    sinter_prepare(context: *mut sinter_context, chain: *const sinter_chain, m: i64,
        options: *const sinter_prepare_options, out_plan: *mut *mut sinter_plan,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_context_search(context: *mut sinter_context, chain: *const sinter_chain, m: i64,
        options: *const sinter_prepare_options, out_search: *mut *mut sinter_search,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_search_retain(search: *const sinter_search);
    sinter_search_release(search: *const sinter_search);
    sinter_search_get_bucket(search: *const sinter_search) -> i64;
    sinter_search_get_kernel_count(search: *const sinter_search) -> u32;
    sinter_search_get_predicted_us(search: *const sinter_search) -> f64;
    sinter_search_get_unfused_us(search: *const sinter_search) -> f64;
    sinter_search_get_workspace_size(search: *const sinter_search) -> u64;
    sinter_search_get_choice(search: *const sinter_search) -> sinter_choice;
    sinter_search_is_measured(search: *const sinter_search) -> i32;
    sinter_search_get_name(search: *const sinter_search) -> *const c_char;
    sinter_search_get_note(search: *const sinter_search) -> *const c_char;
    sinter_prepare_many(context: *mut sinter_context, count: u32, chains: *const *const sinter_chain, ms: *const i64,
        options: *const sinter_prepare_options, out_plans: *mut *mut sinter_plan, out_statuses: *mut sinter_status,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_prepare_async(context: *mut sinter_context, chain: *const sinter_chain, m: i64,
        options: *const sinter_prepare_options, out_pending: *mut *mut sinter_pending,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_pending_retain(pending: *const sinter_pending);
    sinter_pending_release(pending: *const sinter_pending);
    sinter_pending_poll(pending: *const sinter_pending) -> i32;
    sinter_pending_get(pending: *const sinter_pending, timeout_us: i64, out_plan: *mut *mut sinter_plan,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_pending_on_ready(pending: *const sinter_pending, callback: sinter_ready_callback, user_data: usize,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_pending_get_fd(pending: *const sinter_pending) -> i32;
    sinter_slot_create(context: *mut sinter_context, chain: *const sinter_chain, m: i64,
        options: *const sinter_prepare_options, flags: u32, out_slot: *mut *mut sinter_slot,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_slot_retain(slot: *const sinter_slot);
    sinter_slot_release(slot: *const sinter_slot);
    sinter_slot_acquire(slot: *const sinter_slot, out_plan: *mut *mut sinter_plan,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_slot_get_generation(slot: *const sinter_slot) -> u64;
    sinter_slot_offer(slot: *const sinter_slot, plan: *mut sinter_plan, error: *mut *mut sinter_error) -> sinter_status;
    sinter_slot_switch(slot: *const sinter_slot, error: *mut *mut sinter_error) -> sinter_status;
    sinter_slot_get_build(slot: *const sinter_slot, out_build: *mut *mut sinter_pending,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_tuning_set_create(out_set: *mut *mut sinter_tuning_set, error: *mut *mut sinter_error) -> sinter_status;
    sinter_tuning_set_retain(set: *const sinter_tuning_set);
    sinter_tuning_set_release(set: *const sinter_tuning_set);
    sinter_tuning_set_add_file(set: *mut sinter_tuning_set, path: *const c_char,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_tuning_set_write(set: *const sinter_tuning_set, path: *const c_char,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_tuning_set_get_count(set: *const sinter_tuning_set) -> u64;
    sinter_tuning_set_get_digest(set: *const sinter_tuning_set, out_digest: *mut u8,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_tune(context: *mut sinter_context, chain: *const sinter_chain, m: i64, options: *const sinter_tune_options,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_plan_retain(plan: *const sinter_plan);
    sinter_plan_release(plan: *const sinter_plan);
    sinter_plan_get_digest(plan: *const sinter_plan, out_digest: *mut u8,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_plan_get_bucket(plan: *const sinter_plan) -> i64;
    sinter_plan_get_max_m(plan: *const sinter_plan) -> i64;
    sinter_plan_get_buffer_count(plan: *const sinter_plan) -> u32;
    sinter_plan_get_workspace_size(plan: *const sinter_plan) -> u64;
    sinter_plan_init_workspace(plan: *const sinter_plan, workspace: sinter_device_ptr, bytes: u64,
        stream: sinter_stream, error: *mut *mut sinter_error) -> sinter_status;
    sinter_plan_explain(plan: *const sinter_plan, capacity: usize, buffer: *mut c_char, required: *mut usize,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_plan_bind(plan: *const sinter_plan, buffer_count: u32, buffers: *const sinter_device_ptr,
        workspace: sinter_device_ptr, out_binding: *mut *mut sinter_binding,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_binding_retain(binding: *const sinter_binding);
    sinter_binding_release(binding: *const sinter_binding);
    sinter_binding_launch(binding: *const sinter_binding, stream: sinter_stream, symbol_count: u32, symbols: *const i64,
        flags: u32, error: *mut *mut sinter_error) -> sinter_status;
    sinter_plan_launch(plan: *const sinter_plan, stream: sinter_stream, symbol_count: u32, symbols: *const i64,
        buffer_count: u32, buffers: *const sinter_device_ptr, workspace: sinter_device_ptr, flags: u32,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_binding_add_to_graph(binding: *const sinter_binding, graph: sinter_graph, dependency_count: u32,
        dependencies: *const sinter_graph_node, symbol_count: u32, symbols: *const i64, flags: u32,
        out_nodes: *mut *mut sinter_graph_nodes, error: *mut *mut sinter_error) -> sinter_status;
    sinter_graph_nodes_retain(nodes: *const sinter_graph_nodes);
    sinter_graph_nodes_release(nodes: *const sinter_graph_nodes);
    sinter_graph_nodes_get_count(nodes: *const sinter_graph_nodes) -> u32;
    sinter_graph_nodes_get(nodes: *const sinter_graph_nodes, index: u32) -> sinter_graph_node;
    sinter_graph_nodes_update(nodes: *const sinter_graph_nodes, exec: sinter_graph_exec, binding: *const sinter_binding,
        symbol_count: u32, symbols: *const i64, error: *mut *mut sinter_error) -> sinter_status;
}
