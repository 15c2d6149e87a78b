//! What comes before every communicator: the environment is read, and the process says who it is.

use std::collections::BTreeSet;
use std::sync::{Mutex, Once, PoisonError};

use msccl_environment::{self as environment, Complaint, Remark};
use msccl_runtime::Tuning;

use crate::abi::VERSION_TEXT;
use crate::log::Subsystem;
use crate::requests::Requests;
use crate::{log, signal};

/// What the environment asks for now. What in it makes no sense is said once per process.
pub fn begin() -> Requests {
    let (requests, complaints) = Requests::read(&environment::lookup);
    complaints.into_iter().chain(environment::strangers()).for_each(complain_once);
    requests.preferences.remarks.iter().for_each(remark_once);
    if requests.story_signal {
        signal::watch();
    }
    requests
}

/// The tuning table that `requests` name. What makes it useless is said once per process.
pub fn tuning(requests: &Requests) -> Option<Tuning> {
    requests.preferences.tuning().map_err(complain_once).ok().flatten()
}

/// Says what is wrong with the environment, once per process.
pub fn complain_once(complaint: Complaint) {
    if is_new(&complaint) {
        log::complain(&complaint);
    }
}

/// Says what of the environment is not followed, once per process.
fn remark_once(remark: &Remark) {
    if log::hears(Subsystem::Env) && is_new(remark) {
        log::info(Subsystem::Env, log::NO_DEVICE, format_args!("{remark}"));
    }
}

/// Says once who we are, in a line that scripts look for, without pretending to be somebody else.
/// One process of a job does so: that of rank 0.
pub fn greet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let own = env!("CARGO_PKG_VERSION");
        log::banner(&format!("NCCL version {VERSION_TEXT}+msccl{own}\n"));
    });
}

fn is_new(text: &str) -> bool {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(text.to_owned())
}
