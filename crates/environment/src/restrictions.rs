//! What NCCL's own variables say about algorithms, protocols, threads and thread blocks, as far as
//! it is followed.
//!
//! `NCCL_ALGO` and `NCCL_PROTO` are lists of names, separated by commas; `^` in front of a list
//! means all names but these. A list is for all collectives, or for one whose name and a colon
//! stand in front. Semicolons separate lists; only the first may be for all, and what is said of a
//! collective by name wins. Case does not matter.
//!
//! A text of another form, or that leaves no protocol, is an error and counts as not set. NCCL's
//! names of algorithms that this library has not allow nothing: a list of such names alone is not
//! followed. Such a list is [`Unsupported`] and no error, since nothing is wrong with the value.
//! Users learn of both.
//!
//! Programs whose results must not depend on the size of a call pin NCCL to trees for all-reduces
//! (`NCCL_ALGO=allreduce:tree`, or `Tree` with one number of channels), since NCCL has no other way
//! to say so. That is understood as [`RequiredOrder::Flat`], unless `MSCCL_ORDER` says otherwise.

use msccl_collective::{CollectiveKind, Protocol, Rank};
use msccl_select::{Allowed, Family, Overrides, RequiredOrder};

use super::{Reader, Variable, variable};

/// A value that makes sense and is not followed, and the variable to use instead.
pub type Unsupported = String;

/// NCCL's names of algorithms, and what they are here.
const ALGORITHMS: [(&str, Option<Family>); 8] = [
    ("Ring", Some(Family::Ring)),
    ("Tree", Some(Family::Tree)),
    // Of MSCCL, which came before this library.
    ("MSCCL", Some(Family::Loaded)),
    ("CollNetDirect", None),
    ("CollNetChain", None),
    ("NVLS", None),
    ("NVLSTree", None),
    ("PAT", None),
];

/// What users should know of what was read.
pub struct Restrictions {
    /// What is not followed.
    pub unsupported: Vec<Unsupported>,
    /// Why reductions must have one order, if no variable of ours says so.
    pub order_reason: Option<String>,
}

/// Adds to `overrides` what NCCL's variables request and ours leave open, and the order that
/// reductions must have.
pub fn restrict(overrides: &mut Overrides, reader: &mut Reader<'_>) -> Restrictions {
    let (order, order_reason) = order(reader);
    overrides.order = order;
    let families =
        reader.parse(&variable::NCCL_ALGO, families).filter(|_| overrides.algorithm.is_none());
    let protocols = reader.parse(&variable::NCCL_PROTO, protocols);
    overrides.protocols = protocols.filter(|_| overrides.protocol.is_none()).unwrap_or_default();
    overrides.threads_max =
        reader.count(&variable::NTHREADS).filter(|_| overrides.threads.is_none());
    let mut unsupported = Vec::new();
    if let Some(Families { mut allowed, is_followed }) = families {
        if order_reason.is_some() {
            allowed.only(Some(CollectiveKind::AllReduce.name()), Family::ALL.to_vec());
        }
        overrides.families = allowed;
        if !is_followed {
            let why = "this library has no such algorithms";
            unsupported.push(not_followed(reader, &variable::NCCL_ALGO, why, &variable::ALGO));
        }
    }
    for least in [&variable::MIN_CTAS, &variable::MIN_NCHANNELS] {
        // One thread block is what every call has.
        let requested = reader.count::<u32>(least).filter(|least| *least > 1);
        if requested.is_some() && overrides.instances.is_none() {
            let why = "a call takes as many thread blocks as are best for its size";
            unsupported.push(not_followed(reader, least, why, &variable::INSTANCES));
        }
    }
    Restrictions { unsupported, order_reason }
}

/// The order that reductions must have, and why if no variable of ours says so.
fn order(reader: &mut Reader<'_>) -> (RequiredOrder, Option<String>) {
    match reader.parse(&variable::ORDER, |text| text.parse().ok()) {
        Some(order) => (order, None),
        None if pins_order(reader) => {
            let (theirs, ours) = (variable::NCCL_ALGO.name, variable::ORDER.name);
            let value = reader.text(&variable::NCCL_ALGO).unwrap_or_default();
            let why = format!("{theirs} is `{value}`, as for results that do not depend on sizes");
            (RequiredOrder::Flat, Some(format!("{why}; {ours}=any undoes it")))
        }
        None => (RequiredOrder::Any, None),
    }
}

