//! Plans, bindings and launches.
use crate::error::{call, long_text};
use crate::group::gathering;
use crate::handle::handle;
use crate::{sys, Digest, Group, Result};
use std::ffi::CStr;
use std::fmt;
use std::os::raw::c_void;
use std::ptr::{null, null_mut};

/// A device address, aligned to 16 bytes.
pub type DevicePtr = u64;

/// The caller's `CUstream` or `cudaStream_t`; the default is the legacy default stream. A number: it owns nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream(*mut c_void);

// SAFETY: the driver takes streams from any thread.
unsafe impl Send for Stream {}
unsafe impl Sync for Stream {}

impl Stream {
    /// A stream of the driver or the runtime API, say cudarc's `stream.cu_stream() as *mut c_void`.
    ///
    /// # Safety
    /// It is one, and stays until nothing uses this any more: a prepare asks the driver whether it captures.
    ///
    /// ```compile_fail,E0133
    /// let options = sinter::PrepareOptions { stream: sinter::Stream::from_raw(8 as *mut _), ..Default::default() };
    /// ```
    pub unsafe fn from_raw(stream: *mut c_void) -> Self {
        Self(stream)
    }
    pub(crate) fn as_raw(self) -> sys::sinter_stream {
        self.0.cast()
    }
}
impl Default for Stream {
    fn default() -> Self {
        Self(null_mut())
    }
}

/// Flags of a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Launch(u32);

impl Launch {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// Programmatic dependent launch: the first kernel may start before the kernel ahead on the stream has ended.
    pub const PDL: Self = Self(sys::SINTER_LAUNCH_PDL);
}

/// The caller's `CUgraph`, `CUgraphNode` and `CUgraphExec`.
pub type Graph = sys::sinter_graph;
#[allow(missing_docs)]
pub type GraphNode = sys::sinter_graph_node;
#[allow(missing_docs)]
pub type GraphExec = sys::sinter_graph_exec;

handle! {
    /// A chain prepared for a bucket of M, kernels loaded: immutable. `Clone` shares it.
    Plan: sinter_plan, sinter_plan_retain, sinter_plan_release
}

impl Plan {
    /// Equal wherever chain, bucket, device model, library version, tuning set and options are.
    pub fn digest(&self) -> Result<Digest> {
        let mut digest = [0; 32];
        // SAFETY: the digest has 32 bytes.
        call(|error| unsafe { sys::sinter_plan_get_digest(self.as_raw(), digest.as_mut_ptr(), error) })?;
        Ok(digest)
    }

    /// The largest m that one pass serves.
    pub fn bucket(&self) -> i64 {
        // SAFETY: the handle is alive.
        unsafe { sys::sinter_plan_get_bucket(self.as_raw()) }
    }

    /// The largest m that a launch takes, in one pass or several; 0 of a chain without M.
    pub fn max_m(&self) -> i64 {
        // SAFETY: the handle is alive.
        unsafe { sys::sinter_plan_get_max_m(self.as_raw()) }
    }

    /// Buffers that a bind takes: the chain's inputs and outputs.
    pub fn buffer_count(&self) -> u32 {
        // SAFETY: the handle is alive.
        unsafe { sys::sinter_plan_get_buffer_count(self.as_raw()) }
    }

    /// Bytes; may be 0.
    pub fn workspace_size(&self) -> u64 {
        // SAFETY: the handle is alive.
        unsafe { sys::sinter_plan_get_workspace_size(self.as_raw()) }
    }

    /// The plan on one screen, and the best of what lost and why.
    pub fn explain(&self) -> Result<String> {
        // SAFETY: the handle is alive, the buffer has its capacity.
        long_text(|capacity, buffer, required, error| unsafe {
            sys::sinter_plan_explain(self.as_raw(), capacity, buffer, required, error)
        })
    }

    /// Enqueues the zeroing of a workspace, once before its first use.
    ///
    /// # Safety
    /// `workspace` is `bytes` bytes of memory of the context's device that nothing else uses until the stream is past
    /// this; `stream` is a stream of that device.
    pub unsafe fn init_workspace(&self, workspace: DevicePtr, bytes: u64, stream: Stream) -> Result<()> {
        // SAFETY: as this function requires.
        call(|error| unsafe {
            sys::sinter_plan_init_workspace(self.as_raw(), workspace, bytes, stream.as_raw(), error)
        })
    }

    /// Checks the buffers' alignment and encodes tensor maps once. `buffers`: the chain's inputs in the order of their
    /// adds, then its outputs. `workspace` may be 0 when its size is.
    ///
    /// # Safety
    /// Every launch of the binding, also of a graph that captured it, uses the buffers and the workspace: until the last
    /// has ended they stay allocated on the context's device, as large as [`crate::Chain::buffer`] says for its m, and
    /// nothing else writes them meanwhile. A workspace serves one plan on one stream at a time.
    pub unsafe fn bind(&self, buffers: &[DevicePtr], workspace: DevicePtr) -> Result<Binding> {
        // SAFETY: as this function requires.
        Binding::make(|out, error| unsafe {
            sys::sinter_plan_bind(self.as_raw(), buffers.len() as u32, buffers.as_ptr(), workspace, out, error)
        })
    }

