//! The waist to and from the formats that other programs read: MSCCL XML and JSON.
//!
//! [`xml`] speaks both dialects of MSCCL XML, [`json`] our own IR as JSON. The readable text form
//! is part of the `ir` crate.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use msccl_interchange::{json, xml};
//!
//! let text = r#"
//!     algorithm "copy"
//!     collective broadcast ranks 2 chunks 1 root r0
//!     placement in place
//!     protocol Simple
//!     bytes 0..
//!     r0 scratch 0
//!       tb0 ch0 send r1
//!         s0: i[0] -> r1
//!     r1 scratch 0
//!       tb0 ch0 receive r0
//!         s0: r0 -> o[0]
//! "#;
//! let algorithm = msccl_ir::text::parse(text)?;
//! let file = xml::write(&algorithm, xml::Dialect::Msccl)?;
//! assert!(file.starts_with("<algo name=\"copy\""));
//! assert_eq!(xml::read(&file)?.algorithm, algorithm);
//! assert_eq!(json::read(&json::write(&algorithm))?, algorithm);
//! # Ok(())
//! # }
//! ```
//!
//! Guarantees: writers decide nothing, so `read(write(a)) == a` for every algorithm that a format
//! can express, and what it cannot express is an error that names the step. Readers never panic,
//! hold no more memory than a small multiple of their input, and locate every complaint.
//!
//! Absent from this crate: decisions (order, splitting of waits, no-op insertion), files, targets'
//! limits, and any opinion on whether an algorithm is right.

#![deny(unsafe_code)]

pub mod json;
pub mod xml;
