//! Why a run did not finish: who waits for whom.

use std::fmt;

use msccl_ir::StepRef;
use msccl_machine::Reason;

/// How a run ended without finishing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StallKind {
    /// No thread block could go on.
    Standstill,
    /// The time allowed for the run was over.
    TimedOut,
}

/// A run that did not finish.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stall {
    /// How it ended.
    pub kind: StallKind,
    /// Every thread block that waited for something, in the order of ranks and thread blocks.
    pub blocked: Vec<Blocked>,
}

/// A thread block, and what it waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Blocked {
    /// The step at which it stands.
    pub at: StepRef,
    /// The round.
    pub round: usize,
    /// What it waits for.
    pub reason: Reason,
    /// Which message of the link, counted from 0 over the whole run; `None` for a signal.
    pub message: Option<u64>,
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Blocked { at, round, reason, message } = self;
        write!(f, "{at} {reason}")?;
        match message {
            Some(message) => write!(f, " (message {message}, round {round})"),
            None => write!(f, " (round {round})"),
        }
    }
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stall { kind, blocked } = self;
        match kind {
            StallKind::Standstill => f.write_str("no thread block can go on:")?,
            StallKind::TimedOut => f.write_str("the run took longer than allowed:")?,
        }
        if blocked.is_empty() {
            f.write_str(" none waits for another")?;
        }
        blocked.iter().try_for_each(|blocked| write!(f, "\n  {blocked}"))
    }
}

impl std::error::Error for Stall {}
