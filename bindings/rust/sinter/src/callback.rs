//! Closures that the C callbacks call. A panic must not cross C: it is caught there, and the call goes on.
use crate::{error, LogCallback, LogLevel, ProgressCallback};
use std::os::raw::c_char;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Log closures by number. A plan or a captured graph may log after its context's last handle is gone: a number that is
/// no longer here is ignored, where a pointer would dangle.
static LOGS: Mutex<Logs> = Mutex::new(Logs { last: 0, all: Vec::new() });

struct Logs {
    last: usize,
    all: Vec<(usize, LogCallback)>,
}

fn logs() -> MutexGuard<'static, Logs> {
    LOGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A log closure that the library may call as long as this lives.
#[derive(Debug)]
pub(crate) struct Log(usize);

impl Log {
    pub(crate) fn new(callback: LogCallback) -> Self {
        let mut logs = logs();
        logs.last += 1;
        let number = logs.last;
        logs.all.push((number, callback));
        Self(number)
    }
    pub(crate) fn user_data(&self) -> usize {
        self.0
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let mut logs = logs();
        let at = logs.all.iter().position(|(number, _)| *number == self.0);
        let gone = at.map(|at| logs.all.swap_remove(at));
        drop(logs);
        drop(gone); // what the closure owns may make and drop contexts
    }
}

/// Runs what a caller wrote: no panic may cross C. What one carries is not dropped, since its drop may panic too.
pub(crate) fn quietly(call: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(call)) {
        std::mem::forget(payload);
    }
}

pub(crate) unsafe extern "C" fn log(user_data: usize, level: i32, message: *const c_char) {
    let found = logs().all.iter().find(|(number, _)| *number == user_data).map(|(_, callback)| callback.clone());
    if let Some(callback) = found {
        // SAFETY: the message is borrowed for this call.
        let message = unsafe { error::copied(message) };
        quietly(move || callback(LogLevel(level), &message));
    }
}

/// `user_data` is the address of a `ProgressCallback` that outlives the prepare.
pub(crate) unsafe extern "C" fn progress(user_data: usize, stage: *const c_char, fraction: f64) {
    // SAFETY: as said above; the stage is borrowed for this call.
    let (callback, stage) = unsafe { (&*(user_data as *const ProgressCallback), error::copied(stage)) };
    quietly(|| callback(&stage, fraction));
}
