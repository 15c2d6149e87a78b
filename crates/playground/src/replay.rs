//! One run, event by event, as numbers that a page can draw.
//!
//! Values are numbered: each is a list of contributions `[rank, chunk]`, and a slot or an event
//! names it by its number, or has `null` for what is undefined.

use std::collections::HashMap;

use msccl_collective::{Contribution, Slot};
use msccl_machine::{Blocked, Reason, Stall};
use msccl_pages::failure::{Failure, Result};
use msccl_simulate::{Held, Replay, ReplayEnding, ReplayEvent, Wrong};
use serde_json::{Value, json};

use crate::request::Source;
use crate::source::studied;

/// Most events that a page draws.
const MOST_EVENTS: usize = 20_000;

/// A run of the file, whether it is proved or not.
///
/// # Errors
///
/// The file cannot be understood, has no schedule, or the run is too long.
pub fn replay(source: &Source) -> Result<Value> {
    let studied = studied(source)?;
    let study = &studied.study;
    let algorithm = study.algorithm.as_ref();
    let algorithm = algorithm.ok_or_else(|| Failure::new("there is no schedule to run"))?;
    let found = msccl_simulate::replay(algorithm, &study.target, MOST_EVENTS)
        .map_err(|error| Failure::new(error.to_string()))?;
    let Replay { chunks_per_message, depth, start, events, ending } = found;
    let mut values = Values::default();
    let start: Vec<_> = start.iter().map(|held| values.held(held)).collect();
    let events: Vec<_> = events.iter().map(|event| event_json(event, &mut values)).collect();
    let blocks: Vec<_> = algorithm
        .thread_blocks()
        .map(|(rank, tb, block)| {
            json!({
                "rank": rank.0, "tb": tb.0, "channel": block.channel.0,
                "sends": block.sends.iter().map(|to| to.0).collect::<Vec<_>>(),
                "receives": block.receives.iter().map(|from| from.0).collect::<Vec<_>>(),
                "steps": block.steps.len(),
            })
        })
        .collect();
    Ok(json!({
        "ranks": algorithm.collective.ranks, "depth": depth,
        "chunks_per_message": chunks_per_message, "blocks": blocks, "start": start,
        "events": events, "ending": ending_json(&ending), "values": values.lists,
    }))
}

fn event_json(event: &ReplayEvent, values: &mut Values) -> Value {
    let ReplayEvent { turn, at, chunks, taken, sent, written, waited } = event;
    let ranks = |ranks: &[msccl_collective::Rank]| -> Vec<u32> {
        ranks.iter().map(|rank| rank.0).collect()
    };
    json!({
        "turn": turn, "rank": at.rank.0, "tb": at.tb.0, "step": at.step.0,
        "chunks": [chunks.start, chunks.end], "taken": ranks(taken), "sent": ranks(sent),
        "written": written.iter().map(|held| values.held(held)).collect::<Vec<_>>(),
        "waited": waited.as_ref().map(Reason::to_string),
    })
}

fn ending_json(ending: &ReplayEnding) -> Value {
    match ending {
        ReplayEnding::Right => json!({ "kind": "right" }),
        ReplayEnding::Wrong(Wrong { rank, index, expected, found }) => {
            let list = |all: &[Contribution]| -> Vec<String> {
                all.iter().map(ToString::to_string).collect()
            };
            json!({
                "kind": "wrong", "rank": rank.0, "index": index, "expected": list(expected),
                "found": found.as_deref().map(list),
            })
        }
        ReplayEnding::Stalled(Stall { blocked }) => {
            let blocked: Vec<_> = blocked
                .iter()
                .map(|Blocked { at, messages_done, reasons }| {
                    let reasons: Vec<_> =
                        reasons.iter().map(|(reason, _)| reason_json(reason)).collect();
                    json!({
                        "rank": at.rank.0, "tb": at.tb.0, "step": at.step.0,
                        "messages_done": messages_done, "reasons": reasons,
                    })
                })
                .collect();
            json!({ "kind": "stalled", "blocked": blocked })
        }
    }
}

fn reason_json(reason: &Reason) -> Value {
    let of = match reason {
        Reason::Signal(_) => None,
        Reason::Message { from, channel: _ } => Some(from.0),
        Reason::Room { to, channel: _, in_flight: _ } => Some(to.0),
    };
    let tb = match reason {
        Reason::Signal(wait) => Some(wait.tb.0),
        Reason::Message { .. } | Reason::Room { .. } => None,
    };
    json!({ "text": reason.to_string(), "rank": of, "tb": tb })
}

/// Values, each once.
#[derive(Default)]
struct Values {
    numbers: HashMap<Vec<Contribution>, usize>,
    lists: Vec<Vec<(u32, u32)>>,
}

impl Values {
    /// `[rank, buffer, index, value]`
    fn held(&mut self, held: &Held) -> Value {
        let Held { rank, slot, value } = held;
        let Slot { buffer, index } = *slot;
        let number = value.as_ref().map(|value| self.number(value));
        json!([rank.0, buffer.letter().to_string(), index, number])
    }

    fn number(&mut self, value: &[Contribution]) -> usize {
        if let Some(number) = self.numbers.get(value) {
            return *number;
        }
        let number = self.lists.len();
        self.lists.push(value.iter().map(|of| (of.rank.0, of.index)).collect());
        self.numbers.insert(value.to_vec(), number);
        number
    }
}
