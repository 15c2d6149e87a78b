//! NCCL topology XML: the files that `NCCL_TOPO_DUMP_FILE` makes and `NCCL_TOPO_FILE` names, those
//! that clouds ship, and those of RCCL.
//!
//! A file is used as far as it says something. What is missing has the value that NCCL takes, or is
//! by what stands around it. What cannot be understood is left out, and a [`Note`] says so:
//! unknown elements, attributes, words and numbers, GPUs and ports without a number. Elements and
//! attributes that only NCCL has a use for are passed over without a note.
//!
//! Refused is what is no such file: text that is not XML, another root, a version other than 1 and
//! 2, and anything beyond generous limits on size, depth and number. Stricter than NCCL: a document
//! has one `<system>` and nothing else beside comments.
//!
//! | attribute | understood |
//! |---|---|
//! | `busid` | `0000:1b:00.0`, upper case, without domain, without function |
//! | `class` | hexadecimal; without one a device is what it holds |
//! | `affinity` | hexadecimal words of any width, or a list such as `0-15,32-47` |
//! | `arch` | `x86_64`, `arm64`, `ppc64`, and what `uname` says of them |
//! | `vendor` of `<cpu>` | the makers in [`CpuVendor`](crate::system::CpuVendor) |
//! | `link_speed` | a number of GT/s, whatever follows |
//! | `link_width` | 1 to 32; anything else is not known |
//! | numbers | decimal, or hexadecimal behind `0x`; -1 is not known |

mod error;
mod markup;
mod pieces;
mod read;
pub(crate) mod values;
mod write;

pub use error::{Note, ReadError, clip};
pub use pieces::{Piece, Pieces};
pub use read::{Read, read};
pub use write::write;
