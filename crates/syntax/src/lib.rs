//! Source text: grammar, abstract syntax, formatter, diagnostics.
//!
//! [`parse`] turns the text of one file into a [`ast::File`] or a list of [`Diagnostic`]s, several
//! at once; [`format()`] prints a file in the one canonical layout, comments kept. [`SourceMap`]
//! owns the texts so that a [`Span`] can be shown with its excerpt and caret.
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

pub use diagnostic::{Diagnostic, Label, Severity};
pub use format::format;
pub use parse::parse;
pub use source::{FileId, LineColumn, SourceMap, Span};
