//! Certificates, read from the text of a program.

use std::collections::{BTreeSet, HashMap};

use msccl_bounds::{Bound, Crossing, SwitchModel, VertexSet, Witness};
use msccl_collective::{CollectiveKind, Rank};
use msccl_topology::cluster::{Cluster, VertexIndex};
use num_rational::Ratio;

use super::lines::{Line, LineReader, marked};
use super::{Certificate, CertificateError, MARK, WitnessWord};

impl Certificate {
    /// The certificate in `text` about `cluster`; `None` if it has none.
    ///
    /// # Errors
    ///
    /// The first line that is not as it should be.
    pub fn read(text: &str, cluster: &Cluster) -> Result<Option<Self>, CertificateError> {
        let lines = marked(text, MARK);
        if lines.is_empty() {
            return Ok(None);
        }
        let mut reader = Reader { cluster, lines: LineReader::new(&lines) };
        reader.certificate().map(Some)
    }
}

struct Reader<'l, 't> {
    cluster: &'l Cluster,
    lines: LineReader<'l, 't>,
}

impl Reader<'_, '_> {
    fn certificate(&mut self) -> Result<Certificate, CertificateError> {
        let line = self.lines.next_line("a collective over ranks")?;
        let expected = "`COLLECTIVE over N ranks`, or `… from rank R over N ranks`";
        let (kind, ranks) = call(&line.words).ok_or_else(|| line.error(expected))?;
        let seconds_per_byte = self.time("takes")?;
        let bound_seconds_per_byte = self.time("bound")?;
        let witness = self.witness()?;
        let switches = SwitchModel::Forward;
        let bound = Bound { kind, switches, seconds_per_byte: bound_seconds_per_byte, witness };
        Ok(Certificate { ranks, seconds_per_byte, bound })
    }

    /// `takes 7/960000000000 s/byte`
    fn time(&mut self, word: &str) -> Result<Ratio<u128>, CertificateError> {
        let line = self.lines.next_line(&format!("`{word}`"))?;
        let time = match *line.words {
            [found, time, "s/byte"] if found == word => ratio(time),
            _ => None,
        };
        time.ok_or_else(|| line.error(format!("`{word} NUMERATOR/DENOMINATOR s/byte`")))
    }

    fn witness(&mut self) -> Result<Witness, CertificateError> {
        let expected = "`cut`, `group`, `length` or `weight`";
        let first = self.lines.next_line(expected)?;
        let mut words = WitnessWord::ALL.into_iter();
        let word = words.find(|word| first.words.first() == Some(&word.text()));
        let word = word.ok_or_else(|| first.error(expected))?;
        let lines: Vec<&Line<'_>> = std::iter::once(first).chain(self.lines.rest()).collect();
        match word {
            WitnessWord::Cut => {
                let mut sets = self.sets(word, &lines)?;
                match (sets.pop(), lines.get(1)) {
                    (Some(inside), _) if sets.is_empty() => Ok(Witness::Cut { inside }),
                    (_, other) => Err(other.unwrap_or(&first).error("one cut")),
                }
            }
            WitnessWord::Group => Ok(Witness::Partition { groups: self.sets(word, &lines)? }),
            WitnessWord::Length => Ok(Witness::Lengths { links: self.lengths(&lines)? }),
            WitnessWord::Weight => self.routes(&lines),
        }
    }

