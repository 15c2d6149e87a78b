//! The wire format of protocol buffers, as far as Perfetto needs it.

/// A message.
#[derive(Debug, Default)]
pub(super) struct ProtobufMessage {
    bytes: Vec<u8>,
}

impl ProtobufMessage {
    pub fn uint(&mut self, field: u32, value: u64) -> &mut Self {
        self.key(field, 0);
        varint(&mut self.bytes, value);
        self
    }

    pub fn fixed64(&mut self, field: u32, value: u64) -> &mut Self {
        self.key(field, 1);
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub fn double(&mut self, field: u32, value: f64) -> &mut Self {
        self.fixed64(field, value.to_bits())
    }

    pub fn text(&mut self, field: u32, text: &str) -> &mut Self {
        self.bytes(field, text.as_bytes())
    }

    pub fn message(&mut self, field: u32, message: &ProtobufMessage) -> &mut Self {
        self.bytes(field, &message.bytes)
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) -> &mut Self {
        self.key(field, 2);
        varint(&mut self.bytes, bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
        self
    }

    fn key(&mut self, field: u32, wire_type: u32) {
        varint(&mut self.bytes, u64::from(field << 3 | wire_type));
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}
