//! What pictures as SVG have in common: text that stands for itself.
//!
//! ```
//! use msccl_picture::Escaped;
//!
//! assert_eq!(format!("<text>{}</text>", Escaped("a < b")), "<text>a &lt; b</text>");
//! ```
//!
//! # Guarantees
//!
//! [`Escaped`] is well-formed XML 1.0 between tags and in quoted attributes, whatever the text.
//!
//! Absent from this crate: what is drawn, files.

#![deny(unsafe_code)]

use std::fmt::{self, Write};

/// `text` as content of an element or of a quoted attribute. Characters that XML has no way to
/// write, such as the escape character of terminals, show as `�`.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '&' => f.write_str("&amp;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&apos;")?,
                // Readers would make blanks of them in attributes, and drop or merge them
                // elsewhere.
                '\t' | '\n' | '\r' => write!(f, "&#{};", u32::from(character))?,
                other if is_char(other) => f.write_char(other)?,
                _ => f.write_char(char::REPLACEMENT_CHARACTER)?,
            }
        }
        Ok(())
    }
}

/// The production `Char` of XML 1.0; a Rust `char` is never a surrogate.
fn is_char(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_has_a_meaning_in_xml_loses_it() {
        let check = |text: &str, expected: &str| assert_eq!(Escaped(text).to_string(), expected);
        check("", "");
        check("2 × µs, ok", "2 × µs, ok");
        check("<a b=\"c\" d='&amp;'>", "&lt;a b=&quot;c&quot; d=&apos;&amp;amp;&apos;&gt;");
        check("]]>", "]]&gt;");
        check("a\tb\r\n", "a&#9;b&#13;&#10;");
        check("\x1b[31m\0\u{fffe}\u{ffff}\u{10ffff}", "�[31m���\u{10ffff}");
    }
}
