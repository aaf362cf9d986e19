//! Counted references of the C ABI.

/// Declares a type that holds one reference: `Clone` retains, `Drop` releases.
macro_rules! handle {
    ($(#[$doc:meta])* $name:ident: $raw:ident, $retain:ident, $release:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name {
            raw: std::ptr::NonNull<crate::sys::$raw>,
        }
        impl $name {
            /// Makes the object that `f(out, error)` gives one reference to.
            #[allow(dead_code)]
            pub(crate) fn make(
                f: impl FnOnce(*mut *mut crate::sys::$raw, *mut *mut crate::sys::sinter_error) -> i32,
            ) -> crate::Result<Self> {
                let mut raw = std::ptr::null_mut();
                crate::error::call(|error| f(&mut raw, error))?;
                // SAFETY: a call that succeeded gave us a reference.
                Ok(unsafe { Self::from_raw(raw) })
            }
            /// Takes over a reference.
            ///
            /// # Safety
            /// `raw` is not NULL, and one reference to it is the caller's to give.
            pub unsafe fn from_raw(raw: *mut crate::sys::$raw) -> Self {
                Self { raw: std::ptr::NonNull::new(raw).expect(stringify!($raw)) }
            }
            /// The handle of the C ABI, borrowed.
            pub fn as_raw(&self) -> *mut crate::sys::$raw {
                self.raw.as_ptr()
            }
        }
        impl Clone for $name {
            fn clone(&self) -> Self {
                // SAFETY: the handle is alive.
                unsafe { crate::sys::$retain(self.raw.as_ptr()) };
                Self { raw: self.raw }
            }
        }
        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: one reference is ours.
                unsafe { crate::sys::$release(self.raw.as_ptr()) };
            }
        }
        // SAFETY: sinter.h says of all of its functions that they are thread-safe; releases always are.
        unsafe impl Send for $name {}
        unsafe impl Sync for $name {}
    };
}
pub(crate) use handle;
