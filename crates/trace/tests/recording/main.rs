//! What a recorder writes comes back, whatever happens to its process.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use msccl_trace::record::{PackedRecord, Record, RecordKind};
use msccl_trace::recording::{
    Call, CallCut, CallShapeDescription, ClockSample, Ending, Engine, FORMAT_VERSION, Header,
    KernelDescription, LIMIT_BYTES_MIN, LaunchKind, LinkEnd, MAGIC, Moment, NAMED_TRACKS,
    NamedTrack, PeerClockSample, Piece, PlanDescription, ReadError, Recorder, Recording, SlotRange,
    StepDescription, StepShape, ThreadBlockDescription, TrackClock, TrackLink, Work,
};

fn header() -> Header {
    Header {
        host: "a".to_owned(),
        process: 17,
        rank: 1,
        ranks: 2,
        communicator: "c".to_owned(),
        name: "tp".to_owned(),
        engine: Engine::Gpu { name: "NVIDIA H100".to_owned(), bus_id: String::new() },
        start: Moment { unix_ns: 1_800_000_000_123_456_789, monotonic_ns: 5_000 },
    }
}

fn plan() -> PlanDescription {
    let step = StepDescription {
        index: 0,
        bundled: 1,
        shape: StepShape::Send,
        count: 1,
        receives: Vec::new(),
        sends: vec![0],
        waits: Vec::new(),
        reads: vec![SlotRange { buffer: "i".to_owned(), first: 0, count: 1 }],
        writes: Vec::new(),
        line: Some(4),
        text: "i[0] -> r0".to_owned(),
    };
    let block = ThreadBlockDescription {
        channel: 0,
        receives: Vec::new(),
        sends: vec![LinkEnd { peer: 0, number: 0 }],
        steps: vec![step],
    };
    PlanDescription {
        id: 3,
        algorithm: "ring".to_owned(),
        source: Some("ring.msccl".to_owned()),
        thread_blocks: vec![block],
    }
}

fn shape() -> CallShapeDescription {
    let cut = CallCut {
        chunk_bytes: 64,
        part_bytes: 64,
        slice_bytes: 64,
        rounds: 1,
        instances: 1,
        chunks_per_message: 1,
    };
    let kernel = KernelDescription {
        kind: "interpreter".to_owned(),
        protocol: "LL".to_owned(),
        delivery: "staged".to_owned(),
        threads: 512,
    };
    CallShapeDescription {
        id: 9,
        collective: "allreduce".to_owned(),
        data_type: "f32".to_owned(),
        reduction: Some("sum".to_owned()),
        count: 32,
        bytes: 128,
        placement: "in place".to_owned(),
        reason: "the table names it".to_owned(),
        work: Work::Plan { plan: 3, kernel, cut },
    }
}

fn records(count: u64) -> Vec<PackedRecord> {
    let record = |number: u64| Record {
        time_ns: 100 + number,
        kind: RecordKind::Move,
        step: number as u32,
        message: 7,
    };
    (0..count).map(|number| record(number).pack()).collect()
}

fn named() -> NamedTrack {
    let link = TrackLink { from: 1, to: 0, protocol: "Simple".to_owned(), wire: 0 };
    let (name, clock) = ("proxy".to_owned(), TrackClock::Host);
    NamedTrack { track: NAMED_TRACKS, name, link: Some(link), clock }
}

const CALL: Call = Call { number: 1 << 33, shape: 9, launch: LaunchKind::Captured, enqueue_ns: 77 };
const CLOCK: ClockSample = ClockSample { before_ns: 1, device_ns: 1 << 60, after_ns: 3 };
const PEER_CLOCK: PeerClockSample =
    PeerClockSample { peer: 0, before_ns: 4, peer_ns: 5, after_ns: 6 };

/// A recording with one frame of each kind.
fn file() -> Vec<u8> {
    let mut recorder = Recorder::new(Vec::new(), &header(), 1 << 20).unwrap();
    recorder.plan(&plan()).unwrap();
    recorder.call_shape(&shape()).unwrap();
    recorder.named_track(&named()).unwrap();
    recorder.call(CALL).unwrap();
    recorder.clock(CLOCK).unwrap();
    recorder.peer_clock(&PEER_CLOCK).unwrap();
    recorder.records(2, 0, &records(3)).unwrap();
    recorder.records(2, 3, &records(2)).unwrap();
    recorder.lost(2, 10).unwrap();
    recorder.records(2, 15, &records(1)).unwrap();
    recorder.records(4, 0, &[]).unwrap();
    assert!(!recorder.is_full());
    recorder.finish().unwrap()
}

