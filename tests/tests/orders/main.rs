//! The order of additions of every example at 2 to 16 ranks, as the verifier says it and as another
//! implementation finds it in the JSON form; `orders.txt` holds them, and `MSCCL_BLESS=1` writes
//! it. The order that an example claims is proved.

mod executor;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use msccl_compiler::evaluate::Launch;
use msccl_interchange::json;
use msccl_ir::{Algorithm, Target};
use msccl_registry::Fingerprint;
use msccl_tests::example::{Example, examples};
use msccl_verify::{AdditionOrders, verify_claim};

const RANKS: std::ops::RangeInclusive<u32> = 2..=16;

#[test]
fn every_example_adds_in_the_orders_that_the_verifier_says() {
    let mut found = String::new();
    for example in examples() {
        for launch in launches(&example) {
            if let Some(orders) = orders(&example, &launch) {
                let per_node =
                    launch.per_node.map_or_else(String::new, |count| format!(" by {count}"));
                let ranks = launch.ranks.unwrap();
                writeln!(found, "{:40} {ranks}{per_node}: {orders}", example.name).unwrap();
            }
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/orders/orders.txt");
    if std::env::var_os("MSCCL_BLESS").is_some() {
        fs::write(&path, &found).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap();
    let differs = |(found, expected): (&str, &str)| {
        (found != expected).then(|| format!("found    {found}\nexpected {expected}"))
    };
    let differences: Vec<_> =
        found.lines().zip(expected.lines()).filter_map(differs).take(9).collect();
    assert!(differences.is_empty(), "MSCCL_BLESS=1 accepts:\n{}", differences.join("\n"));
    assert_eq!(found.lines().count(), expected.lines().count(), "MSCCL_BLESS=1 accepts");
}

/// One launch for each number of ranks and each number of ranks per node that the example names and
/// that divides it.
fn launches(example: &Example) -> Vec<Launch> {
    let mut all: Vec<Launch> = Vec::new();
    for first in example.algorithms() {
        let named = |launch: &&Launch| launch.algorithm.as_ref() == Some(&first);
        let per_node: BTreeSet<_> =
            example.launches.iter().filter(named).map(|launch| launch.per_node).collect();
        for ranks in RANKS {
            let fits = |count: &Option<u32>| count.is_none_or(|count| ranks % count == 0);
            all.extend(per_node.iter().copied().filter(fits).map(|per_node| Launch {
                algorithm: Some(first.clone()),
                ranks: Some(ranks),
                per_node,
                ..Launch::default()
            }));
        }
    }
    all
}

/// The orders of an example that adds; `None` if it does not, or not for so many ranks.
fn orders(example: &Example, launch: &Launch) -> Option<String> {
    let compiled = example.compile(launch, &Target::native()).ok()?;
    let claim = compiled.chunks.order_claim.map(|claim| claim.order);
    let verified = verify_claim(compiled.schedule.algorithm, &Target::native(), claim);
    let verified = verified.unwrap_or_else(|refusal| {
        panic!("{} {launch:?}: {refusal}", example.name);
    });
    let says = verified.facts().addition_orders.clone();
    let runs = executed(verified.algorithm());
    match says {
        AdditionOrders::NoSums => {
            assert!(runs.is_empty(), "{} {launch:?}: {runs:?}", example.name);
            None
        }
        AdditionOrders::One(order) => {
            let text = order.to_string();
            assert_eq!(runs, BTreeSet::from([text.clone()]), "{} {launch:?}", example.name);
            Some(format!("{text} ({}, {})", order.shape().name(), Fingerprint::of_order(&order)))
        }
        AdditionOrders::Several(count) => {
            assert_eq!(runs.len(), count, "{} {launch:?}: {runs:?}", example.name);
            Some(format!("{count} orders"))
        }
    }
}

/// The orders of all sums that stand in promised outputs at the end of a run of the JSON form.
fn executed(algorithm: &Algorithm) -> BTreeSet<String> {
    let text = json::write(algorithm);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    executor::orders(&value)
}
