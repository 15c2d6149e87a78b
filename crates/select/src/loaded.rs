//! What was loaded and asked for, in the light of what these ranks can do: which calls a file
//! serves, and what of the user's overrides has no effect here.
//!
//! What is said of an algorithm is found by trying: one that serves none of the calls that are
//! likeliest to suit it (its smallest size, in types of one to eight bytes, in the placement that
//! it is for) serves none.

use std::fmt;
use std::sync::{MutexGuard, PoisonError};

use msccl_collective::{
    CallPlacement, CollectiveKind, DataType, Placement, Protocol, Rank, Reduction,
};
use msccl_registry::{Entry, built_in_programs};

use super::overrides::Overrides;
use super::requirements::Requirements;
use super::specialisation::SpecialiseMode;
use super::tuning::{Machine, Row, Tuning, Variant};
use super::{Selector, SelectorCache};

/// Types of every size.
const TYPES: [DataType; 4] = [DataType::F32, DataType::F16, DataType::U8, DataType::F64];

/// Names of algorithms that a message spells out.
const NAMES_MAX: usize = 4;

/// Which calls a loaded file serves. `Display` is a phrase such as `allreduce, in place and out of
/// place, all sizes`.
struct LoadedService<'a> {
    entries: &'a [Entry],
}

impl fmt::Display for LoadedService<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.entries.first() else { return Ok(()) };
        let algorithm = first.verified.algorithm();
        f.write_str(algorithm.collective.name())?;
        algorithm.collective.root().iter().try_for_each(|root| write!(f, " root {root}"))?;
        write!(f, ", {}, {}", placements(self.entries), algorithm.sizes)?;
        let chunks = algorithm.collective.chunks;
        if !first.verified.facts().serves_any_count && chunks > 1 {
            write!(f, ", counts that {chunks} divides")?;
        }
        write!(f, ", written for {}", algorithm.protocol)
    }
}

/// The placements of `entries` together, and how the other one is served where there is none for
/// it. Those of a collective with a root serve both, or nothing.
fn placements(entries: &[Entry]) -> &'static str {
    let any = |serves: fn(Placement) -> bool| {
        entries.iter().any(|entry| serves(entry.verified.algorithm().placement))
    };
    match (any(Placement::serves_in_place), any(Placement::serves_out_of_place)) {
        (true, true) => "in place and out of place",
        (true, false) => "in place, and out of place after a copy of the input",
        (false, _) => "out of place, and in place after a copy of the input",
    }
}

impl Selector {
    /// What each loaded file serves, a line each.
    pub fn services(&self) -> Vec<String> {
        let files = self.registry.loaded().chunk_by(|one, other| one.name == other.name);
        let line = |entries: &[Entry]| match entries.first() {
            Some(first) if self.limit(entries).is_none() => {
                Some(format!("verified and loaded: {}: {}", first.name, LoadedService { entries }))
            }
            Some(_) | None => None,
        };
        files.filter_map(line).collect()
    }

    /// The loaded files that can serve no call on these ranks, and why; a line each.
    pub fn idle(&self) -> Vec<String> {
        let files = self.registry.loaded().chunk_by(|one, other| one.name == other.name);
        let line = |entries: &[Entry]| {
            let (first, limit) = (entries.first()?, self.limit(entries)?);
            Some(format!("{} is verified, and can serve no call here: {limit}", first.name))
        };
        files.filter_map(line).collect()
    }

    /// Why none of `entries` can serve any call; nothing if one can.
    fn limit(&self, entries: &[Entry]) -> Option<String> {
        let mut limit = None;
        for entry in entries {
            limit = Some(self.limit_of(entry)?);
        }
        limit
    }

    fn limit_of(&self, entry: &Entry) -> Option<String> {
        let collective = &entry.verified.algorithm().collective;
        if CollectiveKind::of(&collective.kind).is_none() {
            return Some("no call asks for a collective of its own".to_owned());
        }
        let mut known = self.known();
        let mut limit = None;
        for data_type in TYPES {
            for terms in self.likely_terms(entry, data_type) {
                match self.try_one(&mut known, entry, &Variant::loaded(self.machine, entry), &terms)
                {
                    Ok(_) => return None,
                    Err(why) => limit = limit.or(Some(why.to_string())),
                }
            }
        }
        limit
    }

