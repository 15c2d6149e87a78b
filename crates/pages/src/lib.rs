//! Everything known of one algorithm, joined: what the compiler made of a file, what the verifier
//! says of it, how far from the bound it is, how long it takes by the cost model, and pictures.
//!
//! Absent from this crate: files, the terminal, and any step between a program and a proof.

#![deny(unsafe_code)]

pub mod bound;
pub mod content;
pub mod diagnose;
pub mod draw;
pub mod estimate;
pub mod example;
pub mod failure;
pub mod figures;
pub mod gallery;
pub mod loads;
pub mod machine;
pub mod order;
pub mod page;
pub mod program;
pub mod repair;
pub mod size;
pub mod steps;
pub mod study;
pub mod subject;
pub mod timeline;
pub mod verdict;
