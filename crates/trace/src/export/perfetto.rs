//! Timelines as Perfetto traces.
//!
//! A rank is a process; below it are its calls, its thread blocks, and a counter of GB/s for each
//! rank that it sends to. Flows lead from sends to receives. Names are interned. Times are UNIX
//! time in ns. Numbers of fields: `protos/perfetto/trace` of Perfetto.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use super::protobuf::ProtobufMessage;
use super::slices::{
    Annotation, CALLS_TRACK, COUNTER_TRACKS, RateChange, Slice, Slices, TrackName, process_name,
    rates, tracks,
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
    let mut bytes = Vec::new();
    // Memory takes all that is written.
    let _ = write_perfetto(timeline, predicted, &mut bytes);
    bytes
}

/// Writes `timeline` as a Perfetto trace, with predictions beside launches.
///
/// # Errors
///
/// Of `out`.
pub fn write_perfetto(
    timeline: &Timeline,
    predicted: &[PlacedPrediction<'_>],
    out: &mut dyn Write,
) -> io::Result<()> {
    let (slices, rates) = (Slices::new(timeline, predicted), rates(timeline));
    let mut writer = Writer::new(timeline, out);
    writer.describe(timeline, predicted, &rates)?;
    for TraceMoment { time_ns, number, kind } in moments(&slices, &rates) {
        let number = number as usize;
        match kind {
            MomentKind::Begin => writer.begin(&slices.slice(number))?,
            MomentKind::End => writer.end(&slices.slice(number))?,
            MomentKind::Rate => writer.rate(&rates[number], time_ns)?,
        }
    }
    Ok(())
}

/// All that is to be written, in order of time.
fn moments(slices: &Slices<'_>, rates: &[RateChange]) -> Vec<TraceMoment> {
    let mut moments = Vec::with_capacity(2 * slices.count() + rates.len());
    for number in 0..slices.count() {
        let times_ns = slices.times_ns(number);
        for (time_ns, kind) in times_ns.into_iter().zip([MomentKind::Begin, MomentKind::End]) {
            moments.push(TraceMoment { time_ns, number: number as u64, kind });
        }
    }
    let kind = MomentKind::Rate;
    let changes = (0..).zip(rates);
    moments.extend(changes.map(|(number, rate)| TraceMoment {
        time_ns: rate.time_ns,
        number,
        kind,
    }));
    // Of what happens at one time on a track, slices follow each other in their order. No two have
    // one order, so that there is no need for the memory that a stable sort takes.
    let order = |of: &TraceMoment| (of.number, of.kind);
    moments.sort_unstable_by(|one, other| {
        one.time_ns.total_cmp(&other.time_ns).then_with(|| order(one).cmp(&order(other)))
    });
    moments
}

/// Something to write.
#[derive(Clone, Copy)]
struct TraceMoment {
    time_ns: f64,
    /// That of the slice, or of the change of a rate.
    number: u64,
    kind: MomentKind,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum MomentKind {
    Begin,
    End,
    Rate,
}

struct Writer<'a> {
    out: &'a mut dyn Write,
    timeline: &'a Timeline,
    /// The moves that receive messages, each with the position of one; in order.
    receives: Vec<(SpanRef, u32)>,
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

impl<'a> Writer<'a> {
    fn new(timeline: &'a Timeline, out: &'a mut dyn Write) -> Self {
        let messages = (0..).zip(&timeline.messages);
        let mut receives: Vec<_> = messages.map(|(at, of)| (of.receive, at)).collect();
        receives.sort_unstable();
        Self { out, timeline, receives, interned: BTreeMap::new(), has_state: false }
    }

    /// The numbers of the messages that a span sends, and of those that it receives, from 1.
    fn flows(&self, span: SpanRef) -> [Vec<u64>; 2] {
        let messages = &self.timeline.messages;
        let first = messages.partition_point(|message| message.send < span);
        let sent = messages[first..].iter().take_while(|message| message.send == span).count();
        let received = self.receives.partition_point(|(receive, _)| *receive < span);
        let received = self.receives[received..].iter().take_while(|(of, _)| *of == span);
        let first = first as u64 + 1;
        [
            (first..first + sent as u64).collect(),
            received.map(|(_, at)| u64::from(*at) + 1).collect(),
        ]
    }

    /// Ranks, tracks and counters.
    fn describe(
        &mut self,
        timeline: &Timeline,
        predicted: &[PlacedPrediction<'_>],
        rates: &[RateChange],
    ) -> io::Result<()> {
        for (rank, of_rank) in timeline.ranks.iter().enumerate() {
            let (mut process, mut track) = (ProtobufMessage::default(), ProtobufMessage::default());
            process.uint(field::PROCESS_PID, u64::from(of_rank.header.rank) + 1);
            process.text(field::PROCESS_NAME, &process_name(of_rank));
            track.uint(field::TRACK_UUID, process_uuid(rank));
            track.message(field::TRACK_PROCESS, &process);
            self.put_track(&track)?;
        }
        for TrackName { rank, track, name } in tracks(timeline, predicted) {
            self.put_track(&named_track(rank, track, &name))?;
        }
        let mut pairs: Vec<_> = rates.iter().map(|rate| (rate.rank, rate.to)).collect();
        pairs.dedup();
        for (rank, to) in pairs {
            let mut counter = ProtobufMessage::default();
            counter.text(field::COUNTER_UNIT_NAME, "GB/s");
            let name = format!("GB/s to rank {to}");
            let mut track = named_track(rank, COUNTER_TRACKS + u64::from(to), &name);
            track.message(field::TRACK_COUNTER, &counter);
            self.put_track(&track)?;
        }
        Ok(())
    }

    fn put_track(&mut self, track: &ProtobufMessage) -> io::Result<()> {
        let mut packet = ProtobufMessage::default();
        packet.uint(field::PACKET_SEQUENCE_ID, SEQUENCE).message(field::PACKET_TRACK, track);
        self.put_packet(&packet)
    }

    fn put_packet(&mut self, packet: &ProtobufMessage) -> io::Result<()> {
        let mut trace = ProtobufMessage::default();
        trace.message(field::TRACE_PACKET, packet);
        self.out.write_all(&trace.into_bytes())
    }

    fn begin(&mut self, slice: &Slice) -> io::Result<()> {
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
        let [sent, received] = slice.span.map(|span| self.flows(span)).unwrap_or_default();
        for flow in sent {
            event.fixed64(field::EVENT_FLOWS, flow);
        }
        for flow in received {
            event.fixed64(field::EVENT_TERMINATING_FLOWS, flow);
        }
        self.put_event(slice.begin_ns, &event, &interned)
    }

    fn end(&mut self, slice: &Slice) -> io::Result<()> {
        let mut event = ProtobufMessage::default();
        event.uint(field::EVENT_TYPE, SLICE_END);
        event.uint(field::EVENT_TRACK, uuid(slice.rank, slice.track));
        self.put_event(slice.end_ns, &event, &ProtobufMessage::default())
    }

    fn rate(&mut self, rate: &RateChange, time_ns: f64) -> io::Result<()> {
        let mut event = ProtobufMessage::default();
        event.uint(field::EVENT_TYPE, COUNTER);
        event.uint(field::EVENT_TRACK, uuid(rate.rank, COUNTER_TRACKS + u64::from(rate.to)));
        event.double(field::EVENT_DOUBLE_COUNTER, rate.gb_per_s);
        self.put_event(time_ns, &event, &ProtobufMessage::default())
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

    fn put_event(
        &mut self,
        time_ns: f64,
        event: &ProtobufMessage,
        interned: &ProtobufMessage,
    ) -> io::Result<()> {
        let time_ns = self.timeline.origin_unix_ns.saturating_add_signed(time_ns.round() as i64);
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
        self.put_packet(&packet)
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