    /// The same of a chain that is split over the ranks of `group`, which the binding keeps. Collective the first time that
    /// the group meets the plan: ranks bind their plans in one order. [`Status::FAILED_PRECONDITION`](crate::Status) where
    /// ranks have different plans, or the group has another size, too small slots, or is closed.
    ///
    /// # Safety
    /// As of [`Plan::bind`]; launches of all ranks are the same, with the same m, in the same order.
    pub unsafe fn bind_group(&self, buffers: &[DevicePtr], workspace: DevicePtr, group: &Group) -> Result<Binding> {
        // SAFETY: as this function requires.
        gathering(|| {
            Binding::make(|out, error| unsafe {
                sys::sinter_plan_bind_group(self.as_raw(), buffers.len() as u32, buffers.as_ptr(), workspace,
                                            group.as_raw(), out, error)
            })
        })
    }

    /// Bind and launch in one call, for buffers that change every time.
    ///
    /// # Safety
    /// As of [`Plan::bind`] and [`Binding::launch`].
    pub unsafe fn launch(
        &self,
        stream: Stream,
        m: impl Into<Option<i64>>,
        buffers: &[DevicePtr],
        workspace: DevicePtr,
        flags: Launch,
    ) -> Result<()> {
        let m = m.into();
        let (count, symbols) = symbols(&m);
        // SAFETY: as this function requires.
        call(|error| unsafe {
            sys::sinter_plan_launch(self.as_raw(), stream.as_raw(), count, symbols, buffers.len() as u32,
                                    buffers.as_ptr(), workspace, flags.0, error)
        })
    }
}

/// A summary of [`Plan::explain`] in a few lines: schedules, times, where the kernels came from. It uses the experimental
/// part of the ABI.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = null_mut();
        // SAFETY: the handle is alive.
        call(|error| unsafe { sys::experimental::sinter_x_plan_summary(self.as_raw(), &mut text, error) })
            .map_err(|_| fmt::Error)?;
        // SAFETY: the text is NUL-terminated, and ours until it is released.
        let lines = unsafe { CStr::from_ptr(sys::experimental::sinter_x_text_get(text)) };
        let written = f.write_str(&lines.to_string_lossy());
        // SAFETY: released once.
        unsafe { sys::experimental::sinter_x_text_release(text) };
        written
    }
}

fn symbols(m: &Option<i64>) -> (u32, *const i64) {
    m.as_ref().map_or((0, null()), |m| (1, m as *const i64))
}

handle! {
    /// A plan bound to buffers: immutable; it keeps the plan. `Clone` shares it.
    Binding: sinter_binding, sinter_binding_retain, sinter_binding_release
}

impl Binding {
    /// Enqueues the plan's kernels for `m` rows, `None` for a chain without M. Only enqueues; legal in capture.
    ///
    /// # Safety
    /// `stream` is a stream of the context's device; the buffers are as [`Plan::bind`] says until the launch has ended.
    pub unsafe fn launch(&self, stream: Stream, m: impl Into<Option<i64>>, flags: Launch) -> Result<()> {
        let m = m.into();
        let (count, symbols) = symbols(&m);
        // SAFETY: as this function requires.
        call(|error| unsafe {
            sys::sinter_binding_launch(self.as_raw(), stream.as_raw(), count, symbols, flags.0, error)
        })
    }

    /// Adds to `graph` what a launch would enqueue, after `dependencies`. With [`Launch::PDL`] the edges from dependencies
    /// that are kernels are programmatic.
    ///
    /// # Safety
    /// `graph` is a graph that no other thread uses meanwhile, the dependencies are nodes of it; the buffers are as
    /// [`Plan::bind`] says as long as something runs that was made from it.
    pub unsafe fn add_to_graph(
        &self,
        graph: Graph,
        dependencies: &[GraphNode],
        m: impl Into<Option<i64>>,
        flags: Launch,
    ) -> Result<GraphNodes> {
        let m = m.into();
        let (count, symbols) = symbols(&m);
        // SAFETY: as this function requires.
        GraphNodes::make(|out, error| unsafe {
            sys::sinter_binding_add_to_graph(self.as_raw(), graph, dependencies.len() as u32, dependencies.as_ptr(),
                                             count, symbols, flags.0, out, error)
        })
    }
}

handle! {
    /// What one [`Binding::add_to_graph`] made; it keeps the plan, not the graph. `Clone` shares it.
    GraphNodes: sinter_graph_nodes, sinter_graph_nodes_retain, sinter_graph_nodes_release
}

impl GraphNodes {
    /// The nodes, in the order in which they run; the last ends the plan.
    pub fn nodes(&self) -> Vec<GraphNode> {
        // SAFETY: the handle is alive, and there are so many.
        unsafe {
            let count = sys::sinter_graph_nodes_get_count(self.as_raw());
            (0..count).map(|i| sys::sinter_graph_nodes_get(self.as_raw(), i)).collect()
        }
    }

    /// The buffers of `binding`, of the same plan, and `m` rows in an instance of the graph;
    /// [`crate::Status::FAILED_PRECONDITION`] if the graph must be rebuilt.
    ///
    /// # Safety
    /// `exec` is an instance of the graph that the nodes are still in, which nothing launches meanwhile; the buffers
    /// are as [`Plan::bind`] says.
    pub unsafe fn update(&self, exec: GraphExec, binding: &Binding, m: impl Into<Option<i64>>) -> Result<()> {
        let m = m.into();
        let (count, symbols) = symbols(&m);
        // SAFETY: as this function requires.
        call(|error| unsafe {
            sys::sinter_graph_nodes_update(self.as_raw(), exec, binding.as_raw(), count, symbols, error)
        })
    }
}
