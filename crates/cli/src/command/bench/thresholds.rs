//! The bars of a benchmark: how our library compares with others, and sizes with powers of two.

use msccl_bench::{
    Case, Comparison, Pair, PowerComparison, Report, compare_with_powers, comparisons,
};

use crate::args::BenchArgs;

/// Ratios below this are listed.
const PAR: f64 = 1.0;

/// What there is to say, as remarks of the table.
pub struct Thresholds {
    /// In lines.
    pub lines: Vec<String>,
    /// Whether all requested bars are met.
    pub are_met: bool,
}

/// Compares `report` with the bars, in which `pairs` belong together.
pub fn check(args: &BenchArgs, report: &Report, pairs: &[Pair]) -> Thresholds {
    let mut outcome = Thresholds { lines: Vec::new(), are_met: true };
    powers(args, report, pairs, &mut outcome);
    baselines(args, report, &mut outcome);
    outcome
}

/// Of the first library a line for every call, and of every library its worst.
fn powers(args: &BenchArgs, report: &Report, pairs: &[Pair], outcome: &mut Thresholds) {
    for (library, of) in report.libraries.iter().enumerate() {
        let found = compare_with_powers(report, pairs, library, args.average);
        let bound = args.at_most.filter(|_| library == 0);
        if library == 0 {
            outcome.lines.extend(found.iter().map(|one| power_line(one, bound)));
        }
        let worst = found.iter().max_by(|a, b| a.ratio().total_cmp(&b.ratio()));
        let Some(worst) = worst else {
            // What was not measured meets no bar.
            outcome.are_met &= bound.is_none();
            continue;
        };
        let (ratio, call) = (worst.ratio(), call(&worst.case));
        let is_met = bound.is_none_or(|bound| ratio <= bound);
        outcome.are_met &= is_met;
        outcome.lines.push(format!(
            "# {}: at worst {ratio:.2} times the next larger power of two ({call}, {}){}",
            of.name,
            worst.placement.name(),
            verdict(bound.map(|bound| format!("at most {bound:.2}")), is_met)
        ));
    }
}

fn power_line(one: &PowerComparison, bound: Option<f64>) -> String {
    let PowerComparison { case, power, placement, us, power_us } = one;
    let (ratio, call, placement) = (one.ratio(), call(case), placement.name());
    let bytes = power.size_bytes();
    let mark = bound.filter(|bound| ratio > *bound).map_or("", |_| "  TOO SLOW");
    format!("# {ratio:.2}  {call}, {placement}: {us:.2} us; {bytes} B: {power_us:.2} us{mark}")
}

/// For each collective, library and placement: the mean ratio and those below par, or below the
/// bar.
fn baselines(args: &BenchArgs, report: &Report, outcome: &mut Thresholds) {
    let bar = args.at_least.unwrap_or(PAR);
    let comparisons = comparisons(report, args.average);
    if args.at_least.is_some() && comparisons.is_empty() {
        outcome.are_met = false;
    }
    for comparison in comparisons {
        let Comparison { workload, placement, library, ratios } = &comparison;
        let name = report.libraries.get(*library).map_or("", |library| library.name.as_str());
        let below = comparison
            .below(bar)
            .map(|(case, ratio)| format!("{} B {ratio:.2}", case.size_bytes()));
        let below: Vec<String> = below.collect();
        let is_met = below.is_empty();
        outcome.are_met &= is_met || args.at_least.is_none();
        let least = comparison.worst().map_or(0.0, |(_, ratio)| *ratio);
        let list = if is_met { "none".to_owned() } else { below.join(", ") };
        let demand = args.at_least.map(|bar| format!("at least {bar:.2}"));
        outcome.lines.push(format!(
            "# {workload} {}, {name}: {:.2} in the geometric mean of {} sizes, at least \
             {least:.2}; below {bar:.2}: {list}{}",
            placement.name(),
            comparison.mean(),
            ratios.len(),
            verdict(demand, is_met)
        ));
    }
}

/// What was demanded, if anything, and whether it was met.
fn verdict(demand: Option<String>, is_met: bool) -> String {
    let word = if is_met { "OK" } else { "FAILED" };
    demand.map(|demand| format!("; {demand} {word}")).unwrap_or_default()
}

/// `allreduce of 1436 B, float sum, 4 B behind aligned addresses`.
fn call(case: &Case) -> String {
    let Case { workload, element, .. } = case;
    let redop = case.redop_name().map(|redop| format!(" {redop}")).unwrap_or_default();
    let offset = case.offset_bytes.filter(|offset| *offset > 0);
    let offset = offset.map(|offset| format!(", {offset} B behind aligned addresses"));
    let offset = offset.unwrap_or_default();
    format!("{workload} of {} B, {element}{redop}{offset}", case.size_bytes())
}
