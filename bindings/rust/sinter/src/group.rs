//! Groups of GPUs of one host, over which a chain is split.
use crate::callback::quietly;
use crate::error::call;
use crate::handle::handle;
use crate::{sys, Context, DevicePtr, Error, Result, Status};
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::os::raw::c_void;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// An all-gather of the caller, over MPI, sockets or a store: takes this rank's bytes, and gives those of all ranks, as
/// many of each, in the order of ranks. It must end by itself where a rank does not come. What it fails with, or a panic,
/// is the error of the call that gathered; it is not called again for the group then.
pub type Exchange = Arc<dyn Fn(&[u8]) -> std::result::Result<Vec<Vec<u8>>, Box<dyn std::error::Error>> + Send + Sync>;

/// Options of a group; sinter_group.h says of each field what it means.
#[derive(Clone, Debug)]
pub struct GroupOptions {
    /// Bytes of the largest message of one kernel; 0: the library's choice.
    pub slot_bytes: u64,
    /// How long a kernel waits for another rank; `None`: until [`Group::abort`].
    pub timeout: Option<Duration>,
    /// The caller's symmetric memory: the address of each rank's buffer as this GPU sees it. Empty: the library allocates.
    pub peers: Vec<DevicePtr>,
    /// Bytes of each of `peers`.
    pub peer_bytes: u64,
    /// What the library allocates is shared by POSIX file descriptors, not by cuIpc handles.
    pub descriptors: bool,
}

impl Default for GroupOptions {
    fn default() -> Self {
        Self { slot_bytes: 0, timeout: Some(Duration::from_secs(10)), peers: Vec::new(), peer_bytes: 0, descriptors: false }
    }
}

impl GroupOptions {
    /// What the library reads; it borrows `peers`.
    fn raw(&self) -> sys::sinter_group_options {
        let mut raw = sys::sinter_group_options { slot_bytes: self.slot_bytes, ..Default::default() };
        match self.timeout {
            None => raw.flags = sys::SINTER_GROUP_NO_TIMEOUT,
            Some(time) => raw.timeout_ms = time.as_millis().clamp(1, u128::from(u32::MAX)) as u32,
        }
        if self.descriptors {
            raw.flags |= sys::SINTER_GROUP_DESCRIPTORS;
        }
        if !self.peers.is_empty() {
            raw.peers = self.peers.as_ptr();
            raw.bytes = self.peer_bytes;
        }
        raw
    }
}

handle! {
    /// The group of the C ABI.
    Raw: sinter_group, sinter_group_retain, sinter_group_release
}

/// The caller's exchange, which the library knows by its address.
struct Gatherer {
    exchange: Exchange,
    size: usize,
}

thread_local! {
    /// What an exchange failed with, for the call on this thread that asked for it.
    static FAILED: RefCell<Option<String>> = RefCell::new(None);
}

impl Gatherer {
    fn run(&self, send: &[u8], recv: &mut [u8]) -> std::result::Result<(), String> {
        let mut gathered = Err("group.exchange panicked".to_owned());
        quietly(|| gathered = (self.exchange)(send).map_err(|error| format!("group.exchange: {error}")));
        let parts = gathered?;
        if parts.len() != self.size || parts.iter().any(|part| part.len() != send.len()) {
            let lengths: Vec<usize> = parts.iter().map(Vec::len).collect();
            return Err(format!("group.exchange gave {lengths:?} bytes, must be {} times {}", self.size, send.len()));
        }
        for (to, part) in recv.chunks_exact_mut(send.len().max(1)).zip(&parts) {
            to.copy_from_slice(part);
        }
        Ok(())
    }
}

/// `user_data` is the address of a `Gatherer` that outlives the call.
unsafe extern "C" fn gather(user_data: usize, send: *const c_void, bytes: usize, recv: *mut c_void) -> sys::sinter_status {
    // SAFETY: as said above; the library gives `bytes` bytes, and room for those of all ranks, for this call.
    let (gatherer, send, recv) = unsafe {
        let gatherer = &*(user_data as *const Gatherer);
        let recv = std::slice::from_raw_parts_mut(recv.cast::<u8>(), bytes * gatherer.size);
        (gatherer, std::slice::from_raw_parts(send.cast::<u8>(), bytes), recv)
    };
    match gatherer.run(send, recv) {
        Ok(()) => Status::OK.0,
        Err(failed) => {
            FAILED.with(|of_thread| *of_thread.borrow_mut() = Some(failed));
            Status::UNKNOWN.0
        }
    }
}

/// Runs what may gather; an exchange's own error takes the place of the library's.
pub(crate) fn gathering<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    FAILED.with(|of_thread| of_thread.borrow_mut().take());
    let result = call();
    match FAILED.with(|of_thread| of_thread.borrow_mut().take()) {
        Some(failed) if result.is_err() => Err(Error::new(Status::UNKNOWN, failed)),
        _ => result,
    }
}

struct Shared {
    raw: ManuallyDrop<Raw>,
    rank: i32,
    size: i32,
    gatherer: Option<Box<Gatherer>>, // none where all ranks are of this process
    closed: AtomicBool,
}

impl Drop for Shared {
    /// A group that nobody closed has ended on all ranks, and keeps its memory, which others write.
    fn drop(&mut self) {
        if self.gatherer.is_none() || self.closed.load(Ordering::Acquire) {
            // SAFETY: dropped only here.
            unsafe { ManuallyDrop::drop(&mut self.raw) };
            return;
        }
        // SAFETY: the handle is alive, and stays so.
        let _ = call(|error| unsafe { sys::sinter_group_abort(self.raw.as_raw(), error) });
    }
}

