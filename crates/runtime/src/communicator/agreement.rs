//! Whether ranks that join have the same settings, since each chooses for itself what serves a
//! call.

use msccl_collective::Rank;
use msccl_fabric::Group;
use msccl_registry::Registry;
use msccl_select::{Overrides, RequiredOrder};

use crate::error::Error;
use crate::settings::Settings;

/// Makes sure that all ranks loaded the same files and have the same overrides, since each decides
/// for itself what serves a call; and that nothing is `unmet`, or known to be so before, on a rank
/// that is strict, and no rank has errors.
pub(super) fn exchange_settings(
    group: &Group,
    registry: &Registry,
    settings: &Settings,
    unmet: &[String],
) -> Result<(), Error> {
    let Overrides {
        algorithm,
        families,
        protocol,
        protocols,
        links,
        cta_policy,
        blocks_max,
        instances,
        threads,
        threads_max,
        order,
    } = &settings.overrides;
    let or_any = |value: Option<String>| value.unwrap_or_else(|| "any".to_owned());
    let tuning = settings.tuning.as_ref().map(|of| of.fingerprint(registry.loaded()));
    let mine = format!(
        "loaded algorithms {}, algorithm {}, families {families}, protocol {}, protocols \
         {protocols}, links {}, CTA policy {cta_policy}, instances {}, threads {}, threads at most \
         {}, order of additions {order}, thread blocks {}, tuning table {}",
        registry.fingerprint(),
        or_any(algorithm.clone()),
        or_any(protocol.map(|of| of.to_string())),
        or_any(links.map(|of| of.to_string())),
        or_any(instances.map(|of| of.to_string())),
        or_any(threads.map(|of| of.to_string())),
        or_any(threads_max.map(|of| of.to_string())),
        or_any(blocks_max.map(|of| of.to_string())),
        tuning.map_or_else(|| "shipped".to_owned(), |of| format!("{of:016x}")),
    );
    let strictly = settings.unmet.iter().chain(unmet).filter(|_| settings.strict);
    let lines: Vec<&str> = strictly.map(String::as_str).collect();
    let own =
        RankSettings { mine: &mine, unmet: &lines.join("\n"), errors: &settings.errors.join("\n") };
    let all = group.all_gather(own.to_text().as_bytes())?;
    let all: Vec<_> = all.iter().map(|bytes| String::from_utf8_lossy(bytes)).collect();
    let all: Vec<_> = all.iter().map(|text| RankSettings::from_text(text)).collect();
    without_errors(&all.iter().map(|of| of.errors).collect::<Vec<_>>())?;
    let other = all.iter().enumerate().find(|(_, theirs)| theirs.mine != mine);
    if let Some((rank, RankSettings { mine: theirs, .. })) = other {
        let (me, rank) = (group.rank(), Rank::from(rank));
        return Err(Error::invalid_usage(format!(
            "ranks have different settings: {me}: {mine}; {rank}: {theirs}; set the \
             same environment variables, the same files of algorithms, the same tuning table and \
             the same limit of thread blocks on all ranks"
        )));
    }
    loaded_in_order(registry, *order)?;
    strictly_met(&all.iter().map(|of| of.unmet).collect::<Vec<_>>())
}

/// What a rank says of its settings.
struct RankSettings<'a> {
    /// What must be equal on all ranks.
    mine: &'a str,
    /// Requests without effect on a strict rank, a line each.
    unmet: &'a str,
    /// What must not be done without, a line each.
    errors: &'a str,
}

/// What stands between the parts.
const BETWEEN: char = '\0';

impl<'a> RankSettings<'a> {
    fn to_text(&self) -> String {
        let Self { mine, unmet, errors } = self;
        format!("{mine}{BETWEEN}{unmet}{BETWEEN}{errors}")
    }

    fn from_text(text: &'a str) -> Self {
        let mut parts = text.splitn(3, BETWEEN);
        let mut part = || parts.next().unwrap_or_default();
        Self { mine: part(), unmet: part(), errors: part() }
    }
}

/// Makes sure that no rank lacks what it must not do without; `errors` has the lines of each.
fn without_errors(errors: &[&str]) -> Result<(), Error> {
    let found = first_of(errors);
    found.map_or(Ok(()), |found| {
        Err(Error::invalid_argument(format!("{}{}", found.lines, found.place)))
    })
}

/// Makes sure that nothing is unmet on any rank; `unmet` has the lines of each.
fn strictly_met(unmet: &[&str]) -> Result<(), Error> {
    let Some(Found { lines, place }) = first_of(unmet) else { return Ok(()) };
    Err(Error::invalid_argument(format!(
        "not as requested{place}, and MSCCL_STRICT is set: {lines}"
    )))
}

/// The lines of a rank, joined, and where they are so: nothing if on all ranks.
struct Found {
    lines: String,
    place: String,
}

/// What the first rank says that has lines at all.
fn first_of(lines: &[&str]) -> Option<Found> {
    let (rank, found) = lines.iter().enumerate().find(|(_, lines)| !lines.is_empty())?;
    let everywhere = lines.iter().all(|of| of == found);
    let place = if everywhere { String::new() } else { format!(" on {}", Rank::from(rank)) };
    Some(Found { lines: found.replace('\n', "; "), place })
}

/// Whether every loaded algorithm adds in the order that reductions must have: one that does not
/// would never serve, though the user asks for it.
pub(super) fn loaded_in_order(registry: &Registry, order: RequiredOrder) -> Result<(), Error> {
    let ranks = registry.shape().ranks;
    let refused = registry.loaded().iter().find_map(|entry| {
        let why = order.refuses(&entry.verified.facts().addition_orders, ranks)?;
        Some(format!("{} cannot be used: {why}", entry.name))
    });
    match refused {
        None => Ok(()),
        Some(text) => {
            Err(Error::invalid_usage(format!("{text}; remove the file, or set MSCCL_ORDER=any")))
        }
    }
}
