//! How large and how deep a source text may be.
//!
//! Trees are built and walked by recursion, here and in whatever reads the tree; these bounds are
//! what makes that safe on a thread with 2 MiB of stack.

/// The largest file, in bytes. Parsing takes up to about 150 times as much memory.
pub const MAX_FILE_BYTES: usize = 4 << 20;

/// How deep brackets of all kinds may nest.
pub const MAX_NESTING: usize = 64;

/// The deepest tree, in nodes from a statement of the outermost block to a leaf. An operation of
/// n operators counts as n levels, whichever way it groups, and so do n `else if`.
pub const MAX_DEPTH: usize = 256;
