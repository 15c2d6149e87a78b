//! A reader of Perfetto traces, written from the `.proto` files of Perfetto and sharing nothing
//! with the writer.

use std::collections::HashMap;

/// A field: its number, and its value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message, in order.
pub fn fields(mut bytes: &[u8]) -> Vec<(u32, Value<'_>)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = match key & 7 {
            0 => Value::Varint(varint(&mut bytes)),
            1 => Value::Fixed64(u64::from_le_bytes(take(&mut bytes, 8).try_into().unwrap())),
            2 => {
                let length = varint(&mut bytes) as usize;
                Value::Bytes(take(&mut bytes, length))
            }
            other => panic!("wire type {other}"),
        };
        fields.push(((key >> 3) as u32, value));
    }
    fields
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(count);
    *bytes = rest;
    taken
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
    }
    panic!("a varint of more than ten bytes");
}

/// A message whose fields are looked up.
pub struct Fields<'a>(Vec<(u32, Value<'a>)>);

impl<'a> Fields<'a> {
    pub fn of(bytes: &'a [u8]) -> Self {
        Self(fields(bytes))
    }

    pub fn all(&self, field: u32) -> impl Iterator<Item = &Value<'a>> {
        self.0.iter().filter(move |(number, _)| *number == field).map(|(_, value)| value)
    }

    pub fn number(&self, field: u32) -> Option<u64> {
        self.all(field).next().map(|value| match value {
            Value::Varint(value) | Value::Fixed64(value) => *value,
            Value::Bytes(_) => panic!("field {field} is no number"),
        })
    }

    pub fn bytes(&self, field: u32) -> impl Iterator<Item = &'a [u8]> {
        self.all(field).map(move |value| match value {
            Value::Bytes(bytes) => *bytes,
            _ => panic!("field {field} is no message"),
        })
    }

    pub fn text(&self, field: u32) -> Option<String> {
        self.bytes(field).next().map(|text| String::from_utf8(text.to_vec()).unwrap())
    }
}

/// A slice.
#[derive(Clone, Debug, Default)]
pub struct ReadSlice {
    pub track: u64,
    pub name: String,
    pub begin_ns: u64,
    pub end_ns: u64,
    pub annotations: HashMap<String, String>,
    pub flows: Vec<u64>,
    pub terminating_flows: Vec<u64>,
}

/// A trace.
#[derive(Debug, Default)]
pub struct ReadTrace {
    /// By identity: the name, and the identity of the parent.
    pub tracks: HashMap<u64, (String, Option<u64>)>,
    pub slices: Vec<ReadSlice>,
    /// Track, time, value.
    pub counters: Vec<(u64, u64, f64)>,
}

/// Reads a trace. Slices of a track must be nested, and interned names known before their use.
pub fn read(bytes: &[u8]) -> ReadTrace {
    let mut trace = ReadTrace::default();
    let mut interned: HashMap<(u32, u64), String> = HashMap::new();
    let mut open: HashMap<u64, Vec<ReadSlice>> = HashMap::new();
    let mut last_ns = 0;
    for (number, packet) in fields(bytes) {
        let (1, Value::Bytes(packet)) = (number, packet) else { panic!("field {number}") };
        let packet = Fields::of(packet);
        for track in packet.bytes(60).map(Fields::of) {
            let process = track.bytes(3).next().map(|of| Fields::of(of).text(6).unwrap());
            let name = track.text(2).or(process).unwrap();
            trace.tracks.insert(track.number(1).unwrap(), (name, track.number(5)));
        }
        for data in packet.bytes(12) {
            for (kind, entry) in fields(data) {
                let Value::Bytes(entry) = entry else { panic!() };
                let entry = Fields::of(entry);
                interned.insert((kind, entry.number(1).unwrap()), entry.text(2).unwrap());
            }
        }
        let Some(event) = packet.bytes(11).next().map(Fields::of) else { continue };
        let time_ns = packet.number(8).unwrap();
        assert!(time_ns >= last_ns, "events are in order");
        last_ns = time_ns;
        let track = event.number(11).unwrap();
        assert!(trace.tracks.contains_key(&track), "{track}");
        match event.number(9).unwrap() {
            1 => open.entry(track).or_default().push(begin(&event, &interned, time_ns)),
            2 => {
                let mut slice = open.get_mut(&track).and_then(Vec::pop).expect("a begin");
                slice.end_ns = time_ns;
                trace.slices.push(slice);
            }
            4 => trace.counters.push((track, time_ns, f64::from_bits(event.number(44).unwrap()))),
            other => panic!("type {other}"),
        }
    }
    assert!(open.values().all(Vec::is_empty), "all slices end");
    trace
}

fn begin(event: &Fields<'_>, interned: &HashMap<(u32, u64), String>, now_ns: u64) -> ReadSlice {
    let annotation = |bytes: &[u8]| {
        let annotation = Fields::of(bytes);
        let text = annotation.number(17).map(|iid| interned[&(29, iid)].clone());
        let value = text.unwrap_or_else(|| annotation.number(3).unwrap().to_string());
        (interned[&(3, annotation.number(1).unwrap())].clone(), value)
    };
    let flows = |field| {
        event.all(field).map(|flow| match flow {
            Value::Fixed64(flow) => *flow,
            _ => panic!("flows are fixed64"),
        })
    };
    ReadSlice {
        track: event.number(11).unwrap(),
        name: interned[&(2, event.number(10).unwrap())].clone(),
        begin_ns: now_ns,
        end_ns: 0,
        annotations: event.bytes(4).map(annotation).collect(),
        flows: flows(47).collect(),
        terminating_flows: flows(48).collect(),
    }
}
