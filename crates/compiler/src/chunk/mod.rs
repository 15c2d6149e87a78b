//! What moves where: a program evaluated to copies and reductions of chunks.

mod dag;

pub use dag::{At, Dag, Hints, HintsId, Op, Origin, StatementId};
