//! Sources as their tokens: what the compiler is given, so that comments and layout cannot count.
//!
//! [`canonical`] writes the preprocessing tokens of a text with one space between them. Directives
//! keep lines of their own. White space has a meaning in two further places: behind the name of a
//! macro, where it is kept, and where `#` makes a string of an argument, which is refused.
//!
//! What stands between `#ifdef MSCCL_RECORDS` and `#endif` is left out, with both: no image is
//! compiled with that macro, so the compiler skips it.

use std::fmt;

/// Punctuators of several characters, longer ones first.
const PUNCTUATORS: [&str; 26] = [
    "...", "<<=", ">>=", "->*", "::", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&",
    "||", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "##", ".*",
];

/// The lines that begin and end what only recording kernels have.
const RECORDS_BEGIN: &str = "# ifdef MSCCL_RECORDS";
const RECORDS_END: &str = "# endif";

/// Why a text cannot be split into tokens, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unreadable {
    /// The line, from 1.
    pub line: usize,
    /// What stands there, and what to write instead.
    pub why: &'static str,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

/// The tokens of `text`, without comments and layout.
///
/// # Errors
///
/// A literal or a comment does not end, or white space would have a meaning.
pub fn canonical(text: &str) -> Result<String, Unreadable> {
    let mut scanner = Scanner { rest: text, line: 1 };
    let mut out = Output::default();
    loop {
        let gap = scanner.gap()?;
        if gap == Gap::Line {
            out.end_line();
        }
        if scanner.rest.is_empty() {
            out.end_line();
            return without_records(&out.text)
                .map_err(|why| Unreadable { line: scanner.line, why });
        }
        let line = scanner.line;
        let token = if out.expects_header() { scanner.header() } else { scanner.token() }?;
        out.take(token, gap).map_err(|why| Unreadable { line, why })?;
    }
}

/// Of a text of tokens, what images have.
fn without_records(text: &str) -> Result<String, &'static str> {
    let mut kept = String::with_capacity(text.len());
    let mut is_left_out = false;
    for line in text.split_inclusive('\n') {
        match (is_left_out, line.trim_end()) {
            (false, RECORDS_BEGIN) => is_left_out = true,
            (true, RECORDS_END) => is_left_out = false,
            (true, other) if other.starts_with("# if") || other.starts_with("# el") => {
                return Err("`#ifdef MSCCL_RECORDS` holds another condition: take it out");
            }
            (true, _) => {}
            (false, _) => kept.push_str(line),
        }
    }
    if is_left_out { Err("`#ifdef MSCCL_RECORDS` has no `#endif`") } else { Ok(kept) }
}

/// The names that a [`canonical`] text includes in quotes, in order.
pub fn included(canonical: &str) -> impl Iterator<Item = &str> {
    let lines = canonical.lines().filter_map(|line| line.strip_prefix("# include \""));
    lines.filter_map(|line| line.strip_suffix('"'))
}

/// What stands before a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Gap {
    None,
    /// White space or comments within a line.
    Space,
    /// The end of a line, too; the beginning of the text is none.
    Line,
}

/// The text that is written, and where in a line it stands.
#[derive(Default)]
struct Output {
    text: String,
    /// Tokens of this line of the source so far.
    tokens: usize,
    directive: Option<Directive>,
}

/// The line of a directive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Directive {
    /// Its name is still to come.
    Unnamed,
    Define,
    Include,
    Other,
}

impl Output {
    fn take(&mut self, token: &str, gap: Gap) -> Result<(), &'static str> {
        if self.directive == Some(Directive::Define) && token == "#" {
            return Err("`#` makes a string of an argument, in which white space would count");
        }
        if self.tokens == 0 && token == "#" {
            self.break_line();
        }
        // `NAME(` defines a macro with arguments, `NAME (` one without.
        let is_glued = self.directive == Some(Directive::Define)
            && (self.tokens, token, gap) == (3, "(", Gap::None);
        if !is_glued && !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push(' ');
        }
        self.text.push_str(token);
        self.directive = match self.directive {
            None if self.tokens == 0 && token == "#" => Some(Directive::Unnamed),
            Some(Directive::Unnamed) => Some(Directive::of(token)),
            other => other,
        };
        self.tokens += 1;
        if self.directive.is_none() && [";", "{", "}"].contains(&token) {
            self.break_line();
        }
        Ok(())
    }

    /// Whether a name of a header comes next.
    fn expects_header(&self) -> bool {
        self.directive == Some(Directive::Include) && self.tokens == 2
    }

    /// The source's line ends here.
    fn end_line(&mut self) {
        if self.directive.take().is_some() {
            self.break_line();
        }
        self.tokens = 0;
    }

    fn break_line(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
    }
}

