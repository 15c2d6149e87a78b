//! The attributes of one element, by their position in its table.

use std::borrow::Cow;

use quick_xml::events::attributes::{AttrError, Attribute};

use super::cursor::{Cursor, Element, clip};
use super::error::ReadError;
use crate::xml::Dialect;
use crate::xml::vocabulary::{self, Domain, Need};

/// Most attributes of an element; the interpreters keep 16.
const MOST: usize = 64;

/// An element's attributes: raw values by position in `table`.
pub(super) struct Attributes<'a, const N: usize> {
    table: &'static [vocabulary::Attribute; N],
    element: &'static str,
    values: [Option<&'a [u8]>; N],
    /// Where the element starts.
    pub offset: usize,
}

impl<'a, const N: usize> Attributes<'a, N> {
    /// Gathers the attributes of `element`; those that the table lacks are passed over with a
    /// warning.
    pub(super) fn gather(
        cursor: &mut Cursor<'a>,
        element: &Element<'a>,
        name: &'static str,
        table: &'static [vocabulary::Attribute; N],
    ) -> Result<Self, ReadError> {
        let offset = element.offset;
        let mut gathered = Self { table, element: name, values: [None; N], offset };
        let mut unknown = Vec::new();
        let mut next = 0;
        for (count, found) in element.attributes().enumerate() {
            let (key, value) = key_and_value(cursor, element, found)?;
            if count == MOST {
                let expected = format!("at most {MOST} attributes");
                return Err(cursor.error(offset, expected, "more", "the interpreters keep 16"));
            }
            match position(table, key, next) {
                Some(at) => {
                    gathered.put(cursor, at, value)?;
                    next = at + 1;
                }
                None if unknown.contains(&key) => {
                    let key = clip(&String::from_utf8_lossy(key));
                    return Err(cursor.error(offset, format!("one `{key}`"), "two", REMOVE));
                }
                None => unknown.push(key),
            }
        }
        gathered.note_demands(cursor);
        for key in unknown {
            let key = clip(&String::from_utf8_lossy(key));
            cursor.notes.warning(format!("<{name}> attribute `{key}` is ignored"));
        }
        Ok(gathered)
    }

    /// Notes which runtimes demand an attribute that is not there. They pass over elements of ours.
    fn note_demands(&self, cursor: &mut Cursor<'a>) {
        if vocabulary::is_ours(self.element) {
            return;
        }
        let absent = self.table.iter().zip(self.values).filter(|(_, value)| value.is_none());
        for (attribute, _) in absent {
            for dialect in
                Dialect::ALL.into_iter().filter(|&it| attribute.need(it) == Need::Required)
            {
                let (element, name, runtime) = (self.element, attribute.name, dialect.runtime());
                let why = format!("<{element}> has no `{name}`, which {runtime} demands");
                cursor.notes.demand(dialect, self.offset, cursor.locus, why);
            }
        }
    }

    fn put(
        &mut self,
        cursor: &mut Cursor<'a>,
        at: usize,
        value: &'a [u8],
    ) -> Result<(), ReadError> {
        if self.values[at].replace(value).is_none() {
            cursor.check_quote(value);
            return Ok(());
        }
        let expected = format!("one `{}`", self.table[at].name);
        let offset = cursor.offset_of(value, self.offset);
        Err(cursor.error(offset, expected, "a second one", REMOVE))
    }

    /// Whether the attribute is there.
    pub(super) fn has(&self, at: usize) -> bool {
        self.values[at].is_some()
    }

    /// Where the value is, or the element if there is none.
    pub(super) fn offset_of(&self, cursor: &Cursor<'a>, at: usize) -> usize {
        self.values[at].map_or(self.offset, |value| cursor.offset_of(value, self.offset))
    }

