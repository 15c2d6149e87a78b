//! The waist to and from the formats that other programs read: MSCCL XML and JSON.
//!
//! [`xml`] speaks both dialects of MSCCL XML, [`json`] our own IR as JSON. The readable text form
//! is part of the `ir` crate.
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