impl Directive {
    fn of(name: &str) -> Self {
        match name {
            "define" => Directive::Define,
            "include" => Directive::Include,
            _ => Directive::Other,
        }
    }
}

/// What is left of a text, and the line in which it begins.
struct Scanner<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Scanner<'a> {
    fn error<T>(&self, why: &'static str) -> Result<T, Unreadable> {
        Err(Unreadable { line: self.line, why })
    }

    /// Takes the first `length` bytes.
    fn advance(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    /// Passes white space and comments.
    fn gap(&mut self) -> Result<Gap, Unreadable> {
        let mut gap = Gap::None;
        loop {
            let rest = self.rest;
            if rest.starts_with("//") {
                self.line_comment()?;
            } else if let Some(comment) = rest.strip_prefix("/*") {
                let Some(end) = comment.find("*/") else {
                    return self.error("a comment that begins here does not end");
                };
                self.advance(2 + end + 2);
            } else if rest.starts_with("\\\n") || rest.starts_with("\\\r\n") {
                self.advance(1 + rest.find('\n').map_or(0, |at| at));
            } else if rest.starts_with('\n') {
                gap = Gap::Line;
                self.advance(1);
                continue;
            } else if let Some(space) = rest.chars().next().filter(|of| of.is_whitespace()) {
                self.advance(space.len_utf8());
            } else {
                return Ok(gap);
            }
            gap = if gap == Gap::None { Gap::Space } else { gap };
        }
    }

    fn line_comment(&mut self) -> Result<(), Unreadable> {
        let length = self.rest.find('\n').unwrap_or(self.rest.len());
        if self.rest[..length].trim_end_matches('\r').ends_with('\\') {
            return self.error("a comment of one line ends with a backslash: take that away");
        }
        self.advance(length);
        Ok(())
    }

    /// Takes what stands between `"` and `"` or between `<` and `>`, with both.
    fn header(&mut self) -> Result<&'a str, Unreadable> {
        let end = if self.rest.starts_with('<') { '>' } else { '"' };
        let line = self.rest.lines().next().unwrap_or_default();
        match line.get(1..).and_then(|line| line.find(end)) {
            Some(length) => Ok(self.advance(1 + length + 1)),
            None => self.error("expected a header's name in quotes or angle brackets"),
        }
    }

    /// Takes the longest token.
    fn token(&mut self) -> Result<&'a str, Unreadable> {
        let mut chars = self.rest.chars();
        let (first, second) = (chars.next().unwrap_or_default(), chars.next().unwrap_or_default());
        if first == '"' || first == '\'' {
            return self.literal(first);
        }
        if first.is_ascii_digit() || (first == '.' && second.is_ascii_digit()) {
            return self.apart_from_literals(number_length(self.rest));
        }
        if is_of_name(first) {
            let length = self.rest.find(|of| !is_of_name(of)).unwrap_or(self.rest.len());
            return self.apart_from_literals(length);
        }
        let known = PUNCTUATORS.iter().find(|known| self.rest.starts_with(**known));
        Ok(self.advance(known.map_or(first.len_utf8(), |known| known.len())))
    }

    /// Takes `length` bytes, behind which no literal may begin: it could have a prefix.
    fn apart_from_literals(&mut self, length: usize) -> Result<&'a str, Unreadable> {
        let token = self.advance(length);
        if self.rest.starts_with(['"', '\'']) {
            return self.error("a literal with a prefix: only plain literals are understood");
        }
        Ok(token)
    }

    /// Takes a string or a character, up to the next `quote`.
    fn literal(&mut self, quote: char) -> Result<&'a str, Unreadable> {
        let mut is_escaped = false;
        for (at, character) in self.rest.char_indices().skip(1) {
            if character == '\n' {
                break;
            }
            if character == quote && !is_escaped {
                let token = self.advance(at + 1);
                if self.rest.starts_with(is_of_name) {
                    return self.error("a literal with a suffix: only plain ones are understood");
                }
                return Ok(token);
            }
            is_escaped = character == '\\' && !is_escaped;
        }
        self.error("a literal that begins here does not end in its line")
    }
}

