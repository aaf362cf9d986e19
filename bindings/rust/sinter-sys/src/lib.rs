//! Raw declarations of libsinter's C ABI: every function, struct and constant of `sinter/sinter.h`, and in
//! [`experimental`] those of `sinter/sinter_experimental.h`. Names, ownership, thread safety and units are the headers'.
//!
//! - Enumerations are plain `i32`, so a number of a newer library is not undefined behaviour here.
//! - `Default` of a struct is the ABI's: all zero, its size set.
//! - The declarations are written by `./dev bindings`; `tests/abi.rs` holds sizes, alignments, offsets, signatures and
//!   constants against the headers with a C compiler.
//!
//! The crate `sinter` is the safe form.
#![allow(non_camel_case_types)]

#[macro_use]
mod declare;
#[doc(hidden)]
pub mod abi;
mod declarations;
pub mod experimental;

pub use declarations::*;
