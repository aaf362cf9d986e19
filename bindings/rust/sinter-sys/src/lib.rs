//! Raw declarations of the part of libsinter's C ABI that describes, prepares and explains chains. Names, ownership and
//! thread safety are those of `sinter/sinter.h`. Enumerations are plain `i32`: an unknown number is an error of the
//! library, never undefined behaviour here.
#![allow(non_camel_case_types)]

use std::os::raw::{c_char, c_void}; // core::ffi::c_char is of Rust 1.64

macro_rules! opaque {
    ($($name:ident)*) => { $(#[repr(C)] pub struct $name { _private: [u8; 0] })* };
}
opaque!(sinter_context sinter_chain sinter_plan sinter_error sinter_tuning_set);

pub type sinter_status = i32;
pub type sinter_value = i32;
pub const SINTER_OK: sinter_status = 0;
pub const SINTER_INVALID_ARGUMENT: sinter_status = 3;
pub const SINTER_UNAVAILABLE: sinter_status = 14;
pub const SINTER_DTYPE_BF16: i32 = 3;
pub const SINTER_DTYPE_E4M3: i32 = 6;
pub const SINTER_ACTIVATION_RELU: i32 = 1;
pub const SINTER_INPUT_CONSTANT: u32 = 1;
pub const SINTER_DIM_M: i64 = -1;

/// Declares an option struct whose `Default` is the ABI's: all zero, its size set.
macro_rules! options {
    ($name:ident { $($field:ident: $type:ty),* $(,)? }) => {
        #[repr(C)]
        pub struct $name { pub struct_size: u32, pub flags: u32, $(pub $field: $type),* }
        impl Default for $name {
            fn default() -> Self {
                // SAFETY: every field is an integer or a raw pointer; zero is valid for all of them.
                let mut zero: Self = unsafe { std::mem::zeroed() };
                zero.struct_size = std::mem::size_of::<Self>() as u32;
                zero
            }
        }
    };
}
options!(sinter_context_options {
    device: i32, log_level: i32, target: *const c_char, cache_dir: *const c_char, dump_dir: *const c_char,
    nvrtc_path: *const c_char, driver_path: *const c_char, cache: i32, must_hit: i32, batch_invariant: i32, verify: i32,
    log: Option<extern "C" fn(usize, i32, *const c_char)>, log_user_data: usize,
    tuning_set: *const c_char, packs: *const *const c_char, pack_count: u32, unsigned_packs: i32,
    pack_keys: *const c_char, cache_read_only: i32, cache_store: *const c_char, cache_max_bytes: u64,
    remote: *const c_char, remote_name_space: *const c_char, remote_key_file: *const c_char,
    remote_password_file: *const c_char, remote_publish: i32, must_hit_verified: i32,
    deny_toolchains: *const c_char, module_cache_bytes: u64,
});

/// Counters of a context; `Default` has its size set and all counts zero.
#[repr(C)]
pub struct sinter_stats {
    pub struct_size: u32, pub nvrtc_loaded: u32,
    pub prepares: u64, pub plan_hits: u64, pub searched: u64, pub kernels_compiled: u64, pub kernel_hits: u64,
    pub kernels_loaded: u64, pub launches: u64, pub waits: u64, pub wrong_kernels: u64, pub non_resident_fallbacks: u64,
    pub cache_memory_hits: u64, pub cache_local_hits: u64, pub cache_puts: u64, pub cache_put_failures: u64,
    pub cache_quarantined: u64, pub cache_misses: u64, pub cache_absent: u64, pub cache_damaged: u64,
    pub cache_foreign_arch: u64, pub cache_other_format: u64, pub cache_other_toolchain: u64,
    pub cache_refused_owner: u64, pub cache_in_quarantine: u64, pub cache_disabled: u64, pub cache_io_errors: u64,
    pub search_us: f64, pub compile_us: f64, pub tuned_plans: u64, pub tuned_refused: u64,
    pub cache_pack_hits: u64, pub cache_packs_open: u64, pub cache_packs_refused: u64,
    pub cache_puts_dropped: u64, pub cache_evicted: u64,
    pub cache_remote_hits: u64, pub cache_remote_puts: u64, pub cache_remote_errors: u64, pub cache_remote_down: u64,
    pub cache_remote_opened: u64, pub compile_seconds_saved: f64, pub gpu_time_saved_us: f64,
    pub modules_loaded: u64, pub module_bytes: u64, pub modules_unloaded: u64,
}
impl Default for sinter_stats {
    fn default() -> Self {
        // SAFETY: every field is a number; zero is valid for all of them.
        let mut zero: Self = unsafe { std::mem::zeroed() };
        zero.struct_size = std::mem::size_of::<Self>() as u32;
        zero
    }
}
options!(sinter_input_options {
    name: *const c_char, strides: *const i64, stride_m_powers: *const i32,
});
options!(sinter_gemm_chain_options {
    layout: i32, activation: i32, bias1: sinter_value, bias2: sinter_value,
});

pub const SINTER_TUNE_BATCH_INVARIANT: u32 = 1;
pub const SINTER_TUNE_KEEP: u32 = 2;
options!(sinter_tune_options {
    deadline_us: i64, top_k: i32, reserved: i32, switch_margin: f64, stream: *mut c_void, into: *mut sinter_tuning_set,
});

#[link(name = "sinter")]
extern "C" {
    pub fn sinter_version() -> u32;
    pub fn sinter_error_release(error: *const sinter_error);
    pub fn sinter_error_get_message(error: *const sinter_error) -> *const c_char;
    pub fn sinter_context_create(options: *const sinter_context_options, out: *mut *mut sinter_context,
                                 error: *mut *mut sinter_error) -> sinter_status;
    pub fn sinter_context_release(context: *const sinter_context);
    pub fn sinter_context_get_tuning_digest(context: *const sinter_context, out_digest: *mut u8,
                                            error: *mut *mut sinter_error) -> sinter_status;
    pub fn sinter_context_deny_toolchains(context: *mut sinter_context, entries: *const c_char,
                                          error: *mut *mut sinter_error) -> sinter_status;
    pub fn sinter_context_get_stats(context: *const sinter_context, stats: *mut sinter_stats,
                                    error: *mut *mut sinter_error) -> sinter_status;
    pub fn sinter_tune(context: *mut sinter_context, chain: *const sinter_chain, m: i64,
                       options: *const sinter_tune_options, error: *mut *mut sinter_error) -> sinter_status;
    pub fn sinter_tuning_set_create(out: *mut *mut sinter_tuning_set, error: *mut *mut sinter_error) -> sinter_status;
    pub fn sinter_tuning_set_release(set: *const sinter_tuning_set);
    pub fn sinter_tuning_set_add_file(set: *mut sinter_tuning_set, path: *const c_char,
                                      error: *mut *mut sinter_error) -> sinter_status;
    pub fn sinter_tuning_set_write(set: *const sinter_tuning_set, path: *const c_char,
                                   error: *mut *mut sinter_error) -> sinter_status;
    pub fn sinter_tuning_set_get_count(set: *const sinter_tuning_set) -> u64;
    pub fn sinter_chain_create(out: *mut *mut sinter_chain, error: *mut *mut sinter_error) -> sinter_status;
    pub fn sinter_chain_release(chain: *const sinter_chain);
    pub fn sinter_chain_add_input(chain: *mut sinter_chain, dtype: i32, rank: u32, dims: *const i64,
                                  options: *const sinter_input_options, out: *mut sinter_value,
                                  error: *mut *mut sinter_error) -> sinter_status;
    pub fn sinter_chain_add_gemm_chain(chain: *mut sinter_chain, a: sinter_value, w1: sinter_value, w2: sinter_value,
                                       options: *const sinter_gemm_chain_options, out: *mut sinter_value,
                                       error: *mut *mut sinter_error) -> sinter_status;
    pub fn sinter_chain_add_output(chain: *mut sinter_chain, value: sinter_value, options: *const c_void,
                                   error: *mut *mut sinter_error) -> sinter_status;
    pub fn sinter_chain_finish(chain: *mut sinter_chain, error: *mut *mut sinter_error) -> sinter_status;
    pub fn sinter_prepare(context: *mut sinter_context, chain: *const sinter_chain, m: i64, options: *const c_void,
                          out: *mut *mut sinter_plan, error: *mut *mut sinter_error) -> sinter_status;
    pub fn sinter_plan_release(plan: *const sinter_plan);
    pub fn sinter_plan_get_bucket(plan: *const sinter_plan) -> i64;
    pub fn sinter_plan_explain(plan: *const sinter_plan, capacity: usize, buffer: *mut c_char, required: *mut usize,
                               error: *mut *mut sinter_error) -> sinter_status;
}