fn is_of_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || character == '$'
}

/// The length of the number with which `text` begins: signs belong to it behind an exponent's
/// letter, quotes between its digits.
fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let belongs = |at: usize| match bytes[at] {
        b'.' | b'_' => true,
        b'+' | b'-' => matches!(bytes[at - 1], b'e' | b'E' | b'p' | b'P'),
        b'\'' => bytes.get(at + 1).is_some_and(u8::is_ascii_alphanumeric),
        other => other.is_ascii_alphanumeric(),
    };
    (1..bytes.len()).find(|&at| !belongs(at)).unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(canonical(text).unwrap().trim_end(), expected.trim_end(), "{text}");
    }

    #[test]
    fn comments_and_layout_leave_no_trace() {
        let plain = "int a = f(1, 2);\n#pragma unroll 1\nfor (;;) {}\n";
        let other = "// one\nint a=f( 1, /* two\n // */\n 2 ) ; // three\n\n\t# pragma \\\n \
                     unroll 1 // four\n\nfor\n(;;)\n{\n}";
        let expected = "int a = f ( 1 , 2 ) ;\n# pragma unroll 1\nfor ( ;\n;\n) {\n}\n";
        check(plain, expected);
        check(other, expected);
        assert_eq!(canonical(expected).unwrap(), expected, "it is its own canonical text");
    }

    #[test]
    fn tokens_are_as_long_as_they_can_be() {
        check("a>>=b>>c>b", "a >>= b >> c > b\n");
        check("a<::b", "a < :: b\n");
        check("1.5e-3f+.5-0x1fu-1'000'000", "1.5e-3f + .5 - 0x1fu - 1'000'000\n");
        check("x-- - --y", "x -- - -- y\n");
    }

    #[test]
    fn literals_are_kept() {
        check(r#"asm("a  // b \" /* c" "%0;")"#, "asm ( \"a  // b \\\" /* c\" \"%0;\" )\n");
        check("'\"', '\\'', ' '", "'\"' , '\\'' , ' '\n");
        check(r#"include "a  b""#, "include \"a  b\"\n");
    }

    #[test]
    fn directives_keep_their_lines_and_what_follows_a_macro_s_name() {
        check(
            "#define A(x) x+1\n#define B (x)\nA(1)",
            concat!("# define A( x ) x + 1\n", "# define B ( x )\n", "A ( 1 )\n"),
        );
        check("#define C \\\n  1; \\\n  2;\n3", "# define C 1 ; 2 ;\n3\n");
        let text = "#include   \"../a  b.h\" // c\n#include <c/d.h>\nint x;";
        check(text, "# include \"../a  b.h\"\n# include <c/d.h>\nint x ;\n");
        assert_eq!(included(&canonical(text).unwrap()).collect::<Vec<_>>(), ["../a  b.h"]);
    }

    #[test]
    fn what_only_recording_kernels_have_is_left_out() {
        let text =
            "int a;\n#ifdef MSCCL_RECORDS\n#include \"record.cuh\"\nint b; }\n#endif\nint c;";
        check(text, "int a ;\nint c ;\n");
        let within = "if (a)\n#ifdef MSCCL_RECORDS\n    f();\n#endif\n    g();";
        check(within, "if ( a )\ng ( ) ;\n");
        let unclosed = canonical("#ifdef MSCCL_RECORDS\nint a;").unwrap_err();
        assert!(unclosed.why.contains("no `#endif`"), "{unclosed}");
        let nested = canonical("#ifdef MSCCL_RECORDS\n#if A\n#endif\n#endif").unwrap_err();
        assert!(nested.why.contains("another condition"), "{nested}");
        check("#ifdef A\nint a;\n#endif", "# ifdef A\nint a ;\n# endif\n");
    }

    #[test]
    fn what_would_count_on_white_space_is_refused() {
        let check = |text: &str, line: usize, why: &str| {
            let error = canonical(text).unwrap_err();
            assert!(error.line == line && error.why.contains(why), "{text}: {error}");
        };
        check("#define A(x) 1\n#define S(x) #x", 2, "makes a string");
        check("a\n/* b\nc", 2, "does not end");
        check("\n\nf(\"a\nb\")", 3, "does not end in its line");
        check("R\"(a)\"", 1, "prefix");
        check("\"a\"_b", 1, "suffix");
        check("#include x", 1, "header");
        check("// a \\\nb", 1, "backslash");
    }
}
