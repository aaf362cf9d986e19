//! Sets of measured choices.
use crate::error::{c_string, call};
use crate::handle::handle;
use crate::{sys, Digest, Result};

handle! {
    /// Choices that were measured: what [`crate::Context::tune`] adds to, what a context reads. `Clone` shares it.
    TuningSet: sinter_tuning_set, sinter_tuning_set_retain, sinter_tuning_set_release
}

impl TuningSet {
    /// An empty set.
    pub fn new() -> Result<Self> {
        // SAFETY: no argument.
        Self::make(|out, error| unsafe { sys::sinter_tuning_set_create(out, error) })
    }

    /// Adds the entries of a file; they replace equal ones.
    pub fn add_file(&self, path: &str) -> Result<()> {
        let path = c_string("path", path)?;
        // SAFETY: the path is NUL-terminated.
        call(|error| unsafe { sys::sinter_tuning_set_add_file(self.as_raw(), path.as_ptr(), error) })
    }

    /// Writes a new file and renames it to `path`.
    pub fn write(&self, path: &str) -> Result<()> {
        let path = c_string("path", path)?;
        // SAFETY: the path is NUL-terminated.
        call(|error| unsafe { sys::sinter_tuning_set_write(self.as_raw(), path.as_ptr(), error) })
    }

    /// How many entries it has.
    pub fn count(&self) -> u64 {
        // SAFETY: the handle is alive.
        unsafe { sys::sinter_tuning_set_get_count(self.as_raw()) }
    }

    /// SHA-256 of the set's canonical text.
    pub fn digest(&self) -> Result<Digest> {
        let mut digest = [0; 32];
        // SAFETY: the digest has 32 bytes.
        call(|error| unsafe { sys::sinter_tuning_set_get_digest(self.as_raw(), digest.as_mut_ptr(), error) })?;
        Ok(digest)
    }
}