    /// The text of an attribute that must be there.
    pub(super) fn text(&self, cursor: &Cursor<'a>, at: usize) -> Result<Cow<'a, str>, ReadError> {
        let Some(value) = self.values[at] else {
            let expected = format!("<{}> with `{}`", self.element, self.table[at].name);
            return Err(cursor.error(self.offset, expected, "none", "add it"));
        };
        let text = std::str::from_utf8(value).unwrap_or_default();
        quick_xml::escape::unescape(text).map_err(|_| {
            let (offset, found) = (cursor.offset_of(value, self.offset), clip(text));
            let expected = "text with no entity but &lt; &gt; &amp; &quot; &apos;";
            cursor.error(offset, expected, format!("{found:?}"), "write the character itself")
        })
    }

    /// The number of an attribute that must be there.
    pub(super) fn integer(&self, cursor: &Cursor<'a>, at: usize) -> Result<i64, ReadError> {
        if let (Some(value), Domain::Integer(least, most)) =
            (self.values[at], self.table[at].domain)
            && let Some(number) = plain_integer(value)
            && (least..=most).contains(&number)
        {
            return Ok(number);
        }
        self.any_integer(cursor, at)
    }

    /// As `integer`, for numbers that are not written plainly, and for all that goes wrong.
    #[cold]
    fn any_integer(&self, cursor: &Cursor<'a>, at: usize) -> Result<i64, ReadError> {
        let text = self.text(cursor, at)?;
        let (least, most) = match self.table[at].domain {
            Domain::Integer(least, most) => (least, most),
            Domain::Name | Domain::OneOf(_) | Domain::Collective => (i64::MIN, i64::MAX),
        };
        let number = text.trim_ascii().parse::<i64>().ok();
        number.filter(|number| (least..=most).contains(number)).ok_or_else(|| {
            let name = self.table[at].name;
            let expected = format!("`{name}` to be an integer from {least} to {most}");
            let found = format!("{:?}", clip(&text));
            cursor.error(self.offset_of(cursor, at), expected, found, "")
        })
    }

    /// The number of an attribute that may be left out, though the interpreters demand it.
    pub(super) fn integer_or(
        &self,
        cursor: &mut Cursor<'a>,
        at: usize,
        default: i64,
    ) -> Result<i64, ReadError> {
        if self.has(at) {
            return self.integer(cursor, at);
        }
        cursor.notes.missing(self.element, self.table[at].name);
        Ok(default)
    }

    /// An index or a count that may be left out, though the interpreters demand it, and is 0 then.
    pub(super) fn index_or_zero(
        &self,
        cursor: &mut Cursor<'a>,
        at: usize,
    ) -> Result<u32, ReadError> {
        if self.has(at) {
            return self.index(cursor, at);
        }
        cursor.notes.missing(self.element, self.table[at].name);
        Ok(0)
    }

    /// A number that fits an index, which must be there.
    pub(super) fn index(&self, cursor: &Cursor<'a>, at: usize) -> Result<u32, ReadError> {
        let number = self.integer(cursor, at)?;
        u32::try_from(number).map_err(|_| {
            let expected = format!("`{}` to be at least 0", self.table[at].name);
            cursor.error(self.offset_of(cursor, at), expected, number.to_string(), "")
        })
    }

    /// The bytes of an attribute that must be there, without entities.
    pub(super) fn word(&self, cursor: &Cursor<'a>, at: usize) -> Result<&'a [u8], ReadError> {
        match self.values[at] {
            Some(value) => Ok(value),
            None => self.text(cursor, at).map(|_| &[][..]),
        }
    }

    /// The error that `at` is not one of its words.
    pub(super) fn not_a_word(&self, cursor: &Cursor<'a>, at: usize) -> ReadError {
        let attribute = &self.table[at];
        let words = match attribute.domain {
            Domain::OneOf(words) => words.join(", "),
            Domain::Name | Domain::Collective => "a name".to_owned(),
            Domain::Integer(least, most) => format!("{least}..={most}"),
        };
        let found = String::from_utf8_lossy(self.values[at].unwrap_or_default()).into_owned();
        let expected = format!("`{}` to be one of {words}", attribute.name);
        cursor.error(self.offset_of(cursor, at), expected, format!("{:?}", clip(&found)), "")
    }
}

const REMOVE: &str = "remove one of them";

fn key_and_value<'a>(
    cursor: &Cursor<'a>,
    element: &Element<'a>,
    found: Result<Attribute<'a>, AttrError>,
) -> Result<(&'a [u8], &'a [u8]), ReadError> {
    let (at, found) = match found {
        Ok(Attribute { key, value: Cow::Borrowed(value) }) => return Ok((key.into_inner(), value)),
        Ok(Attribute { key: _, value: Cow::Owned(_) }) => (0, "another form"),
        Err(AttrError::ExpectedEq(at)) => (at, "no `=`"),
        Err(AttrError::ExpectedValue(at)) => (at, "no value"),
        Err(AttrError::UnquotedValue(at)) => (at, "a value without quotes"),
        Err(AttrError::ExpectedQuote(at, _)) => (at, "no closing quote"),
        Err(AttrError::Duplicated(at, _)) => (at, "a second one"),
    };
    let offset = cursor.offset_of(element.content.as_bytes(), element.offset) + at;
    Err(cursor.error(offset, "attributes of the form name=\"value\"", found, ""))
}

/// The position of the attribute called `key`. Most files have the attributes in the table's order,
/// so `guess` is tried first.
fn position<const N: usize>(
    table: &[vocabulary::Attribute; N],
    key: &[u8],
    guess: usize,
) -> Option<usize> {
    let is_key = |attribute: &vocabulary::Attribute| attribute.name.as_bytes() == key;
    match table.get(guess) {
        Some(attribute) if is_key(attribute) => Some(guess),
        _ => table.iter().position(is_key),
    }
}

/// An integer of at most 18 digits, with an optional `-` and nothing else.
fn plain_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    let mut number = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        number = number * 10 + i64::from(digit - b'0');
    }
    Some(if negative { -number } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_integers_only() {
        assert_eq!(plain_integer(b"-17"), Some(-17));
        assert_eq!(plain_integer(b"0"), Some(0));
        for text in ["", "-", " 1", "+1", "1a", "9999999999999999999"] {
            assert_eq!(plain_integer(text.as_bytes()), None, "{text:?}");
        }
    }
}
