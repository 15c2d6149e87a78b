//! What is wrong, at places of the source.

use msccl_compiler::chunk::OrderClaim;
use msccl_compiler::schedule::Origins;
use msccl_ir::StepRef;
use msccl_syntax::{Diagnostic, Span, more_at_the_same_place};
use msccl_verify::{Event, Fault, FaultKind, Refusal, UnreadResult, Verified};

/// Something that is wrong or hardly meant.
#[derive(Clone, PartialEq, Debug)]
pub struct Finding {
    /// As the command says it.
    pub diagnostic: Diagnostic,
    /// Its kind, for those who look it up: `syntax`, `race`, `deadlock`, …
    pub code: &'static str,
    /// How it comes about: the events of a counterexample, at their statements.
    pub events: Vec<Place>,
    /// For which launch, if there are several.
    pub launch: Option<String>,
}

/// Something that happens at a statement.
#[derive(Clone, PartialEq, Debug)]
pub struct Place {
    /// The statement, if it is known.
    pub span: Option<Span>,
    /// What happens.
    pub text: String,
}

/// Most events that are listed.
const MOST_EVENTS: usize = 24;

/// Most places of unread results.
const MOST_PLACES: usize = 8;

impl Finding {
    fn new(code: &'static str, diagnostic: Diagnostic) -> Self {
        Self { diagnostic, code, events: Vec::new(), launch: None }
    }

    /// About the text or its meaning.
    pub fn of_text(diagnostic: Diagnostic) -> Self {
        Self::new("program", diagnostic)
    }

    /// About a promise that is not kept.
    pub fn of_promise(diagnostic: Diagnostic) -> Self {
        Self::new("wrong-result", diagnostic)
    }

    /// About a limit of the target.
    pub fn of_limits(diagnostic: Diagnostic) -> Self {
        Self::new("limits", diagnostic)
    }
}

/// The faults of a refusal; those without a step stand at `whole`.
pub fn of_refusal(
    refusal: &Refusal,
    origins: &Origins,
    claim: Option<OrderClaim>,
    whole: Span,
) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for fault in &refusal.faults {
        let finding = of_fault(fault, origins, claim, whole);
        let place = |it: &Finding| it.diagnostic.labels.first().map(|label| label.span);
        // A fault that every rank has is one fault to its author.
        if !findings.iter().any(|known| place(known) == place(&finding)) {
            findings.push(finding);
        }
    }
    findings
}

fn of_fault(fault: &Fault, origins: &Origins, claim: Option<OrderClaim>, whole: Span) -> Finding {
    let Fault { kind, message, at, events, sound_up_to_bytes } = fault;
    let explained = match (kind, claim) {
        (FaultKind::Order, Some(claim)) => Some(claim.explain(message)),
        _ => origins.explain(message, at),
    };
    let mut diagnostic = explained.unwrap_or_else(|| Diagnostic::error(whole, message.clone()));
    if let Some(bytes) = sound_up_to_bytes {
        diagnostic = diagnostic.hint(format!("calls of up to {bytes} bytes go well"));
    }
    let shown = events.iter().take(MOST_EVENTS).map(|event| of_event(event, origins));
    Finding { events: shown.collect(), ..Finding::new(kind.name(), diagnostic) }
}

fn of_event(event: &Event, origins: &Origins) -> Place {
    let span = event.at.and_then(|at| origins.of(at)).map(|origin| origin.span);
    Place { span, text: event.to_string() }
}

/// Results that nobody reads: one warning for each statement.
pub fn unread(verified: &Verified, origins: &Origins) -> Vec<Finding> {
    let mut found: Vec<(Span, UnreadResult, usize)> = Vec::new();
    for unread in verified.unread_results() {
        let step: StepRef = unread.step;
        let Some(span) = origins.of(step).map(|origin| origin.span) else { continue };
        match found.iter_mut().find(|(known, ..)| *known == span) {
            Some((_, _, more)) => *more += 1,
            None => found.push((span, unread, 0)),
        }
    }
    found
        .into_iter()
        .take(MOST_PLACES)
        .map(|(span, unread, more)| warning(span, &unread, more))
        .collect()
}

fn warning(span: Span, unread: &UnreadResult, more: usize) -> Finding {
    let mut diagnostic = Diagnostic::warning(span, unread.to_string());
    diagnostic.hints.extend(more_at_the_same_place(more));
    Finding::new("unread", diagnostic)
}

#[cfg(test)]
mod tests {
    use super::*;
    use msccl_compiler::compile;
    use msccl_compiler::evaluate::{Launch, NoFiles};
    use msccl_ir::Target;
    use msccl_syntax::SourceMap;

    /// What the compiler makes never races, so that the waits are taken out of it.
    #[test]
    fn a_race_has_both_sides() {
        let text = "algorithm a(ranks N = 2) implements allreduce(chunks 2) in place {
    scratch box[2]
    for k in 0..2 on channel k { box@0[k] = input@1[k] }
    for k in 0..2 on channel 1 - k { input@0[k] += box@0[k] }
    for k in 0..2 { input@1[k] = input@0[k] }
}";
        let mut sources = SourceMap::new();
        let file = sources.add("x", text);
        let target = Target::native();
        let compiled = compile(&mut sources, file, &NoFiles, &Launch::default(), &target).unwrap();
        let mut algorithm = compiled.schedule.algorithm;
        let blocks = algorithm.ranks.iter_mut().flat_map(|rank| &mut rank.thread_blocks);
        blocks.flat_map(|block| &mut block.steps).for_each(|step| step.waits.clear());
        let refusal = msccl_verify::verify(algorithm, &target).unwrap_err();
        let whole = Span { file, start: 0, end: 0 };
        let found = of_refusal(&refusal, &compiled.schedule.origins, None, whole);
        assert_eq!(found[0].code, "race", "{refusal}");
        let labels = &found[0].diagnostic.labels;
        let side = |at: usize| {
            let span = labels[at].span;
            &text[span.start as usize..span.end as usize]
        };
        let mut sides = [side(0), side(1)];
        sides.sort_unstable();
        assert_eq!(sides, ["input@0[k] += box@0[k]", "input@1[k] = input@0[k]"], "{found:#?}");
        assert!(!found[0].events.is_empty());
    }
}
