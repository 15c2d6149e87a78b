//! How much a program may ask for. Every bound is reported where the program exceeds it.

/// Most rounds of all loops, comprehensions and sums, calls and ops together.
pub(super) const MAX_ROUNDS: u64 = 64 << 20;

/// What is left of [`MAX_ROUNDS`] once something was refused: enough to find further mistakes.
pub(super) const MAX_ROUNDS_AFTER_ERROR: u64 = 1 << 20;

/// Most elements of all lists that a program makes.
pub(super) const MAX_LIST_ELEMENTS: u64 = 16 << 20;

/// How deep lists may nest in lists.
pub(super) const MAX_LIST_NESTING: u16 = 64;

/// How deep functions may call one another.
pub(super) const MAX_CALLS: usize = 256;

/// How deep statements and expressions may nest, through all calls under way. A level takes at most
/// about 2 KiB of stack in a build without optimisation, so that all fit a thread of 2 MiB.
pub(super) const MAX_DEPTH: usize = 800;

/// Most ranks.
pub(super) const MAX_RANKS: i64 = 1 << 16;

/// Most input and output slots that a custom collective may name.
pub(super) const MAX_CONTRACT_ENTRIES: u64 = 4 << 20;

/// Largest channel or thread block that a hint may name.
pub(super) const MAX_HINT: i64 = 65_535;

/// Most instances.
pub(super) const MAX_INSTANCES: i64 = 1024;

/// Most parts by turns: more are never under way at once.
pub(super) const MAX_INTERLEAVED: i64 = 16;

/// Most threads of a thread block.
pub(super) const MAX_THREADS: i64 = 1024;

/// Most errors reported at once.
pub(super) const MAX_ERRORS: usize = 20;

/// Most warnings reported at once.
pub(super) const MAX_WARNINGS: usize = 20;
