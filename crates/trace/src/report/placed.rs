//! Spans with all that they belong to.

use crate::recording::{PlanDescription, StepDescription};
use crate::timeline::{Part, RankLaunch, Span, SpanKind, SpanRef, Timeline};

/// A part of a launch, with what is looked up once for all its spans.
#[derive(Clone, Copy)]
pub(super) struct PlacedPart<'a> {
    pub rank: u32,
    pub launch: &'a RankLaunch,
    pub part: &'a Part,
    pub plan: Option<&'a PlanDescription>,
    /// The spans of the rank.
    spans: &'a [Span],
    /// The steps of the thread block, as far as its plan is known.
    pub steps: &'a [StepDescription],
}

/// A span with all that it belongs to.
#[derive(Clone, Copy)]
pub(super) struct Placed<'a> {
    pub at: SpanRef,
    pub span: &'a Span,
    pub launch: &'a RankLaunch,
    pub part: &'a Part,
    pub plan: Option<&'a PlanDescription>,
    pub step: Option<&'a StepDescription>,
}

/// A line of a program. There may be millions of spans, so that each has no text of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct LineName<'a> {
    pub program: &'a str,
    pub line: u32,
}

impl<'a> PlacedPart<'a> {
    pub fn new(timeline: &'a Timeline, rank: u32, launch: &'a RankLaunch, part: &'a Part) -> Self {
        let of_rank = &timeline.ranks[rank as usize];
        let (plan, steps) = (of_rank.plan(launch), of_rank.steps(launch, part));
        Self { rank, launch, part, plan, spans: &of_rank.spans, steps }
    }

    /// The span of the rank at a position, which must be in this part.
    pub fn span(&self, at: usize) -> Placed<'a> {
        let Self { rank, launch, part, plan, spans, steps } = *self;
        let span = &spans[at];
        let step = self.position(span).map(|position| &steps[position]);
        let at = SpanRef { rank, span: at as u32 };
        Placed { at, span, launch, part, plan, step }
    }

    /// The position of the step of a span, if it is known.
    pub fn position(&self, span: &Span) -> Option<usize> {
        let has_step = span.kind != SpanKind::Finish;
        has_step.then(|| StepDescription::position(self.steps, span.step)).flatten()
    }

    /// All its spans.
    pub fn all(self) -> impl Iterator<Item = Placed<'a>> {
        self.part.spans.clone().map(move |at| self.span(at))
    }
}

impl<'a> Placed<'a> {
    /// Its line, if that is known.
    pub fn line(&self) -> Option<LineName<'a>> {
        let plan = self.plan?;
        let program = plan.source.as_ref().unwrap_or(&plan.algorithm);
        Some(LineName { program, line: self.step?.line? })
    }

    /// The thread block of its plan.
    pub fn thread_block(&self) -> Option<u32> {
        Some(self.part.place?.thread_block)
    }
}
