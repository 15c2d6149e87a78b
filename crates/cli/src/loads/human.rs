//! Loads for people, below the lines of a proof.

use msccl_topology::cluster::ClusterLink;

use super::{Busiest, Loads};
use crate::bound::words;
use crate::bound::{Limits, title};
use crate::output::Output;
use crate::table::{Align, Table};

/// Blanks below the answer of a verdict.
const INDENT: &str = "         ";

impl Loads<'_> {
    /// Prints them; `--quiet` leaves only how far from the bound they are.
    pub fn print(&self, output: &mut Output) {
        let Loads { cluster, counted: _, classes, limits, warnings: _ } = self;
        output.detail(format_args!("on       {}", title(cluster)));
        if classes.is_empty() {
            return output.line(format_args!("{INDENT}no message crosses a link"));
        }
        self.table().lines().iter().for_each(|line| output.detail(format!("{INDENT}{line}")));
        self.verdict().iter().for_each(|line| output.line(format!("{INDENT}{line}")));
        if let Ok(Limits { bound, optimum, latency: _ }) = limits {
            let time = words::seconds_per_gb(bound.seconds_per_byte);
            output.detail(format_args!("{INDENT}bound {time}: {}", words::witness(cluster, bound)));
            let optimum = words::optimum(cluster, optimum);
            output.detail(format_args!("{INDENT}{optimum}"));
        }
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&[
            ("links", Align::Left),
            ("busiest", Align::Left),
            ("carries", Align::Right),
            ("at", Align::Right),
            ("takes", Align::Left),
        ]);
        for Busiest { place: _, link, share, seconds_per_byte } in &self.classes {
            table.row([
                link.medium.to_string(),
                self.link(link),
                words::share(*share),
                words::rate(link.rate),
                words::seconds_per_gb(*seconds_per_byte),
            ]);
        }
        table
    }

    /// How far from the bound the busiest link is.
    fn verdict(&self) -> Vec<String> {
        let Some(busiest) = self.classes.first() else { return Vec::new() };
        let Busiest { place: _, link, share, seconds_per_byte } = busiest;
        let link_name = self.link(link);
        let carries = format!("{link_name} carries {}", words::share(*share));
        let floor = words::seconds_per_gb(*seconds_per_byte);
        let limits = match &self.limits {
            Ok(limits) => limits,
            Err(why) => return vec![format!("{carries}: at least {floor}"), why.clone()],
        };
        let short = words::witness_in_short(self.cluster, &limits.bound);
        let compared = match (self.times_bound(), self.least_share(busiest)) {
            (Some(times), _) if times == 1.into() => {
                format!("{carries}; no schedule can do with less ({short})")
            }
            (_, Some(least)) => {
                let least = words::share(least);
                format!("{carries}; no schedule can do with less than {least} ({short})")
            }
            (_, None) => carries,
        };
        let times = self.times_bound().map_or(0.0, words::to_f64);
        vec![compared, format!("at least {floor}, {times:.2} times the bound")]
    }

    fn link(&self, link: &ClusterLink) -> String {
        let [from, to] = [link.from, link.to].map(|end| words::name(self.cluster, end));
        format!("{from} > {to}")
    }
}
