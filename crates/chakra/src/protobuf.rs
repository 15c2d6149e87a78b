//! Protocol buffers, as far as a writer of traces needs them.

/// A message under way.
#[derive(Default)]
pub(crate) struct Message {
    bytes: Vec<u8>,
}

/// How a field is laid out; the values of the format.
#[derive(Clone, Copy)]
enum WireType {
    Varint = 0,
    Bytes = 2,
}

impl Message {
    /// A number; zero is what a reader takes a missing field for, so it is left out.
    pub(crate) fn number(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.number_even_zero(field, value);
        }
    }

    /// A number of a choice (`oneof`): there, a missing field is no value.
    pub(crate) fn number_even_zero(&mut self, field: u32, value: u64) {
        self.key(field, WireType::Varint);
        varint(&mut self.bytes, value);
    }

    /// A text.
    pub(crate) fn text(&mut self, field: u32, value: &str) {
        self.delimited(field, value.as_bytes());
    }

    /// A message within this one.
    pub(crate) fn message(&mut self, field: u32, message: &Message) {
        self.delimited(field, &message.bytes);
    }

    /// Numbers in a packed field; none if the list is empty.
    pub(crate) fn numbers(&mut self, field: u32, values: &[u64]) {
        if values.is_empty() {
            return;
        }
        let mut packed = Vec::with_capacity(values.len() * 3);
        values.iter().for_each(|&value| varint(&mut packed, value));
        self.delimited(field, &packed);
    }

    /// Appends the message to `out`, behind its length.
    pub(crate) fn append_to(&self, out: &mut Vec<u8>) {
        varint(out, self.bytes.len() as u64);
        out.extend_from_slice(&self.bytes);
    }

    fn delimited(&mut self, field: u32, value: &[u8]) {
        self.key(field, WireType::Bytes);
        varint(&mut self.bytes, value.len() as u64);
        self.bytes.extend_from_slice(value);
    }

    fn key(&mut self, field: u32, wire_type: WireType) {
        varint(&mut self.bytes, u64::from(field) << 3 | wire_type as u64);
    }
}

/// Seven bits a byte, the lowest first; all bytes but the last have the highest bit set.
fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the format's own description (protobuf.dev, "Encoding").
    #[test]
    fn examples_of_the_format() {
        let mut message = Message::default();
        message.number(1, 150);
        message.text(2, "testing");
        message.numbers(6, &[3, 270, 86_942]);
        let expected = b"\x08\x96\x01\x12\x07testing\x32\x06\x03\x8e\x02\x9e\xa7\x05";
        assert_eq!(message.bytes, expected);
        let mut out = vec![9];
        message.append_to(&mut out);
        assert_eq!((out[0], out[1], &out[2..]), (9, 20, expected.as_slice()));
    }

    #[test]
    fn nothing_is_left_out_but_zero_and_the_empty() {
        let mut message = Message::default();
        message.number(1, 0);
        message.numbers(2, &[]);
        assert_eq!(message.bytes, b"");
        message.number_even_zero(1, 0);
        message.number(3, u64::MAX);
        let most = [0x18, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1];
        assert_eq!(message.bytes, [&[0x08, 0][..], &most].concat());
    }
}
