//! Malformed files: `good.xml` and `good.json` of `crates/interchange/tests/malformed`, each with
//! one thing changed, and the message that the change must bring.

/// A malformed file.
pub struct MalformedFile {
    /// Its text.
    pub text: String,
    /// The message that it must bring.
    pub error: String,
    /// Whether the format's schema refuses it too.
    pub schema_refuses: bool,
}

/// Malformed XML.
pub fn xml() -> Vec<MalformedFile> {
    cases(
        include_str!("../../../crates/interchange/tests/malformed/good.xml"),
        include_str!("../../../crates/interchange/tests/malformed/xml.cases"),
    )
}

/// Malformed JSON.
pub fn json() -> Vec<MalformedFile> {
    cases(
        include_str!("../../../crates/interchange/tests/malformed/good.json"),
        include_str!("../../../crates/interchange/tests/malformed/json.cases"),
    )
}

fn cases(good: &str, table: &str) -> Vec<MalformedFile> {
    let lines: Vec<_> = table.lines().filter(|line| !line.starts_with('#')).collect();
    let blocks = lines.split(|line| line.is_empty()).filter(|block| !block.is_empty());
    blocks.map(|block| case(good, block)).collect()
}

fn case(good: &str, block: &[&str]) -> MalformedFile {
    let field = |name: &str| {
        let line = block.iter().find(|line| line.split(' ').next() == Some(name))?;
        Some(line.get(8..).unwrap_or("").replace("\\n", "\n"))
    };
    let find = |part: &str| good.find(part).unwrap_or_else(|| panic!("no {part:?} to change"));
    let text = match (field("cut"), field("replace"), field("by")) {
        (Some(part), None, None) => good[..find(&part)].to_owned(),
        (None, Some(from), Some(to)) => {
            find(&from);
            good.replacen(&from, &to, 1)
        }
        _ => panic!("neither `cut` nor `replace` and `by`: {block:?}"),
    };
    let error = field("error").unwrap_or_else(|| panic!("no `error`: {block:?}"));
    MalformedFile { text, error, schema_refuses: field("schema").is_none() }
}
