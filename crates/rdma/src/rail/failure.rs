//! How a rail fails: which of several causes is reported, and when nothing can come any more that
//! arrived before it.

use std::time::{Duration, Instant};

use super::{Rail, Stage};
use crate::cause::{self, FLUSHED};
use crate::verbs::{Completion, Queue, Refused};

/// How long a failure waits for what has arrived before it.
const LAST_ARRIVALS: Duration = Duration::from_millis(200);

/// Why a rail fails.
pub(super) enum Cause {
    Completion {
        queue: Queue,
        completion: Completion,
    },
    Event {
        code: u32,
    },
    /// A call of verbs was refused.
    Refused(Refused),
    /// A write that must not be.
    Wrong {
        why: String,
    },
}

impl Cause {
    /// Whether it says no more than that something else has happened before, or may do so: of a
    /// queue pair that has failed, drivers refuse what is asked.
    fn is_consequence(&self) -> bool {
        match self {
            Self::Completion { queue: _, completion } => completion.status == FLUSHED,
            Self::Refused(_) => true,
            Self::Event { .. } | Self::Wrong { .. } => false,
        }
    }
}

impl Rail {
    /// Notes a cause. The first counts, unless it may be the consequence of one that is noticed
    /// later.
    pub(super) fn begin_to_fail(&mut self, cause: Cause) {
        match &mut self.stage {
            Stage::Carries { peer } => {
                let (peer, since) = (peer.clone(), Instant::now());
                self.stage = Stage::Failing { peer, cause, since, flushed: false };
                if let Some(pair) = &mut self.pair {
                    // It may be in its error state already; if it cannot be, the time limit ends
                    // the wait for it.
                    let _ = pair.break_off();
                }
            }
            Stage::Failing { cause: first, .. }
                if first.is_consequence() && !cause.is_consequence() =>
            {
                *first = cause;
            }
            Stage::Made | Stage::Failing { .. } | Stage::Broken { .. } => {}
        }
    }

    /// Says that the rail has failed, once nothing can come any more that arrived before.
    pub(super) fn conclude(&mut self) -> Result<(), String> {
        let Stage::Failing { cause, since, flushed, .. } = &self.stage else { return Ok(()) };
        let more_arrives = !flushed && self.waiting > 0;
        // Receives may be flushed before the write is reported that has failed.
        let cause_follows = cause.is_consequence() && self.sends.under_way() > 0;
        if (more_arrives || cause_follows) && since.elapsed() < LAST_ARRIVALS {
            return Ok(());
        }
        // The other queue or an event may say more than a flushed request does.
        self.take_completions(Queue::Sent, usize::MAX, |_| {});
        self.registration.port.watch.look();
        self.look_for_events();
        let Stage::Failing { cause, .. } = &self.stage else { return Ok(()) };
        Err(self.give_up(self.words(cause)))
    }

    /// From now on every call fails because of `why`.
    pub(super) fn give_up(&mut self, why: String) -> String {
        self.stage = Stage::Broken { peer: self.peer().cloned(), why: why.clone() };
        why
    }

    /// What happened and what it means. Where, [`Rail::describe`] says.
    pub(super) fn words(&self, cause: &Cause) -> String {
        let what = match cause {
            Cause::Wrong { why } => why.clone(),
            Cause::Refused(refused) => refused.to_string(),
            Cause::Event { code } => {
                let (name, meaning) = cause::fatal_event(*code).unwrap_or(("an event", "unknown"));
                format!("{name}: {meaning}")
            }
            Cause::Completion { queue, completion } => self.words_of_completion(*queue, completion),
        };
        match self.down_for() {
            None => what,
            Some(time) => {
                format!(
                    "{what}; {} has been down for {time:.1?}",
                    self.registration.port.describe()
                )
            }
        }
    }

    fn words_of_completion(&self, queue: Queue, completion: &Completion) -> String {
        let Completion { request, status, vendor, .. } = *completion;
        let what = match queue {
            Queue::Sent => format!("write {request} ({} under way)", self.sends.under_way()),
            Queue::Received => "a receive".to_owned(),
        };
        let name = cause::status_name(status);
        let meaning = cause::meaning(queue, status, self.settings.patience);
        format!("{what} ended with {name} ({status}, vendor {vendor}): {meaning}")
    }
}
