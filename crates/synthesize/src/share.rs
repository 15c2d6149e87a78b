//! Which pair of GPUs gets how much of the links that it shares with others.
//!
//! First every pair gets an even share, which is what symmetric machines need and keeps trees low.
//! Where that does not suffice, pairs get, one after the other, as much as leaves enough for all
//! GPUs. That is edge splitting (Bang-Jensen, Frank and Jackson 1995) for the routes that messages
//! take. It finds an optimum where every way through switches is the route of some pair, and may
//! miss it elsewhere; the result is tested, so that what is returned suffices.

use crate::mixed::{Demand, Mixed};
use crate::network::Network;
use crate::time_limit::TimeLimit;

/// Capacity for each pair, or `None` if none was found that suffices for `demand`.
pub(crate) fn share(
    network: &Network,
    demand: &Demand,
    links: &[u64],
    effort: Effort,
    limit: TimeLimit,
) -> Option<Vec<u64>> {
    if !Mixed::new(network, demand, links.to_vec(), limit).suffices() {
        return None;
    }
    let even = even_shares(network, links);
    if Mixed::only_pairs(network, demand, even.clone(), limit).suffices() {
        return Some(even);
    }
    match effort {
        Effort::Even => None,
        Effort::Exact => by_splitting(network, demand, links, &even, limit),
    }
}

/// How much is tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effort {
    /// Even shares alone.
    Even,
    /// Then pair by pair.
    Exact,
}

/// Every pair gets as much as every other one until a link of its route has nothing left; what
/// remains goes out unit by unit.
fn even_shares(network: &Network, links: &[u64]) -> Vec<u64> {
    let mut left = links.to_vec();
    let mut shares = vec![0; network.pairs.len()];
    let mut open: Vec<usize> = (0..network.pairs.len()).collect();
    while !open.is_empty() {
        let mut users = vec![0_u64; left.len()];
        let routes = open.iter().flat_map(|pair| &network.pairs[*pair].route);
        routes.for_each(|link| users[*link] += 1);
        let each = left.iter().zip(&users).filter(|(_, users)| **users > 0);
        let each = each.map(|(left, users)| left / users).min().unwrap_or(0).max(1);
        open.retain(|&pair| {
            let route = &network.pairs[pair].route;
            let fits = route.iter().all(|link| left[*link] >= each);
            if fits {
                route.iter().for_each(|link| left[*link] -= each);
                shares[pair] += each;
            }
            fits
        });
    }
    shares
}

fn by_splitting(
    network: &Network,
    demand: &Demand,
    links: &[u64],
    even: &[u64],
    limit: TimeLimit,
) -> Option<Vec<u64>> {
    let mut mixed = start(network, demand, links, even, limit);
    loop {
        let mut progress = 0;
        for pair in 0..network.pairs.len() {
            if limit.is_over() {
                return None;
            }
            progress += mixed.give_most(pair);
        }
        if progress == 0 {
            break;
        }
    }
    let pairs = mixed.pairs;
    Mixed::only_pairs(network, demand, pairs.clone(), limit).suffices().then_some(pairs)
}

/// The largest part of even shares, in eighths, that leaves enough for all GPUs.
fn start<'a>(
    network: &'a Network,
    demand: &'a Demand,
    links: &[u64],
    even: &[u64],
    limit: TimeLimit,
) -> Mixed<'a> {
    for eighths in (1..8).rev() {
        let mut mixed = Mixed::new(network, demand, links.to_vec(), limit);
        for (pair, share) in even.iter().enumerate() {
            mixed.give(pair, share * eighths / 8);
        }
        if mixed.suffices() {
            return mixed;
        }
    }
    Mixed::new(network, demand, links.to_vec(), limit)
}
