//! What users set from outside: variables, and the files that they name. All doors read them here.
//!
//! [`variable`] is the table of all variables; [`lookup`] finds what one is set to; a [`Reader`]
//! makes values of it; [`Preferences`] are what every door asks of them. What only one door needs,
//! it reads itself, with a [`Reader`] and a variable of the table. [`launched()`] tells which rank this
//! process is, if somebody launched it as one.
//!
//! # Guarantees
//!
//! * A variable that the process has wins over the file that `NCCL_CONF_FILE` names (or
//!   `~/.nccl.conf`), and that over `/etc/nccl.conf`. An empty value counts as not set, and hides
//!   what the files say.
//! * A value that makes no sense is a complaint that says what to write, and counts as not set. It
//!   is never a failure.
//! * A value that makes sense and is not followed is a remark, in [`Preferences::remarks`]: programs set NCCL's variables for NCCL, so
//!   it is no warning.
//! * A file of an algorithm that cannot be read, or is too long, stays in the list with the reason:
//!   [`Preferences::files`] never fails, and ranks with the same variables and folders get the same
//!   names in the same order.
//! * The folder of special kernels is looked at when a kernel is asked for, and made when one is kept.
//! * A tuning table that cannot be used is one complaint of [`Preferences::tuning`], and counts as not set.
//! * Files that set variables are read once in the life of the process; a [`Reader`] looks a variable
//!   up once for each question. Files of algorithms and tables are read by [`Preferences::files`]
//!   and [`Preferences::tuning`] alone, anew each time.
//! * A topology file that cannot be used is one complaint of [`topologies`], and counts as not set; what the kernel tells of
//!   the machine is found out once.
//! * Nothing else is remembered, and nothing else is written.
//!
//! Absent from this crate: printing (complaints are handed out), which algorithm serves a call, what
//! is in an algorithm's file.

mod configuration_file;
mod files;
mod kernels;
mod launch;
mod machine;
mod network;
mod preferences;
mod reader;
mod restrictions;
mod tuning;
pub mod variable;

use std::collections::HashMap;
use std::sync::OnceLock;

pub use launch::{LaunchError, Launched, Launcher, Master, Number, launched};
pub use machine::{Root, topologies};
pub use network::interface;
pub use preferences::{DeviceWish, Preferences};
pub use reader::Reader;
pub use restrictions::Remark;
pub use tuning::read as read_tuning;
pub use variable::Variable;

/// What a variable is set to, by name.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What is wrong with a value, and what counts instead.
pub type Complaint = String;

/// What `name` is set to, by the process or by a file; an empty value counts as not set.
pub fn lookup(name: &str) -> Option<String> {
    static FILES: OnceLock<HashMap<String, String>> = OnceLock::new();
    let from_files = || FILES.get_or_init(|| configuration_file::read_all(&of_process)).get(name);
    of_process(name).or_else(|| from_files().cloned()).filter(|value| !value.is_empty())
}

fn of_process(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// Names that begin like ours and are none of ours: most likely misspelt.
pub fn strangers() -> Vec<Complaint> {
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    let strange = |name: &String| name.starts_with("MSCCL_") && !variable::is_known(name);
    let mut strangers: Vec<_> = names.filter(strange).collect();
    strangers.sort_unstable();
    let complain = |name: String| {
        let near = variable::nearest(&name);
        format!("{name} is no variable of this library and is ignored; did you mean {near}?")
    };
    strangers.into_iter().map(complain).collect()
}
