//! A reader of traces that shares nothing with the writer: it follows `et_def.proto` of
//! `mlcommons/chakra`, and refuses every field that a trace of this crate has no use for.

use std::collections::BTreeMap;

/// `GlobalMetadata.attr`, texts alone.
pub type Head = BTreeMap<String, String>;

/// `Node`.
#[derive(Clone, Debug, Default)]
pub struct Node {
    pub id: u64,
    pub name: String,
    pub node_type: u64,
    pub ctrl_deps: Vec<u64>,
    pub data_deps: Vec<u64>,
    pub duration_micros: u64,
    /// `comm_size`, `comm_src`, `comm_dst`, `comm_tag`.
    pub attributes: BTreeMap<String, i64>,
}

pub const COMP: u64 = 4;
pub const SEND: u64 = 5;
pub const RECV: u64 = 6;

/// A trace: its head and its nodes in the order of the file.
pub fn decode(mut file: &[u8]) -> (Head, Vec<Node>) {
    let head = head(prefixed(&mut file));
    let mut nodes = Vec::new();
    while !file.is_empty() {
        nodes.push(node(prefixed(&mut file)));
    }
    (head, nodes)
}

enum Field<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    fn varint(self) -> u64 {
        match self {
            Field::Varint(value) => value,
            Field::Bytes(bytes) => panic!("expected a varint, found {} bytes", bytes.len()),
        }
    }

    fn bytes(self) -> &'a [u8] {
        match self {
            Field::Bytes(bytes) => bytes,
            Field::Varint(value) => panic!("expected bytes, found {value}"),
        }
    }

    fn text(self) -> String {
        String::from_utf8(self.bytes().to_vec()).unwrap()
    }

    fn packed(self) -> Vec<u64> {
        let mut bytes = self.bytes();
        let mut values = Vec::new();
        while !bytes.is_empty() {
            values.push(varint(&mut bytes));
        }
        values
    }
}

fn head(mut message: &[u8]) -> Head {
    let mut head = Head::new();
    while let Some((number, field)) = field(&mut message) {
        assert_eq!(number, 2, "GlobalMetadata.attr");
        let (name, value) = attribute(field.bytes());
        let Value::Text(value) = value else { panic!("{name} is no text") };
        assert!(head.insert(name, value).is_none());
    }
    head
}

fn node(mut message: &[u8]) -> Node {
    let mut node = Node::default();
    while let Some((number, field)) = field(&mut message) {
        match number {
            1 => node.id = field.varint(),
            2 => node.name = field.text(),
            3 => node.node_type = field.varint(),
            4 => node.ctrl_deps = field.packed(),
            5 => node.data_deps = field.packed(),
            7 => node.duration_micros = field.varint(),
            10 => {
                let (name, value) = attribute(field.bytes());
                // ASTRA-sim's feeder converts integers, but its own files have these types.
                let value = match (name.as_str(), value) {
                    ("comm_size", Value::Int64(value)) => value,
                    ("comm_src" | "comm_dst" | "comm_tag", Value::Int32(value)) => value,
                    (name, _) => panic!("attribute {name} has another type, or is none"),
                };
                assert!(node.attributes.insert(name, value).is_none());
            }
            other => panic!("Node has no field {other} that a trace needs"),
        }
    }
    node
}

enum Value {
    Int32(i64),
    Int64(i64),
    Text(String),
}

fn attribute(mut message: &[u8]) -> (String, Value) {
    let (mut name, mut found) = (None, None);
    while let Some((number, field)) = field(&mut message) {
        match number {
            1 => name = Some(field.text()),
            7 => found = Some(Value::Int32(field.varint() as i64)),
            9 => found = Some(Value::Int64(field.varint() as i64)),
            29 => found = Some(Value::Text(field.text())),
            other => panic!("AttributeProto: field {other}"),
        }
    }
    (name.unwrap(), found.unwrap())
}

fn field<'a>(message: &mut &'a [u8]) -> Option<(u64, Field<'a>)> {
    if message.is_empty() {
        return None;
    }
    let key = varint(message);
    let field = match key & 7 {
        0 => Field::Varint(varint(message)),
        2 => Field::Bytes(prefixed(message)),
        other => panic!("wire type {other}"),
    };
    Some((key >> 3, field))
}

/// Bytes behind their length.
fn prefixed<'a>(bytes: &mut &'a [u8]) -> &'a [u8] {
    let length = varint(bytes) as usize;
    let (head, rest) = bytes.split_at(length);
    *bytes = rest;
    head
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().expect("the file ends within a number");
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return value;
        }
    }
    panic!("a number has more than 64 bits");
}
