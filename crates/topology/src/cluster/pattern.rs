//! Names with gaps for numbers: `gpu*`, `node*.nic[0-3]`.
//!
//! `*` stands for any number, `[2-5]` for the numbers from 2 to 5; the rest stands for itself. A
//! gap takes all digits that stand at its place, so `gpu*` has no match in `gpu1a`. What a pattern
//! matches keeps the order of the vertices.

use super::{Vertex, VertexIndex};

/// A name, or several names that differ in numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Pattern {
    parts: Vec<Part>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    Text(String),
    AnyNumber,
    Range(u32, u32),
}

/// Most characters of a name or a pattern.
pub(super) const MOST_NAME_BYTES: usize = 64;

impl Pattern {
    /// The pattern that `text` spells; `None` if it spells none.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > MOST_NAME_BYTES {
            return None;
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let (part, after) = match first {
                '*' => (Part::AnyNumber, rest.get(1..)?),
                '[' => range(rest)?,
                _ => {
                    let end = rest.find(['*', '[']).unwrap_or(rest.len());
                    let (text, after) = rest.split_at(end);
                    let fits = |it: char| it.is_ascii_alphanumeric() || "._".contains(it);
                    (Part::Text(text.chars().all(fits).then(|| text.to_owned())?), after)
                }
            };
            parts.push(part);
            rest = after;
        }
        let starts_well = text.starts_with(|it: char| it.is_ascii_alphabetic());
        starts_well.then_some(Self { parts })
    }

    /// Whether it is one name.
    pub fn is_name(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Text(_)))
    }

    /// How many names it must match; `None` if any number will do.
    pub fn count(&self) -> Option<u64> {
        self.parts.iter().try_fold(1u64, |count, part| match part {
            Part::Text(_) => Some(count),
            Part::AnyNumber => None,
            Part::Range(low, high) => Some(count.saturating_mul(u64::from(high - low) + 1)),
        })
    }

    /// Whether it stands for `name`.
    pub fn matches(&self, name: &str) -> bool {
        let mut rest = name;
        for part in &self.parts {
            let after = match part {
                Part::Text(text) => rest.strip_prefix(text.as_str()),
                Part::AnyNumber => Some(skip_digits(rest)).filter(|after| after.len() < rest.len()),
                Part::Range(low, high) => {
                    let after = skip_digits(rest);
                    let digits = rest.get(..rest.len() - after.len()).unwrap_or_default();
                    within(digits, *low, *high).then_some(after)
                }
            };
            let Some(after) = after else { return false };
            rest = after;
        }
        rest.is_empty()
    }

    /// The vertices that it stands for, of those from `start` on whose names begin with `prefix`.
    pub fn find(&self, vertices: &[Vertex], start: usize, prefix: &str) -> Vec<VertexIndex> {
        let numbered = (0..).map(VertexIndex).zip(vertices).skip(start);
        let fits = |vertex: &Vertex| {
            vertex.name.strip_prefix(prefix).is_some_and(|name| self.matches(name))
        };
        numbered.filter(|(_, vertex)| fits(vertex)).map(|(at, _)| at).collect()
    }
}

/// `[low-high]` at the start of `text`, and what follows it.
fn range(text: &str) -> Option<(Part, &str)> {
    let (inside, after) = text.strip_prefix('[')?.split_once(']')?;
    let (low, high) = inside.split_once('-')?;
    let (low, high) = (number(low)?, number(high)?);
    (low <= high).then_some((Part::Range(low, high), after))
}

fn skip_digits(text: &str) -> &str {
    text.trim_start_matches(|it: char| it.is_ascii_digit())
}

fn within(digits: &str, low: u32, high: u32) -> bool {
    number(digits).is_some_and(|number| (low..=high).contains(&number))
}

/// The number that `digits` spell, without zeros before it.
pub(super) fn number(digits: &str) -> Option<u32> {
    let plain = digits.bytes().all(|it| it.is_ascii_digit());
    let short = digits == "0" || !digits.starts_with('0');
    (plain && short).then(|| digits.parse().ok())?
}

