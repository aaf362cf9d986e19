//! Prepares under way.
use crate::callback::quietly;
use crate::error::call;
use crate::handle::handle;
use crate::{sys, Chain, Context, Error, Plan, PrepareOptions, Result, Status};
use std::future::Future;
use std::os::unix::io::{BorrowedFd, RawFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{self, Poll, Waker};
use std::time::Duration;

handle! {
    /// A switch that ends the calls that were given it. `Clone` shares it.
    Cancel: sinter_cancel, sinter_cancel_retain, sinter_cancel_release
}

impl Cancel {
    /// A switch that nobody has used yet.
    pub fn new() -> Result<Self> {
        // SAFETY: no argument.
        Self::make(|out, error| unsafe { sys::sinter_cancel_create(out, error) })
    }
    /// Ends them.
    pub fn request(&self) {
        // SAFETY: the handle is alive.
        unsafe { sys::sinter_cancel_request(self.as_raw()) }
    }
}

handle! {
    /// The pending prepare of the C ABI. Its last release cancels the prepare and waits for its thread.
    Raw: sinter_pending, sinter_pending_retain, sinter_pending_release
}

/// The prepare, and what it borrows: the options go after it.
struct Under {
    raw: Raw,
    _options: Arc<PrepareOptions>,
}

impl Under {
    fn is_ready(&self) -> bool {
        // SAFETY: the handle is alive.
        unsafe { sys::sinter_pending_poll(self.raw.as_raw()) != 0 }
    }
    /// `None` when it is still under way. The prepare's own deadline has the same status as a wait's.
    fn get(&self, timeout_us: i64) -> Option<Result<Plan>> {
        let wait = |timeout_us| {
            // SAFETY: the handle is alive.
            Plan::make(|out, error| unsafe { sys::sinter_pending_get(self.raw.as_raw(), timeout_us, out, error) })
        };
        match wait(timeout_us) {
            Err(error) if error.status() == Status::DEADLINE_EXCEEDED => self.is_ready().then(|| wait(0)),
            result => Some(result),
        }
    }
}

/// Who waits in an await; shared with the call that the library makes when the prepare has ended.
type Waiting = Mutex<Option<Waker>>;

fn waker_of(waiting: &Waiting) -> MutexGuard<'_, Option<Waker>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wakes the waiting task. `user_data` is a share of `Waiting`, which the library gives back once.
unsafe extern "C" fn wake(user_data: usize, _: *const sys::sinter_pending, _: sys::sinter_status) {
    // SAFETY: as said above.
    let waiting = unsafe { Arc::from_raw(user_data as *const Waiting) };
    let waker = waker_of(&waiting).take();
    if let Some(waker) = waker {
        quietly(|| waker.wake());
    }
}

/// A prepare under way: asked for, waited for, or awaited, which needs no runtime of a certain kind. Dropping it cancels
/// the prepare and waits until its thread has seen that: mostly within 100 ms, longer while the compiler is at work.
pub struct Pending {
    under: Under,
    /// Made by the first poll of a future.
    waiting: Option<Arc<Waiting>>,
}

impl Pending {
    pub(crate) fn start(context: &Context, chain: &Chain, m: i64, options: &PrepareOptions) -> Result<Self> {
        let options = Arc::new(options.clone());
        let given = options.raw();
        // SAFETY: the handles are alive; what the options borrow lives as long as the prepare.
        let raw = Raw::make(|out, error| unsafe {
            sys::sinter_prepare_async(context.as_raw(), chain.as_raw(), m, &given, out, error)
        })?;
        Ok(Self::under(raw, options))
    }
    pub(crate) fn under(raw: Raw, options: Arc<PrepareOptions>) -> Self {
        Self { under: Under { raw, _options: options }, waiting: None }
    }

    /// Whether a result is there. Never blocks.
    pub fn is_ready(&self) -> bool {
        self.under.is_ready()
    }

    /// Waits for the result.
    pub fn wait(&self) -> Result<Plan> {
        self.under.get(-1).unwrap_or_else(|| Err(Error::new(Status::INTERNAL, "a wait ended without a result")))
    }

    /// Waits at most so long; `None` when it is still under way.
    pub fn wait_timeout(&self, timeout: Duration) -> Option<Result<Plan>> {
        const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400); // added to a clock, more would wrap
        self.under.get(timeout.min(CENTURY).as_micros() as i64)
    }

    /// Readable permanently once the prepare has ended, for an event loop; closed when this is dropped. `None`: none to be
    /// had.
    pub fn as_raw_fd(&self) -> Option<RawFd> {
        // SAFETY: the handle is alive.
        let fd = unsafe { sys::sinter_pending_get_fd(self.under.raw.as_raw()) };
        (fd >= 0).then(|| fd)
    }

    /// The same, borrowed: it cannot outlive this.
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the descriptor is open as long as the handle is alive, which the borrow holds.
        self.as_raw_fd().map(|fd| unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Asks once for the call that wakes.
    fn wake_later(&mut self, waker: Waker) -> Result<()> {
        if let Some(waiting) = &self.waiting {
            *waker_of(waiting) = Some(waker);
            return Ok(());
        }
        let waiting = Arc::new(Mutex::new(Some(waker)));
        let share = Arc::into_raw(Arc::clone(&waiting));
        // SAFETY: the handle is alive, and `wake` takes the share back.
        let asked = call(|error| unsafe {
            sys::sinter_pending_on_ready(self.under.raw.as_raw(), Some(wake), share as usize, error)
        });
        if asked.is_err() {
            // SAFETY: nobody else took it.
            drop(unsafe { Arc::from_raw(share) });
        }
        self.waiting = Some(waiting);
        asked
    }
}

impl Future for Pending {
    type Output = Result<Plan>;

    fn poll(mut self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<Self::Output> {
        if !self.is_ready() {
            if let Err(error) = self.wake_later(context.waker().clone()) {
                return Poll::Ready(Err(error));
            }
        }
        // Asked again: it may have ended before there was a waker.
        match self.under.get(0) {
            Some(result) => Poll::Ready(result),
            None => Poll::Pending,
        }
    }
}
