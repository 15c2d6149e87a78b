//! What users set from outside: variables, and the files that they name. All front ends read them
//! here.
//!
//! [`variable`] is the table of all variables; [`lookup`] finds what one is set to; a [`Reader`]
//! makes values of it; [`Preferences`] are what every front end reads. What only one front end
//! needs, it reads itself, with a [`Reader`] and a variable of the table. [`launched()`] says which
//! rank this process is, if somebody launched it as one.
//!
//! # Guarantees
//!
//! * A variable that the process has wins over the file that `NCCL_CONF_FILE` names (or
//!   `~/.nccl.conf`), and that over `/etc/nccl.conf`. An empty value counts as not set, and hides
//!   what the files say.
//! * A variable that is not set is read by its older name, if it has one;
//!   [`older_names_in_use`] says so.
//! * In a process with more rights than its caller (set-user-ID) only `/etc/nccl.conf` counts, and
//!   no variable does.
//! * A value that makes no sense is a [`ValueError`] that says what to write, and the variable
//!   counts as not set. If the variable [protects](Variable::protects), no communicator is made.
//! * Only [`guarded`] reads files that users name: it never blocks, and reads a bounded number of
//!   bytes.
//! * A value that makes sense and is not followed is a remark, in [`Preferences::unsupported`].
//! * A file of an algorithm that cannot be read, or is too long, stays in the list with the reason:
//!   [`Preferences::files`] never fails, and ranks with the same variables and folders get the same
//!   names in the same order.
//! * The folder of specialised kernels is read when a kernel is requested, and made when a kernel
//!   is stored. A folder that others can write to is not used.
//! * A misspelt name of one of our variables, in the environment or in a file, is an error of
//!   [`unknown_names`]. So is a file that cannot be read.
//! * A secret that cannot be read is an error of [`secret()`]; nobody goes on without it.
//! * A tuning table that cannot be used is one error of [`Preferences::tuning`], and counts as not
//!   set.
//! * Files that set variables are read once in the life of the process; a [`Reader`] looks a
//!   variable up once for each question. Files of algorithms and tables are read by
//!   [`Preferences::files`] and [`Preferences::tuning`] alone, anew each time.
//! * A topology file that cannot be used is one error of [`topologies`], and counts as not set.
//!   What the operating system reports about the machine is read once.
//! * Nothing else is remembered, and nothing else is written.
//!
//! Absent from this crate: printing (errors are returned), which algorithm serves a call, what is
//! in an algorithm's file.

#![deny(unsafe_code)]

mod budget;
mod configuration_file;
mod files;
pub mod guarded;
mod kernels;
mod launch;
mod machine;
mod network;
mod older_names;
mod ownership;
mod placed;
mod preferences;
mod privileged;
mod reader;
mod restrictions;
mod secret;
pub mod trace_control;
mod tuning;
pub mod variable;

use std::sync::OnceLock;

pub use budget::Budget;
use configuration_file::Configuration;
pub use launch::{LaunchError, Launched, Launcher, Master, Number, launched};
pub use machine::{Root, topologies, topology_error};
pub use network::interface;
pub use placed::place_file;
pub use preferences::{DevicePreference, Preferences};
pub use reader::Reader;
pub use restrictions::Unsupported;
pub use secret::secret;
pub use tuning::read as read_tuning;
pub use variable::Variable;

/// What a variable is set to, by name.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What is wrong with a value, and what counts instead.
pub type ValueError = String;

/// What `name` is set to, by the process or by a file; an empty value counts as not set.
pub fn lookup(name: &str) -> Option<String> {
    let from_files = || configuration().values.get(name);
    of_process(name).or_else(|| from_files().cloned()).filter(|value| !value.is_empty())
}

/// A line for each older name of a variable that is set, with the name to use instead.
pub fn older_names_in_use() -> Vec<String> {
    older_names::in_use(&lookup)
}

/// What the files say, read once.
fn configuration() -> &'static Configuration {
    static FILES: OnceLock<Configuration> = OnceLock::new();
    FILES.get_or_init(|| configuration_file::read_all(&of_process))
}

fn of_process(name: &str) -> Option<String> {
    let value = std::env::var_os(name).filter(|_| !privileged::is_privileged());
    value.map(|value| value.to_string_lossy().into_owned())
}

/// Names in the environment and in files that look like our variables and are none, and files that
/// cannot be read.
pub fn unknown_names() -> Vec<ValueError> {
    let names = std::env::vars_os().filter(|_| !privileged::is_privileged());
    let names = names.map(|(name, _)| name.to_string_lossy().into_owned());
    let Configuration { values, value_errors } = configuration();
    let mut unknown_names: Vec<_> =
        names.chain(values.keys().cloned()).filter_map(|name| unknown_name(&name)).collect();
    unknown_names.sort_unstable();
    unknown_names.dedup();
    value_errors.iter().cloned().chain(unknown_names).collect()
}

/// What is wrong with `name`, if it looks like one of our variables and is none.
pub fn unknown_name(name: &str) -> Option<ValueError> {
    let begins_so = name.starts_with(variable::PREFIX);
    let is_known = variable::is_known(name) || older_names::is_older_name(name);
    if is_known || name.starts_with("NCCL_") {
        return None;
    }
    let near = variable::nearest(name);
    let ask = |near: &str| format!("did you mean {near}?");
    let advice = near.map_or_else(|| "docs/ENVIRONMENT.md has those that are".to_owned(), ask);
    // Another library has names that begin much like ours, and launchers set some that end so.
    let is_misspelt = || {
        let ends_so = |near: &str| near[variable::PREFIX.len()..] == *after_prefix(name);
        near.is_some_and(ends_so) && variable::begins_nearly_as_ours(name)
    };
    (begins_so || is_misspelt())
        .then(|| format!("{name} is no variable of this library and is ignored; {advice}"))
}

/// What stands behind the first underscore of `name`.
fn after_prefix(name: &str) -> &str {
    name.split_once('_').map_or("", |(_, rest)| rest)
}
