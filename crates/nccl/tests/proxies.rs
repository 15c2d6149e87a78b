//! Recordings of proxies between nodes: processes of this machine that pretend to be several hosts.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stderr, reason = "skips are loud")]

mod programs;

use std::collections::BTreeMap;
use std::fs;

use msccl_trace::export::perfetto;
use msccl_trace::record::RecordKind;
use msccl_trace::recording::{NAMED_TRACKS, Recording, Track};
use msccl_trace::timeline::Timeline;

use programs::{folder, run};

/// One end of a link: the time at which a wait for each message ended, and each move, by message.
#[derive(Default)]
struct SeenEnd {
    waits: BTreeMap<u32, u64>,
    moves: BTreeMap<u32, u64>,
}

impl SeenEnd {
    fn of(track: &Track) -> Self {
        assert_eq!(track.lost, 0);
        let (mut end, mut last_ns) = (Self::default(), 0);
        for record in track.pieces.iter().flat_map(|piece| &piece.records) {
            assert!(record.time_ns >= last_ns);
            last_ns = record.time_ns;
            let of_kind = match record.kind {
                RecordKind::WaitData => &mut end.waits,
                RecordKind::Move => &mut end.moves,
                other => panic!("{other:?}"),
            };
            assert!(of_kind.insert(record.message, record.time_ns).is_none(), "{record:?} twice");
        }
        end
    }
}

/// Both ends of a link show the same messages, which leave before they arrive.
#[test]
fn every_message_between_nodes_leaves_and_arrives() {
    let traces = folder().join("proxy-traces");
    let _ = fs::remove_dir_all(&traces);
    let environment = [("PER_HOST", "1"), ("MSCCL_TRACE", traces.to_str().unwrap())];
    let Some(_) = run("processes", &["3", "1"], &environment) else { return };
    let files =
        fs::read_dir(&traces).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
    let mut communicators: BTreeMap<String, Vec<Recording>> = BTreeMap::new();
    for bytes in files {
        let recording = Recording::read(&bytes).unwrap();
        communicators.entry(recording.header.communicator.clone()).or_default().push(recording);
    }
    let messages: usize = communicators.into_values().map(check).sum();
    assert!(messages > 100, "{messages}");
}

/// How many messages went between the nodes of a communicator.
fn check(recordings: Vec<Recording>) -> usize {
    type Ends = [Option<SeenEnd>; 2];
    let mut links: BTreeMap<(u32, u32, u32), Ends> = BTreeMap::new();
    for recording in &recordings {
        for track in recording.tracks.range(NAMED_TRACKS..).map(|(_, track)| track) {
            let link = track.named.as_ref().and_then(|named| named.link.clone()).unwrap();
            let side = usize::from(link.to == recording.header.rank);
            let ends = links.entry((link.from, link.to, link.wire)).or_default();
            assert!(ends[side].replace(SeenEnd::of(track)).is_none());
        }
    }
    let mut messages = 0;
    for (link, ends) in links {
        let [Some(sent), Some(received)] = ends else { panic!("{link:?} has one end") };
        let numbers = 1..=received.moves.len() as u32;
        assert!(received.moves.keys().copied().eq(numbers.clone()), "{link:?}");
        assert!(received.waits.keys().eq(received.moves.keys()), "{link:?}");
        // The last may not be acknowledged when the communicator ends.
        assert!(sent.moves.keys().copied().eq(1..=sent.moves.len() as u32), "{link:?}");
        assert!(sent.moves.len() <= received.moves.len());
        assert!(sent.waits.contains_key(&1), "{link:?}");
        for (number, found_ns) in &sent.waits {
            // One machine has one clock.
            let arrived_ns = received.moves.get(number);
            assert!(arrived_ns.is_none_or(|arrived_ns| found_ns < arrived_ns), "{link:?} {number}");
        }
        messages += received.moves.len();
    }
    let timeline = Timeline::join(recordings).unwrap();
    assert!(timeline.clock.contradictions.is_empty());
    let picture = perfetto(&timeline, &[]);
    let has_track = |name: &[u8]| picture.windows(name.len()).any(|part| part == name);
    assert!(has_track(b"proxy to r1, wire 0") || timeline.ranks.len() < 2 || messages == 0);
    messages
}
