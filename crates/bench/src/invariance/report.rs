//! What was compared, and the table of it.

use serde::Serialize;

use crate::case::Case;
use crate::piece::Compared;
use crate::report::LibraryReport;

/// All that was compared.
#[derive(Clone, Debug)]
pub struct InvarianceReport {
    /// The libraries, as in the plan.
    pub libraries: Vec<LibraryReport>,
    /// By size.
    pub rows: Vec<InvarianceRow>,
}

/// All calls of one size, type and reduction.
#[derive(Clone, Debug, Serialize)]
pub struct InvarianceRow {
    /// The size.
    pub case: Case,
    /// What each library gave, in the order of the plan; `None` of one that is out.
    pub libraries: Vec<Option<LibraryBits>>,
}

/// What a library gave in calls of one size.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct LibraryBits {
    /// How many calls were made.
    pub calls: u64,
    /// How many algorithms, protocols and deliveries served them.
    pub ways: u64,
    /// Elements of all outputs.
    pub elements: u64,
    /// Elements with other bits than in the call that had them first.
    pub differ: u64,
    /// Calls in which ranks that must have the same bits had not.
    pub ranks_differ: u64,
    /// The first difference or failure, in words.
    pub example: Option<String>,
    /// Calls that the library refused.
    pub refused: u64,
}

impl LibraryBits {
    /// Adds what all ranks found in a call; `call` says which it was.
    pub(super) fn add(&mut self, ranks: &[Compared], call: impl Fn() -> String) {
        self.calls += 1;
        for Compared { elements, differ, example, digest: _ } in ranks {
            self.elements += elements;
            self.differ += differ;
            if let (None, Some(example)) = (&self.example, example) {
                self.example = Some(format!("{}: {example}", call()));
            }
        }
        let differ = |pair: &[Compared]| pair[0].digest != pair[1].digest;
        if ranks.windows(2).any(differ) {
            self.ranks_differ += 1;
            self.example.get_or_insert_with(|| format!("{}: ranks have different bits", call()));
        }
    }

    /// Whether all bits were the same.
    pub fn is_good(&self) -> bool {
        self.differ == 0 && self.ranks_differ == 0 && self.refused == 0
    }
}

impl InvarianceRow {
    /// The names of the columns, for the libraries of these names.
    pub fn heading<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
        let (mut above, mut below) = (String::new(), format!("#{:>11}{:>14}", "size", "count"));
        above += &format!("#{:>52}", "");
        below += &format!("{:>11}{:>8}{:>8}", "type", "redop", "root");
        for name in names {
            above += &format!("  {name:>46}");
            below += &format!(
                "  {:>6}{:>6}{:>14}{:>12}{:>8}",
                "calls", "ways", "elements", "differ", "ranks"
            );
        }
        vec![above, below]
    }

    /// The row in words.
    pub fn line(&self) -> String {
        let Self { case, libraries } = self;
        let root = case.root_rank().map_or("-".to_owned(), |root| root.to_string());
        let mut line = format!(
            "{:>12}{:>14}{:>11}{:>8}{root:>8}",
            case.size_bytes(),
            case.count,
            case.element.name(),
            case.redop.name(),
        );
        for library in libraries {
            line += &match library {
                None => format!("  {:>46}", "out"),
                Some(LibraryBits { calls, ways, elements, differ, ranks_differ, .. }) => {
                    format!("  {calls:>6}{ways:>6}{elements:>14}{differ:>12}{ranks_differ:>8}")
                }
            };
        }
        line
    }
}

impl InvarianceReport {
    /// What library number `library` gave in all calls; `None` if it is out.
    pub fn total(&self, library: usize) -> Option<LibraryBits> {
        let mut total = LibraryBits::default();
        for row in &self.rows {
            let LibraryBits { calls, ways, elements, differ, ranks_differ, example, refused } =
                row.libraries.get(library)?.clone()?;
            total.calls += calls;
            total.ways = total.ways.max(ways);
            total.elements += elements;
            total.differ += differ;
            total.ranks_differ += ranks_differ;
            total.refused += refused;
            total.example = total.example.or(example);
        }
        Some(total)
    }

    /// Whether every library did everything, with the same bits.
    pub fn is_good(&self) -> bool {
        let good = |library| self.total(library).is_some_and(|total| total.is_good());
        (0..self.libraries.len()).all(good) && self.libraries.iter().all(|of| of.loss.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(differ: u64, digest: u64) -> Compared {
        let example = (differ > 0).then(|| "element 3".to_owned());
        Compared { elements: 10, differ, example, digest: Some(digest) }
    }

    #[test]
    fn differences_of_ranks_and_between_them_count() {
        let mut bits = LibraryBits::default();
        bits.add(&[found(0, 1), found(0, 1)], || "one".to_owned());
        assert!(bits.is_good() && bits.calls == 1 && bits.elements == 20);
        bits.add(&[found(0, 1), found(0, 2)], || "two".to_owned());
        assert_eq!((bits.ranks_differ, bits.differ), (1, 0));
        assert_eq!(bits.example.as_deref(), Some("two: ranks have different bits"));
        let mut bits = LibraryBits::default();
        bits.add(&[found(0, 1), found(7, 1)], || "three".to_owned());
        assert_eq!((bits.differ, bits.example.as_deref()), (7, Some("three: element 3")));
        assert!(!bits.is_good());
    }
}
