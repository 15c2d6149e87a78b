//! The name that was probably meant where an unknown one stands.

/// The name of `known` that `name` is probably a slip of.
pub(super) fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let limit = name.chars().count() / 3 + 1;
    let scored = known.map(|candidate| (distance(name, candidate), candidate));
    scored.filter(|&(distance, _)| distance <= limit).min().map(|(_, candidate)| candidate)
}

/// How many characters to insert, delete or replace to get from one to the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, &to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name() {
        let known = ["ranks", "chunk", "step"];
        assert_eq!(nearest("chnuk", known.into_iter()), Some("chunk"));
        assert_eq!(nearest("rank", known.into_iter()), Some("ranks"));
        assert_eq!(nearest("banana", known.into_iter()), None);
    }
}
