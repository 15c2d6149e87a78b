//! A short text format for clusters, in files that end in `.cluster`.
//!
//! ```
//! # fn main() -> Result<(), msccl_topology::cluster::format::ParseError> {
//! use msccl_topology::cluster::format::{parse, print};
//!
//! let text = r#"cluster "two nodes of two NVLink pairs, one NIC a pair"
//!
//! network fabric                                  // between nodes
//!
//! node * 2 {
//!     gpu * 4                                     // gpu0 to gpu3
//!     switch pci * 2
//!     nic * 2
//!     gpu0 - gpu1             nvlink 2 * 25 GB/s 0.6 us
//!     gpu2 - gpu3             nvlink 2 * 25 GB/s 0.6 us
//!     gpu[0-1] nic0 - pci0    pci 12 GB/s 0.5 us
//!     gpu[2-3] nic1 - pci1    pci 12 GB/s 0.5 us
//! }
//!
//! node*.nic* - fabric         cable 200 Gbit/s 0.35 us
//! "#;
//! let cluster = parse(text)?;
//! assert_eq!(cluster.gpus().count(), 8);
//! assert!(cluster.find("node1.gpu3").is_some());
//! assert_eq!(parse(&print(&cluster))?, cluster);
//! # Ok(())
//! # }
//! ```
//!
//! # Statements
//!
//! One a line; `//` begins a comment.
//!
//! * `cluster "TITLE"` may be the first.
//! * `gpu`, `switch`, `nic` or `network`, and names, adds vertices of that kind. `NAME * 4` is
//!   `NAME0` to `NAME3`, `gpu * 4` alone is `gpu0` to `gpu3`; if there are such names already, the
//!   numbers go on after the highest. Ranks are the GPUs in the order of the text.
//! * `node { … }` has the statements of one node; its number is one more than the highest so far.
//!   `node 3 { … }` states the number. A node may have several such parts.
//! * `node * 2 { … }` is that many equal nodes. Each name gets the prefix of its node:
//!   `node0.gpu3`. In the block, a name means that of its own node; if there is none, that of the
//!   cluster.
//! * `A - B MEDIUM RATE LATENCY` joins each vertex of the list `A` with each of the list `B`, by a
//!   link each way. A vertex is not joined with itself, and two vertices that both lists have are
//!   joined once: `gpu* - gpu*` is a mesh. `A > B …` adds the links from `A` to `B` only. With
//!   `pairwise` before the medium, the first of `A` is joined with the first of `B`, the second
//!   with the second, and so on: `nic* - rail* pairwise cable 25 GB/s` makes rails.
//! * A list has names with spaces between. `*` in a name is any number, `[0-3]` a number from 0 to
//!   3; they find what the text has added so far, in that order.
//!
//! Media are `nvlink`, `xgmi`, `pci`, `socket` and `cable`. A rate is of one direction, in `GB/s`,
//! `MB/s` or `Gbit/s`; `2 * 25 GB/s` is two links of 25 GB/s as one. A latency is in `us` or `ns`,
//! and 0 if it is not there.
//!
//! What several GPUs share is a vertex between: a PCI switch, a NIC. An oversubscribed network is
//! several networks with a slow link between: `leaf* - spine cable 100 GB/s`.
//!
//! # Guarantees
//!
//! [`parse`] never panics and locates its complaint. Texts have at most [`MOST_TEXT_BYTES`],
//! clusters [`MOST_VERTICES`](super::MOST_VERTICES) and [`MOST_LINKS`](super::MOST_LINKS).
//! `parse(&print(&cluster)) == Ok(cluster)` for all clusters that `parse` can return.

mod declare;
mod error;
mod print;
mod quantity;
mod read;
mod tokens;

pub use error::ParseError;
pub(super) use print::lines;
pub use print::print;
pub use read::parse;
pub use tokens::MOST_TEXT_BYTES;
