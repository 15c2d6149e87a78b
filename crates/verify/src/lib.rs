//! The verifier: proves an algorithm, or gives the shortest counterexample to it.
//!
//! The entry is [`verify`]; what it proves is a [`Verified`], which alone may become a plan.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use msccl_ir::Target;
//! use msccl_verify::{FaultKind, verify};
//!
//! let text = r#"
//!     algorithm "copy"
//!     collective broadcast ranks 2 chunks 1 root r0
//!     placement in place
//!     protocol Simple
//!     bytes 0..
//!     r0 scratch 0
//!       tb0 ch0 send r1
//!         s0: i[0] -> r1
//!     r1 scratch 0
//!       tb0 ch0 receive r0
//!         s0: r0 -> o[0]
//! "#;
//! let algorithm = msccl_ir::text::parse(text)?;
//! let verified = verify(algorithm.clone(), &Target::msccl())?;
//! assert_eq!(verified.facts().least_link_depth, 1);
//!
//! // Without its only step, rank 1 never gets the message.
//! let mut wrong = algorithm;
//! wrong.ranks[1].thread_blocks[0].steps.clear();
//! let refusal = verify(wrong, &Target::msccl()).unwrap_err();
//! assert_eq!(refusal.faults[0].kind, FaultKind::Leftover);
//! # Ok(())
//! # }
//! ```
//!
//! [`verify`] reads an [`Algorithm`] and a [`Target`] and nothing else. It answers for every call
//! that the algorithm serves (every message size of its range, in and out of place as it says) and
//! for every interleaving of thread blocks. The argument why one run speaks for all stands in
//! `docs/VERIFICATION.md`; the modules follow it in this order:
//!
//! | module | question | fault |
//! |---|---|---|
//! | `msccl_ir::validate` | is it well formed, and within the target's limits? | structure, limits |
//! | `program` | does the k-th send of every link meet the k-th receive? | structure, deadlock |
//! | `regime` | which message sizes differ? | |
//! | `deadlock` | does it end, at which link depth, and up to which size? | deadlock, leftover |
//! | `race` | are conflicting accesses ordered? | race |
//! | `values` | what does every slot hold at the end? | uninitialised, wrong-result |
//! | `rounds` | are rounds distinguished in the largest call? | limits |
//! | `order` | does it add in the order that it claims, if it claims one? | order |
//!
//! # Guarantees
//!
//! Only this crate makes a [`Verified`]. No cached fact is trusted, and no answer rests on a hash:
//! sums are compared contribution by contribution.
//!
//! # Not claimed
//!
//! Rounding (only whether all ranks round alike, [`Facts::same_on_every_rank`], and the order of
//! additions, [`Facts::addition_orders`]); the memory model
//! of the device, which must make a message, a signal and a credit publish what came before them;
//! residency of all thread blocks; agreement of ranks about which algorithm runs.
//!
//! Absent from this crate: the compiler, files, printing.

#![deny(unsafe_code)]

mod bundles;
mod deadlock;
mod facts;
mod links;
mod memory;
mod order;
mod program;
mod race;
mod refusal;
mod regime;
mod rounds;
mod unread;
mod values;

use msccl_collective::NamedOrder;
use msccl_ir::{Algorithm, Target};

pub use bundles::Bundle;
pub use facts::Facts;
pub use links::access::{Actor, DeliveryKind, LINK_ACCESSES, LinkAccess, Payload, Touch};
pub use links::copies::{BlockCopies, BlockCopy};
pub use links::direct::{Delivery, DirectLink, DirectMessage};
pub use links::{DirectRead, DirectWrite, LinkFacts};
pub use order::{AdditionOrder, AdditionOrders, OrderShape};
pub use refusal::{Event, Fault, FaultKind, Refusal};
pub use unread::UnreadResult;
pub use values::{Completion, RawSources};

/// An algorithm that has been proved for a target, with what the proof found out.
#[derive(Clone, PartialEq, Debug)]
pub struct Verified {
    algorithm: Algorithm,
    target: Target,
    facts: Facts,
}

impl Verified {
    /// The algorithm.
    pub fn algorithm(&self) -> &Algorithm {
        &self.algorithm
    }

    /// The target whose limits and link depths the proof is about.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// What the proof found out.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// What a realisation may leave out on each link; in the order of sending thread blocks, then
    /// of receiving ranks.
    ///
    /// Computed anew by each call. It takes about as long as the proof where thread blocks are many
    /// and each is joined to few others; at worst it takes time in proportion to steps times thread
    /// blocks.
    pub fn link_facts(&self) -> Vec<LinkFacts> {
        links::of(self)
    }