#[test]
fn everything_comes_back() {
    let read = Recording::read(&file()).unwrap();
    assert_eq!(read.header, header());
    assert_eq!(read.plans.into_values().collect::<Vec<_>>(), [plan()]);
    assert_eq!(read.shapes.into_values().collect::<Vec<_>>(), [shape()]);
    assert_eq!(
        (read.calls, read.clock, read.peer_clocks),
        (vec![CALL], vec![CLOCK], vec![PEER_CLOCK])
    );
    assert_eq!(read.tracks.keys().copied().collect::<Vec<_>>(), [2, NAMED_TRACKS]);
    assert_eq!(read.tracks[&NAMED_TRACKS].named, Some(named()));
    let piece = |first, parts: &[Vec<PackedRecord>]| {
        let records = parts.concat().into_iter().map(|it| Record::unpack(it).unwrap());
        Piece { first, records: records.collect() }
    };
    let expected = [piece(0, &[records(3), records(2)]), piece(15, &[records(1)])];
    assert_eq!(read.tracks[&2].pieces, expected);
    assert_eq!(read.tracks[&2].lost, 10);
    assert_eq!(read.ending, Ending::Whole);
}

/// A killed process leaves the file at any byte.
#[test]
fn a_file_that_ends_anywhere_is_read_up_to_there() {
    let file = file();
    let header_end = 20 + u32::from_le_bytes(file[16..20].try_into().unwrap()) as usize;
    let whole = Recording::read(&file).unwrap();
    let mut seen = 0;
    for end in 0..file.len() {
        match Recording::read(&file[..end]) {
            Ok(read) => {
                assert!(end >= header_end);
                assert_eq!((read.ending, &read.header), (Ending::Cut, &whole.header));
                let records = |of: &Recording| -> usize {
                    of.tracks[&2].pieces.iter().map(|piece| piece.records.len()).sum()
                };
                let found = if read.tracks.contains_key(&2) { records(&read) } else { 0 };
                assert!(seen <= found && found <= records(&whole));
                seen = found;
            }
            Err(error) => {
                assert!(end < header_end, "{end}: {error}");
                let expected =
                    if end < MAGIC.len() { ReadError::NoRecording } else { ReadError::NoHeader };
                assert_eq!(error, expected);
            }
        }
    }
    assert_eq!(seen, 6);
}

#[test]
fn a_limit_leaves_out_the_newest_and_says_so() {
    let mut recorder = Recorder::new(Vec::new(), &header(), 0).unwrap();
    let mut given = 0;
    for _ in 0..100 {
        recorder.records(0, given, &records(64)).unwrap();
        recorder.clock(CLOCK).unwrap();
        given += 64;
    }
    assert!(recorder.is_full());
    let file = recorder.finish().unwrap();
    assert!(file.len() as u64 <= LIMIT_BYTES_MIN, "{}", file.len());
    let read = Recording::read(&file).unwrap();
    let [piece] = &read.tracks[&0].pieces[..] else { panic!("{:?}", read.tracks) };
    let kept = piece.records.len() as u64;
    assert!(piece.first == 0 && kept > 1000, "{kept}");
    assert_eq!(read.ending, Ending::Full { left_out: given - kept });
    // Clocks go on after it, so that the records that are there have a drift.
    assert_eq!(read.clock.len(), 100);
}

#[test]
fn later_kinds_of_frames_are_skipped() {
    let mut file = file();
    file.extend_from_slice(&99_u32.to_le_bytes());
    file.extend_from_slice(&3_u32.to_le_bytes());
    file.extend_from_slice(b"xyz");
    assert_eq!(Recording::read(&file).unwrap().calls, [CALL]);
}

#[test]
fn memory_that_is_no_record_counts_as_lost() {
    let mut recorder = Recorder::new(Vec::new(), &header(), 1 << 20).unwrap();
    let [first, third] = [records(1)[0], records(1)[0]];
    recorder.records(0, 5, &[first, [0; 16], third]).unwrap();
    let read = Recording::read(&recorder.finish().unwrap()).unwrap();
    let firsts: Vec<_> = read.tracks[&0].pieces.iter().map(|piece| piece.first).collect();
    assert_eq!((firsts, read.tracks[&0].lost), (vec![5, 7], 1));
}

#[test]
fn what_is_no_recording_is_named() {
    let message = |bytes: &[u8]| Recording::read(bytes).unwrap_err().to_string();
    assert!(message(b"{}").contains("expected a recording"));
    let mut later = file();
    later[8] = FORMAT_VERSION as u8 + 1;
    assert!(message(&later).contains("found format 4"), "{}", message(&later));
    // A record that is cut within a frame.
    let mut odd = file();
    odd.extend_from_slice(&6_u32.to_le_bytes());
    odd.extend_from_slice(&17_u32.to_le_bytes());
    odd.extend_from_slice(&[0; 17]);
    assert!(message(&odd).contains("a part of a record"), "{}", message(&odd));
}

/// Damage anywhere is an error or another recording, never a panic.
#[test]
fn damaged_files_are_read_or_refused() {
    let file = file();
    for at in 0..file.len() {
        for bit in 0..8 {
            let mut damaged = file.clone();
            damaged[at] ^= 1 << bit;
            let _ = Recording::read(&damaged);
        }
    }
}
