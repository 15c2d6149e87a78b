//! The subcommands, one file each: from arguments to an [`Exit`](crate::exit::Exit).

pub mod bench;
pub mod bound;
pub mod calibrate;
pub mod check;
pub mod compare;
pub mod compile;
pub mod completions;
pub mod doctor;
pub mod explain;
pub mod fmt;
pub mod list;
pub mod lsp;
pub mod manual;
pub mod preload;
pub mod report;
pub mod run;
pub mod show;
pub mod specialise;
pub mod synthesize;
pub mod topo;
pub mod trace;
mod traces;
pub mod tune;
pub mod verify;
