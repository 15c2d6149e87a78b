//! Records that host and kernels share: declared once, as Rust structs and as a table from which
//! the C header is generated ([`crate::abi`]).

/// A type that lies alike in every language.
pub trait Plain: Copy {
    /// Its name in C; of an array, that of its elements.
    const C_TYPE: &'static str;
    /// Of an array, the number of its elements.
    const LENGTH: Option<usize> = None;
    /// All bits zero.
    const ZERO: Self;
}

impl Plain for u16 {
    const C_TYPE: &'static str = "unsigned short";
    const ZERO: Self = 0;
}

impl Plain for u32 {
    const C_TYPE: &'static str = "unsigned";
    const ZERO: Self = 0;
}

impl Plain for u64 {
    const C_TYPE: &'static str = "unsigned long long";
    const ZERO: Self = 0;
}

impl<T: Plain, const N: usize> Plain for [T; N] {
    const C_TYPE: &'static str = T::C_TYPE;
    const LENGTH: Option<usize> = Some(N);
    const ZERO: Self = [T::ZERO; N];
}

/// A field of a record, for the generated header.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name, the same in both languages.
    pub name: &'static str,
    /// Its type in C; of an array, that of its elements.
    pub c_type: &'static str,
    /// Of an array, the number of its elements.
    pub length: Option<usize>,
    /// What it means.
    pub meaning: &'static str,
}

/// A record, for the generated header.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Its name in C.
    pub c_name: &'static str,
    /// What it is.
    pub meaning: &'static str,
    /// Its size.
    pub bytes: usize,
    /// Its fields, in order.
    pub fields: &'static [Field],
}

/// Declares records and the table of them.
macro_rules! records {
    ($($meaning:literal $name:ident = $c_name:literal, $bytes:literal bytes {
        $($field:ident: $type:ty, $doc:literal;)*
    })*) => {
        $(
            #[doc = $meaning]
            #[repr(C)]
            #[derive(Clone, Copy, PartialEq, Eq, Debug)]
            pub struct $name { $(#[doc = $doc] pub $field: $type,)* }

            impl $crate::record::Plain for $name {
                const C_TYPE: &'static str = $c_name;
                const ZERO: Self = Self { $($field: <$type as $crate::record::Plain>::ZERO,)* };
            }

            impl Default for $name {
                fn default() -> Self {
                    <Self as $crate::record::Plain>::ZERO
                }
            }

            // No padding, so the fields lie alike in every language.
            const _: () = assert!(size_of::<$name>() == $bytes);
            const _: () = assert!($bytes == 0 $(+ size_of::<$type>())*);
        )*

        /// Every record, in an order in which C may declare them.
        pub const RECORDS: &[$crate::record::Record] = &[$($crate::record::Record {
            c_name: $c_name,
            meaning: $meaning,
            bytes: $bytes,
            fields: &[$($crate::record::Field {
                name: stringify!($field),
                c_type: <$type as $crate::record::Plain>::C_TYPE,
                length: <$type as $crate::record::Plain>::LENGTH,
                meaning: $doc,
            }),*],
        }),*];
    };
}

pub(crate) use records;
