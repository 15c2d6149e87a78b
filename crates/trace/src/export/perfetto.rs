//! Timelines as Perfetto traces.
//!
//! A rank is a process; below it are its calls, its thread blocks, and a counter of GB/s for each
//! rank that it sends to. Flows lead from sends to receives. Names are interned. Times are UNIX
//! time in ns. Numbers of fields: `protos/perfetto/trace` of Perfetto.

use std::collections::{BTreeMap, HashMap};

use super::protobuf::ProtobufMessage;
use super::slices::{
    Annotation, CALLS_TRACK, COUNTER_TRACKS, RateChange, Slice, TrackName, process_name, rates,
    slices, tracks,
};
use crate::predict::PlacedPrediction;
use crate::timeline::{SpanRef, Timeline};

/// The fields of messages.
mod field {
    pub const TRACE_PACKET: u32 = 1;
    pub const PACKET_TIMESTAMP: u32 = 8;
    pub const PACKET_SEQUENCE_ID: u32 = 10;
    pub const PACKET_TRACK_EVENT: u32 = 11;
    pub const PACKET_INTERNED: u32 = 12;
    pub const PACKET_SEQUENCE_FLAGS: u32 = 13;
    pub const PACKET_TRACK: u32 = 60;
    pub const TRACK_UUID: u32 = 1;
    pub const TRACK_NAME: u32 = 2;
    pub const TRACK_PROCESS: u32 = 3;
    pub const TRACK_PARENT: u32 = 5;
    pub const TRACK_COUNTER: u32 = 8;
    pub const PROCESS_PID: u32 = 1;
    pub const PROCESS_NAME: u32 = 6;
    pub const COUNTER_UNIT_NAME: u32 = 6;
    pub const EVENT_CATEGORY_IIDS: u32 = 3;
    pub const EVENT_ANNOTATIONS: u32 = 4;
    pub const EVENT_TYPE: u32 = 9;
    pub const EVENT_NAME_IID: u32 = 10;
    pub const EVENT_TRACK: u32 = 11;
    pub const EVENT_DOUBLE_COUNTER: u32 = 44;
    pub const EVENT_FLOWS: u32 = 47;
    pub const EVENT_TERMINATING_FLOWS: u32 = 48;
    pub const INTERNED_CATEGORIES: u32 = 1;
    pub const INTERNED_NAMES: u32 = 2;
    pub const INTERNED_ANNOTATION_NAMES: u32 = 3;
    pub const INTERNED_TEXTS: u32 = 29;
    pub const INTERNED_IID: u32 = 1;
    pub const INTERNED_VALUE: u32 = 2;
    pub const ANNOTATION_NAME_IID: u32 = 1;
    pub const ANNOTATION_UINT: u32 = 3;
    pub const ANNOTATION_TEXT_IID: u32 = 17;
}

const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const COUNTER: u64 = 4;
const SEQUENCE: u64 = 1;
const STATE_CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;

/// `timeline` as the bytes of a Perfetto trace, with predictions beside launches.
pub fn perfetto(timeline: &Timeline, predicted: &[PlacedPrediction<'_>]) -> Vec<u8> {
    let mut writer = Writer::new(timeline);
    writer.describe(timeline, predicted);
    let slices = slices(timeline, predicted);
    let (mut moments, rates) = (Vec::new(), rates(timeline));
    for (number, slice) in slices.iter().enumerate() {
        moments.push((slice.begin_ns, TraceMoment::Begin(number)));
        moments.push((slice.end_ns, TraceMoment::End(number)));
    }
    let changes = rates.iter().enumerate();
    moments.extend(changes.map(|(number, rate)| (rate.time_ns, TraceMoment::Rate(number))));
    // Of what happens at one time on a track, slices follow each other in their order.
    moments
        .sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.order().cmp(&other.1.order())));
    for (time_ns, moment) in moments {
        match moment {
            TraceMoment::Begin(number) => writer.begin(&slices[number]),
            TraceMoment::End(number) => writer.end(&slices[number]),
            TraceMoment::Rate(number) => writer.rate(&rates[number], time_ns),
        }
    }
    writer.trace.into_bytes()
}

