//! Which format a text is in, by what it looks like.

/// What a file holds, by its content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// A program in the language.
    Program,
    /// MSCCL XML.
    Xml,
    /// The IR as JSON.
    Json,
    /// The IR as text.
    Text,
}

impl Content {
    /// What `text` holds. Its first character other than white space decides: `<` begins XML, `{`
    /// JSON; the IR's text form begins with a name in quotes, and anything else is taken for a
    /// program, whose parser gives the best messages.
    pub fn of(text: &str) -> Self {
        match text.trim_start().as_bytes().first() {
            Some(b'<') => Content::Xml,
            Some(b'{' | b'[') => Content::Json,
            _ if is_ir_text(text) => Content::Text,
            _ => Content::Program,
        }
    }
}

/// Whether a text that is neither XML nor JSON is the IR's text form, which names its algorithm in
/// quotes.
fn is_ir_text(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    let head = lines.find(|line| !line.is_empty() && !line.starts_with("//"));
    let named = head.and_then(|head| head.strip_prefix("algorithm"));
    named.is_some_and(|name| name.trim_start().starts_with('"'))
}
