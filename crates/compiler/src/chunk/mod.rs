//! What moves where: a program evaluated to copies and reductions of chunks.
//!
//! [`ChunkDag`] is the value; [`crate::evaluate`] makes one from text. Here is what one can ask of
//! it and do with it: [`check_promise`] holds it against its collective, [`instances`] cuts every
//! chunk in several, [`coarsen`] joins chunks that always move together.
//!
//! Absent from this module: text, expressions, who sends and when.

mod dag;
mod dump;
mod order_claim;

mod memory;
mod region;

mod bits;
mod cells;
mod placement;
mod scratch;

mod coarsen;
mod instances;
mod promise;

pub use coarsen::coarsen;
pub use dag::{At, ChunkDag, Hints, HintsId, LinkKey, Op, Origin, StatementId};
pub use instances::{TooManyChunks, cut, instances};
pub use order_claim::OrderClaim;
pub use promise::check_promise;

pub(crate) use memory::{MAX_CHUNKS, Memory, Refusal};
pub(crate) use region::{BufferId, Region};
