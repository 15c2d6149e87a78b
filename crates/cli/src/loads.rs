//! Loads for people, below the lines of a proof.

pub use msccl_pages::loads::{Busiest, Loads, LoadsJson, MachineWarning, busiest_of_media};

use crate::bound::words;
use crate::bound::{Limits, title};
use crate::output::Output;
use crate::table::{Align, Table};

/// Blanks below the answer of a verdict.
const INDENT: &str = "         ";

/// Prints them; `--quiet` leaves only how far from the bound they are.
pub fn print(loads: &Loads<'_>, output: &mut Output) {
    let Loads { cluster, counted: _, classes, limits, warnings: _ } = loads;
    output.detail(format_args!("on       {}", title(cluster)));
    if classes.is_empty() {
        return output.line(format_args!("{INDENT}no message crosses a link"));
    }
    table(loads).lines().iter().for_each(|line| output.detail(format!("{INDENT}{line}")));
    loads.in_words().iter().for_each(|line| output.line(format!("{INDENT}{line}")));
    if let Ok(Limits { bound, optimum, latency: _ }) = limits {
        let time = words::seconds_per_gb(bound.seconds_per_byte);
        output.detail(format_args!("{INDENT}bound {time}: {}", words::witness(cluster, bound)));
        let optimum = words::optimum(cluster, optimum);
        output.detail(format_args!("{INDENT}{optimum}"));
    }
}

fn table(loads: &Loads<'_>) -> Table {
    let mut table = Table::new(&[
        ("links", Align::Left),
        ("busiest", Align::Left),
        ("carries", Align::Right),
        ("at", Align::Right),
        ("takes", Align::Left),
    ]);
    for Busiest { place: _, link, share, seconds_per_byte } in &loads.classes {
        table.row([
            link.medium.to_string(),
            loads.link_name(link),
            words::share(*share),
            words::rate(link.rate),
            words::seconds_per_gb(*seconds_per_byte),
        ]);
    }
    table
}
