//! Options of a context, a prepare and a tuning, and what they are in the C ABI.
use crate::error::c_string;
use crate::{callback, sys, Cancel, Choice, LogLevel, Result, Stream, TuningSet};
use std::ffi::CString;
use std::os::raw::c_char;
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::time::Duration;

/// Receives one line of the log. From any thread; must not call back into the library.
pub type LogCallback = Arc<dyn Fn(LogLevel, &str) + Send + Sync>;
/// Receives a stage, one short line, and the fraction of the whole call that is done, 0 to 1. From any thread; must not
/// call back into the library.
pub type ProgressCallback = Arc<dyn Fn(&str, f64) + Send + Sync>;

/// Options of a context. A field at its default follows its environment variable, read once, at creation; sinter.h says
/// of each field what it means.
#[derive(Clone, Default)]
#[allow(missing_docs)]
pub struct ContextOptions {
    /// GPU ordinal of the driver; ignored with a target.
    pub device: i32,
    pub log_level: LogLevel,
    /// `None`: use `device`. "h200", "h100" or a model's text: prepare for it without a GPU.
    pub target: Option<String>,
    /// "" is memory only.
    pub cache_dir: Option<String>,
    pub dump_dir: Option<String>,
    pub nvrtc_path: Option<String>,
    pub driver_path: Option<String>,
    pub cache: Option<bool>,
    pub must_hit: Option<bool>,
    pub batch_invariant: Option<bool>,
    pub verify: Option<bool>,
    /// `None`: standard error. Called until the last handle of the context is dropped. A panic in it is caught.
    pub log: Option<LogCallback>,
    pub tuning_set: Option<String>,
    pub packs: Option<Vec<String>>,
    pub unsigned_packs: Option<bool>,
    pub pack_keys: Option<String>,
    pub cache_read_only: Option<bool>,
    pub cache_store: Option<String>,
    /// Bytes; 0: 2 GiB.
    pub cache_max_bytes: u64,
    pub remote: Option<String>,
    pub remote_name_space: Option<String>,
    pub remote_key_file: Option<String>,
    pub remote_password_file: Option<String>,
    pub remote_publish: Option<bool>,
    pub must_hit_verified: Option<bool>,
    pub deny_toolchains: Option<String>,
    /// Bytes; 0: 1 GiB.
    pub module_cache_bytes: u64,
    /// Model file of the GPU, as `sinter device --measure` prints one; "": the built-in model that is nearest.
    pub device_model: Option<String>,
    /// Slots measure predicted choices in the background; prepares take measured choices from the cache.
    pub slot_measure: Option<bool>,
    /// Candidates that prepares measure, to 64; 0: SINTER_MEASURE, else none; -1: none. Where nothing can be measured,
    /// prediction chooses.
    pub measure: i32,
}

fn switch(value: Option<bool>) -> sys::sinter_switch {
    match value {
        None => sys::SINTER_SWITCH_DEFAULT,
        Some(true) => sys::SINTER_SWITCH_ON,
        Some(false) => sys::SINTER_SWITCH_OFF,
    }
}

/// Texts of an option struct, alive as long as it.
#[derive(Default)]
struct Texts(Vec<CString>);

impl Texts {
    fn add(&mut self, field: &str, text: &Option<String>) -> Result<*const c_char> {
        match text {
            None => Ok(null()),
            Some(text) => {
                self.0.push(c_string(field, text)?);
                Ok(self.0[self.0.len() - 1].as_ptr())
            }
        }
    }
}

impl ContextOptions {
    /// Runs `f` with the struct of the C ABI; `log` is its user data.
    pub(crate) fn with_raw<T>(
        &self,
        log: Option<&callback::Log>,
        f: impl FnOnce(&sys::sinter_context_options) -> Result<T>,
    ) -> Result<T> {
        let mut texts = Texts::default();
        let mut packs = Vec::new();
        for pack in self.packs.iter().flatten() {
            packs.push(texts.add("context.packs", &Some(pack.clone()))?);
        }
        let raw = sys::sinter_context_options {
            device: self.device,
            log_level: self.log_level.0,
            target: texts.add("context.target", &self.target)?,
            cache_dir: texts.add("context.cache_dir", &self.cache_dir)?,
            dump_dir: texts.add("context.dump_dir", &self.dump_dir)?,
            nvrtc_path: texts.add("context.nvrtc_path", &self.nvrtc_path)?,
            driver_path: texts.add("context.driver_path", &self.driver_path)?,
            cache: switch(self.cache),
            must_hit: switch(self.must_hit),
            batch_invariant: switch(self.batch_invariant),
            verify: switch(self.verify),
            log: log.map(|_| callback::log as unsafe extern "C" fn(usize, i32, *const c_char)),
            log_user_data: log.map_or(0, callback::Log::user_data),
            tuning_set: texts.add("context.tuning_set", &self.tuning_set)?,
            // An empty list is a list: `as_ptr` is never NULL.
            packs: if self.packs.is_some() { packs.as_ptr() } else { null() },
            pack_count: packs.len() as u32,
            unsigned_packs: switch(self.unsigned_packs),
            pack_keys: texts.add("context.pack_keys", &self.pack_keys)?,
            cache_read_only: switch(self.cache_read_only),
            cache_store: texts.add("context.cache_store", &self.cache_store)?,
            cache_max_bytes: self.cache_max_bytes,
            remote: texts.add("context.remote", &self.remote)?,
            remote_name_space: texts.add("context.remote_name_space", &self.remote_name_space)?,
            remote_key_file: texts.add("context.remote_key_file", &self.remote_key_file)?,
            remote_password_file: texts.add("context.remote_password_file", &self.remote_password_file)?,
            remote_publish: switch(self.remote_publish),
            must_hit_verified: switch(self.must_hit_verified),
            deny_toolchains: texts.add("context.deny_toolchains", &self.deny_toolchains)?,
            module_cache_bytes: self.module_cache_bytes,
            device_model: texts.add("context.device_model", &self.device_model)?,
            slot_measure: switch(self.slot_measure),
            measure: self.measure,
            ..Default::default()
        };
        f(&raw)
    }
}