/// This rank's part in a group. Thread-safe; it serves one stream at a time. `Clone` shares it, and bindings keep what
/// they need of it.
///
/// Close it: other ranks write this one's memory, and freeing that while they live is undefined. One whose last handle is
/// dropped unclosed ends the group on all ranks and keeps its memory until the process ends. Groups of [`Group::local`]
/// need no close: drop them once all ranks have synchronised.
#[derive(Clone)]
pub struct Group {
    shared: Arc<Shared>,
}

impl Group {
    /// Collective: all ranks call it, and where one fails all do. `rank` of `size`, 2 to 8.
    ///
    /// # Safety
    /// `peers`, where they are given, are as sinter_group.h says, and outlive the group and every launch.
    pub unsafe fn with_peers(context: &Context, rank: i32, size: i32, exchange: Exchange, options: &GroupOptions) -> Result<Self> {
        if !options.peers.is_empty() && options.peers.len() as i64 != i64::from(size) {
            let message = format!("group.peers are {}, must be {size}, one a rank", options.peers.len());
            return Err(Error::new(Status::INVALID_ARGUMENT, message));
        }
        let gatherer = Box::new(Gatherer { exchange, size: size.max(0) as usize });
        let mut raw = options.raw();
        raw.rank = rank;
        raw.size = size;
        raw.exchange = Some(gather);
        raw.user_data = &*gatherer as *const Gatherer as usize;
        // SAFETY: the handle is alive; what the options borrow lives for the call, the exchange as long as the group.
        let made = gathering(|| Raw::make(|out, error| unsafe { sys::sinter_group_create(context.as_raw(), &raw, out, error) }))?;
        Ok(Self::of(made, rank, size, Some(gatherer)))
    }

    /// The same with memory that the library allocates, and shares among processes.
    pub fn new(context: &Context, rank: i32, size: i32, exchange: Exchange, options: &GroupOptions) -> Result<Self> {
        if !options.peers.is_empty() {
            return Err(Error::new(Status::INVALID_ARGUMENT, "group.peers are given, must be empty: see Group::with_peers"));
        }
        // SAFETY: there are no peers.
        unsafe { Self::with_peers(context, rank, size, exchange, options) }
    }

    /// A group of GPUs of this process: rank i runs on `contexts[i]`. Bind every rank's plan before the first launch.
    pub fn local(contexts: &[&Context], options: &GroupOptions) -> Result<Vec<Self>> {
        let given: Vec<*mut sys::sinter_context> = contexts.iter().map(|context| context.as_raw()).collect();
        let mut made = vec![null_mut(); contexts.len().max(1)];
        let mut raw = options.raw();
        raw.peers = if options.peers.is_empty() { null() } else { options.peers.as_ptr() };
        // SAFETY: the handles are alive, and there is a place for each group.
        call(|error| unsafe {
            sys::sinter_group_create_local(given.as_ptr(), contexts.len() as u32, &raw, made.as_mut_ptr(), error)
        })?;
        let groups = made.into_iter().enumerate().map(|(rank, raw)| {
            // SAFETY: the call gave us a reference to each.
            Self::of(unsafe { Raw::from_raw(raw) }, rank as i32, contexts.len() as i32, None)
        });
        Ok(groups.collect())
    }

    fn of(raw: Raw, rank: i32, size: i32, gatherer: Option<Box<Gatherer>>) -> Self {
        let closed = AtomicBool::new(false);
        Self { shared: Arc::new(Shared { raw: ManuallyDrop::new(raw), rank, size, gatherer, closed }) }
    }

    /// The handle of the C ABI, borrowed.
    pub fn as_raw(&self) -> *mut sys::sinter_group {
        self.shared.raw.as_raw()
    }
    /// This rank's number.
    pub fn rank(&self) -> i32 {
        self.shared.rank
    }
    /// How many ranks there are.
    pub fn size(&self) -> i32 {
        self.shared.size
    }

    /// `Ok` while the group lives, else why it ended: [`Status::DEADLINE_EXCEEDED`] (a rank was missed),
    /// [`Status::FAILED_PRECONDITION`] (ranks made different calls) or [`Status::ABORTED`]. Never blocks: ask after a
    /// synchronisation.
    pub fn status(&self) -> Result<()> {
        // SAFETY: the handle is alive.
        call(|error| unsafe { sys::sinter_group_get_status(self.as_raw(), null_mut(), error) })
    }

    /// The rank because of which the group ended; `None` while it lives.
    pub fn missed(&self) -> Option<i32> {
        let mut rank = -1;
        // SAFETY: the handle is alive.
        let _ = call(|error| unsafe { sys::sinter_group_get_status(self.as_raw(), &mut rank, error) });
        (rank >= 0).then(|| rank)
    }

    /// Ends the group on all ranks: waits of kernels return soon, later launches are refused.
    pub fn abort(&self) -> Result<()> {
        // SAFETY: the handle is alive.
        call(|error| unsafe { sys::sinter_group_abort(self.as_raw(), error) })
    }

    /// Collective, once every rank's launches are synchronised: frees the memory of ranks that are processes. Nothing may
    /// be launched over the group afterwards; its status can be asked.
    pub fn close(&self) -> Result<()> {
        // SAFETY: the handle is alive.
        gathering(|| call(|error| unsafe { sys::sinter_group_close(self.as_raw(), error) }))?;
        self.shared.closed.store(true, Ordering::Release);
        Ok(())
    }
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Group(rank {} of {})", self.rank(), self.size())
    }
}
