//! Random programs and algorithms.
//!
//! | module | what it makes | what holds of it |
//! |---|---|---|
//! | [`ops`] | ops of a program, with their contract | what is read was written |
//! | [`steps`] | steps of three ranks, with or without a contract | they end; some race |
//! | [`msccl_steps`] | steps of MSCCL's nine types | some end for small calls only |
//! | [`tapes`] | any algorithm, for writers and readers | what a format can say, or nothing |

pub mod msccl_steps;
pub mod ops;
mod sequential;
pub mod steps;
pub mod tapes;