/// Whether NCCL is pinned to trees for all-reduces, so that results do not depend on sizes.
fn pins_order(reader: &mut Reader<'_>) -> bool {
    let Some(text) = reader.text(&variable::NCCL_ALGO) else { return false };
    let is_ours = reader.text(&variable::ORDER).is_some() || reader.text(&variable::ALGO).is_some();
    let is_tree = |list: &List<'_>| {
        let [name] = list.names[..] else { return false };
        !list.is_exclusion && name.eq_ignore_ascii_case("tree")
    };
    let lists = lists(&text).unwrap_or_default();
    let all_reduce = Some(CollectiveKind::AllReduce.name());
    let named = lists.iter().rfind(|list| list.collective == all_reduce);
    let usual = lists.iter().find(|list| list.collective.is_none());
    !is_ours
        && match (named, usual) {
            (Some(named), _) => is_tree(named),
            (None, Some(usual)) => is_tree(usual) && pins_channels(reader),
            (None, None) => false,
        }
}

/// Whether NCCL has to take one number of channels for every call.
fn pins_channels(reader: &mut Reader<'_>) -> bool {
    let pairs = [
        (&variable::MIN_CTAS, &variable::MAX_CTAS),
        (&variable::MIN_NCHANNELS, &variable::MAX_NCHANNELS),
    ];
    pairs.into_iter().any(|(least, most)| {
        reader.text(least).is_some() && reader.text(least) == reader.text(most)
    })
}

fn not_followed(reader: &Reader<'_>, set: &Variable, why: &str, instead: &Variable) -> Unsupported {
    let (name, ours, value) = (set.name, instead.name, reader.text(set).unwrap_or_default());
    format!("{name} is `{value}`, which is not followed: {why}; {ours} chooses here")
}

fn protocols(text: &str) -> Option<Allowed<Protocol>> {
    let mut allowed = Allowed::default();
    for List { collective, is_exclusion, names } in lists(text)? {
        let named =
            names.iter().map(|name| name.parse().ok()).collect::<Option<Vec<Protocol>>>()?;
        let of = |one: &Protocol| named.contains(one) != is_exclusion;
        let these: Vec<_> = Protocol::ALL.into_iter().filter(of).collect();
        if these.is_empty() {
            return None;
        }
        allowed.only(collective, these);
    }
    Some(allowed)
}

struct Families {
    allowed: Allowed<Family>,
    /// Whether every list names something that is here.
    is_followed: bool,
}

fn families(text: &str) -> Option<Families> {
    let mut all = Families { allowed: Allowed::default(), is_followed: true };
    for List { collective, is_exclusion, names } in lists(text)? {
        let known =
            |name: &&str| ALGORITHMS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        let named = names.iter().map(|name| Some(known(name)?.1)).collect::<Option<Vec<_>>>()?;
        let of = |one: &Family| named.contains(&Some(*one)) != is_exclusion;
        let these: Vec<_> = Family::ALL.into_iter().filter(of).collect();
        match these.is_empty() {
            true => all.is_followed = false,
            false => all.allowed.only(collective, these),
        }
    }
    Some(all)
}

/// Names for one collective, or for all that have no list of their own.
struct List<'a> {
    collective: Option<&'static str>,
    is_exclusion: bool,
    names: Vec<&'a str>,
}

fn lists(text: &str) -> Option<Vec<List<'_>>> {
    let lists: Option<Vec<_>> = text.split(';').filter(|part| !part.is_empty()).map(list).collect();
    // A later list for all would undo those before it.
    lists.filter(|lists| lists.iter().skip(1).all(|list| list.collective.is_some()))
}

fn list(text: &str) -> Option<List<'_>> {
    let (collective, names) = match text.split_once(':') {
        Some((name, names)) => (Some(collective(name)?), names),
        None => (None, text),
    };
    let (is_exclusion, names) = names.strip_prefix('^').map_or((false, names), |rest| (true, rest));
    Some(List { collective, is_exclusion, names: names.split(',').collect() })
}

