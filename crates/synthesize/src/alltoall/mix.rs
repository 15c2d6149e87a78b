//! The linear program of an all-to-all.
//!
//! Let `c(e)` be the rate of link `e`. Rank `s` mixes trees, in each of which a way leads from `s`
//! to every other rank; `load(e, j)` ways of tree `j` take link `e`. The program is
//!
//! ```text
//! minimise T   where   c(e)·T − Σ load(e, j)·part(j) ≥ 0   for every link e
//!                      Σ part(j) over the trees j of s = 1  for every rank s
//!                      part(j) ≥ 0
//! ```
//!
//! `T` is the time in which the busiest link carries one block for each pair of ranks.
//!
//! Prices of links are its dual solution. The tree of `s` that is cheapest at these prices is that
//! of shortest ways. Where it is not cheaper than those that are mixed, for no rank, the mix is the
//! optimum, and the prices are lengths that prove it (`msccl_bounds::Theorem::Lengths`).

use crate::simplex::{Column, Row, Simplex, ZERO, tiny};

/// A solution, on its way to the optimum.
pub(super) struct Mix {
    links: usize,
    simplex: Simplex<()>,
}

impl Mix {
    /// Every rank uses one tree. `rates` has one number above 0 for each link; `trees` one column
    /// for each rank.
    pub fn new(rates: &[f64], trees: &[Column]) -> Self {
        let links = rates.len();
        let link = |at| Row { right: -tiny(at), sign: -1.0, cost: 0.0, label: () };
        let rank = |_| Row { right: 1.0, sign: 1.0, cost: 0.0, label: () };
        let rows: Vec<Row<()>> = (0..links).map(link).chain(trees.iter().map(rank)).collect();
        let mut simplex = Simplex::new(&rows);
        for (rank, tree) in trees.iter().enumerate() {
            simplex.replace(links + rank, tree, 0.0, ());
        }
        // The busiest link decides about `T`, and so all others have room.
        let time = |row: &usize| simplex.values()[*row] / rates[*row];
        let busiest = (0..links).min_by(|one, other| time(one).total_cmp(&time(other)));
        let column: Column = rates.iter().copied().enumerate().collect();
        simplex.replace(busiest.unwrap_or(0), &column, 1.0, ());
        Self { links, simplex }
    }

    /// `T`, up to a tiny part.
    pub fn time(&self) -> f64 {
        self.simplex.cost()
    }

    /// Prices of links, then of ranks.
    pub fn prices(&self) -> &[f64] {
        self.simplex.prices()
    }

    /// Gives links room where their price is below 0; whether there was one.
    pub fn make_room(&mut self) -> bool {
        let prices = &self.prices()[..self.links];
        let least = (0..prices.len()).min_by(|one, other| prices[*one].total_cmp(&prices[*other]));
        match least.filter(|link| prices[*link] < -ZERO) {
            Some(link) => self.simplex.enter(&[(link, -1.0)], 0.0, ()),
            None => false,
        }
    }

    /// Takes `column` into the mix, if that makes it faster; whether it does.
    pub fn improve(&mut self, column: &[(usize, f64)]) -> bool {
        self.simplex.gain(column, 0.0) > ZERO * self.time() && self.simplex.enter(column, 0.0, ())
    }
}
