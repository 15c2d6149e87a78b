//! The engine on host threads: one rank, whose peers are in other threads, processes or hosts.
//!
//! Wires are rings in shared memory ([`msccl_fabric::RingBuffers`]). Every rank makes those on
//! which it receives from its node, and hands each peer there the descriptor; so what a rank holds
//! grows with the number of ranks, and [`Capacity::of_host`](msccl_select::Capacity::of_host) keeps
//! the whole within bounds. Wires to and from other nodes are such rings as well, whose other ends
//! a proxy holds ([`inter_node`]); they are made when they are first needed, for those peers with
//! which an algorithm or a transfer really exchanges messages. Transfers have wires of their own: a
//! collective never waits behind a message for which nobody has called yet. So do one-sided
//! transfers to other nodes ([`put_links`]).
//!
//! A call runs in the thread that makes it and returns when this rank's part is done. A collective
//! alternates between its thread blocks and instances, transfers alternate between their peers and
//! directions; so one thread is enough for any pattern that cannot deadlock. Where nothing moves it
//! spins, yields, then sleeps.
//!
//! # Guarantees
//!
//! * What a step does is [`msccl_machine::execute`] over the same cut as on a GPU
//!   ([`msccl_plan::cut`]): results are those of [`crate::oracle`] and of kernels, bit for bit.
//! * A wait ends within milliseconds of an abort, here or on a rank of this node that is still
//!   needed ([`interrupt`] says when), and its error names the peer and what was awaited. A rank
//!   that failed once fails every later call.
//! * A message of another length than expected is an error on the rank that takes it: ranks that
//!   call with different counts get such an error, or wait, but do not read what is not there.
//!
//! The host has no packet formats: only wires under protocol Simple exist, and they serve
//! algorithms of any protocol. Streams mean nothing here, since a call that has returned is done.

mod backoff;
mod bound;
mod collective;
mod inter_node;
mod interrupt;
mod memory;
mod peer_wires;
mod put;
mod put_links;
mod put_message;
mod put_service;
mod rank;
mod recording;
mod scaling;
mod scratch;
mod signals;
#[cfg(test)]
mod tests;
mod transfers;
mod wires;

pub(crate) use rank::HostRank;
