//! What comes before every communicator: the environment is read, and the process says who it is.

use std::collections::BTreeSet;
use std::sync::{Mutex, Once, PoisonError};

use crate::abi::VERSION_TEXT;
use crate::environment::{self, Complaint, Requests};
use crate::{log, signal};

/// What the environment asks for now. What in it makes no sense is said once per process.
pub fn begin() -> Requests {
    greet();
    let (requests, complaints) = Requests::read(&environment::lookup);
    complaints.into_iter().filter(is_new).for_each(|complaint| log::complain(&complaint));
    if requests.story_signal {
        signal::watch();
    }
    requests
}

/// Says who we are, in a line that scripts look for, without pretending to be somebody else.
fn greet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let own = env!("CARGO_PKG_VERSION");
        log::banner(&format!("NCCL version {VERSION_TEXT}+msccl{own}\n"));
        environment::strangers().iter().for_each(|complaint| log::complain(complaint));
    });
}

fn is_new(complaint: &Complaint) -> bool {
    static SAID: Mutex<BTreeSet<Complaint>> = Mutex::new(BTreeSet::new());
    SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(complaint.clone())
}
