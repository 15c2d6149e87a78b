//! XML that has elements and attributes alone, piece by piece.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::error::ReadError;

/// Reads a text from its beginning.
pub struct Pieces<'t> {
    text: &'t str,
    reader: Reader<&'t [u8]>,
}

/// A piece of a text.
pub enum Piece<'t> {
    /// `<name …>`
    Start(BytesStart<'t>),
    /// `<name …/>`
    Empty(BytesStart<'t>),
    /// `</…>`
    End,
}

impl<'t> Pieces<'t> {
    /// Of `text`.
    pub fn new(text: &'t str) -> Self {
        Self { text, reader: Reader::from_str(text) }
    }

    /// What is wrong at the byte at `at`.
    pub fn error(
        &self,
        at: usize,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> ReadError {
        ReadError::new(self.text, at, expected, found)
    }

    /// The next piece, and where it begins, in bytes; nothing at the end. Comments, the prolog and
    /// white space are none.
    ///
    /// # Errors
    ///
    /// There is something else, or the text is not well-formed.
    pub fn next_piece(&mut self) -> Result<Option<(usize, Piece<'t>)>, ReadError> {
        loop {
            let at = offset(self.reader.buffer_position());
            let piece = match self.reader.read_event() {
                Ok(Event::Eof) => return Ok(None),
                Ok(Event::Start(tag)) => Piece::Start(tag),
                Ok(Event::Empty(tag)) => Piece::Empty(tag),
                Ok(Event::End(_)) => Piece::End,
                Ok(Event::Comment(_) | Event::PI(_) | Event::Decl(_)) => continue,
                Ok(Event::Text(text)) if text.iter().all(u8::is_ascii_whitespace) => continue,
                Ok(Event::Text(_) | Event::CData(_) | Event::GeneralRef(_)) => {
                    return Err(self.error(at, "elements only", "text"));
                }
                Ok(Event::DocType(_)) => return Err(self.error(at, "elements only", "<!DOCTYPE")),
                Err(error) => {
                    let at = offset(self.reader.error_position());
                    return Err(self.error(at, "well-formed XML", error.to_string()));
                }
            };
            return Ok(Some((at, piece)));
        }
    }

    /// The attributes of the element at `at`, whose beginning `tag` is: names and values.
    pub fn attributes<'a>(
        &'a self,
        tag: &'a BytesStart<'_>,
        at: usize,
    ) -> impl Iterator<Item = Result<(String, String), ReadError>> + 'a {
        tag.attributes().map(move |attribute| {
            let attribute = attribute
                .map_err(|error| self.error(at, "attributes name=\"value\"", error.to_string()))?;
            let name = String::from_utf8_lossy(attribute.key.into_inner()).into_owned();
            Ok((name, String::from_utf8_lossy(&attribute.value).into_owned()))
        })
    }
}

fn offset(position: u64) -> usize {
    usize::try_from(position).unwrap_or(usize::MAX)
}
