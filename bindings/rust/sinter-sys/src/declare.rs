//! The forms that declarations take. Each also lists what it declares in a table of [`crate::abi`], which the test of the
//! ABI compares with the headers; a program that does not ask for the tables does not hold them.

macro_rules! opaque {
    ($($name:ident)*) => {
        $(#[repr(C)] #[derive(Debug)] pub struct $name { _private: [u8; 0] })*
    };
}

macro_rules! constants {
    ($($type:ty: $($name:ident = $value:expr),*;)*) => {
        $($(pub const $name: $type = $value;)*)*
        #[doc(hidden)]
        pub fn abi_constants() -> Vec<crate::abi::Constant> {
            vec![$($(crate::abi::Constant { name: stringify!($name), value: $name as i64 }),*),*]
        }
    };
}

macro_rules! with_size {
    (sized $zero:ident) => {{
        let mut value = $zero;
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }};
    (plain $zero:ident) => {
        $zero
    };
}

macro_rules! structs {
    ($($kind:ident $name:ident { $($field:ident: $type:ty),* $(,)? })*) => {
        $(
            #[repr(C)]
            #[derive(Clone, Copy, Debug)]
            pub struct $name { $(pub $field: $type),* }
            impl Default for $name {
                fn default() -> Self {
                    // SAFETY: every field is a number, a raw pointer or an optional function; zero is valid for all of them.
                    let zero: Self = unsafe { std::mem::zeroed() };
                    with_size!($kind zero)
                }
            }
        )*
        #[doc(hidden)]
        pub fn abi_structs() -> Vec<crate::abi::Struct> {
            vec![$({
                let value = $name::default();
                let base = &value as *const $name as usize;
                crate::abi::Struct {
                    name: stringify!($name),
                    size: std::mem::size_of::<$name>(),
                    align: std::mem::align_of::<$name>(),
                    fields: vec![$(crate::abi::Field {
                        name: stringify!($field),
                        offset: &value.$field as *const $type as usize - base,
                        size: std::mem::size_of::<$type>(),
                    }),*],
                }
            }),*]
        }
    };
}

macro_rules! functions {
    ($($name:ident($($parameter:ident: $type:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        #[link(name = "sinter")]
        extern "C" {
            $(pub fn $name($($parameter: $type),*) $(-> $result)?;)*
        }
        #[doc(hidden)]
        pub fn abi_functions() -> Vec<crate::abi::Function> {
            vec![$(crate::abi::Function {
                name: stringify!($name),
                parameters: vec![$(stringify!($type)),*],
                result: concat!($(stringify!($result))?),
                address: $name as *const (),
            }),*]
        }
    };
}
