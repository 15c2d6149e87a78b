//! A pull parser over one file that knows where it is, and refuses what could hurt.

use quick_xml::events::attributes::Attributes;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Error, Reader};

use super::error::ReadError;
use super::notes::{Contradiction, Notes};
use crate::xml::{Locus, vocabulary};

/// Deepest nesting of elements.
const MOST_DEPTH: usize = 16;

/// A position in a file, with what has been noted on the way there.
pub(super) struct Cursor<'a> {
    text: &'a str,
    reader: Reader<&'a [u8]>,
    /// Whether the root element has been seen.
    started: bool,
    /// Open elements.
    depth: usize,
    /// Whether the element returned last was `<x/>`, which is open and has no children.
    self_closed: bool,
    /// The element being read.
    pub locus: Locus,
    /// What has been noted so far.
    pub notes: Notes,
}

/// An element's opening tag.
pub(super) struct Element<'a> {
    /// Name and attributes.
    pub content: &'a str,
    name_bytes: usize,
    /// Where the tag starts.
    pub offset: usize,
}

impl<'a> Element<'a> {
    /// Its name.
    pub(super) fn name(&self) -> &'a [u8] {
        &self.content.as_bytes()[..self.name_bytes]
    }

    /// Its attributes.
    pub(super) fn attributes(&self) -> Attributes<'a> {
        let mut attributes = Attributes::new(self.content, self.name_bytes);
        attributes.with_checks(false);
        attributes
    }
}