/// Something to write.
#[derive(Clone, Copy)]
enum TraceMoment {
    Begin(usize),
    End(usize),
    Rate(usize),
}

impl TraceMoment {
    /// By slice, then its begin before its end.
    fn order(self) -> (usize, u8) {
        match self {
            Self::Begin(number) => (number, 0),
            Self::End(number) => (number, 1),
            Self::Rate(number) => (number, 2),
        }
    }
}

struct Writer {
    trace: ProtobufMessage,
    origin_unix_ns: u64,
    /// The messages that a span sends, and those that it receives.
    flows: HashMap<SpanRef, [Vec<u64>; 2]>,
    /// By field of interned data.
    interned: BTreeMap<u32, HashMap<String, u64>>,
    has_state: bool,
}

fn uuid(rank: usize, track: u64) -> u64 {
    (rank as u64 + 1) << 40 | (track + 1)
}

fn process_uuid(rank: usize) -> u64 {
    (rank as u64 + 1) << 40
}

impl Writer {
    fn new(timeline: &Timeline) -> Self {
        let mut flows: HashMap<SpanRef, [Vec<u64>; 2]> = HashMap::new();
        for (flow, message) in (1..).zip(&timeline.messages) {
            flows.entry(message.send).or_default()[0].push(flow);
            flows.entry(message.receive).or_default()[1].push(flow);
        }
        let origin_unix_ns = timeline.origin_unix_ns;
        let (trace, interned) = (ProtobufMessage::default(), BTreeMap::new());
        Self { trace, origin_unix_ns, flows, interned, has_state: false }
    }

