//! What is wrong with an algorithm, and the shortest run that shows it.

use std::fmt;

use msccl_ir::{Algorithm, StepRef, Violation, ViolationClass};

/// Most faults that one refusal lists.
pub(crate) const MOST_FAULTS: usize = 16;

/// An algorithm that is not proved, and why.
#[derive(Clone, PartialEq, Debug)]
pub struct Refusal {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The faults; the first is the principal one, and there is always one.
    pub faults: Vec<Fault>,
}

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Which kind.
    pub kind: FaultKind,
    /// What was expected and what happens instead, in one sentence that names steps and slots.
    pub message: String,
    /// The steps concerned, the principal one first; empty if it concerns no step.
    pub at: Vec<StepRef>,
    /// How it comes about, in order.
    pub events: Vec<Event>,
    /// If the fault depends on the size of a call: the greatest size up to which it does not occur,
    /// as the target reckons the size of a call ([`msccl_ir::Rules::call_divisor`]).
    pub sound_up_to_bytes: Option<u64>,
}

/// One event of a counterexample.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// The step that does it, if it is one step.
    pub at: Option<StepRef>,
    /// What happens.
    pub text: String,
}

/// The kinds of faults.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FaultKind {
    /// An output slot does not hold what the collective promises, or an input slot was changed
    /// although the caller keeps it.
    WrongResult,
    /// Two accesses to one slot, one of them a write, in no order.
    Race,
    /// Thread blocks wait for one another for ever.
    Deadlock,
    /// A slot is read that nobody has written.
    Uninitialised,
    /// A message is sent that nobody receives.
    Leftover,
    /// The algorithm is malformed.
    Structure,
    /// The algorithm exceeds a limit of the target.
    Limits,
    /// It does not add in the order that it claims.
    Order,
}

impl FaultKind {
    /// Every kind.
    pub const ALL: [FaultKind; 8] = [
        FaultKind::WrongResult,
        FaultKind::Race,
        FaultKind::Deadlock,
        FaultKind::Uninitialised,
        FaultKind::Leftover,
        FaultKind::Structure,
        FaultKind::Limits,
        FaultKind::Order,
    ];

    /// The name used in messages and reports.
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::WrongResult => "wrong-result",
            FaultKind::Race => "race",
            FaultKind::Deadlock => "deadlock",
            FaultKind::Uninitialised => "uninitialised",
            FaultKind::Leftover => "leftover",
            FaultKind::Structure => "structure",
            FaultKind::Limits => "limits",
            FaultKind::Order => "order",
        }
    }
}

impl Fault {
    /// A fault without steps and events.
    pub(crate) fn new(kind: FaultKind, message: String) -> Self {
        Self { kind, message, at: Vec::new(), events: Vec::new(), sound_up_to_bytes: None }
    }

    /// The same fault, at these steps.
    pub(crate) fn at(mut self, at: impl IntoIterator<Item = StepRef>) -> Self {
        self.at.extend(at);
        self
    }

    /// The same fault, with these events.
    pub(crate) fn with_events(mut self, events: impl IntoIterator<Item = Event>) -> Self {
        self.events.extend(events);
        self
    }
}

impl Event {
    pub(crate) fn new(at: StepRef, text: String) -> Self {
        Self { at: Some(at), text }
    }
}

/// Structure and limits come from the waist's own validation.
pub(crate) fn of_violations(violations: Vec<Violation>) -> Vec<Fault> {
    let faults = violations.into_iter().take(MOST_FAULTS);
    faults
        .map(|violation| {
            let message = violation.to_string();
            let Violation { class, at, message: _ } = violation;
            let kind = match class {
                ViolationClass::Structure => FaultKind::Structure,
                ViolationClass::Limits => FaultKind::Limits,
            };
            Fault::new(kind, message).at(at)
        })
        .collect()
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(at) => write!(f, "{at} {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

impl fmt::Display for Fault {
    /// The kind, the sentence, and the events, one line each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault { kind, message, at: _, events, sound_up_to_bytes } = self;
        write!(f, "{kind}: {message}")?;
        if let Some(bytes) = sound_up_to_bytes {
            write!(f, " (sound up to {bytes} bytes)")?;
        }
        events.iter().try_for_each(|event| write!(f, "\n  {event}"))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}
