//! Source text: grammar, abstract syntax, formatter, diagnostics.
//!
//! The first stage of the pipeline; what a tree means is the compiler's affair. [`parse`] turns the
//! text of one file into a [`ast::File`] or a list of [`Diagnostic`]s, several at once;
//! [`format()`] prints a file in the one canonical layout, comments kept. [`SourceMap`] owns the
//! texts so that a [`Span`] can be shown with its excerpt and caret.
//!
//! ```
//! use msccl_syntax::{SourceMap, parse};
//!
//! let mut sources = SourceMap::new();
//! let good = sources.add("swap.msccl", "algorithm swap(ranks N = 2) implements allreduce() {
//!     for r in 0..N { output@r = input@0 + input@1 }
//! }");
//! assert_eq!(parse(&sources, good).unwrap().items.len(), 1);
//!
//! let bad = sources.add("bad.msccl", "fn f(x) x + 1");
//! let found = parse(&sources, bad).unwrap_err();
//! assert!(sources.render_all(&found).starts_with("error: expected `=` or `{`, found `x`"));
//! ```
//!
//! Guarantees: no input makes this crate panic; time is linear in the text; files, nesting and the
//! depth of trees are bounded ([`limits`]), so that walking a tree by recursion is safe; `format`
//! is idempotent and never changes what a program means.
//!
//! Absent from this crate: ranks, chunks, what a program means, files and paths of the machine.

#![deny(unsafe_code)]

pub mod ast;
mod diagnostic;
mod format;
mod grammar;
pub mod limits;
mod parse;
mod render;
mod scan;
mod source;

pub use diagnostic::{Diagnostic, Label, Severity, condensed, more_at_the_same_place};
pub use format::format;
pub use parse::parse;
pub use source::{FileId, LineColumn, SourceMap, Span};
