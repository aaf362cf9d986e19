#![doc = include_str!("../README.md")]
#![warn(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn)]

/// The raw declarations, for calls that this crate has no form of: every type here gives its handle by `as_raw`.
pub use sinter_sys as sys;

mod builder;
mod callback;
mod chain;
mod context;
mod error;
mod group;
mod handle;
mod options;
mod pending;
mod plan;
mod search;
mod slot;
mod tuning;
mod words;

pub use builder::{
    AttentionOptions, ChainBuilder, Conv2dOptions, GatedFfnOptions, GemmChainOptions, GroupedGatedFfnOptions, InputOptions, LinearOptions,
    NextTokenOptions, NormOptions, OutputOptions, QuantizeOptions, Scaled, SoftmaxOptions, Value, WindowOptions, M,
};
pub use chain::{Chain, TensorInfo};
pub use context::Context;
pub use error::{Error, Result};
pub use group::{Exchange, Group, GroupOptions};
pub use options::{ContextOptions, LogCallback, PrepareOptions, ProgressCallback, TuneOptions};
pub use pending::{Cancel, Pending};
pub use plan::{Binding, DevicePtr, Graph, GraphExec, GraphNode, GraphNodes, Launch, Plan, Stream};
pub use search::Search;
pub use sinter_sys::sinter_stats as Stats;
pub use slot::Slot;
pub use tuning::TuningSet;
pub use words::*;

/// A SHA-256.
pub type Digest = [u8; 32];

/// major * 10000 + minor * 100 + patch of the library.
pub fn version() -> u32 {
    // SAFETY: no argument.
    unsafe { sys::sinter_version() }
}

/// One line: the library's version, compiler and build type.
pub fn build_info() -> &'static str {
    // SAFETY: static storage.
    unsafe { error::borrowed(sys::sinter_build_info()) }
}
