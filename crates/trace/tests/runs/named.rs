//! Named tracks: what a proxy does, by the host's clock, beside thread blocks by a GPU's.

use msccl_testkit::recordings::{ImaginedClock, ImaginedRun};
use msccl_trace::record::Record;
use msccl_trace::recording::{NAMED_TRACKS, NamedTrack, Piece, Recording, Track, TrackClock};
use msccl_trace::timeline::{Part, Timeline};

use crate::plans::all_reduce;

const CLOCK: ImaginedClock = ImaginedClock {
    host: 0,
    gpu: None,
    host_error_ns: 0.0,
    offset_ns: 7.3e6,
    drift: 13e-6,
    round_trip_ns: 1000.0,
};

/// What the host's clock showed when the device's showed `device_ns`, if both start at `start_ns`.
fn host_ns(start_ns: u64, device_ns: u64) -> u64 {
    let since_ns = device_ns as f64 - start_ns as f64;
    start_ns + ((since_ns - CLOCK.offset_ns) / (1.0 + CLOCK.drift)).round() as u64
}

/// A track that does what the first thread block of `recording` does, by `clock`.
fn shadow(recording: &Recording, clock: TrackClock) -> Track {
    let start_ns = recording.header.start.monotonic_ns;
    let records = recording.tracks[&0].pieces[0].records.iter().map(|record| match clock {
        TrackClock::Records => *record,
        TrackClock::Host => Record { time_ns: host_ns(start_ns, record.time_ns), ..*record },
    });
    let pieces = vec![Piece { first: 0, records: records.collect() }];
    let (track, name) = (NAMED_TRACKS, "proxy".to_owned());
    Track { named: Some(NamedTrack { track, name, link: None, clock }), pieces, lost: 0 }
}

/// By how much spans of the named track end elsewhere than those of the thread block.
fn largest_difference_ns(timeline: &Timeline) -> f64 {
    let rank = &timeline.ranks[0];
    let ends = |of: &dyn Fn(&&Part) -> bool| -> Vec<f64> {
        let parts = rank.parts.iter().filter(|part| of(part));
        parts.flat_map(|part| &rank.spans[part.spans.clone()]).map(|span| span.end_ns).collect()
    };
    let block = ends(&|part| part.track == 0);
    let named = ends(&|part| part.track == NAMED_TRACKS);
    // The begins of launches but the first are spans of the named track, too.
    let nearest = |end_ns: &f64| {
        let differences = named.iter().map(|of| (of - end_ns).abs());
        differences.fold(f64::MAX, f64::min)
    };
    assert!(named.len() > block.len());
    block.iter().map(nearest).fold(0.0, f64::max)
}

#[test]
fn tracks_of_either_clock_lie_beside_thread_blocks() {
    for clock in [TrackClock::Records, TrackClock::Host] {
        let mut run = ImaginedRun::new(all_reduce("allreduce/ring", 4), 4 << 20, 4);
        (run.calls, run.clocks) = (300, vec![CLOCK]);
        let files = run.record();
        let mut recordings: Vec<_> =
            files.iter().map(|file| Recording::read(file).unwrap()).collect();
        let shadow = shadow(&recordings[0], clock);
        recordings[0].tracks.insert(NAMED_TRACKS, shadow);
        let timeline = Timeline::join(recordings).unwrap();
        let difference_ns = largest_difference_ns(&timeline);
        let bound_ns = match clock {
            TrackClock::Records => 0.0,
            TrackClock::Host => 1000.0,
        };
        assert!(difference_ns <= bound_ns, "{clock:?}: {difference_ns} ns");
    }
}
