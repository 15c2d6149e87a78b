//! NCCL topology XML: the files that `NCCL_TOPO_DUMP_FILE` makes and `NCCL_TOPO_FILE` names.
//!
//! Elements and attributes that this project has no use for are passed over, as NCCL passes over
//! those it does not know; attributes that NCCL can do without may be missing. What is there must
//! make sense. Stricter than NCCL: a document has one `<system>` and nothing else beside comments.

mod error;
mod markup;
mod read;
pub(crate) mod values;
mod write;

pub use error::ReadError;
pub use read::read;
pub use write::write;
