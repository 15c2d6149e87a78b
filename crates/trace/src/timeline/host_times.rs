//! Tracks by the host's clock, which is not that of the other records of their rank.
//!
//! Times of a rank count from one epoch until clocks are aligned. So times by the host's clock are
//! moved near the others first, all by the same, and taken back when they are aligned.

use crate::recording::{Recording, TrackClock};

/// How far the clock of records is ahead of the host's, modulo 2^64, when it is first read. Of one
/// that was never read, when the recording begins: drivers set the clocks of GPUs to UNIX time.
pub(super) fn ahead_ns(recording: &Recording) -> u64 {
    let start = recording.header.start;
    match recording.clock.first() {
        Some(first) => first.device_ns.wrapping_sub(first.before_ns.midpoint(first.after_ns)),
        None => start.unix_ns.wrapping_sub(start.monotonic_ns),
    }
}

/// Moves the times of tracks by the host's clock near those of the others.
pub(super) fn move_near(mut recording: Recording) -> Recording {
    let ahead_ns = ahead_ns(&recording);
    for track in recording.tracks.values_mut() {
        if track.named.as_ref().is_none_or(|named| named.clock == TrackClock::Records) {
            continue;
        }
        for record in track.pieces.iter_mut().flat_map(|piece| &mut piece.records) {
            record.time_ns = record.time_ns.wrapping_add(ahead_ns);
        }
    }
    recording
}