fn collective(name: &str) -> Option<&'static str> {
    let mut all = CollectiveKind::all(Rank(0)).into_iter().map(CollectiveKind::name);
    all.find(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the variables make of an override, which protocols and families it allows, and how much
    /// is wrong with them.
    #[track_caller]
    fn check(
        variables: &[(&str, &str)],
        allows: [&str; 2],
        unsupported: &[&str],
        value_errors: usize,
    ) {
        let lookup = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let mut reader = Reader::new(&lookup);
        let mut overrides = Overrides::default();
        let said = restrict(&mut overrides, &mut reader).unsupported;
        let found = [overrides.protocols.to_string(), overrides.families.to_string()];
        assert_eq!(found, allows, "{variables:?}");
        assert_eq!(said, unsupported, "{variables:?}");
        assert_eq!(reader.value_errors().len(), value_errors, "{variables:?}");
    }

    #[test]
    fn lists_of_protocols() {
        let check = |text, allowed, value_errors| {
            check(&[("NCCL_PROTO", text)], [allowed, "any"], &[], value_errors);
        };
        check("Simple", "Simple", 0);
        check("ll128,SIMPLE", "Simple,LL128", 0);
        check("^LL128", "Simple,LL", 0);
        check("LL,Simple;allreduce:^LL", "Simple,LL;allreduce:Simple,LL128", 0);
        check("^LL128;AllReduce:LL128;", "Simple,LL;allreduce:LL128", 0);
        check("broadcast:ll", "any;broadcast:LL", 0);
        for nonsense in [
            "LL256",
            "allreduce:",
            "everything:LL",
            "allreduce:LL;Simple",
            "^Simple,LL,LL128",
            "LL Simple",
            ";",
        ] {
            check(nonsense, "any", usize::from(nonsense != ";"));
        }
    }

    #[test]
    fn lists_of_algorithms() {
        let check = |text, allowed, unsupported: &[&str], value_errors| {
            check(&[("NCCL_ALGO", text)], ["any", allowed], unsupported, value_errors);
        };
        check("Ring", "ring", &[], 0);
        check("ring,nvls", "ring", &[], 0);
        check("MSCCL,RING,TREE", "ring,tree,loaded", &[], 0);
        check("^Tree", "ring,loaded,other", &[], 0);
        check("^NVLS,NVLSTree", "ring,tree,loaded,other", &[], 0);
        check(
            "allreduce:tree;broadcast:ring",
            "any;allreduce:ring,tree,loaded,other;broadcast:ring",
            &[],
            0,
        );
        let not_followed = |text| {
            format!(
                "NCCL_ALGO is `{text}`, which is not followed: this library has no such \
                 algorithms; MSCCL_ALGO chooses here"
            )
        };
        check("NVLS", "any", &[&not_followed("NVLS")], 0);
        let half = "allreduce:CollnetDirect;broadcast:ring";
        check(half, "any;broadcast:ring", &[&not_followed(half)], 0);
        check("allpairs", "any", &[], 1);
    }

    #[test]
    fn trees_for_all_reduces_ask_for_one_order() {
        let check = |variables: &[(&str, &str)], expected: RequiredOrder| {
            let lookup = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            let mut reader = Reader::new(&lookup);
            let (found, why) = order(&mut reader);
            assert_eq!(found, expected, "{variables:?}");
            let is_ours = variables.iter().any(|(name, _)| *name == "MSCCL_ORDER");
            let is_theirs = found != RequiredOrder::Any && !is_ours;
            assert_eq!(why.is_some(), is_theirs, "{variables:?}");
        };
        let (any, flat, tree) = (RequiredOrder::Any, RequiredOrder::Flat, RequiredOrder::Tree);
        check(&[("NCCL_ALGO", "allreduce:tree")], flat);
        check(&[("NCCL_ALGO", "ring,tree;allreduce:tree")], flat);
        check(&[("NCCL_ALGO", "allreduce:ring,tree")], any);
        check(&[("NCCL_ALGO", "allreduce:^tree")], any);
        check(&[("NCCL_ALGO", "Tree")], any);
        let one = [("NCCL_MIN_NCHANNELS", "1"), ("NCCL_MAX_NCHANNELS", "1")];
        check(&[&[("NCCL_ALGO", "Tree")][..], &one].concat(), flat);
        check(&[&[("NCCL_ALGO", "Ring")][..], &one].concat(), any);
        check(&[("NCCL_ALGO", "Tree"), ("NCCL_MIN_CTAS", "8"), ("NCCL_MAX_CTAS", "16")], any);
        check(&[("NCCL_ALGO", "allreduce:tree"), ("MSCCL_ORDER", "any")], any);
        check(&[("NCCL_ALGO", "allreduce:tree"), ("MSCCL_ORDER", "tree")], tree);
        check(&[("NCCL_ALGO", "allreduce:tree"), ("MSCCL_ALGO", "ring")], any);
        check(&[("MSCCL_ORDER", "Flat")], flat);
    }

    #[test]
    fn an_order_that_nobody_knows_is_an_error() {
        let lookup = |name: &str| (name == "MSCCL_ORDER").then(|| "ring".to_owned());
        let mut reader = Reader::new(&lookup);
        assert_eq!(order(&mut reader).0, RequiredOrder::Any);
        let [error] = reader.errors() else { panic!("{:?}", reader.errors()) };
        assert!(error.starts_with("MSCCL_ORDER is `ring`, expected `any`, `flat` or `tree`"));
    }

    #[test]
    fn least_thread_blocks_are_not_followed() {
        let ctas = "NCCL_MIN_CTAS is `16`, which is not followed: a call takes as many thread \
                    blocks as are best for its size; MSCCL_INSTANCES chooses here";
        check(&[("NCCL_MIN_CTAS", "16")], ["any"; 2], &[ctas], 0);
        let channels = ctas.replace("CTAS", "NCHANNELS");
        check(&[("NCCL_MIN_NCHANNELS", "16")], ["any"; 2], &[&channels], 0);
        check(&[("NCCL_MIN_NCHANNELS", "1")], ["any"; 2], &[], 0);
        check(&[("NCCL_MIN_NCHANNELS", "many")], ["any"; 2], &[], 1);
    }
}
