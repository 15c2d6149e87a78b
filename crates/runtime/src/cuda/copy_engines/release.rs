//! The end of what copy engines have under way when a communicator is given up.
//!
//! A stream that waits for a peer goes on when the flag is raised, whoever raises it, and then it
//! copies: into memory of a peer that may never have come to the call, and uses that memory for
//! something else by now. So before the thread here opens the gate, it takes that memory away from
//! where this rank has mapped it, and puts memory there that nobody reads.
//!
//! That must not happen under copies that run. Since the gate is closed, none begin; those that ran
//! before were allowed, and end by themselves. The thread waits until the stream shows that it
//! stands before the gate, where no kernel and no copy of this communicator runs: calls run one
//! after another. A stream that has just passed the gate may not have said so yet, therefore
//! [`SHOWN_WITHIN`].

use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use super::super::registration::Registration;
use super::{CopyEngines, EngineState, OPEN, Stage};
use crate::shared_state::{PIECES, PairFlag};

/// How long a stream may take to say that it has passed the gate.
const SHOWN_WITHIN: Duration = Duration::from_millis(3);

/// How often the thread looks.
const TICK: Duration = Duration::from_micros(100);

impl CopyEngines {
    /// Ends what is under way, now and later, without harm to peers. Never waits. Nothing is done
    /// where there never was a call.
    pub fn release(&self, registration: Option<&Registration>) {
        self.state.close_gate();
        let mut releaser = self.releaser.lock().unwrap_or_else(PoisonError::into_inner);
        let used = self.state.shared_state.get().is_some();
        let Some(registration) = registration.filter(|_| used && releaser.is_none()) else {
            return;
        };
        let (state, detacher) = (Arc::clone(&self.state), registration.detacher());
        let name = format!("msccl-release-{}", state.me.0);
        let run = move || {
            let mut opened = false;
            while !state.ends.load(Ordering::Acquire) {
                if !opened && state.stands_before_the_gate() && detacher.detach(&state.instead) {
                    state.set_gate(OPEN);
                    opened = true;
                }
                state.raise_flags();
                thread::sleep(TICK);
            }
        };
        // Without a thread what waits goes on waiting.
        *releaser = thread::Builder::new().name(name).spawn(run).ok();
    }
}

impl Drop for CopyEngines {
    fn drop(&mut self) {
        self.state.ends.store(true, Ordering::Release);
        let releaser = self.releaser.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = releaser.take() {
            // A panic of the thread has been reported by the panic hook; there is nothing to add.
            let _ = thread.join();
        }
    }
}

impl EngineState {
    fn stands_before_the_gate(&self) -> bool {
        let closed = self.closed.get().is_some_and(|since| since.elapsed() >= SHOWN_WITHIN);
        closed
            && match self.stage().stage {
                Stage::Begins | Stage::Sums => true,
                Stage::Idle | Stage::Copies | Stage::Ends => false,
            }
    }

    /// Says in the name of all peers that they have come and that all is done. The stream takes
    /// flags down, so this is done again and again.
    fn raise_flags(&self) {
        let Some(shared_state) = self.shared_state.get() else { return };
        let pieces = (0..PIECES).map(PairFlag::Piece);
        let flags: Vec<_> = [PairFlag::Ready, PairFlag::Done].into_iter().chain(pieces).collect();
        let of_rank = |from| flags.iter().map(move |flag| (from, *flag));
        let pairs = shared_state.ranks().flat_map(of_rank);
        for (from, flag) in pairs {
            let word = shared_state.flag(from, self.me, flag);
            word.inspect(|word| word.store(1, Ordering::Release));
        }
    }
}
