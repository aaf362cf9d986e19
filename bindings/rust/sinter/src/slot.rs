//! Places that always hold the best plan so far.
use crate::error::call;
use crate::handle::handle;
use crate::pending::Raw as RawPending;
use crate::{sys, Chain, Context, Pending, Plan, PrepareOptions, Result, Status};
use std::sync::Arc;

handle! {
    /// The slot of the C ABI. Its last release cancels a build under way and waits for its thread.
    Raw: sinter_slot, sinter_slot_retain, sinter_slot_release
}

/// A place that always holds the best plan so far, for callers that must not wait. The contents of a plan, binding and graph
/// never change: to use a better plan, ask for it, bind and capture again. `Clone` shares it.
#[derive(Clone)]
pub struct Slot {
    raw: Raw,
    /// What the build borrows: it goes after it.
    options: Arc<PrepareOptions>,
}

impl Slot {
    pub(crate) fn start(context: &Context, chain: &Chain, m: i64, options: &PrepareOptions, flags: u32) -> Result<Self> {
        let options = Arc::new(options.clone());
        let given = options.raw();
        // SAFETY: the handles are alive; what the options borrow lives as long as the build.
        let raw = Raw::make(|out, error| unsafe {
            sys::sinter_slot_create(context.as_raw(), chain.as_raw(), m, &given, flags, out, error)
        })?;
        Ok(Self { raw, options })
    }

    /// The current plan, at once; `None` when there is none yet. The error is the build's.
    pub fn plan(&self) -> Result<Option<Plan>> {
        // SAFETY: the handle is alive.
        match Plan::make(|out, error| unsafe { sys::sinter_slot_acquire(self.raw.as_raw(), out, error) }) {
            Err(error) if error.status() == Status::NOT_FOUND => Ok(None),
            result => result.map(Some),
        }
    }

    /// 0: no plan yet, 1: one that stands in, 2: the final one, then one more for each that was offered; current or not.
    pub fn generation(&self) -> u64 {
        // SAFETY: the handle is alive.
        unsafe { sys::sinter_slot_get_generation(self.raw.as_raw()) }
    }

    /// Gives the slot a plan that was prepared elsewhere for the same chain, bucket and device: by a context with another
    /// tuning set. `INVALID_ARGUMENT` names what differs; `FAILED_PRECONDITION` while the build is under way.
    pub fn offer(&self, plan: &Plan) -> Result<()> {
        // SAFETY: the handles are alive; the slot takes a reference of its own.
        call(|error| unsafe { sys::sinter_slot_offer(self.raw.as_raw(), plan.as_raw(), error) })
    }

    /// Makes the newest plan of a manual slot current. `NOT_FOUND` while it is being built.
    pub fn switch(&self) -> Result<()> {
        // SAFETY: the handle is alive.
        call(|error| unsafe { sys::sinter_slot_switch(self.raw.as_raw(), error) })
    }

    /// The build, which has ended after a hit: to wait for or to await, and for its error.
    pub fn build(&self) -> Result<Pending> {
        // SAFETY: the handle is alive.
        let raw = RawPending::make(|out, error| unsafe { sys::sinter_slot_get_build(self.raw.as_raw(), out, error) })?;
        Ok(Pending::under(raw, Arc::clone(&self.options)))
    }
}
