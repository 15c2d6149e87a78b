//! Malformed files: `good.xml` and `good.json`, each with one thing changed, and the message that
//! the change must bring.

#![allow(dead_code, missing_docs)] // Each test binary uses a part of it.

pub struct Case {
    pub text: String,
    pub error: String,
    /// Whether the format's schema refuses it too.
    pub schema_refuses: bool,
}

pub fn xml() -> Vec<Case> {
    cases(include_str!("good.xml"), include_str!("xml.cases"))
}

pub fn json() -> Vec<Case> {
    cases(include_str!("good.json"), include_str!("json.cases"))
}

fn cases(good: &str, table: &str) -> Vec<Case> {
    let lines: Vec<_> = table.lines().filter(|line| !line.starts_with('#')).collect();
    let blocks = lines.split(|line| line.is_empty()).filter(|block| !block.is_empty());
    blocks.map(|block| case(good, block)).collect()
}

fn case(good: &str, block: &[&str]) -> Case {
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
    Case { text, error, schema_refuses: field("schema").is_none() }
}