enum Item<'a> {
    Open(Element<'a>),
    Close,
    End,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let reader = Reader::from_str(text);
        let (locus, mut notes) = (Locus::default(), Notes::default());
        if text.contains('\t') {
            notes.warning("the interpreters know no tabs; use spaces".to_owned());
        }
        Self { text, reader, started: false, depth: 0, self_closed: false, locus, notes }
    }

    /// The root element, which must be `<algo>`.
    pub(super) fn root(&mut self) -> Result<Element<'a>, ReadError> {
        match self.next_item()? {
            Item::Open(root) if root.name() == vocabulary::algo::NAME.as_bytes() => Ok(root),
            Item::Open(other) => {
                let name = String::from_utf8_lossy(other.name()).into_owned();
                let advice = if name == "Algo" { FORESTCOLL } else { NOT_MSCCL };
                Err(self.error(other.offset, ALGO, format!("<{}>", clip(&name)), advice))
            }
            Item::Close | Item::End => {
                Err(self.error(self.text.len(), ALGO, "the end of the file", NOT_MSCCL))
            }
        }
    }

    /// The next child of the innermost open element, which is open from then on; `None` closes the
    /// innermost open element.
    pub(super) fn next_child(&mut self) -> Result<Option<Element<'a>>, ReadError> {
        if std::mem::take(&mut self.self_closed) {
            self.depth -= 1;
            return Ok(None);
        }
        match self.next_item()? {
            Item::Open(child) => Ok(Some(child)),
            Item::Close => {
                self.depth = self.depth.saturating_sub(1);
                Ok(None)
            }
            Item::End => Err(self.error(
                self.text.len(),
                "a closing tag",
                "the end of the file",
                "the file is cut short",
            )),
        }
    }

    /// Passes over the innermost open element with all that it holds.
    pub(super) fn skip(&mut self) -> Result<(), ReadError> {
        let outside = self.depth.saturating_sub(1);
        while self.depth > outside {
            self.next_child()?;
        }
        Ok(())
    }

    /// Passes over an unknown element with a warning, as the interpreters do.
    pub(super) fn ignore(&mut self, element: &Element<'a>) -> Result<(), ReadError> {
        let name = String::from_utf8_lossy(element.name()).into_owned();
        self.notes.warning(format!("unknown element <{}> is ignored", clip(&name)));
        self.skip()
    }

    /// Makes sure that nothing follows the root element.
    pub(super) fn end(&mut self) -> Result<(), ReadError> {
        match self.next_item()? {
            Item::End => Ok(()),
            Item::Open(Element { offset, .. }) => {
                Err(self.error(offset, END, "another element", "put one algorithm into a file"))
            }
            Item::Close => Err(self.error(self.offset(), END, "a closing tag", "remove it")),
        }
    }

    /// What has been noted.
    pub(super) fn finish(self) -> (Vec<Contradiction>, Vec<String>) {
        self.notes.finish(self.text)
    }

    /// An error at byte `offset`, in the element being read.
    pub(super) fn error(
        &self,
        offset: usize,
        expected: impl Into<String>,
        found: impl Into<String>,
        advice: &'static str,
    ) -> ReadError {
        ReadError::new(self.text, offset, self.locus, expected, found, advice)
    }

    /// Where `part`, a piece of this file's text, starts; `otherwise` for any other piece.
    pub(super) fn offset_of(&self, part: &[u8], otherwise: usize) -> usize {
        let offset = (part.as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize);
        if offset <= self.text.len() { offset } else { otherwise }
    }

    /// Warns of a value in single quotes.
    pub(super) fn check_quote(&mut self, value: &[u8]) {
        let start = self.offset_of(value, 0);
        if start > 0 && self.text.as_bytes()[start - 1] == b'\'' {
            self.notes
                .warning("the interpreters know no single quotes; use double ones".to_owned());
        }
    }

    fn offset(&self) -> usize {
        usize::try_from(self.reader.buffer_position()).unwrap_or(usize::MAX)
    }

    /// The next tag, or the end of the file.
    fn next_item(&mut self) -> Result<Item<'a>, ReadError> {
        loop {
            let offset = self.offset();
            match self.reader.read_event() {
                Ok(Event::Start(tag)) => return self.open(&tag, offset, false),
                Ok(Event::Empty(tag)) => return self.open(&tag, offset, true),
                Ok(Event::End(_)) => return Ok(Item::Close),
                Ok(Event::Eof) => return Ok(Item::End),
                Ok(Event::Comment(_) | Event::PI(_)) => {}
                Ok(Event::Decl(prolog)) => self.check_encoding(offset, &prolog)?,
                Ok(Event::Text(text)) if text.iter().all(u8::is_ascii_whitespace) => {}
                Ok(Event::Text(text)) => {
                    let space = text.len() - text.trim_ascii_start().len();
                    return Err(self.unexpected_text(offset + space));
                }
                Ok(Event::CData(_) | Event::GeneralRef(_)) => {
                    return Err(self.unexpected_text(offset));
                }
                Ok(Event::DocType(_)) => {
                    let advice = "remove it: entities and external files are not read";
                    return Err(self.error(offset, "no document type", "<!DOCTYPE", advice));
                }
                Err(error) => return Err(self.malformed(&error)),
            }
        }
    }

    fn unexpected_text(&self, offset: usize) -> ReadError {
        if self.started {
            self.error(offset, "elements only", "text", "remove it")
        } else {
            self.error(offset, ALGO, "text", NOT_MSCCL)
        }
    }

    fn open(
        &mut self,
        tag: &BytesStart<'a>,
        offset: usize,
        self_closed: bool,
    ) -> Result<Item<'a>, ReadError> {
        if self.depth == MOST_DEPTH {
            let found = "a deeper one";
            let advice = "MSCCL XML needs four levels";
            let expected = format!("at most {MOST_DEPTH} elements inside one another");
            return Err(self.error(offset, expected, found, advice));
        }
        self.started = true;
        self.depth += 1;
        self.self_closed = self_closed;
        let start = self.offset_of(tag, offset + 1);
        let content = self.text.get(start..start + tag.len()).unwrap_or_default();
        let name_bytes = tag.name().into_inner().len().min(content.len());
        let element = Element { content, name_bytes, offset };
        if element.name().iter().copied().all(is_name_byte) {
            return Ok(Item::Open(element));
        }
        let found = format!("{:?}", clip(&String::from_utf8_lossy(element.name())));
        Err(self.error(offset, "an element's name", found, ""))
    }

    fn check_encoding(
        &mut self,
        offset: usize,
        prolog: &quick_xml::events::BytesDecl<'_>,
    ) -> Result<(), ReadError> {
        self.notes.warning("the interpreters know no <?xml?> prolog; remove it".to_owned());
        match prolog.encoding() {
            None => Ok(()),
            Some(Ok(name)) if name.eq_ignore_ascii_case(b"utf-8") => Ok(()),
            Some(Ok(name)) if name.eq_ignore_ascii_case(b"us-ascii") => Ok(()),
            Some(Ok(name)) => {
                let name = String::from_utf8_lossy(&name).into_owned();
                let found = format!("encoding {:?}", clip(&name));
                Err(self.error(offset, "encoding UTF-8", found, "save the file as UTF-8"))
            }
            Some(Err(_)) => {
                let advice = "write <?xml version=\"1.0\"?>, or nothing";
                Err(self.error(offset, "a prolog", "one that is malformed", advice))
            }
        }
    }

    fn malformed(&self, error: &Error) -> ReadError {
        let offset = usize::try_from(self.reader.error_position()).unwrap_or(usize::MAX);
        let advice = "the file is not well-formed XML, or cut short";
        self.error(offset, "well-formed XML", clip(&error.to_string()), advice)
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80 || b"_-.:".contains(&byte)
}

const ALGO: &str = "<algo>";
const END: &str = "the end of the file after </algo>";
const NOT_MSCCL: &str = "this is not an MSCCL algorithm";
const FORESTCOLL: &str = "these are trees, not steps: `msccl synthesize COLLECTIVE --from FILE \
                          --topo MACHINE` makes a program of them";

/// A piece of someone's file, short enough for a message.
pub(super) fn clip(text: &str) -> String {
    const MOST_CHARS: usize = 120;
    match text.char_indices().nth(MOST_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
