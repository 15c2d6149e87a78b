//! When every step of a call runs, by the cost model, and what holds the call up.
//!
//! [`timeline`](timeline()) runs a [`Workload`] and keeps what each thread block of the first
//! instance does: since when it had nothing to do, when its step began, when it ended, and for what
//! it waited. [`text`] and [`svg`] draw it.
//!
//! The figures are estimates for comparing schedules, not measurements.

mod critical;
mod svg;
mod text;

use msccl_topology::cluster::Cluster;

use crate::model::{Estimate, Rates, Row, Span, Untimed, Workload, trace};

pub use critical::path as critical_path;
pub use svg::svg;
pub use text::text;

/// What every thread block does when.
#[derive(Clone, PartialEq, Debug)]
pub struct Timeline {
    /// Name of the algorithm.
    pub name: String,
    /// Size of the call, in bytes.
    pub bytes: u64,
    /// What the estimate assumes: the machine, and where its rates are from.
    pub assumptions: String,
    /// How the call runs.
    pub service: String,
    /// The thread blocks of the first instance, in the order of ranks.
    pub rows: Vec<Row>,
    /// How often the program runs.
    pub rounds: u64,
    /// Rounds that the rows show; the others are like the last of them.
    pub shown_rounds: u64,
    /// Until when the rows show the call, in µs.
    pub shown_us: f64,
    /// From one such call to the next in a graph, in µs.
    pub total_us: f64,
    /// The steps of which each waits for the one before, to the last one of what is shown.
    pub critical: Vec<Span>,
    /// The link that is busy for the largest part of the time, if anything is sent.
    pub busiest: Option<Busiest>,
}

/// The busiest link of a cluster.
#[derive(Clone, PartialEq, Debug)]
pub struct Busiest {
    /// From and to which vertex it leads.
    pub link: String,
    /// Its part of the time of the call, from 0 to 1.
    pub share: f64,
}

/// What a timeline is about.
#[derive(Clone, PartialEq, Debug)]
pub struct Subject {
    /// Name of the algorithm.
    pub name: String,
    /// Size of the call, in bytes.
    pub bytes: u64,
    /// What the estimate assumes.
    pub assumptions: String,
    /// How the call runs.
    pub service: String,
}

impl Timeline {
    /// `ring, 1048576 bytes: 53.2 µs`.
    fn title(&self) -> String {
        format!("{}, {} bytes: {:.1} µs", self.name, self.bytes, self.total_us)
    }
}

/// The timeline of `workload`.
///
/// # Errors
///
/// The thread blocks come to a standstill.
pub fn timeline(
    subject: Subject,
    workload: &Workload,
    rates: &Rates,
    cluster: &Cluster,
) -> Result<Timeline, Untimed> {
    let (estimate, rows) = trace(workload, rates)?;
    let ends = rows.iter().flat_map(|row| row.spans.last());
    let shown_us = ends.map(|span| span.end_us).fold(0.0, f64::max);
    let critical = critical::path(&rows);
    let busiest = busiest(&estimate, cluster);
    let Estimate { total_us, rounds, link_bytes: _ } = estimate;
    let Subject { name, bytes, assumptions, service } = subject;
    Ok(Timeline {
        name,
        bytes,
        assumptions,
        service,
        rows,
        rounds: workload.rounds().into(),
        shown_rounds: rounds.into(),
        shown_us,
        total_us,
        critical,
        busiest,
    })
}

/// The link that is busy longest.
pub fn busiest(estimate: &Estimate, cluster: &Cluster) -> Option<Busiest> {
    let loaded = cluster.links().iter().zip(&estimate.link_bytes);
    let times = loaded.map(|(link, bytes)| (bytes / link.rate.gb_per_s() / 1000.0, link));
    let (us, link) = times.reduce(|most, next| if next.0 > most.0 { next } else { most })?;
    let share = us / estimate.total_us;
    (us > 0.0).then(|| Busiest { link: cluster.link_name(link), share })
}
