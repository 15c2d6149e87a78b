//! `libmsccl-rdma.so`: links between hosts over RDMA.
//!
//! The library speaks verbs and offers one symbol, [`msccl_rdma_api`], whose contract is
//! [`msccl_proxy::rdma::abi`]. It is a library of its own, looked for at run time, because it needs
//! `libibverbs.so.1` to start and much to be built; everything else does without.
//!
//! | module | what |
//! |---|---|
//! | `entry_point` | the functions in the C ABI |
//! | `machine` | the ports that may be used, and memory that they access |
//! | `rail` | a connection: posting, polling, failing |
//! | `sends` | which writes have completed, though few report it |
//! | `watch` | what devices report by themselves |
//! | `choice`, `gid`, `address`, `cause` | `NCCL_IB_HCA`; addresses; what the peer must know; why a rail failed |
//! | `verbs` | the objects of verbs, each ended by its owner's end |
//!
//! `docs/RDMA.md` is for users.

mod address;
mod cause;
mod choice;
mod entry_point;
mod gid;
mod machine;
mod rail;
mod sends;
mod verbs;
mod watch;

pub use entry_point::msccl_rdma_api;
