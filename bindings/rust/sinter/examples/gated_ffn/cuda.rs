//! As much of the CUDA driver as the example needs, opened at run time. A server has cudarc or its own.
use std::os::raw::{c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}
const RTLD_NOW: c_int = 2;
const STREAM_NON_BLOCKING: c_uint = 1;

/// Panics with the name of a call that failed.
macro_rules! cuda {
    ($driver:expr, $name:literal, ($($type:ty),*), $($argument:expr),*) => {{
        let result = $driver.call::<unsafe extern "C" fn($($type),*) -> c_int>($name)($($argument),*);
        assert_eq!(result, 0, "{}", $name);
    }};
}

/// libcuda.
#[derive(Clone, Copy)]
struct Driver(*mut c_void);

impl Driver {
    fn open() -> Option<Self> {
        // SAFETY: the name is NUL-terminated.
        let library = unsafe { dlopen(b"libcuda.so.1\0".as_ptr().cast(), RTLD_NOW) };
        if library.is_null() {
            return None;
        }
        Some(Self(library))
    }

    /// The function of that name as an `F`.
    ///
    /// # Safety
    /// `F` is the type of a pointer to the function.
    unsafe fn call<F: Copy>(self, name: &str) -> F {
        let name = format!("{name}\0");
        let found = dlsym(self.0, name.as_ptr().cast());
        assert!(!found.is_null(), "libcuda lacks {name}");
        std::mem::transmute_copy(&found)
    }
}

/// A device's primary context, current on this thread, and a stream of it.
pub struct Device {
    driver: Driver,
    device: c_int,
    pub stream: *mut c_void,
}

/// Memory on the device; freed when dropped.
pub struct Buffer<'d> {
    device: &'d Device,
    pub address: u64,
}

impl Device {
    /// `None` without a driver or a GPU of that number.
    pub fn open(ordinal: c_int) -> Option<Self> {
        let driver = Driver::open()?;
        let mut opened = Self { driver, device: 0, stream: null_mut() };
        let mut context: *mut c_void = null_mut();
        // SAFETY: the types match cuda.h.
        unsafe {
            if driver.call::<unsafe extern "C" fn(c_uint) -> c_int>("cuInit")(0) != 0 {
                return None;
            }
            let mut count = 0;
            cuda!(driver, "cuDeviceGetCount", (*mut c_int), &mut count);
            if ordinal >= count {
                return None;
            }
            cuda!(driver, "cuDeviceGet", (*mut c_int, c_int), &mut opened.device, ordinal);
            cuda!(driver, "cuDevicePrimaryCtxRetain", (*mut *mut c_void, c_int), &mut context, opened.device);
            cuda!(driver, "cuCtxSetCurrent", (*mut c_void), context);
            cuda!(driver, "cuStreamCreate", (*mut *mut c_void, c_uint), &mut opened.stream, STREAM_NON_BLOCKING);
        }
        Some(opened)
    }

    /// Aligned to 256 bytes; address 0 for no bytes.
    pub fn alloc(&self, bytes: u64) -> Buffer<'_> {
        let mut address = 0u64;
        if bytes > 0 {
            // SAFETY: the types match cuda.h.
            unsafe { cuda!(self.driver, "cuMemAlloc_v2", (*mut u64, usize), &mut address, bytes as usize) }
        }
        Buffer { device: self, address }
    }

    fn wait(&self) {
        // SAFETY: the types match cuda.h.
        unsafe { cuda!(self.driver, "cuStreamSynchronize", (*mut c_void), self.stream) }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: the types match cuda.h.
        unsafe {
            cuda!(self.driver, "cuStreamDestroy_v2", (*mut c_void), self.stream);
            cuda!(self.driver, "cuDevicePrimaryCtxRelease_v2", (c_int), self.device);
        }
    }
}

impl Buffer<'_> {
    /// Returns once the copy is done.
    pub fn upload(&self, from: &[u16]) {
        let (driver, bytes) = (self.device.driver, std::mem::size_of_val(from));
        // SAFETY: the types match cuda.h; the slice lives until the stream is waited for.
        unsafe {
            cuda!(driver, "cuMemcpyHtoDAsync_v2", (u64, *const c_void, usize, *mut c_void), self.address,
                  from.as_ptr().cast(), bytes, self.device.stream);
        }
        self.device.wait();
    }

    /// Waits for all that the stream does.
    pub fn download(&self, to: &mut [u16]) {
        let (driver, bytes) = (self.device.driver, std::mem::size_of_val(to));
        // SAFETY: the types match cuda.h; the slice lives until the stream is waited for.
        unsafe {
            cuda!(driver, "cuMemcpyDtoHAsync_v2", (*mut c_void, u64, usize, *mut c_void), to.as_mut_ptr().cast(),
                  self.address, bytes, self.device.stream);
        }
        self.device.wait();
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        if self.address != 0 {
            // SAFETY: the types match cuda.h.
            unsafe { cuda!(self.device.driver, "cuMemFree_v2", (u64), self.address) }
        }
    }
}
