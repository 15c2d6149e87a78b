//! Proofs in words.

use msccl_ir::{Algorithm, Target};
use msccl_verify::{AdditionOrders, Facts, OrderShape};

use super::Counts;
use crate::size::range_in_words;

/// In which order it adds, if it adds anything.
pub fn order(facts: &Facts) -> Option<String> {
    let order = match &facts.addition_orders {
        AdditionOrders::NoSums => return None,
        AdditionOrders::Several(count) => {
            return Some(format!(
                "adds in {count} orders or more: bits depend on the place of an element"
            ));
        }
        AdditionOrders::One(order) => order,
    };
    let text = order.short_text();
    let name = match order.shape() {
        OrderShape::Other => String::new(),
        named => format!(" ({})", named.name()),
    };
    Some(format!("adds in one order: {text}{name}"))
}

/// The algorithm and what it computes.
pub fn subject(algorithm: &Algorithm) -> String {
    let collective = &algorithm.collective;
    match algorithm.name.as_str() {
        "" => collective.to_string(),
        name => format!("{name}, {collective}"),
    }
}

/// `112 steps in 8 thread blocks over 8 links`.
pub fn size(algorithm: &Algorithm) -> String {
    let Counts { steps, thread_blocks, links, channels } = Counts::of(algorithm);
    let blocks = counted(thread_blocks as u64, "thread block");
    let links = counted(links as u64, "link");
    let channels = counted(u64::from(channels), "channel");
    let steps = counted(steps as u64, "step");
    format!("{steps} in {blocks}, {links} on {channels}")
}

/// Which races and deadlocks there are not, on which links.
pub fn depth(algorithm: &Algorithm, target: &Target, facts: &Facts) -> String {
    let shape = target.link(algorithm.protocol);
    let protocol = algorithm.protocol;
    let least = facts.least_link_depth;
    let depth = shape.depth;
    let enough = if least < depth { format!("; {least} would do") } else { String::new() };
    format!("no race, no deadlock on {target} {protocol} links of depth {depth}{enough}")
}

/// For which calls it holds.
pub fn scope(algorithm: &Algorithm, target: &Target, facts: &Facts) -> String {
    let sizes = target.rules.call_sizes(&algorithm.collective, algorithm.sizes);
    let calls = format!("{}, {}", range_in_words(sizes), algorithm.placement);
    if !facts.result_promised {
        return format!("nothing is promised about the result; everything else holds for {calls}");
    }
    let same = if facts.same_on_every_rank && algorithm.collective.reduces() {
        ", bit for bit the same on every rank"
    } else {
        ""
    };
    let counts = if facts.serves_any_count {
        String::new()
    } else {
        format!(", counts that {} divides", algorithm.collective.chunks)
    };
    format!("right result for {calls}{counts}{same}")
}

/// `1 step`, `2 steps`.
pub fn counted(count: u64, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{plural}")
}

/// The first lines, and how many are missing.
pub fn shortened(lines: &[String], most: usize) -> impl Iterator<Item = String> {
    let kept = if lines.len() > most + 1 { most } else { lines.len() };
    let missing = lines.len() - kept;
    let rest = (missing > 0).then(|| format!("… and {missing} more"));
    lines[..kept].iter().cloned().chain(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_end_with_a_count() {
        let lines: Vec<String> = (0..5).map(|line| line.to_string()).collect();
        let check = |most, expected: &[&str]| {
            assert_eq!(shortened(&lines, most).collect::<Vec<_>>(), expected);
        };
        check(3, &["0", "1", "2", "… and 2 more"]);
        check(4, &["0", "1", "2", "3", "4"]);
    }
}
