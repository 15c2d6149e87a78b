//! What can be wrong with a certificate of steps.

use std::fmt;

use crate::error::SynthesisError;

/// What is wrong with a certificate of steps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StepFault {
    /// Steps are not searched for such a call on such a cluster.
    NoProblem(SynthesisError),
    /// Steps are counted for blocks of one chunk.
    OtherChunks {
        /// How many chunks a block has.
        found: u32,
    },
    /// One rank sends to another, and no route leads there.
    NoRoute {
        /// Who sends.
        from: u32,
        /// Who should receive.
        to: u32,
    },
    /// Another number of chunks goes from one rank to another.
    OtherMessages {
        /// Who sends.
        from: u32,
        /// Who receives.
        to: u32,
        /// How many are claimed.
        claimed: usize,
        /// How many there are.
        found: usize,
    },
    /// A message is sent before its sender has what it carries.
    TooEarly {
        /// Who sends.
        from: u32,
        /// Who receives.
        to: u32,
        /// When it is said to be sent.
        step: u32,
        /// After which step its sender has what it carries.
        known_after: u32,
    },
    /// A message is held up by what its sender does before it.
    HeldUp {
        /// Who sends.
        from: u32,
        /// Who receives.
        to: u32,
        /// When it is said to be sent.
        step: u32,
        /// When it is sent at the earliest.
        earliest: u32,
    },
    /// One rank sends two chunks to another in one step.
    Twice {
        /// Who sends.
        from: u32,
        /// Who receives.
        to: u32,
        /// The step.
        step: u32,
    },
    /// The compiled program has a message that was not planned.
    NotPlanned {
        /// Who sends.
        from: u32,
        /// Who receives.
        to: u32,
    },
    /// A link carries too many chunks in a step.
    LinkTooBusy {
        /// Its place in the cluster.
        link: usize,
        /// The step.
        step: u32,
        /// The most that it may carry.
        link_chunks: u32,
    },
    /// Something is sent in another step than those that are claimed, or in none of them.
    OtherSteps {
        /// How many steps are claimed.
        claimed: u32,
        /// The last one in which something is sent.
        found: u32,
    },
    /// Fewer steps are not shown to be too few.
    Bound(StepBoundFault),
}

/// Why a bound does not hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepBoundFault {
    /// The witness does not show it.
    NotShown {
        /// What is claimed to be too few.
        steps: u32,
    },
    /// The proof is none.
    Proof(ProofFault),
    /// Clauses for so many steps would be too many.
    TooLarge {
        /// What is claimed to be too few.
        steps: u32,
    },
}

/// Why a list of lemmas is no proof.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProofFault {
    /// The lemma of that place does not follow by its hints.
    DoesNotFollow(usize),
    /// No lemma is empty.
    NotEmpty,
}

impl fmt::Display for StepFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProblem(error) => error.fmt(f),
            Self::OtherChunks { found } => write!(
                f,
                "expected blocks of 1 chunk, for which steps are counted, found {found} chunks"
            ),
            Self::NoRoute { from, to } => {
                write!(f, "expected a route from rank {from} to rank {to}, found none")
            }
            Self::OtherMessages { from, to, claimed, found } => write!(
                f,
                "the certificate says that {claimed} chunks go from rank {from} to rank {to}, and \
                 {found} do"
            ),
            Self::TooEarly { from, to, step, known_after } => write!(
                f,
                "the certificate says that rank {from} sends to rank {to} in step {step}, and what \
                 it sends is there only after step {known_after}"
            ),
            Self::HeldUp { from, to, step, earliest } => write!(
                f,
                "the certificate says that rank {from} sends to rank {to} in step {step}, and its \
                 thread block comes to that in step {earliest}"
            ),
            Self::Twice { from, to, step } => write!(
                f,
                "expected at most 1 chunk from rank {from} to rank {to} in a step, found more in \
                 step {step}"
            ),
            Self::NotPlanned { from, to } => write!(
                f,
                "rank {from} sends to rank {to} what was not planned; please report the command"
            ),
            Self::LinkTooBusy { link, step, link_chunks } => write!(
                f,
                "expected at most {link_chunks} chunks over each link in a step, found more over \
                 link {link} in step {step}"
            ),
            Self::OtherSteps { claimed, found } => write!(
                f,
                "the certificate says that all is sent in {claimed} steps, and the last one is \
                 {found}"
            ),
            Self::Bound(fault) => bound(*fault, f),
        }
    }
}

fn bound(fault: StepBoundFault, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match fault {
        StepBoundFault::NotShown { steps } => {
            write!(
                f,
                "expected a witness that {steps} steps are too few, found one that shows less"
            )
        }
        StepBoundFault::TooLarge { steps } => {
            write!(f, "clauses for {steps} steps are too many to check a proof about them")
        }
        StepBoundFault::Proof(ProofFault::DoesNotFollow(lemma)) => write!(
            f,
            "lemma {} of the proof that fewer steps are too few does not follow by its hints",
            lemma + 1
        ),
        StepBoundFault::Proof(ProofFault::NotEmpty) => {
            f.write_str("the proof that fewer steps are too few does not end with the empty clause")
        }
    }
}