/// Microseconds, at least 1 so that "at once" is not "none".
fn microseconds(duration: Option<Duration>) -> i64 {
    duration.map_or(0, |d| i64::try_from(d.as_micros()).unwrap_or(i64::MAX).max(1))
}

/// Options of a prepare.
#[derive(Clone, Default)]
pub struct PrepareOptions {
    /// A row's bits do not depend on how many rows there are.
    pub batch_invariant: bool,
    /// A cache miss is [`crate::Status::CACHE_MISS`].
    pub must_hit: bool,
    /// Only a plan that is there, at once; else [`crate::Status::NOT_FOUND`].
    pub no_build: bool,
    /// Checks a new kernel against the plain plan at its first prepare.
    pub verify: bool,
    /// From the call; then [`crate::Status::DEADLINE_EXCEEDED`], and what was finished stays cached.
    pub deadline: Option<Duration>,
    /// Ends the call: [`crate::Status::CANCELLED`].
    pub cancel: Option<Cancel>,
    /// A panic in it is caught.
    pub progress: Option<ProgressCallback>,
    /// The stream that the plan is meant for: if it captures, [`crate::Status::STREAM_CAPTURING`].
    pub stream: Stream,
    /// The fastest plan, unless for measuring.
    pub choice: Choice,
    /// [`crate::Context::prepare_many`]: at most so many at once; 0: one per processor, at most 16.
    pub threads: u32,
    /// Candidates that are built and timed on the GPU where no measured choice is kept, to 64; 0: as the context says;
    /// -1: none.
    pub measure: i32,
    /// At its end the best measured candidate wins. `None`: 20 s.
    pub measure_budget: Option<Duration>,
}

impl PrepareOptions {
    /// The struct of the C ABI; it borrows from `self`, at its address.
    pub(crate) fn raw(&self) -> sys::sinter_prepare_options {
        let mut flags = 0;
        for (wanted, flag) in [
            (self.batch_invariant, sys::SINTER_PREPARE_BATCH_INVARIANT),
            (self.must_hit, sys::SINTER_PREPARE_MUST_HIT),
            (self.no_build, sys::SINTER_PREPARE_NO_BUILD),
            (self.verify, sys::SINTER_PREPARE_VERIFY),
        ] {
            flags |= if wanted { flag } else { 0 };
        }
        sys::sinter_prepare_options {
            flags,
            deadline_us: microseconds(self.deadline),
            cancel: self.cancel.as_ref().map_or(null_mut(), Cancel::as_raw),
            progress: self
                .progress
                .as_ref()
                .map(|_| callback::progress as unsafe extern "C" fn(usize, *const c_char, f64)),
            progress_user_data: self.progress.as_ref().map_or(0, |p| p as *const ProgressCallback as usize),
            stream: self.stream.as_raw(),
            choice: self.choice.0,
            threads: self.threads,
            measure: self.measure,
            measure_budget_us: microseconds(self.measure_budget),
            ..Default::default()
        }
    }
}

/// Options of [`crate::Context::tune`].
#[derive(Clone, Default)]
pub struct TuneOptions {
    /// For plans prepared so.
    pub batch_invariant: bool,
    /// An entry of `into` that can still be used stays, unmeasured.
    pub keep: bool,
    /// At the deadline the best measured candidate wins.
    pub deadline: Option<Duration>,
    /// Candidates built and measured; 0: 11.
    pub top_k: i32,
    /// A tuned choice must be faster by this fraction; 0: 0.02.
    pub switch_margin: f64,
    /// As in [`PrepareOptions`].
    pub stream: Stream,
    /// Receives the choice.
    pub into: Option<TuningSet>,
}

impl TuneOptions {
    pub(crate) fn raw(&self) -> sys::sinter_tune_options {
        let batch_invariant = if self.batch_invariant { sys::SINTER_TUNE_BATCH_INVARIANT } else { 0 };
        let keep = if self.keep { sys::SINTER_TUNE_KEEP } else { 0 };
        sys::sinter_tune_options {
            flags: batch_invariant | keep,
            deadline_us: microseconds(self.deadline),
            top_k: self.top_k,
            switch_margin: self.switch_margin,
            stream: self.stream.as_raw(),
            into: self.into.as_ref().map_or(null_mut(), TuningSet::as_raw),
            ..Default::default()
        }
    }
}
