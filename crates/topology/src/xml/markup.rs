//! Elements with attributes, within bounds; nothing about topologies.

use quick_xml::events::BytesStart;

use super::error::ReadError;
use super::pieces::{Piece, Pieces};

/// Largest file.
const MOST_BYTES: usize = 16 << 20;
/// Most elements of a file; NCCL reads 256 devices of one host, and a file may hold many hosts.
const MOST_ELEMENTS: usize = 1 << 16;
/// Most attributes of an element; NCCL keeps 16.
const MOST_ATTRIBUTES: usize = 64;
/// Most elements directly within another; NCCL keeps 640.
const MOST_CHILDREN: usize = 1 << 12;
/// Longest name or value, in bytes. NCCL keeps 255, which is no mask of a thousand processors.
const MOST_TEXT_BYTES: usize = 1 << 12;
/// Deepest nesting.
const MOST_DEPTH: usize = 32;

/// An element with all that it holds.
pub(super) struct Element {
    /// Its name.
    pub name: String,
    /// Where it starts, in bytes.
    pub offset: usize,
    /// Names and values.
    pub attributes: Vec<(String, String)>,
    /// What stands within it.
    pub children: Vec<Element>,
}

/// The root element of `text`, beside which there may only be comments and a prolog.
pub(super) fn parse(text: &str) -> Result<Element, ReadError> {
    if text.len() > MOST_BYTES {
        let found = format!("{} bytes", text.len());
        return Err(ReadError::new(text, 0, format!("at most {MOST_BYTES} bytes"), found));
    }
    let mut parser =
        Parser { pieces: Pieces::new(text), open: Vec::new(), root: None, elements: 0 };
    while parser.step()? {}
    let missing = |expected: String| ReadError::new(text, text.len(), expected, "the end");
    match (parser.open.pop(), parser.root) {
        (Some(open), _) => Err(missing(format!("</{}>", open.name))),
        (None, None) => Err(missing("<system>".to_owned())),
        (None, Some(root)) => Ok(root),
    }
}

struct Parser<'a> {
    pieces: Pieces<'a>,
    /// From the root inwards.
    open: Vec<Element>,
    root: Option<Element>,
    elements: usize,
}

impl Parser<'_> {
    fn error(&self, at: usize, expected: impl Into<String>, found: impl Into<String>) -> ReadError {
        self.pieces.error(at, expected, found)
    }

    /// Reads one piece; false at the end of the file.
    fn step(&mut self) -> Result<bool, ReadError> {
        match self.pieces.next_piece()? {
            None => return Ok(false),
            Some((at, Piece::Start(tag))) => self.start(&tag, at)?,
            Some((at, Piece::Empty(tag))) => {
                self.start(&tag, at)?;
                self.close(at)?;
            }
            Some((at, Piece::End)) => self.close(at)?,
        }
        Ok(true)
    }

    fn start(&mut self, tag: &BytesStart<'_>, at: usize) -> Result<(), ReadError> {
        self.elements += 1;
        let name = String::from_utf8_lossy(tag.name().into_inner()).into_owned();
        if self.root.is_some() {
            return Err(self.error(at, "one root element", format!("a second one, <{name}>")));
        }
        if self.elements > MOST_ELEMENTS {
            return Err(self.error(at, format!("at most {MOST_ELEMENTS} elements"), "more"));
        }
        if self.open.len() == MOST_DEPTH {
            return Err(self.error(at, format!("at most {MOST_DEPTH} levels"), "more"));
        }
        let attributes = self.attributes(tag, at)?;
        self.open.push(Element { name, offset: at, attributes, children: Vec::new() });
        Ok(())
    }

    fn attributes(
        &self,
        tag: &BytesStart<'_>,
        at: usize,
    ) -> Result<Vec<(String, String)>, ReadError> {
        let mut attributes = Vec::new();
        for attribute in self.pieces.attributes(tag, at) {
            let (name, value) = attribute?;
            if name.len().max(value.len()) > MOST_TEXT_BYTES {
                let expected = format!("names and values of at most {MOST_TEXT_BYTES} bytes");
                return Err(self.error(at, expected, format!("{name}={value:?}")));
            }
            if attributes.len() == MOST_ATTRIBUTES {
                return Err(self.error(
                    at,
                    format!("at most {MOST_ATTRIBUTES} attributes"),
                    "more",
                ));
            }
            attributes.push((name, value));
        }
        Ok(attributes)
    }

    fn close(&mut self, at: usize) -> Result<(), ReadError> {
        let Some(element) = self.open.pop() else {
            return Err(self.error(at, "<system>", "a closing tag"));
        };
        match self.open.last_mut() {
            None => self.root = Some(element),
            Some(parent) if parent.children.len() < MOST_CHILDREN => parent.children.push(element),
            Some(_) => {
                let expected = format!("at most {MOST_CHILDREN} elements within another");
                return Err(self.error(at, expected, "more"));
            }
        }
        Ok(())
    }
}
