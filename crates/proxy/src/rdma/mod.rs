//! RDMA, as a library of its own that is looked for at run time.
//!
//! `libmsccl-rdma.so` (crate `rdma`, which is outside of the workspace) speaks verbs. It offers one
//! symbol, [`abi::ENTRY`], which gives the functions of [`abi::Api`]. Without it, or where there is no libibverbs or no
//! device, everything else works.

pub mod abi;
