//! What to know of a run before its report is believed: who shares a GPU, and what is missing.

use std::collections::BTreeSet;

use crate::recording::Ending;
use crate::timeline::{Devices, Timeline, TrackSummary};

/// What makes findings doubtful, in sentences.
pub(super) fn notes(timeline: &Timeline) -> Vec<String> {
    if timeline.launches.is_empty() {
        return vec!["no call was launched while the run was recorded".to_owned()];
    }
    turns(timeline).into_iter().collect()
}

/// Which ranks wait for turns: a GPU runs the kernels of one process at a time, for milliseconds.
fn turns(timeline: &Timeline) -> Option<String> {
    let processes = |ranks: &Vec<usize>| {
        let of_ranks = ranks.iter().map(|rank| timeline.ranks[*rank].header.process);
        of_ranks.collect::<BTreeSet<_>>().len()
    };
    let names = |ranks: Vec<usize>| {
        let names = ranks.iter().map(|rank| timeline.ranks[*rank].header.rank.to_string());
        names.collect::<Vec<_>>().join(", ")
    };
    let shared =
        Devices::of(&timeline.ranks).ranks.into_iter().filter(|ranks| processes(ranks) > 1);
    let mut shared = shared.map(names);
    let first = shared.next()?;
    let others: String = shared.map(|ranks| format!(", and so do {ranks}")).collect();
    Some(format!(
        "ranks {first} share a GPU{others}: unless MPS runs, their processes take turns of \
         milliseconds there, and whoever waits for a turn looks like a late rank or a slow link"
    ))
}

/// What is missing, in sentences.
pub(super) fn losses(timeline: &Timeline) -> Vec<String> {
    let mut losses = Vec::new();
    for rank in &timeline.ranks {
        let number = rank.header.rank;
        let sum = |of: fn(&TrackSummary) -> u64| -> u64 { rank.tracks.iter().map(of).sum() };
        let (lost, unassigned) = (sum(|track| track.lost), sum(|track| track.unassigned));
        if lost > 0 {
            losses.push(format!(
                "rank {number} has lost {lost} records, which were overwritten before they were \
                 read; {unassigned} more belong to calls whose begin was lost"
            ));
        }
        match rank.ending {
            Ending::Whole => {}
            Ending::Full { left_out } => losses.push(format!(
                "the recording of rank {number} is full: {left_out} records after that are left out"
            )),
            Ending::Cut => losses.push(format!(
                "the recording of rank {number} has no end: its process was killed, or still runs"
            )),
        }
    }
    let of_ranks = timeline.ranks.first().map_or(0, |rank| rank.header.ranks);
    let known: BTreeSet<u32> = timeline.ranks.iter().map(|rank| rank.header.rank).collect();
    let missing: Vec<String> =
        (0..of_ranks).filter(|rank| !known.contains(rank)).map(|rank| rank.to_string()).collect();
    if !missing.is_empty() {
        losses.push(format!("there is no recording of ranks {}", missing.join(", ")));
    }
    losses
}
