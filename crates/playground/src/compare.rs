//! Times by the cost model.

use msccl_pages::failure::{Failure, Result};
use msccl_pages::figures::{Figures, figures as figures_of, usual_sizes};
use msccl_pages::order;
use msccl_pages::verdict::words;
use serde_json::{Value, json};

use crate::draw::proved;
use crate::request::Source;
use crate::source::{machine, studied};
use crate::to_value;

/// Times of calls of the usual sizes, and what no schedule can beat.
///
/// # Errors
///
/// The file is not proved, or the machine does not fit it.
pub fn figures(source: &Source) -> Result<Value> {
    let studied = studied(source)?;
    let found = figures_of(proved(&studied.study)?, &usual_sizes(), machine(source)?)?;
    Ok(to_value(&found))
}

/// The figures of each of `sources`, or why it has none.
///
/// # Errors
///
/// There is nothing to compare.
pub fn compare(sources: &[Source]) -> Result<Value> {
    if sources.is_empty() {
        return Err(Failure::new("expected programs to compare, found none"));
    }
    let all = sources.iter().map(|source| {
        column(source)
            .unwrap_or_else(|failure| json!({ "name": source.name, "error": failure.to_string() }))
    });
    Ok(json!({ "columns": all.collect::<Vec<_>>() }))
}

fn column(source: &Source) -> Result<Value> {
    let studied = studied(source)?;
    let proved = proved(&studied.study)?;
    let Figures { assumptions, estimates, chain, loads, bound: _ } =
        figures_of(proved, &usual_sizes(), machine(source)?)?;
    let algorithm = proved.verified.algorithm();
    Ok(json!({
        "name": source.name, "title": words::subject(algorithm), "counts": words::size(algorithm),
        "order": order::cell(&proved.verified.facts().addition_orders),
        "assumptions": assumptions, "estimates": estimates, "chain": chain, "loads": loads,
    }))
}
