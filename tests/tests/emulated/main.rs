//! The kernels' own interpreters, compiled for the host: links that deliver directly and links that
//! go through slots give the same, whatever ranks offer, launch after launch in the same memory; so
//! do specialised kernels, and packets of elements of every size, wherever buffers begin and end.

mod averages;
mod cases;
mod delivery;
mod emulator;
mod failures;
mod low_latency;
mod memory;
mod placements;
mod recorded;
mod scenario;
mod specialised;
mod unaligned;
