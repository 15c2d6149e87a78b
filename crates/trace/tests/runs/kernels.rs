//! Recordings as kernels of GPUs write them: without numbers of messages, and some without waits.

use std::collections::HashMap;

use msccl_testkit::recordings::{ImaginedRun, PlantedFault};
use msccl_trace::record::{Record, RecordKind};
use msccl_trace::recording::{Recording, ThreadBlockDescription, Work};
use msccl_trace::timeline::{Message, SpanKind, Timeline};

use crate::plans::all_reduce;

const ALGORITHMS: [&str; 3] = ["allreduce/ring", "allreduce/two_shot", "allreduce/one_block"];

/// How late rank 1 is in calls 3 to 6.
const LATE_NS: f64 = 200_000.0;

fn recordings(name: &str) -> Vec<Recording> {
    let mut run = ImaginedRun::new(all_reduce(name, 4), 4 << 20, 4).cut_into(2, 3);
    run.faults = vec![PlantedFault::LateRank { rank: 1, first: 3, last: 6, late_ns: LATE_NS }];
    run.record().iter().map(|file| Recording::read(file).unwrap()).collect()
}

/// Makes `recording` one in which launches begin with what links had before, and messages have no
/// numbers.
pub(crate) fn leave_numbers_out(recording: &mut Recording) {
    let plan = recording.plans.values().next().unwrap();
    for (track, of_track) in &mut recording.tracks {
        let block = &plan.thread_blocks[*track as usize % plan.thread_blocks.len()];
        for piece in &mut of_track.pieces {
            piece.records = counted(block, &piece.records);
        }
    }
}

fn counted(block: &ThreadBlockDescription, records: &[Record]) -> Vec<Record> {
    let receives = block.receives.len() as u32;
    let links = receives + block.sends.len() as u32;
    let mut counts: HashMap<u32, u32> = HashMap::new();
    let mut found = Vec::new();
    for &record in records {
        match record.kind {
            RecordKind::Begin => {
                found.push(record);
                found.extend((0..links).map(|link| Record {
                    kind: RecordKind::Count,
                    step: link,
                    message: counts.get(&link).copied().unwrap_or(0),
                    ..record
                }));
                continue;
            }
            RecordKind::Move => {
                let step = block.steps.iter().find(|step| step.index == record.step).unwrap();
                let sends = step.sends.iter().map(|at| receives + at);
                for link in step.receives.iter().copied().chain(sends) {
                    *counts.entry(link).or_default() += 1;
                }
            }
            RecordKind::WaitRoom
            | RecordKind::WaitData
            | RecordKind::WaitBlock
            | RecordKind::End
            | RecordKind::Count => {}
        }
        found.push(Record { message: 0, ..record });
    }
    found
}

/// Makes it one of low-latency kernels, which record no waits.
pub(crate) fn leave_waits_out(recording: &mut Recording) {
    for shape in recording.shapes.values_mut() {
        if let Work::Plan { kernel, .. } = &mut shape.work {
            kernel.kind = "low-latency".to_owned();
        }
    }
    let pieces = recording.tracks.values_mut().flat_map(|track| &mut track.pieces);
    pieces.for_each(|piece| {
        piece.records.retain(|record| {
            !matches!(
                record.kind,
                RecordKind::WaitRoom | RecordKind::WaitData | RecordKind::WaitBlock
            )
        });
    });
}

#[test]
fn messages_are_found_without_their_numbers() {
    for name in ALGORITHMS {
        let numbered = Timeline::join(recordings(name)).unwrap();
        let mut others = recordings(name);
        others.iter_mut().for_each(leave_numbers_out);
        assert_eq!(Timeline::join(others).unwrap(), numbered, "{name}");
    }
}

#[test]
fn waits_that_were_not_recorded_end_when_the_last_message_was_sent() {
    for name in ALGORITHMS {
        let recorded = Timeline::join(recordings(name)).unwrap();
        let mut others = recordings(name);
        for recording in &mut others {
            leave_numbers_out(recording);
            leave_waits_out(recording);
        }
        let timeline = Timeline::join(others).unwrap();
        assert_eq!(timeline.messages.len(), recorded.messages.len(), "{name}");
        for rank in &timeline.ranks {
            for part in &rank.parts {
                let spans = &rank.spans[part.spans.clone()];
                assert_eq!(spans[0].begin_ns, part.begin_ns);
                assert!(spans.windows(2).all(|two| two[0].end_ns == two[1].begin_ns));
                assert_eq!(spans.last().unwrap().kind, SpanKind::Finish);
            }
        }
        let mut long_waits = 0;
        for (found, known) in timeline.messages.iter().zip(&recorded.messages) {
            assert_eq!(found.link, known.link, "{name}");
            let waited_ns = check_message(&timeline, found, &recorded, known);
            long_waits += usize::from(waited_ns > 0.9 * LATE_NS);
        }
        assert!(long_waits >= 4, "{name}: in each call somebody waits for rank 1, {long_waits}");
    }
}

/// Checks what was found of a message against what was recorded; how long it was waited for.
fn check_message(
    timeline: &Timeline,
    found: &Message,
    recorded: &Timeline,
    known: &Message,
) -> f64 {
    let (moved, truth) = (timeline.span(found.receive), recorded.span(known.receive));
    assert!(moved.kind.is_move() && moved.end_ns == truth.end_ns);
    assert_eq!((moved.step, moved.round, moved.bytes), (truth.step, truth.round, truth.bytes));
    let Some(wait) = found.wait else { return 0.0 };
    let wait = timeline.span(wait);
    let sent_ns = timeline.span(found.send).end_ns;
    assert_eq!((wait.kind, wait.link), (SpanKind::WaitData, Some(found.link)));
    assert_eq!((wait.end_ns, moved.begin_ns), (sent_ns.min(moved.end_ns), wait.end_ns));
    // What was recorded ends when the message has arrived.
    let arrived = known.wait.map(|wait| recorded.span(wait).end_ns);
    assert!(arrived.is_none_or(|arrived_ns| wait.end_ns <= arrived_ns));
    wait.duration_ns()
}
