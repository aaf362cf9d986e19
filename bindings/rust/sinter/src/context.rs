//! Contexts.
use crate::callback::Log;
use crate::error::{c_string, call, long_text};
use crate::handle::handle;
use crate::{
    sys, Chain, ContextOptions, Digest, Error, Pending, Plan, PrepareOptions, Result, Search, Slot, Stats, Status, TuneOptions,
};
use std::ptr::null_mut;
use std::sync::Arc;

handle! {
    /// The context of the C ABI.
    Shared: sinter_context, sinter_context_retain, sinter_context_release
}

/// A device or a target: caches, configuration, counters. `Clone` shares it.
#[derive(Clone, Debug)]
pub struct Context {
    shared: Shared, // before the log: it goes first
    _log: Option<Arc<Log>>,
}

impl Context {
    /// Opens a device, or a target without one. The GPU's primary context is retained and never made current for the
    /// caller.
    pub fn new(options: &ContextOptions) -> Result<Self> {
        let log = options.log.clone().map(|callback| Arc::new(Log::new(callback)));
        let shared = options.with_raw(log.as_deref(), |raw| {
            // SAFETY: the options live for the call.
            Shared::make(|out, error| unsafe { sys::sinter_context_create(raw, out, error) })
        })?;
        Ok(Self { shared, _log: log })
    }

    /// GPU `device` of the driver; all else follows the environment.
    pub fn open(device: i32) -> Result<Self> {
        Self::new(&ContextOptions { device, ..Default::default() })
    }

    /// Without a GPU: "h200", "h100" or a model's text.
    pub fn for_target(target: &str) -> Result<Self> {
        Self::new(&ContextOptions { target: Some(target.to_owned()), ..Default::default() })
    }

    /// The handle of the C ABI, borrowed.
    pub fn as_raw(&self) -> *mut sys::sinter_context {
        self.shared.as_raw()
    }

    /// Whether the context drives a GPU.
    pub fn has_device(&self) -> bool {
        // SAFETY: the handle is alive.
        unsafe { sys::sinter_context_has_device(self.as_raw()) != 0 }
    }

    /// The digest of the context's tuning set, all zero without one.
    pub fn tuning_digest(&self) -> Result<Digest> {
        let mut digest = [0; 32];
        // SAFETY: the digest has 32 bytes.
        call(|error| unsafe { sys::sinter_context_get_tuning_digest(self.as_raw(), digest.as_mut_ptr(), error) })?;
        Ok(digest)
    }

    /// Refuses kernels by the compiler that made them, from now on: NVRTC versions and build ids, separated by commas.
    pub fn deny_toolchains(&self, entries: &str) -> Result<()> {
        let entries = c_string("entries", entries)?;
        // SAFETY: the text is NUL-terminated.
        call(|error| unsafe { sys::sinter_context_deny_toolchains(self.as_raw(), entries.as_ptr(), error) })
    }

    /// Counters since the context was made.
    pub fn stats(&self) -> Result<Stats> {
        let mut stats = Stats::default();
        // SAFETY: the struct knows its size.
        call(|error| unsafe { sys::sinter_context_get_stats(self.as_raw(), &mut stats, error) })?;
        Ok(stats)
    }

    /// The counters as Prometheus text, format 0.0.4.
    pub fn metrics(&self) -> Result<String> {
        // SAFETY: the handle is alive, the buffer has its capacity.
        long_text(|capacity, buffer, required, error| unsafe {
            sys::sinter_context_write_metrics(self.as_raw(), capacity, buffer, required, error)
        })
    }

    /// The plan that serves `m` rows: from a cache, or searched, generated and compiled. Blocks. `m` is ignored when the
    /// chain has no M.
    pub fn prepare(&self, chain: &Chain, m: i64, options: &PrepareOptions) -> Result<Plan> {
        let raw = options.raw();
        // SAFETY: the handles are alive; what the options borrow lives for the call.
        Plan::make(|out, error| unsafe {
            sys::sinter_prepare(self.as_raw(), chain.as_raw(), m, &raw, out, error)
        })
    }

    /// What [`Context::prepare`] would choose, without building it. A prepare does not search again. Blocks.
    pub fn search(&self, chain: &Chain, m: i64, options: &PrepareOptions) -> Result<Search> {
        Search::run(self, chain, m, options)
    }

    /// Several prepares in parallel; waits for all. One that failed has its status; the library gives the message of the
    /// first of them alone.
    pub fn prepare_many(&self, items: &[(&Chain, i64)], options: &PrepareOptions) -> Vec<Result<Plan>> {
        let chains: Vec<*const sys::sinter_chain> = items.iter().map(|(chain, _)| chain.as_raw() as *const _).collect();
        let ms: Vec<i64> = items.iter().map(|(_, m)| *m).collect();
        let mut plans = vec![null_mut(); items.len()];
        let mut statuses = vec![Status::UNKNOWN.0; items.len()];
        let raw = options.raw();
        // SAFETY: the arrays have as many elements as items; what the options borrow lives for the call.
        let failed = call(|error| unsafe {
            let count = items.len() as u32;
            sys::sinter_prepare_many(self.as_raw(), count, chains.as_ptr(), ms.as_ptr(), &raw, plans.as_mut_ptr(),
                                     statuses.as_mut_ptr(), error)
        })
        .err();
        let mut results = Vec::with_capacity(items.len());
        let mut said = false;
        for (index, (plan, status)) in plans.into_iter().zip(statuses).enumerate() {
            results.push(if plan.is_null() {
                Err(match &failed {
                    // UNKNOWN: the call was refused as a whole.
                    Some(error) if !said || Status(status) == Status::UNKNOWN => {
                        said = true;
                        error.clone()
                    }
                    _ => Error::new(Status(status), format!("item {index} of prepare_many")),
                })
            } else {
                // SAFETY: the call gave us a reference to each plan.
                Ok(unsafe { Plan::from_raw(plan) })
            });
        }
        results
    }

    /// Starts a prepare on a thread of the library. Argument errors come at once, all others from the result.
    pub fn prepare_async(&self, chain: &Chain, m: i64, options: &PrepareOptions) -> Result<Pending> {
        Pending::start(self, chain, m, options)
    }

    /// A place that always holds the best plan so far: a plan that is there, else a build in the background.
    pub fn slot(&self, chain: &Chain, m: i64, options: &PrepareOptions) -> Result<Slot> {
        Slot::start(self, chain, m, options, 0)
    }
    /// The same, where the final plan becomes current by [`Slot::switch`] alone, so that ranks change at one step.
    pub fn manual_slot(&self, chain: &Chain, m: i64, options: &PrepareOptions) -> Result<Slot> {
        Slot::start(self, chain, m, options, sys::SINTER_SLOT_MANUAL)
    }

    /// Builds the best-ranked candidates, measures them on the context's GPU and adds the choice to `options.into`.
    /// Blocks.
    pub fn tune(&self, chain: &Chain, m: i64, options: &TuneOptions) -> Result<()> {
        let raw = options.raw();
        // SAFETY: the handles are alive; what the options borrow lives for the call.
        call(|error| unsafe { sys::sinter_tune(self.as_raw(), chain.as_raw(), m, &raw, error) })
    }
}