    /// Calls with elements of `data_type` that `entry` is likely to serve.
    fn likely_terms(&self, entry: &Entry, data_type: DataType) -> Vec<Requirements> {
        let algorithm = entry.verified.algorithm();
        let collective = &algorithm.collective;
        let chunks = u64::from(collective.chunks.max(1));
        let blocks = u64::from(collective.loop_chunks().div_ceil(collective.chunks.max(1)));
        let each = (blocks * data_type.size_bytes() as u64).max(1);
        let least = algorithm.sizes.min_bytes.div_ceil(each);
        let most = algorithm.sizes.max_bytes.map(|bytes| bytes / each);
        let whole = least.checked_next_multiple_of(chunks);
        let counts = [whole, Some(least), most].into_iter().flatten().map(|count| count.max(1));
        let reduction = collective.reduces().then_some(Reduction::Sum);
        let in_place = !algorithm.placement.serves_out_of_place();
        let placement = CallPlacement::from_in_place(in_place);
        let terms = |count: u64| {
            let bytes = count.saturating_mul(each);
            Requirements { placement, data_type, reduction, count, bytes }
        };
        counts.map(terms).collect()
    }

    /// Overrides that have no effect on these ranks, whatever is called; a line each.
    pub fn without_effect(&self, specialised: SpecialiseMode) -> Vec<String> {
        let Overrides { protocol, protocols, links, threads, threads_max, .. } = &self.overrides;
        let on_host = self.machine == Machine::Host;
        let who = if on_host { "ranks on the host" } else { "these ranks" };
        let spoken = |of: &Protocol| self.capacity.wires(*of).wires > 0;
        let all: Vec<_> = Protocol::ALL.into_iter().filter(spoken).collect();
        let names = all.iter().map(Protocol::to_string).collect::<Vec<_>>().join(" and ");
        let mut lines = Vec::new();
        if let Some(protocol) = protocol.filter(|of| !spoken(of)) {
            lines.push(format!("MSCCL_PROTO={protocol} has no effect: {who} speak {names} only"));
        }
        let mut kinds = CollectiveKind::all(Rank(0)).into_iter().map(CollectiveKind::name);
        let unspoken = |name: &str| !all.iter().any(|of| protocols.allows(name, *of));
        if protocol.is_none() && kinds.any(unspoken) {
            lines.push(format!(
                "NCCL_PROTO leaves {protocols}, which has no effect: {who} speak {names} only"
            ));
        }
        if let Some(links) = links.filter(|of| !self.capacity.has(*of)) {
            lines.push(format!("MSCCL_DIRECT asks for {links} links, and {who} have none"));
        }
        let of_gpus = [
            ("MSCCL_THREADS", threads.is_some()),
            ("NCCL_NTHREADS", threads_max.is_some()),
            ("MSCCL_SPECIALISED=2", specialised == SpecialiseMode::Compiled),
        ];
        let vain = of_gpus.into_iter().filter(|(_, is_set)| on_host && *is_set);
        lines.extend(vain.map(|(name, _)| format!("{name} has no effect on the host")));
        lines
    }

    /// What of the user's table can serve nothing on these ranks; a line at most.
    pub fn unused_rows(&self) -> Option<String> {
        let (tuning, shape) = (self.tuning.as_ref()?, self.registry.shape());
        let ours: Vec<&Row> = tuning.rows_of_shape(shape).collect();
        let (ranks, nodes) = (shape.ranks, shape.nodes());
        if ours.is_empty() {
            let name = tuning.name();
            return Some(format!("{name} has no row for {ranks} ranks on {nodes} nodes"));
        }
        let unknown: Vec<&Row> = ours.into_iter().filter(|row| !self.is_available(row)).collect();
        if unknown.is_empty() { None } else { Some(unknown_names(tuning, &unknown)) }
    }

    /// Whether what `row` names was loaded, or is built in.
    fn is_available(&self, row: &Row) -> bool {
        let of_kind =
            |entry: &&Entry| entry.verified.algorithm().collective.name() == row.collective;
        let is_loaded =
            self.registry.loaded().iter().filter(of_kind).any(|of| row.names(of.into()));
        let (algorithm, collective) = (row.choice.algorithm.as_str(), row.collective);
        let is_of_kind = algorithm.split_once('/').is_some_and(|(kind, _)| kind == collective);
        is_loaded || is_of_kind && built_in_programs().contains_key(algorithm)
    }

    fn known(&self) -> MutexGuard<'_, SelectorCache> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// That `rows` of `tuning` name what is not at hand.
fn unknown_names(tuning: &Tuning, rows: &[&Row]) -> String {
    let name = |row: &&Row| {
        format!("`{}` for {} (line {})", row.choice.algorithm, row.collective, row.line)
    };
    let mut names: Vec<_> = rows.iter().take(NAMES_MAX).map(name).collect();
    if rows.len() > NAMES_MAX {
        names.push(format!("and {} more", rows.len() - NAMES_MAX));
    }
    let (table, names) = (tuning.name(), names.join(", "));
    format!("{table} names algorithms that are neither built in nor loaded: {names}")
}
