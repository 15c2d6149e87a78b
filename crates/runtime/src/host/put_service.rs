//! The thread of a rank that takes what ranks of other nodes put into its windows while it does
//! something else.
//!
//! It is started by the first window, put, signal or wait that may concern another node. A rank
//! that wants to put or to signal requests a link of its peer, by a message of the group: so links
//! are made for those pairs alone that need them, and the peer need not call anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::inter_node::InterNode;
use crate::engine::PARTING;
use crate::error::{Error, ErrorKind};

/// Looks with a yield in between, before the first pause.
const YIELDS: u32 = 50;

/// The first pause, which doubles as nothing happens, and the longest one.
const PAUSE_US: std::ops::RangeInclusive<u64> = 50..=2000;

/// The thread. When it is dropped, what is owed still goes out, as far as peers take it in time.
pub(super) struct PutService {
    is_ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl PutService {
    /// Starts it for the links of `inter_node`.
    pub fn start(inter_node: Arc<InterNode>) -> Result<Self, Error> {
        let is_ending = Arc::new(AtomicBool::new(false));
        let thread = thread::Builder::new().name("msccl-puts".to_owned());
        let ends = Arc::clone(&is_ending);
        let thread = thread.spawn(move || {
            if let Err(error) = serve(&inter_node, &ends) {
                inter_node.puts().fail(error);
            }
        });
        let thread = thread.map_err(|error| {
            let text = format!("cannot start the thread for one-sided transfers: {error}");
            Error::new(ErrorKind::System, text)
        })?;
        Ok(Self { is_ending, thread: Some(thread) })
    }
}

impl Drop for PutService {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // A panic was reported by the panic hook; links without it are not served.
            let _ = thread.join();
        }
    }
}

/// Serves the links until the rank ends.
fn serve(inter_node: &InterNode, is_ending: &AtomicBool) -> Result<(), Error> {
    let (mut looks, mut ending_since) = (0_u32, None);
    while !inter_node.is_aborted() {
        if inter_node.puts().advance()? {
            looks = 0;
            continue;
        }
        if is_ending.load(Ordering::Acquire) {
            let since = ending_since.get_or_insert_with(Instant::now);
            if !inter_node.puts().owes() || since.elapsed() > PARTING {
                break;
            }
        }
        let request = match looks.checked_sub(YIELDS) {
            None => {
                thread::yield_now();
                None
            }
            Some(pauses) => {
                let pause_us = (PAUSE_US.start() << (pauses / 8).min(16)).min(*PAUSE_US.end());
                inter_node.request_within(Duration::from_micros(pause_us))
            }
        };
        looks = looks.saturating_add(1);
        if let Some(peer) = request {
            inter_node.make_link(peer)?;
        }
    }
    Ok(())
}
