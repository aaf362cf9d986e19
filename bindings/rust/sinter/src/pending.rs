//! Prepares under way.
use crate::handle::handle;
use crate::{sys, Chain, Context, Error, Plan, PrepareOptions, Result, Status};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{self, Poll, Waker};
use std::thread::JoinHandle;
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
    _options: Box<PrepareOptions>,
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

/// What a future and the thread that wakes it share.
struct Watched {
    under: Under,
    abandoned: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

/// A prepare under way: asked for, waited for, or awaited, which needs no runtime of a certain kind. Dropping it cancels
/// the prepare and waits until its thread has seen that: mostly within 100 ms, longer while the compiler is at work.
pub struct Pending {
    watched: Arc<Watched>,
    watcher: Option<JoinHandle<()>>,
}

/// How long the thread that waits for an awaited prepare sleeps before it asks whether anybody still wants it.
const SLICE: Duration = Duration::from_millis(20);

impl Pending {
    pub(crate) fn start(context: &Context, chain: &Chain, m: i64, options: &PrepareOptions) -> Result<Self> {
        let options = Box::new(options.clone());
        let given = options.raw();
        // SAFETY: the handles are alive; what the options borrow lives as long as the prepare.
        let raw = Raw::make(|out, error| unsafe {
            sys::sinter_prepare_async(context.as_raw(), chain.as_raw(), m, &given, out, error)
        })?;
        let under = Under { raw, _options: options };
        let watched = Watched { under, abandoned: AtomicBool::new(false), waker: Mutex::new(None) };
        Ok(Self { watched: Arc::new(watched), watcher: None })
    }

    /// Whether a result is there. Never blocks.
    pub fn is_ready(&self) -> bool {
        self.watched.under.is_ready()
    }

    /// Waits for the result.
    pub fn wait(&self) -> Result<Plan> {
        self.watched.under.get(-1).unwrap_or_else(|| Err(Error::new(Status::INTERNAL, "a wait ended without a result")))
    }

    /// Waits at most so long; `None` when it is still under way.
    pub fn wait_timeout(&self, timeout: Duration) -> Option<Result<Plan>> {
        self.watched.under.get(i64::try_from(timeout.as_micros()).unwrap_or(i64::MAX))
    }

    /// Starts the thread that wakes the future: the C ABI can be waited for, and calls nobody.
    fn watch(&mut self) -> Result<()> {
        if self.watcher.is_some() {
            return Ok(());
        }
        let watched = Arc::clone(&self.watched);
        let body = move || {
            while !watched.abandoned.load(Ordering::Acquire) {
                if watched.under.get(SLICE.as_micros() as i64).is_some() {
                    break;
                }
            }
            let waker = watched.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(waker) = waker {
                waker.wake();
            }
        };
        let started = std::thread::Builder::new().name("sinter-await".to_owned()).spawn(body);
        let no_thread = |error| Error::new(Status::RESOURCE_EXHAUSTED, format!("no thread to await with: {error}"));
        self.watcher = Some(started.map_err(no_thread)?);
        Ok(())
    }
}

impl Future for Pending {
    type Output = Result<Plan>;

    fn poll(mut self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<Self::Output> {
        if !self.is_ready() {
            *self.watched.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(context.waker().clone());
            if let Err(error) = self.watch() {
                return Poll::Ready(Err(error));
            }
        }
        // Asked again: the thread may have looked for a waker before there was one.
        match self.watched.under.get(0) {
            Some(result) => Poll::Ready(result),
            None => Poll::Pending,
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.watched.abandoned.store(true, Ordering::Release);
        // No thread may be in the library when the program ends; what is left of `watched` cancels and waits.
        // A waker that drops the future where it is called is on that thread.
        let watcher = self.watcher.take().filter(|watcher| watcher.thread().id() != std::thread::current().id());
        if let Some(watcher) = watcher {
            let _ = watcher.join();
        }
    }
}
