//! Sends and receives as GPUs execute them: in parts over wires of two protocols, and in several
//! launches.

use std::collections::BTreeMap;

use msccl_trace::record::{Record, RecordKind};
use msccl_trace::recording::{
    Call, CallShapeDescription, Ending, Engine, Header, KernelDescription, LaunchKind, Moment,
    Piece, Recording, Track, Transfer, TransferDirection, Work,
};
use msccl_trace::timeline::{SpanKind, Timeline};

const CALL: u32 = 7;
const REPLAYS: u64 = 3;

/// The places of links in records, as kernels have them.
const SIMPLE: u32 = 0;
const LL: u32 = 1;

/// How long anything takes.
const STEP_NS: u64 = 100;

/// What one track does in one launch: transfers by number, each as often as it has messages.
struct Part {
    track: u32,
    first_step: u32,
    link: u32,
    moves: &'static [u32],
}

fn transfer(peer: u32, direction: TransferDirection, bytes: u64) -> Transfer {
    Transfer {
        peer,
        direction,
        bytes,
        parts: 1,
        message_bytes: 256,
        protocol: "Simple".to_owned(),
        wire: 8,
        link: SIMPLE,
        track: 0,
    }
}

/// Two parts of 512 and 488 bytes.
fn packets(peer: u32, direction: TransferDirection) -> Transfer {
    let protocol = "LL".to_owned();
    Transfer { parts: 2, protocol, wire: 4, link: LL, ..transfer(peer, direction, 1000) }
}

/// The records of a track: one launch of each replay, in which its link has two messages.
fn records(part: &Part, begin_ns: u64) -> Vec<Record> {
    let of_replay = |replay: u64| {
        let start_ns = begin_ns + replay * 100 * STEP_NS;
        let record = |time_ns, kind, step, message| Record { time_ns, kind, step, message };
        let mut records = vec![record(start_ns, RecordKind::Begin, part.first_step, CALL)];
        records.extend([SIMPLE, LL].map(|link| {
            let count = if link == part.link { 2 * replay as u32 } else { 0 };
            record(start_ns, RecordKind::Count, link, count)
        }));
        let mut time_ns = start_ns;
        for &step in part.moves {
            time_ns += STEP_NS;
            records.push(record(time_ns, RecordKind::Move, step, 0));
        }
        records.push(record(time_ns, RecordKind::End, 0, 0));
        records
    };
    (0..REPLAYS).flat_map(of_replay).collect()
}

/// Each of `parts` begins so long after the one before, in the order of launches.
fn recording(rank: u32, transfers: Vec<Transfer>, parts: &[Part]) -> Recording {
    let mut tracks: BTreeMap<u32, Track> = BTreeMap::new();
    let mut of_tracks: BTreeMap<u32, Vec<Record>> = BTreeMap::new();
    for (place, part) in (0..).zip(parts) {
        of_tracks.entry(part.track).or_default().extend(records(part, 1000 + place * 4 * STEP_NS));
    }
    for (track, mut records) in of_tracks {
        records.sort_by_key(|record| record.time_ns);
        let pieces = vec![Piece { first: 0, records }];
        tracks.insert(track, Track { named: None, pieces, lost: 0 });
    }
    let kernel = KernelDescription {
        kind: "exchange".to_owned(),
        protocol: "LL and Simple".to_owned(),
        delivery: "staged".to_owned(),
        threads: 512,
    };
    let shape = CallShapeDescription {
        id: 0,
        collective: "exchange".to_owned(),
        data_type: "u8".to_owned(),
        reduction: None,
        count: 1000,
        bytes: 1000,
        placement: "out of place".to_owned(),
        reason: "sends and receives".to_owned(),
        work: Work::Exchange { kernel, transfers },
    };
    let launch = LaunchKind::Captured;
    Recording {
        header: header(rank),
        plans: BTreeMap::new(),
        shapes: BTreeMap::from([(0, shape)]),
        calls: vec![Call { number: CALL.into(), shape: 0, launch, enqueue_ns: 1 }],
        clock: Vec::new(),
        peer_clocks: Vec::new(),
        tracks,
        ending: Ending::Whole,
    }
}

fn header(rank: u32) -> Header {
    Header {
        host: "host0".to_owned(),
        process: 100 + rank,
        rank,
        ranks: 2,
        communicator: "exchanges".to_owned(),
        name: String::new(),
        engine: Engine::Host,
        start: Moment { unix_ns: 1 << 60, monotonic_ns: 1000 },
    }
}

/// Rank 0 sends packets in one launch, and receives in another, with a thread block that both have.
/// Rank 1 takes one launch for both.
fn timeline() -> Timeline {
    let (out, into) = (TransferDirection::Out, TransferDirection::In);
    let first = recording(
        0,
        vec![packets(1, out), transfer(1, into, 300)],
        &[
            Part { track: 0, first_step: 0, link: LL, moves: &[0, 0] },
            Part { track: 1, first_step: 0, link: LL, moves: &[0, 0] },
            Part { track: 0, first_step: 1, link: SIMPLE, moves: &[1, 1] },
        ],
    );
    let sends = Transfer { track: 2, ..transfer(0, out, 300) };
    let second = recording(
        1,
        vec![packets(0, into), sends],
        &[
            Part { track: 0, first_step: 0, link: LL, moves: &[0, 0] },
            Part { track: 1, first_step: 0, link: LL, moves: &[0, 0] },
            Part { track: 2, first_step: 0, link: SIMPLE, moves: &[1, 1] },
        ],
    );
    Timeline::join(vec![first, second]).unwrap()
}

#[test]
fn the_launches_of_a_call_are_one_and_its_replays_are_others() {
    let timeline = timeline();
    assert_eq!(timeline.launches.len() as u64, REPLAYS);
    for launch in &timeline.launches {
        let parts = timeline.rank_launches(launch).map(|(_, of_rank)| of_rank.parts.len());
        assert_eq!(parts.collect::<Vec<_>>(), [3, 3]);
    }
    for rank in &timeline.ranks {
        for part in &rank.parts {
            let spans = &rank.spans[part.spans.clone()];
            assert_eq!((spans[0].begin_ns, spans[2].end_ns), (part.begin_ns, part.end_ns));
            assert!(spans.windows(2).all(|two| two[0].end_ns == two[1].begin_ns));
            let kinds = spans.iter().map(|span| span.kind).collect::<Vec<_>>();
            assert_eq!(kinds, [SpanKind::Copy, SpanKind::Copy, SpanKind::Finish]);
        }
    }
}

#[test]
fn messages_of_parts_are_found_on_their_wires() {
    let timeline = timeline();
    let mut found: BTreeMap<(u32, String, u32), Vec<u64>> = BTreeMap::new();
    for message in &timeline.messages {
        let link = timeline.link(message.link);
        let key = (link.from, link.protocol.clone(), link.wire);
        found.entry(key).or_default().push(message.bytes);
        let [send, receive] = [message.send, message.receive].map(|at| timeline.span(at));
        assert_eq!(send.bytes, receive.bytes);
    }
    let every = |two: [u64; 2]| two.repeat(REPLAYS as usize);
    let expected = BTreeMap::from([
        ((0, "LL".to_owned(), 4), every([256, 256])),
        ((0, "LL".to_owned(), 5), every([256, 232])),
        ((1, "Simple".to_owned(), 8), every([256, 44])),
    ]);
    assert_eq!(found, expected);
}
