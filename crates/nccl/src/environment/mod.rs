//! The environment: what users set from outside, read here and nowhere else.
//!
//! [`variable`] is the table of all variables. A variable that the process has wins over the file
//! that `NCCL_CONF_FILE` names (or `~/.nccl.conf`), and that over `/etc/nccl.conf`. Files are read
//! once; variables whenever a communicator is made. A value that makes no sense is a warning, and
//! counts as not set.

mod configuration_file;
mod files;
pub mod reader;
mod requests;
pub mod variable;

use std::collections::HashMap;
use std::sync::OnceLock;

pub use requests::{DeviceWish, Requests};

/// What a variable is set to, by name.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What is wrong with a value, and what counts instead.
pub type Complaint = String;

/// What `name` is set to; an empty value counts as not set.
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
