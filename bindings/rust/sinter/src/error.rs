//! Failed calls.
use crate::{sys, Status};
use std::ffi::{CStr, CString};
use std::os::raw::c_char;
use std::ptr::null_mut;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    status: Status,
    message: String,
    op: Option<u32>,
    field: Option<String>,
    value: Option<String>,
    bound: Option<String>,
    driver_result: i32,
    compile_log: String,
}

/// What a call gives, or why it does not.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Self {
        let (op, field, value, bound) = (None, None, None, None);
        Self { status, message: message.into(), op, field, value, bound, driver_result: 0, compile_log: String::new() }
    }
    /// What kind of failure it is.
    pub fn status(&self) -> Status {
        self.status
    }
    /// One lower-case line naming the op, the field, the value and the bound.
    pub fn message(&self) -> &str {
        &self.message
    }
    /// The number of the op that the message names: of an add that failed, the values that the chain had; of a finished
    /// chain, by its canonical order.
    pub fn op(&self) -> Option<u32> {
        self.op
    }
    /// The argument, option or operand that the message names, such as "prepare.measure".
    pub fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }
    /// What the field is, such as "65".
    pub fn value(&self) -> Option<&str> {
        self.value.as_deref()
    }
    /// What it must be, such as "in [-1, 64]".
    pub fn bound(&self) -> Option<&str> {
        self.bound.as_deref()
    }
    /// The CUresult that caused [`Status::DRIVER`], else 0.
    pub fn driver_result(&self) -> i32 {
        self.driver_result
    }
    /// The compiler's log of [`Status::COMPILE_FAILED`], else "".
    pub fn compile_log(&self) -> &str {
        &self.compile_log
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.status, self.message)
    }
}
impl std::error::Error for Error {}

/// A borrowed text of the library.
///
/// # Safety
/// `text` is NUL-terminated and lives as long as the result is used.
pub(crate) unsafe fn borrowed<'a>(text: *const c_char) -> &'a str {
    // SAFETY: as this function requires.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("")
}

/// A copy of a text of the library; bytes that are no UTF-8 are replaced.
///
/// # Safety
/// `text` is NUL-terminated.
pub(crate) unsafe fn copied(text: *const c_char) -> String {
    // SAFETY: as this function requires.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The same of a text that may be absent.
///
/// # Safety
/// `text` is NULL or NUL-terminated.
unsafe fn optional(text: *const c_char) -> Option<String> {
    // SAFETY: the caller keeps what this function asks for.
    (!text.is_null()).then(|| unsafe { copied(text) })
}

/// Text by the two-call pattern, which may grow between two calls.
pub(crate) fn long_text(
    f: impl Fn(usize, *mut c_char, *mut usize, *mut *mut sys::sinter_error) -> sys::sinter_status,
) -> Result<String> {
    let mut text = vec![0u8; 1 << 14];
    loop {
        let mut size = 0;
        call(|error| f(text.len(), text.as_mut_ptr().cast(), &mut size, error))?;
        if size <= text.len() {
            text.truncate(size.saturating_sub(1)); // the NUL
            return Ok(String::from_utf8_lossy(&text).into_owned());
        }
        text.resize(size, 0);
    }
}

/// Runs a call of the C ABI and takes the error that it makes.
pub(crate) fn call(f: impl FnOnce(*mut *mut sys::sinter_error) -> sys::sinter_status) -> Result<()> {
    let mut error = null_mut();
    let status = Status(f(&mut error));
    if status == Status::OK {
        return Ok(());
    }
    if error.is_null() {
        return Err(Error::new(status, ""));
    }
    // SAFETY: the error is ours to read and to release.
    unsafe {
        let result = Error {
            status,
            message: copied(sys::sinter_error_get_message(error)),
            op: u32::try_from(sys::sinter_error_get_op(error)).ok(),
            field: optional(sys::sinter_error_get_field(error)),
            value: optional(sys::sinter_error_get_value(error)),
            bound: optional(sys::sinter_error_get_bound(error)),
            driver_result: sys::sinter_error_get_driver_result(error),
            compile_log: copied(sys::sinter_error_get_compile_log(error)),
        };
        sys::sinter_error_release(error);
        Err(result)
    }
}

/// A text for the library.
pub(crate) fn c_string(field: &str, text: &str) -> Result<CString> {
    CString::new(text)
        .map_err(|_| Error::new(Status::INVALID_ARGUMENT, format!("{field} {text:?} holds a NUL character")))
}
