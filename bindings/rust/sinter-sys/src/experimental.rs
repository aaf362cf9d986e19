//! `sinter/sinter_experimental.h`: may change in any minor version of the library.
//! Written by ./dev bindings from include/sinter/*.h; do not edit.
use super::*;
use std::os::raw::{c_char, c_void};

opaque! {
    sinter_x_text
}
pub type sinter_x_give = Option<unsafe extern "C" fn(to: usize, bytes: *const c_void, size: u64)>;
pub type sinter_x_event_kind = i32;
pub type sinter_x_event_callback = Option<unsafe extern "C" fn(user_data: usize, event: *const sinter_x_event)>;
pub type sinter_x_function = Option<unsafe extern "C" fn()>;

constants! {
    sinter_x_event_kind: SINTER_X_EVENT_LOOK_UP = 1, SINTER_X_EVENT_SEARCH = 2, SINTER_X_EVENT_COMPILE = 3,
        SINTER_X_EVENT_LOAD = 4, SINTER_X_EVENT_UNLOAD = 5, SINTER_X_EVENT_TUNE = 6, SINTER_X_EVENT_FALLBACK = 7,
        SINTER_X_EVENT_UPGRADE = 8;
}
structs! {
    sized sinter_x_check {
        struct_size: u32,
        within: u32,
        relative: f64,
        max_over_rms: f64,
        relative_bound: f64,
        max_bound: f64,
        count: i64,
        nans: i64,
    }
    sized sinter_x_time_options {
        struct_size: u32,
        flags: u32,
        calls: u32,
        replays: u32,
    }
    sized sinter_x_remote_store {
        struct_size: u32,
        flags: u32,
        user_data: usize,
        get: Option<unsafe extern "C" fn(user_data: usize, name: *const c_char, deadline_us: i64, give: sinter_x_give, to: usize) -> sinter_status>,
        put: Option<unsafe extern "C" fn(user_data: usize, name: *const c_char, bytes: *const c_void, size: u64, ttl_s: i64, replace: i32, deadline_us: i64) -> sinter_status>,
        try_lease: Option<unsafe extern "C" fn(user_data: usize, name: *const c_char, token: *const c_char, ttl_ms: i64, deadline_us: i64) -> sinter_status>,
        release: Option<unsafe extern "C" fn(user_data: usize, name: *const c_char, token: *const c_char, deadline_us: i64) -> sinter_status>,
        add_member: Option<unsafe extern "C" fn(user_data: usize, set: *const c_char, member: *const c_char, ttl_s: i64, deadline_us: i64) -> sinter_status>,
        members: Option<unsafe extern "C" fn(user_data: usize, set: *const c_char, deadline_us: i64, give: sinter_x_give, to: usize) -> sinter_status>,
        destroy: Option<unsafe extern "C" fn(user_data: usize)>,
    }
    sized sinter_x_event {
        struct_size: u32,
        kind: sinter_x_event_kind,
        bucket: i64,
        us: f64,
        bytes: u64,
        chain_digest: [u8; 32],
        plan_digest: [u8; 32],
        subject: *const c_char,
        tier: *const c_char,
        reason: *const c_char,
    }
}
functions! {
    sinter_x_text_release(text: *const sinter_x_text);
    sinter_x_text_get(text: *const sinter_x_text) -> *const c_char;
    sinter_x_chain_from_text(line: *const c_char, out_chain: *mut *mut sinter_chain, out_m: *mut i64,
        out_line: *mut *mut sinter_x_text, error: *mut *mut sinter_error) -> sinter_status;
    sinter_x_problem_help(kind: *const c_char, out_text: *mut *mut sinter_x_text,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_x_chain_from_json(json: *const c_char, out_chain: *mut *mut sinter_chain,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_x_chain_to_json(chain: *const sinter_chain, out_json: *mut *mut sinter_x_text,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_x_chain_to_text(chain: *const sinter_chain, out_text: *mut *mut sinter_x_text,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_x_chain_get_digest(chain: *const sinter_chain, out_digest: *mut u8,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_x_chain_get_flops(chain: *const sinter_chain, m: i64) -> f64;
    sinter_x_chain_get_value(chain: *const sinter_chain, value: sinter_value, info: *mut sinter_tensor_info,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_x_reference_run(chain: *const sinter_chain, m: i64, input_count: u32, inputs: *const *const c_void,
        output_count: u32, outputs: *const *mut c_void, threads: u32, error: *mut *mut sinter_error) -> sinter_status;
    sinter_x_reference_check(chain: *const sinter_chain, m: i64, input_count: u32, inputs: *const *const c_void,
        output_count: u32, outputs: *const *const c_void, max_rows: i64, threads: u32, out_check: *mut sinter_x_check,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_x_device_alloc(context: *mut sinter_context, bytes: u64, out_ptr: *mut sinter_device_ptr,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_x_device_free(context: *mut sinter_context, ptr: sinter_device_ptr, bytes: u64);
    sinter_x_device_fill(context: *mut sinter_context, ptr: sinter_device_ptr, bytes: u64, byte: u8,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_x_time(context: *mut sinter_context, count: u32, bindings: *const *const sinter_binding, symbol_count: u32,
        symbols: *const i64, options: *const sinter_x_time_options, out_us: *mut f64,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_x_context_describe(context: *const sinter_context, out_json: *mut *mut sinter_x_text,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_x_context_create(options: *const sinter_context_options, store: *const sinter_x_remote_store,
        out_context: *mut *mut sinter_context, error: *mut *mut sinter_error) -> sinter_status;
    sinter_x_cache_flush(context: *mut sinter_context, error: *mut *mut sinter_error) -> sinter_status;
    sinter_x_context_on_event(context: *mut sinter_context, callback: sinter_x_event_callback, user_data: usize,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_x_end_calls(function: sinter_x_function, error: *mut *mut sinter_error) -> sinter_status;
    sinter_x_plan_to_json(plan: *const sinter_plan, out_json: *mut *mut sinter_x_text,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_x_plan_summary(plan: *const sinter_plan, out_text: *mut *mut sinter_x_text,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_x_plan_svg(plan: *const sinter_plan, out_svg: *mut *mut sinter_x_text,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_x_plan_get_source(plan: *const sinter_plan, kernel: u32, out_source: *mut *mut sinter_x_text,
        error: *mut *mut sinter_error) -> sinter_status;
    sinter_x_tune(context: *mut sinter_context, chain: *const sinter_chain, m: i64, options: *const sinter_tune_options,
        out_report: *mut *mut sinter_x_text, error: *mut *mut sinter_error) -> sinter_status;
}
