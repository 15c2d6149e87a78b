//! The fabric as its users see it: ranks as threads, as processes, in network namespaces.

mod join;
mod links;
mod namespaces;
mod operations;
mod processes;
mod world;
