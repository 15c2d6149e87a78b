//! From a program to an algorithm. [`compile`] is the whole way, and [`Compiled`] what every stage
//! made of the program:
//!
//! ```text
//! ast ──evaluate──▶ ChunkDag ──lower──▶ InstructionDag ──schedule──▶ ir::Algorithm
//!                   what moves          who moves it,                where, when,
//!                   where               fused                        after what
//! ```
//!
//! ```
//! use msccl_compiler::compile;
//! use msccl_compiler::evaluate::{Launch, NoFiles};
//! use msccl_ir::Target;
//! use msccl_syntax::SourceMap;
//!
//! let mut sources = SourceMap::new();
//! let file = sources.add("swap.msccl", "algorithm swap(ranks N = 2) implements allreduce() {
//!     for r in 0..N { output@r = input@0 + input@1 }
//! }");
//! let compiled = compile(&mut sources, file, &NoFiles, &Launch::default(), &Target::native())
//!     .unwrap_or_else(|found| panic!("{}", sources.render_all(&found)));
//! assert_eq!(compiled.chunks.ops[0].to_string(), "r0.o[0] = r0.i[0] + r1.i[0]");
//! assert_eq!(compiled.schedule.algorithm.ranks.len(), 2);
//! ```
//!
//! What comes out is right by construction, but nobody has to believe that: `msccl-verify` proves
//! it without this crate.
//!
//! Absent from this crate: bytes, addresses, files, the verifier.

#![deny(unsafe_code)]

pub mod chunk;
pub mod evaluate;
pub mod instruction;
mod pipeline;
pub mod schedule;

pub use pipeline::{Compiled, compile, compile_chunks};