    /// The links that may leave out a copy, all of them at once, and how; `docs/MEMORY.md` says
    /// what a kernel must keep. In the order of sending thread blocks, then of receiving ranks.
    ///
    /// Computed anew by each call, at about twice the cost of [`Verified::link_facts`].
    pub fn direct_links(&self) -> Vec<DirectLink> {
        links::direct::of(self)
    }

    /// The links that may leave out a copy on ranks that run this program while others run `peers`,
    /// for the other placement of the same call: those by which a rank of `peers` is stored to.
    /// Ranks of this program must offer nothing. `None` if the two do not go together so.
    ///
    /// Computed anew by each call, at about the cost of [`Verified::direct_links`].
    pub fn direct_links_beside(&self, peers: &Verified) -> Option<Vec<DirectLink>> {
        links::beside::of(self, peers)
    }

    /// The copies of blocks that this algorithm is, if it is nothing else: each from the input of a
    /// rank to the output of one, none of them touching what another writes. So they may be made in
    /// any order, by whatever can copy.
    ///
    /// Computed anew by each call, in a fraction of the time of the proof; in less where the
    /// algorithm is something else.
    pub fn block_copies(&self) -> Option<BlockCopies> {
        links::copies::of(self)
    }

    /// Steps whose results nobody reads, in the order of ranks, thread blocks and steps: no fault,
    /// but a likely mistake.
    ///
    /// Computed anew by each call, in a fraction of the time of the proof.
    pub fn unread_results(&self) -> Vec<UnreadResult> {
        unread::of(self)
    }

    /// Steps that may run as one, none of them in two bundles; a realisation may take any of them,
    /// or parts of them.
    ///
    /// Computed anew by each call, in a fraction of the time of the proof.
    pub fn bundles(&self) -> Vec<Bundle> {
        bundles::of(self)
    }

    /// The algorithm, without its proof.
    pub fn into_algorithm(self) -> Algorithm {
        self.algorithm
    }
}

/// Proves `algorithm` for `target`.
///
/// # Errors
///
/// The algorithm with its faults, the principal one first, if it is not proved.
pub fn verify(algorithm: Algorithm, target: &Target) -> Result<Verified, Box<Refusal>> {
    match judge(&algorithm, target) {
        Ok(facts) => Ok(Verified { algorithm, target: target.clone(), facts }),
        Err(faults) => Err(Box::new(Refusal { algorithm, faults })),
    }
}

/// As [`verify`]; proves also that every promised sum is added in the order of the `claim`, if
/// there is one.
///
/// # Errors
///
/// As [`verify`]; an algorithm that is right but adds otherwise has one fault,
/// [`FaultKind::Order`].
pub fn verify_claim(
    algorithm: Algorithm,
    target: &Target,
    claim: Option<NamedOrder>,
) -> Result<Verified, Box<Refusal>> {
    let verified = verify(algorithm, target)?;
    match claim.and_then(|claimed| order::contradiction(&verified, claimed)) {
        None => Ok(verified),
        Some(fault) => {
            Err(Box::new(Refusal { algorithm: verified.algorithm, faults: vec![fault] }))
        }
    }
}

/// The proof, question by question; each may rely on the answers before it.
fn judge(algorithm: &Algorithm, target: &Target) -> Result<Facts, Vec<Fault>> {
    msccl_ir::validate(algorithm, target).map_err(refusal::of_violations)?;
    let program = program::Program::new(algorithm).map_err(one)?;
    let regimes = regime::Regimes::of(algorithm, target);
    let ended = deadlock::check(&program, &regimes)?;
    race::check(&program, target, &ended.order)?;
    let values = values::check(&program, target, &ended.order)?;
    let deadlock = ended.deadlock_of_larger_calls.map(|fault| explained(fault, algorithm, target));
    let of_larger_calls = [deadlock, rounds::check(&program, target)];
    let of_larger_calls: Vec<_> = of_larger_calls.into_iter().flatten().collect();
    if !of_larger_calls.is_empty() {
        return Err(of_larger_calls);
    }
    Ok(facts::gather(&program, &regimes, ended.least_depth, values))
}

/// A fault of larger calls, with what its target reckons otherwise than most.
fn explained(mut fault: Fault, algorithm: &Algorithm, target: &Target) -> Fault {
    let Algorithm { collective, protocol, .. } = algorithm;
    let rules = &target.rules;
    if rules.message_divisor(&collective.kind, *protocol) > 1 {
        let bytes = target.packing_link(&collective.kind, *protocol).message_bytes;
        let (runtime, name) = (rules.runtime, collective.name());
        fault.message +=
            &format!(" ({runtime} cuts the steps of a {name} as if messages held {bytes} bytes)");
    }
    if rules.call_divisor(collective) > 1 {
        let (runtime, name) = (rules.runtime, collective.name());
        fault.message += &format!(" ({runtime} takes one block for the size of a {name})");
    }
    fault
}

fn one(fault: Fault) -> Vec<Fault> {
    vec![fault]
}
