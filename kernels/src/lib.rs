//! The device side: CUDA sources, and the images built from them.
//!
//! The sources stand in `device/`, to be read in this order: `ptx` (one instruction per
//! function), `memory`, `number`, `reduce`, `record`, `wait`, `link`, `direct`, the three protocols
//! `simple` (of which there are several kinds), `ll` and `ll128` with what the latter two share
//! in `packet`, `context`, `operands`, `step`, `warp_specialised`, `interpreter`,
//! `low_latency_mover`, `low_latency`, `bulk`, `exchange`, `scale`. [`Module`] is the table of what
//! is compiled. `cargo xtask kernels` does it with a pinned compiler and
//! writes `images/`; [`build`] ties each image to its sources. `kernels/README.md` explains how
//! to build, check and reproduce them.
//!
//! Most images have one kernel for every element type. A launch of `msccl_<module>_<type>` is
//! given the record `msccl_launch` of `include/msccl_plan.h`, `msccl_scale_<type>` the record
//! `msccl_scale`, and `msccl_exchange`, of which there is only one, `msccl_exchange_launch`.
//!
//! `specialised/` is what a specialised kernel consists of, one for a single plan
//! ([`specialised`]). No image
//! holds any: they are compiled where they are used, from the texts that this crate carries
//! along.
//!
//! Absent from this crate: the driver, and everything that decides.

pub mod build;
#[cfg(feature = "images")]
mod image;
mod module;
mod packing;
pub mod recipe;
pub mod recording;
pub mod specialised;

#[cfg(feature = "images")]
pub use image::{Image, image};
pub use module::Module;
pub use packing::{Corrupt, unpack};