/// A name without the number at its end, and that number.
pub(super) fn split_number(name: &str) -> Option<(&str, u32)> {
    let base = name.trim_end_matches(|it: char| it.is_ascii_digit());
    Some((base, number(name.get(base.len()..)?)?))
}

/// What stands before the first number of a name.
pub(super) fn stem(name: &str) -> &str {
    name.split(|it: char| it.is_ascii_digit()).next().unwrap_or_default()
}

/// One pattern for `names`, which differ in numbers alone, if `all` has no other that it matches.
pub(super) fn common(names: &[&str], all: &[&str]) -> Option<String> {
    let stars = spell(names, |_| Some("*".to_owned()));
    let ranges = || {
        spell(names, |numbers| {
            let numbers: Option<Vec<u32>> = numbers.iter().map(|digits| number(digits)).collect();
            let numbers = numbers?;
            Some(format!("[{}-{}]", numbers.iter().min()?, numbers.iter().max()?))
        })
    };
    let exact = |text: &String| {
        let Some(pattern) = Pattern::parse(text) else { return false };
        let found = all.iter().filter(|name| pattern.matches(name));
        let is_full = pattern.count().is_none_or(|count| count == names.len() as u64);
        is_full && found.eq(names)
    };
    stars.filter(exact).or_else(|| ranges().filter(exact))
}

/// The names as one text, with `gap` of the numbers at each place where these differ.
fn spell(names: &[&str], gap: impl Fn(&[&str]) -> Option<String>) -> Option<String> {
    let split: Vec<Vec<&str>> = names.iter().map(|name| pieces(name)).collect();
    let first = split.first()?;
    if split.len() < 2 || split.iter().any(|pieces| pieces.len() != first.len()) {
        return None;
    }
    let mut out = String::new();
    for (at, piece) in first.iter().enumerate() {
        let column: Vec<&str> = split.iter().filter_map(|pieces| pieces.get(at).copied()).collect();
        let is_number = |it: &&str| it.starts_with(|it: char| it.is_ascii_digit());
        if column.iter().all(|it| it == piece) {
            out.push_str(piece);
        } else if column.iter().all(is_number) {
            out.push_str(&gap(&column)?);
        } else {
            return None;
        }
    }
    Some(out)
}

/// `name` cut where digits begin and end.
fn pieces(name: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let other = |it: char| it.is_ascii_digit() != first.is_ascii_digit();
        let (piece, after) = rest.split_at(rest.find(other).unwrap_or(rest.len()));
        out.push(piece);
        rest = after;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_numbers() {
        let matches = |pattern, name| Pattern::parse(pattern).unwrap().matches(name);
        assert!(matches("gpu*", "gpu12"));
        assert!(!matches("gpu*", "gpu"));
        assert!(!matches("gpu*", "gpu1a"));
        assert!(matches("node*.nic[2-10]", "node3.nic10"));
        assert!(!matches("node*.nic[2-10]", "node3.nic1"));
        assert!(!matches("gpu[0-3]", "gpu02"));
    }

    #[test]
    fn what_spells_no_pattern_is_none() {
        let long = "g".repeat(MOST_NAME_BYTES + 1);
        for text in ["", "3", "*", "gpu[", "gpu[3]", "gpu[3-1]", "gpu[0-99999999999]", "g%", &long]
        {
            assert_eq!(Pattern::parse(text), None, "{text}");
        }
    }

    #[test]
    fn names_are_put_into_one_pattern() {
        let all = ["gpu0", "gpu1", "gpu2", "nic0", "n0.gpu0", "n1.gpu0"];
        assert_eq!(common(&all[..3], &all).as_deref(), Some("gpu*"));
        assert_eq!(common(&all[1..3], &all).as_deref(), Some("gpu[1-2]"));
        assert_eq!(common(&["gpu0", "gpu2"], &all), None);
        assert_eq!(common(&["gpu2", "gpu1"], &all), None);
        assert_eq!(common(&all[2..4], &all), None);
        assert_eq!(common(&all[4..], &all).as_deref(), Some("n*.gpu0"));
    }
}
