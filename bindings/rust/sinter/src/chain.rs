//! Finished chains.
use crate::error::{c_string, call, copied};
use crate::handle::handle;
use crate::{sys, DType, Result};
use std::ptr::null_mut;

handle! {
    /// A finished chain of operators: immutable. It belongs to no context. `Clone` shares it.
    Chain: sinter_chain, sinter_chain_retain, sinter_chain_release
}

/// One buffer of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Element type.
    pub dtype: DType,
    /// Extents, outermost first, M filled in.
    pub dims: Vec<i64>,
    /// In elements, M filled in.
    pub strides: Vec<i64>,
    /// From the first element to the end of the last.
    pub bytes: u64,
    /// It never changes while a plan uses it on a stream.
    pub constant: bool,
    /// "" without one.
    pub name: String,
}

impl Chain {
    /// A chain from one line, such as `gated_ffn m=M n=14336 k=4096 l=4096 act=silu dtype=bf16`; docs/chains.md has the
    /// kinds and their keys. This is in the experimental part of the ABI.
    pub fn from_text(line: &str) -> Result<Self> {
        let line = c_string("line", line)?;
        // SAFETY: the line is NUL-terminated; results that are not wanted may be NULL.
        Self::make(|out, error| unsafe {
            sys::experimental::sinter_x_chain_from_text(line.as_ptr(), out, null_mut(), null_mut(), error)
        })
    }

    /// Buffers that come before the outputs.
    pub fn input_count(&self) -> u32 {
        // SAFETY: the handle is alive.
        unsafe { sys::sinter_chain_get_input_count(self.as_raw()) }
    }

    /// Buffers that come after the inputs.
    pub fn output_count(&self) -> u32 {
        // SAFETY: the handle is alive.
        unsafe { sys::sinter_chain_get_output_count(self.as_raw()) }
    }

    /// Whether M occurs: launches then take it.
    pub fn uses_m(&self) -> bool {
        // SAFETY: the handle is alive.
        unsafe { sys::sinter_chain_uses_m(self.as_raw()) != 0 }
    }

    /// Buffer `index`, inputs in the order of their adds, then outputs as declared, at M = `m`.
    pub fn buffer(&self, index: u32, m: i64) -> Result<TensorInfo> {
        let mut info = sys::sinter_tensor_info::default();
        // SAFETY: the handle is alive, the struct knows its size.
        call(|error| unsafe { sys::sinter_chain_get_buffer(self.as_raw(), index, m, &mut info, error) })?;
        let rank = info.rank as usize;
        Ok(TensorInfo {
            dtype: DType(info.dtype),
            dims: info.dims[..rank].to_vec(),
            strides: info.strides[..rank].to_vec(),
            bytes: info.bytes,
            constant: info.flags & sys::SINTER_INPUT_CONSTANT != 0,
            // SAFETY: borrowed from the chain, which is alive.
            name: unsafe { copied(info.name) },
        })
    }
}
