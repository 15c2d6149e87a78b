//! Programs that name the launches with which they are tried: `// test: ranks 2 4 8, per_node 2`.

use std::sync::Arc;

use msccl_compiler::evaluate::Launch;
use msccl_topology::cluster::ranks::RankTopology;

/// What stands before each test.
const HEAD: &str = "// test: ";

/// How ranks are joined on the machine of that name.
pub type FindTopology<'a> = &'a dyn Fn(&str) -> Option<RankTopology>;

/// The launches that `text` names, in order: one for each number of ranks of each line.
///
/// # Errors
///
/// A line cannot be read, or there is no such machine.
pub fn launches(text: &str, topology: FindTopology<'_>) -> Result<Vec<Launch>, String> {
    let mut all = Vec::new();
    for test in text.lines().filter_map(|line| line.strip_prefix(HEAD)) {
        let found = of_test(test, topology);
        all.extend(found.ok_or_else(|| format!("cannot read `{HEAD}{test}`"))?);
    }
    Ok(all)
}

/// The launches of `ranks 2 4 8, per_node 2, topo ndv2, C 1`.
fn of_test(test: &str, topology: FindTopology<'_>) -> Option<Vec<Launch>> {
    let mut settings = test.split(", ");
    let ranks = settings.next()?.strip_prefix("ranks ")?;
    let mut rest = Launch::default();
    for setting in settings {
        let (name, value) = setting.split_once(' ')?;
        match name {
            "per_node" => rest.per_node = Some(value.parse().ok()?),
            "topo" => rest.topology = Some(Arc::new(topology(value)?)),
            name => rest.params.push((name.to_owned(), value.parse().ok()?)),
        }
    }
    let ranks: Option<Vec<u32>> = ranks.split(' ').map(|count| count.parse().ok()).collect();
    let launch = |ranks| Launch { ranks: Some(ranks), ..rest.clone() };
    Some(ranks?.into_iter().map(launch).collect())
}

/// Of `launches` the one to show: that of most ranks up to eight, the first of them; the program's
/// own default if none is so small.
pub fn shown(launches: &[Launch]) -> Launch {
    const MOST_RANKS: u32 = 8;
    let small = launches.iter().filter(|launch| launch.ranks.is_some_and(|it| it <= MOST_RANKS));
    let best = small.rev().max_by_key(|launch| launch.ranks);
    best.cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_name_launches() {
        let text = "// Ring.\n// test: ranks 2 8, per_node 2, C 1\n// test: ranks 8\n";
        let found = launches(text, &|_| None).unwrap();
        let ranks: Vec<_> = found.iter().map(|launch| launch.ranks).collect();
        assert_eq!(ranks, [Some(2), Some(8), Some(8)]);
        assert_eq!(found[0].params, [("C".to_owned(), 1)]);
        assert_eq!(shown(&found).per_node, Some(2));
        assert!(launches("// test: ranks x", &|_| None).is_err());
        assert!(launches("// test: ranks 2, topo moon", &|_| None).unwrap_err().contains("moon"));
    }
}
