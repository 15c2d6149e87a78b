//! What a collective was told, kept for the next one: calls of one shape differ in few words.
//!
//! A launch record has more than a kilobyte, most of which follows from the shape of the call. It is filled in
//! once for calls that follow one another with the same shape; each writes its own words into it, and the
//! driver copies it.

use std::sync::Arc;

use msccl_collective::{DataType, Protocol, Reduction};
use msccl_plan::cut::Cut;
use msccl_plan::launch::Launch;

use super::bind::Bound;
use super::tagged;
use crate::engine::{Job, Prepared};
use crate::error::Error;
use crate::select::Links;

/// A launch record, filled in for calls of one shape.
pub(super) struct Recent {
    shape: Shape,
    bound: Arc<Bound>,
    record: Launch,
    scratch_bytes: u64,
}

/// All of a [`Job`] on which its record depends, but for the words that every call has for itself.
struct Shape {
    /// Kept, so that no other lies at its address.
    prepared: Arc<Prepared>,
    protocol: Protocol,
    links: Links,
    threads: u32,
    cut: Cut,
    data_type: DataType,
    reduction: Reduction,
}

impl Shape {
    fn of(job: &Job<'_>) -> Self {
        let Job { prepared, protocol, links, threads, cut, data_type, reduction, .. } = *job;
        Self { prepared: prepared.clone(), protocol, links, threads, cut, data_type, reduction }
    }

    /// Whether `job` is of this shape.
    fn is_that_of(&self, job: &Job<'_>) -> bool {
        let Job {
            prepared,
            protocol,
            links,
            threads,
            cut,
            data_type,
            reduction,
            // Every call has its own.
            send: _,
            receive: _,
            stream: _,
            call: _,
            // Only how long it may wait for peers.
            patient: _,
        } = job;
        Arc::ptr_eq(&self.prepared, prepared)
            && self.protocol == *protocol
            && self.links == *links
            && self.threads == *threads
            && self.cut == *cut
            && self.data_type == *data_type
            && self.reduction == *reduction
    }
}

impl Recent {
    /// `record` is what all calls of the shape of `job` are told, of which `bound` is the plan.
    ///
    /// # Errors
    ///
    /// The scratch memory of such calls exceeds what can be addressed.
    pub fn new(job: &Job<'_>, bound: Arc<Bound>, record: Launch) -> Result<Self, Error> {
        let chunks = job.prepared.plan.program().geometry.scratch_chunks;
        let scratch_bytes = job.cut.scratch_bytes(chunks);
        let scratch_bytes =
            scratch_bytes.ok_or_else(|| Error::invalid_argument("the call exceeds memory"))?;
        Ok(Self { shape: Shape::of(job), bound, record, scratch_bytes })
    }

    /// Whether it serves `job`, too.
    pub fn serves(&self, job: &Job<'_>) -> bool {
        self.shape.is_that_of(job)
    }

    /// Scratch memory that such a call needs.
    pub fn scratch_bytes(&self) -> u64 {
        self.scratch_bytes
    }

    /// The plan, and what the kernel is told of `job` with its scratch memory at `scratch`; its views are
    /// still those of the last call.
    pub fn told(&mut self, job: &Job<'_>, scratch: u64) -> (&Bound, &mut Launch) {
        let Self { shape: _, bound, record, scratch_bytes: _ } = self;
        record.input = job.send;
        record.output = job.receive;
        record.scratch = scratch;
        record.call = tagged(u64::from(bound.number), job.call);
        (bound, record)
    }
}