    /// Ranks, tracks and counters.
    fn describe(&mut self, timeline: &Timeline, predicted: &[PlacedPrediction<'_>]) {
        for (rank, of_rank) in timeline.ranks.iter().enumerate() {
            let (mut process, mut track) = (ProtobufMessage::default(), ProtobufMessage::default());
            process.uint(field::PROCESS_PID, u64::from(of_rank.header.rank) + 1);
            process.text(field::PROCESS_NAME, &process_name(of_rank));
            track.uint(field::TRACK_UUID, process_uuid(rank));
            track.message(field::TRACK_PROCESS, &process);
            self.put_track(&track);
        }
        for TrackName { rank, track, name } in tracks(timeline, predicted) {
            self.put_track(&named_track(rank, track, &name));
        }
        let mut pairs: Vec<_> = rates(timeline).iter().map(|rate| (rate.rank, rate.to)).collect();
        pairs.dedup();
        for (rank, to) in pairs {
            let mut counter = ProtobufMessage::default();
            counter.text(field::COUNTER_UNIT_NAME, "GB/s");
            let name = format!("GB/s to rank {to}");
            let mut track = named_track(rank, COUNTER_TRACKS + u64::from(to), &name);
            track.message(field::TRACK_COUNTER, &counter);
            self.put_track(&track);
        }
    }

    fn put_track(&mut self, track: &ProtobufMessage) {
        let mut packet = ProtobufMessage::default();
        packet.uint(field::PACKET_SEQUENCE_ID, SEQUENCE).message(field::PACKET_TRACK, track);
        self.trace.message(field::TRACE_PACKET, &packet);
    }

    fn begin(&mut self, slice: &Slice) {
        let (mut event, mut interned) = (ProtobufMessage::default(), ProtobufMessage::default());
        event.uint(field::EVENT_TYPE, SLICE_BEGIN);
        event.uint(field::EVENT_TRACK, uuid(slice.rank, slice.track));
        let name = self.intern(&mut interned, field::INTERNED_NAMES, &slice.name);
        event.uint(field::EVENT_NAME_IID, name);
        let category = self.intern(&mut interned, field::INTERNED_CATEGORIES, slice.category);
        event.uint(field::EVENT_CATEGORY_IIDS, category);
        for (name, value) in &slice.annotations {
            let mut annotation = ProtobufMessage::default();
            let name = self.intern(&mut interned, field::INTERNED_ANNOTATION_NAMES, name);
            annotation.uint(field::ANNOTATION_NAME_IID, name);
            match value {
                Annotation::Number(value) => annotation.uint(field::ANNOTATION_UINT, *value),
                Annotation::Text(text) => {
                    let text = self.intern(&mut interned, field::INTERNED_TEXTS, text);
                    annotation.uint(field::ANNOTATION_TEXT_IID, text)
                }
            };
            event.message(field::EVENT_ANNOTATIONS, &annotation);
        }
        let [sent, received] =
            slice.span.and_then(|span| self.flows.remove(&span)).unwrap_or_default();
        for flow in sent {
            event.fixed64(field::EVENT_FLOWS, flow);
        }
        for flow in received {
            event.fixed64(field::EVENT_TERMINATING_FLOWS, flow);
        }
        self.put_event(slice.begin_ns, &event, &interned);
    }

    fn end(&mut self, slice: &Slice) {
        let mut event = ProtobufMessage::default();
        event.uint(field::EVENT_TYPE, SLICE_END);
        event.uint(field::EVENT_TRACK, uuid(slice.rank, slice.track));
        self.put_event(slice.end_ns, &event, &ProtobufMessage::default());
    }

    fn rate(&mut self, rate: &RateChange, time_ns: f64) {
        let mut event = ProtobufMessage::default();
        event.uint(field::EVENT_TYPE, COUNTER);
        event.uint(field::EVENT_TRACK, uuid(rate.rank, COUNTER_TRACKS + u64::from(rate.to)));
        event.double(field::EVENT_DOUBLE_COUNTER, rate.gb_per_s);
        self.put_event(time_ns, &event, &ProtobufMessage::default());
    }

    /// The number of a text; the first time, its entry is put to `new`.
    fn intern(&mut self, new: &mut ProtobufMessage, kind: u32, text: &str) -> u64 {
        let known = self.interned.entry(kind).or_default();
        if let Some(number) = known.get(text) {
            return *number;
        }
        let number = known.len() as u64 + 1;
        known.insert(text.to_owned(), number);
        let mut entry = ProtobufMessage::default();
        entry.uint(field::INTERNED_IID, number).text(field::INTERNED_VALUE, text);
        new.message(kind, &entry);
        number
    }

    fn put_event(&mut self, time_ns: f64, event: &ProtobufMessage, interned: &ProtobufMessage) {
        let time_ns = self.origin_unix_ns.saturating_add_signed(time_ns.round() as i64);
        let flags = if self.has_state { NEEDS_STATE } else { STATE_CLEARED | NEEDS_STATE };
        self.has_state = true;
        let mut packet = ProtobufMessage::default();
        packet.uint(field::PACKET_TIMESTAMP, time_ns);
        packet.uint(field::PACKET_SEQUENCE_ID, SEQUENCE);
        packet.uint(field::PACKET_SEQUENCE_FLAGS, flags);
        if !interned.is_empty() {
            packet.message(field::PACKET_INTERNED, interned);
        }
        packet.message(field::PACKET_TRACK_EVENT, event);
        self.trace.message(field::TRACE_PACKET, &packet);
    }
}

fn named_track(rank: usize, track: u64, name: &str) -> ProtobufMessage {
    const CHILD_ORDER: u32 = 11;
    const SIBLING_RANK: u32 = 12;
    const EXPLICIT: u64 = 3;
    let mut message = ProtobufMessage::default();
    message.uint(field::TRACK_UUID, uuid(rank, track)).text(field::TRACK_NAME, name);
    message.uint(field::TRACK_PARENT, process_uuid(rank));
    if track != CALLS_TRACK {
        message.uint(SIBLING_RANK, track);
    }
    message.uint(CHILD_ORDER, EXPLICIT);
    message
}
