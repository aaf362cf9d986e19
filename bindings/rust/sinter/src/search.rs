//! What a prepare would choose.
use crate::error::copied;
use crate::handle::handle;
use crate::{sys, Chain, Choice, Context, PrepareOptions, Result};

handle! {
    /// The search of the C ABI.
    Raw: sinter_search, sinter_search_retain, sinter_search_release
}

/// What a prepare would choose; nothing is built.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Search {
    /// The largest m that one pass of the plan serves.
    pub bucket: i64,
    /// Kernels that a launch enqueues.
    pub kernel_count: u32,
    /// Microseconds at the bucket's rows, as the cost model predicts them.
    pub predicted_us: f64,
    /// The same of the plain plan.
    pub unfused_us: f64,
    /// Bytes; may be 0.
    pub workspace_size: u64,
    /// [`Choice::UNFUSED`] for the plain plan, else [`Choice::FUSED`].
    pub choice: Choice,
    /// Whether a measurement chose the plan.
    pub measured: bool,
    /// "fused", "partly fused" or "unfused".
    pub name: String,
    /// For people: which ops share kernels, and why others do not.
    pub note: String,
}

impl Search {
    pub(crate) fn run(context: &Context, chain: &Chain, m: i64, options: &PrepareOptions) -> Result<Self> {
        let given = options.raw();
        // SAFETY: the handles are alive; what the options borrow lives for the call.
        let made = Raw::make(|out, error| unsafe {
            sys::sinter_context_search(context.as_raw(), chain.as_raw(), m, &given, out, error)
        })?;
        let raw = made.as_raw();
        // SAFETY: the handle is alive; its texts are copied.
        Ok(unsafe {
            Self {
                bucket: sys::sinter_search_get_bucket(raw),
                kernel_count: sys::sinter_search_get_kernel_count(raw),
                predicted_us: sys::sinter_search_get_predicted_us(raw),
                unfused_us: sys::sinter_search_get_unfused_us(raw),
                workspace_size: sys::sinter_search_get_workspace_size(raw),
                choice: Choice(sys::sinter_search_get_choice(raw)),
                measured: sys::sinter_search_is_measured(raw) != 0,
                name: copied(sys::sinter_search_get_name(raw)),
                note: copied(sys::sinter_search_get_note(raw)),
            }
        })
    }
}
