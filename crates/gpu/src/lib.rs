//! The CUDA driver, made safe and found at run time.
//!
//! ```
//! use msccl_gpu::Driver;
//!
//! match Driver::load() {
//!     Ok(driver) => assert!(driver.device(driver.device_count()).is_err()),
//!     Err(why) => assert!(!why.to_string().is_empty()),
//! }
//! ```
//!
//! **What it guarantees.** A program with this crate starts on a machine without a driver, and
//! [`Driver::load`] says in a type why there is none. No call panics. A code that a newer driver
//! returns is a number, not undefined behaviour; a function that an older driver lacks is an error
//! of the call that needs it. Objects are destroyed when dropped, in their own context, and the
//! caller's current context is the same after every call as before it.
//!
//! **What it does not.** It does not know what kernels do: launching one, launching a graph, and
//! copying in a stream are `unsafe`, and so is taking a stream from a raw pointer. The addresses in
//! [`DevicePtr`]s are numbers. Errors of kernels surface, as the driver has it, in later calls.
//!
//! Read in this order: [`Driver`], [`Device`], [`Context`], then memory ([`DeviceBuffer`],
//! [`PinnedBuffer`], [`Upload`], [`IpcMapping`], [`VmmAllocation`]), order ([`Stream`], [`Event`]),
//! code ([`Module`], [`Function`], [`Launch`]) and recordings ([`Graph`]). Beside the driver stands
//! its maker's compiler ([`Nvrtc`]), which needs neither a driver nor a device, and its library for
//! management ([`managed_gpus`]), which knows NVLinks.
//!
//! `unsafe` stands in few modules, each of which says so in its first lines. `calls` is the table
//! of everything that the driver is asked; `handle` says how long its objects live.
//!
//! It is written for Linux, where descriptors travel, and for little-endian hosts, as all hosts of
//! CUDA are.
//!
//! Absent from this crate: what is computed, ranks, printing, the environment.

#![deny(unsafe_code)]

mod error;

mod library;

mod handle;

mod calls;

mod driver;

mod device;
mod dmabuf;

mod context;

mod address;
mod ipc;
mod memory;
mod pinned;
mod vmm;

mod event;
mod stream;
mod upload;
mod word_operations;

mod launch;
mod module;

mod capture;
mod capture_point;
mod graph;
mod graph_count;
mod graph_mark;

mod nvml;
mod nvrtc;

pub use address::{AddressRange, DevicePtr, MemoryKind, PointerInfo};
pub use capture::{CaptureMode, CaptureModeGuard, CaptureState};
pub use capture_point::CapturePoint;
pub use context::{Context, ContextGuard};
pub use device::{ComputeCapability, Device, PeerCapabilities};
pub use dmabuf::RemoteWrites;
pub use driver::{Driver, DriverVersion};
pub use error::{CuResult, Error, Unavailable};
pub use event::Event;
pub use graph::{Graph, GraphExec};
pub use graph_mark::GraphMark;
pub use ipc::{IpcHandle, IpcMapping};
pub use launch::Launch;
pub use memory::{DeviceBuffer, DeviceSpan};
pub use module::{Function, FunctionAttributes, Image, Module};
pub use nvml::{ManagedGpu, NvLinkEnd, NvLinkRemote, managed_gpus};
pub use nvrtc::{Form, Nvrtc, Source};
pub use pinned::{PinnedBuffer, RegisteredMemory};
pub use stream::{EnteredStream, Stream, StreamRef};
pub use upload::Upload;
pub use vmm::{VmmAllocation, VmmMapping};
pub use word_operations::{WORD_OPERATIONS_MAX, WordOperation};
