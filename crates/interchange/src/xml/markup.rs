//! Elements to bytes, fast enough for hundreds of megabytes: a ring over a thousand ranks has two
//! million steps of ten attributes.
//!
//! The interpreters' own XML reader is not one of XML: it knows no prolog and no tabs, takes only
//! `"` as the end of a value, and exactly one space before an attribute. This writes that subset.

use std::io;

use super::vocabulary::Attribute;

/// The value of an attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Value<'a> {
    /// The attribute is left out.
    Absent,
    /// A number.
    Integer(i64),
    /// Text without markup.
    Text(&'a str),
}

impl Value<'_> {
    /// How the format writes the absence of a peer, a wait or a place.
    pub(super) const NONE: Self = Value::Integer(-1);
}

impl From<u32> for Value<'_> {
    fn from(number: u32) -> Self {
        Value::Integer(i64::from(number))
    }
}

/// Writes elements, indented by their depth, one to a line.
pub(super) struct Markup<W> {
    out: W,
    pending: Vec<u8>,
}

/// How much is gathered before it is written.
const PIECE_BYTES: usize = 64 << 10;

impl<W: io::Write> Markup<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, pending: Vec::with_capacity(PIECE_BYTES + (4 << 10)) }
    }

    /// Opens an element that will have children.
    pub(super) fn open<const N: usize>(
        &mut self,
        depth: usize,
        name: &str,
        table: &[Attribute; N],
        values: &[Value<'_>; N],
    ) -> io::Result<()> {
        self.tag(depth, name, table, values);
        self.end_line(b">\n")
    }

    /// Writes an element without children.
    pub(super) fn single<const N: usize>(
        &mut self,
        depth: usize,
        name: &str,
        table: &[Attribute; N],
        values: &[Value<'_>; N],
    ) -> io::Result<()> {
        self.tag(depth, name, table, values);
        self.end_line(b"/>\n")
    }

    /// Closes an element.
    pub(super) fn close(&mut self, depth: usize, name: &str) -> io::Result<()> {
        self.indent(depth);
        self.pending.extend_from_slice(b"</");
        self.pending.extend_from_slice(name.as_bytes());
        self.end_line(b">\n")
    }

    /// Writes what is still pending.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.out.write_all(&self.pending)?;
        self.out.flush()
    }

    fn tag<const N: usize>(
        &mut self,
        depth: usize,
        name: &str,
        table: &[Attribute; N],
        values: &[Value<'_>; N],
    ) {
        self.indent(depth);
        self.pending.push(b'<');
        self.pending.extend_from_slice(name.as_bytes());
        for (attribute, value) in table.iter().zip(values) {
            let opening = attribute.opening.as_bytes();
            match *value {
                Value::Absent => {}
                Value::Integer(number) => {
                    self.pending.extend_from_slice(opening);
                    integer(&mut self.pending, number);
                    self.pending.push(b'"');
                }
                Value::Text(text) => {
                    self.pending.extend_from_slice(opening);
                    self.pending.extend_from_slice(text.as_bytes());
                    self.pending.push(b'"');
                }
            }
        }
    }

    fn indent(&mut self, depth: usize) {
        const SPACES: &[u8] = b"        ";
        self.pending.extend_from_slice(&SPACES[..(2 * depth).min(SPACES.len())]);
    }

    fn end_line(&mut self, end: &[u8]) -> io::Result<()> {
        self.pending.extend_from_slice(end);
        if self.pending.len() >= PIECE_BYTES {
            self.out.write_all(&self.pending)?;
            self.pending.clear();
        }
        Ok(())
    }
}

fn integer(out: &mut Vec<u8>, number: i64) {
    if let 0..=9 = number {
        return out.push(b'0' + number as u8);
    }
    let mut digits = [0; 20];
    let mut start = digits.len();
    let mut rest = number.unsigned_abs();
    while rest > 0 {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    if number < 0 {
        start -= 1;
        digits[start] = b'-';
    }
    out.extend_from_slice(&digits[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_print_as_the_standard_prints_them() {
        for number in [0, 7, 10, -1, 134_217_728, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            integer(&mut out, number);
            assert_eq!(String::from_utf8(out).unwrap(), number.to_string());
        }
    }
}
