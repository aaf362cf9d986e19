//! What this crate declares, as data for the test of the ABI.

pub struct Constant {
    pub name: &'static str,
    pub value: i64,
}

pub struct Field {
    pub name: &'static str,
    pub offset: usize,
    pub size: usize,
}

pub struct Struct {
    pub name: &'static str,
    pub size: usize,
    pub align: usize,
    pub fields: Vec<Field>,
}

/// Types as they are written in Rust; an empty `result` means no result. `address` makes the linker find the function.
pub struct Function {
    pub name: &'static str,
    pub parameters: Vec<&'static str>,
    pub result: &'static str,
    pub address: *const (),
}

pub fn constants() -> Vec<Constant> {
    [crate::abi_constants(), crate::experimental::abi_constants()].into_iter().flatten().collect()
}

pub fn structs() -> Vec<Struct> {
    [crate::abi_structs(), crate::experimental::abi_structs()].into_iter().flatten().collect()
}

pub fn functions() -> Vec<Function> {
    [crate::abi_functions(), crate::experimental::abi_functions()].into_iter().flatten().collect()
}