    /// `weight 2`, then a cut or the groups of a partition, several times; then lengths.
    fn routes(&self, lines: &[&Line<'_>]) -> Result<Witness, CertificateError> {
        let is = |line: &Line<'_>, word: WitnessWord| line.words.first() == Some(&word.text());
        let is_length = |line: &&Line<'_>| is(line, WitnessWord::Length);
        let count = lines.iter().position(is_length).unwrap_or(lines.len());
        let (weighted, lengths) = lines.split_at(count);
        let mut crossings = Vec::new();
        for lines in weighted.chunk_by(|_, next| !is(next, WitnessWord::Weight)) {
            let expected = "`weight NUMBER`, then a cut or groups";
            let [first, groups @ ..] = lines else { continue };
            let ["weight", weight] = *first.words else { return Err(first.error(expected)) };
            let weight = weight.parse().map_err(|_| first.error(expected))?;
            let next = groups.first().ok_or_else(|| first.error(expected))?;
            let is_cut = is(next, WitnessWord::Cut);
            let word = if is_cut { WitnessWord::Cut } else { WitnessWord::Group };
            let groups = self.sets(word, groups)?;
            if (groups.len() == 1) != is_cut {
                return Err(next.error("one cut, or several groups"));
            }
            crossings.push(Crossing { weight, groups });
        }
        Ok(Witness::Routes { crossings, links: self.lengths(lengths)? })
    }

    /// Sets of vertices: each begins with `word`, and goes on with `and`.
    fn sets(
        &self,
        word: WitnessWord,
        lines: &[&Line<'_>],
    ) -> Result<Vec<VertexSet>, CertificateError> {
        let numbers: HashMap<&str, VertexIndex> = self
            .cluster
            .vertices()
            .iter()
            .map(|it| &*it.name)
            .zip((0..).map(VertexIndex))
            .collect();
        let all: BTreeSet<VertexIndex> = numbers.values().copied().collect();
        let mut sets: Vec<NamedSet> = Vec::new();
        for line in lines {
            let names = match (line.words.split_first(), sets.last_mut()) {
                (Some((&"and", names)), Some(set)) => (names, set),
                (Some((first, names)), _) if *first == word.text() => {
                    let (is_of_others, names) = match names {
                        ["all", "but", names @ ..] => (true, names),
                        names => (false, names),
                    };
                    sets.push(NamedSet { is_of_others, named: VertexSet::new() });
                    let Some(set) = sets.last_mut() else { continue };
                    (names, set)
                }
                _ => return Err(line.error(format!("`{}` or `and`", word.text()))),
            };
            let (names, set) = names;
            for name in names {
                let vertex = numbers.get(name);
                let vertex = vertex.ok_or_else(|| {
                    line.error(format!("names of vertices of the machine, `{name}` is none"))
                })?;
                set.named.insert(*vertex);
            }
        }
        Ok(sets.into_iter().map(|set| set.resolved(&all)).collect())
    }

    /// `length LINK LENGTH`
    fn lengths(&self, lines: &[&Line<'_>]) -> Result<Vec<u32>, CertificateError> {
        let mut links = vec![0; self.cluster.links().len()];
        for line in lines {
            let expected = || line.error("`length LINK LENGTH`, with the number of a link");
            let ["length", link, length] = *line.words else { return Err(expected()) };
            let link: usize = link.parse().map_err(|_| expected())?;
            let of = links.get_mut(link).ok_or_else(expected)?;
            *of = length.parse().map_err(|_| expected())?;
        }
        Ok(links)
    }
}

/// A set by its own vertices or by all others.
struct NamedSet {
    is_of_others: bool,
    named: VertexSet,
}

impl NamedSet {
    fn resolved(self, all: &VertexSet) -> VertexSet {
        let NamedSet { is_of_others, named } = self;
        if is_of_others { all.difference(&named).copied().collect() } else { named }
    }
}

/// `allgather over 8 ranks`, `broadcast from rank 3 over 8 ranks`
pub(crate) fn call(words: &[&str]) -> Option<(CollectiveKind, u32)> {
    let named = |name: &str, root: u32| {
        let kinds = CollectiveKind::all(Rank(root)).into_iter();
        kinds.filter(|kind| kind.name() == name).find(|kind| kind.root().is_none() || root != NONE)
    };
    let number = |text: &str| text.parse::<u32>().ok().filter(|number| *number != NONE);
    match *words {
        [name, "over", ranks, "ranks"] => named(name, NONE).zip(number(ranks)),
        [name, "from", "rank", root, "over", ranks, "ranks"] => {
            let kind = number(root).and_then(|root| named(name, root));
            kind.filter(|kind| kind.root().is_some()).zip(number(ranks))
        }
        _ => None,
    }
}

/// The root of a collective that has none.
const NONE: u32 = u32::MAX;

/// `7/24`, `7`; the denominator is not 0.
fn ratio(text: &str) -> Option<Ratio<u128>> {
    let (numerator, denominator) = text.split_once('/').unwrap_or((text, "1"));
    let (numerator, denominator) = (numerator.parse().ok()?, denominator.parse().ok()?);
    // Larger ones would overflow where times are compared.
    let is_sane = |number: u128| number > 0 && number < 1 << 100;
    (is_sane(numerator) && is_sane(denominator)).then(|| Ratio::new(numerator, denominator))
}
