//! The linear program of an all-to-all, by the simplex method with columns made on demand.
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
//! of shortest ways, so that no tree needs to be known before it is of use (Dantzig and Wolfe
//! 1960). Where it is not cheaper than those that are mixed, for no rank, the mix is the optimum,
//! and the prices are lengths that prove it.
//!
//! Numbers are floating point. Nobody has to trust them: lengths are a bound whatever they are
//! (`msccl_bounds::Theorem::Lengths`).

/// A column of the program: what is not zero, by row.
pub(super) type Column = Vec<(usize, f64)>;

/// A basis of the program, its inverse, and the values of its variables.
pub(super) struct Simplex {
    links: usize,
    rows: usize,
    /// Row by row.
    inverse: Vec<f64>,
    values: Vec<f64>,
    /// Where in the basis `T` is.
    time_row: usize,
}

/// What is taken for zero.
const ZERO: f64 = 1e-9;

impl Simplex {
    /// The basis where every rank uses one tree. `rates` has one number above 0 for each link;
    /// `trees` one column for each rank.
    pub fn new(rates: &[f64], trees: &[Column]) -> Self {
        let (links, rows) = (rates.len(), rates.len() + trees.len());
        let mut inverse = vec![0.0; rows * rows];
        (0..rows).for_each(|row| inverse[row * rows + row] = if row < links { -1.0 } else { 1.0 });
        let mut values: Vec<f64> = (0..rows).map(|row| right_side(row, links)).collect();
        (0..links).for_each(|row| values[row] = -values[row]);
        for (rank, tree) in trees.iter().enumerate() {
            for &(row, value) in tree.iter().filter(|(row, _)| *row < links) {
                inverse[row * rows + links + rank] = value;
                values[row] += value;
            }
        }
        let mut simplex = Self { links, rows, inverse, values, time_row: 0 };
        // The busiest link decides about `T`, and so all others have room.
        let time = |row: &usize| simplex.values[*row] / rates[*row];
        let busiest = (0..links).min_by(|one, other| time(one).total_cmp(&time(other)));
        simplex.time_row = busiest.unwrap_or(0);
        let column: Column = rates.iter().copied().enumerate().collect();
        let direction = simplex.direction(&column);
        simplex.pivot(simplex.time_row, &direction);
        simplex
    }

    /// `T`, up to a tiny part.
    pub fn time(&self) -> f64 {
        self.values[self.time_row]
    }

    /// Prices of links, then of ranks.
    pub fn prices(&self) -> &[f64] {
        &self.inverse[self.time_row * self.rows..][..self.rows]
    }

    /// Gives links room where their price is below 0; whether there was one.
    pub fn make_room(&mut self) -> bool {
        let prices = &self.prices()[..self.links];
        let least = (0..prices.len()).min_by(|one, other| prices[*one].total_cmp(&prices[*other]));
        match least.filter(|link| prices[*link] < -ZERO) {
            Some(link) => self.enter(&[(link, -1.0)]),
            None => false,
        }
    }

    /// Takes `column` into the mix, if that makes it faster; whether it does.
    pub fn improve(&mut self, column: &[(usize, f64)]) -> bool {
        let prices = self.prices();
        let gain: f64 = column.iter().map(|(row, value)| prices[*row] * value).sum();
        gain > ZERO * self.time() && self.enter(column)
    }

    fn enter(&mut self, column: &[(usize, f64)]) -> bool {
        let direction = self.direction(column);
        let ratio = |row: &usize| self.values[*row].max(0.0) / direction[*row];
        let candidates = (0..self.rows).filter(|row| direction[*row] > ZERO);
        // `T` leaves the basis only if all is done in no time, which no machine does.
        let candidates = candidates.filter(|row| *row != self.time_row);
        match candidates.min_by(|one, other| ratio(one).total_cmp(&ratio(other))) {
            Some(row) => {
                self.pivot(row, &direction);
                true
            }
            None => false,
        }
    }

    /// The column in terms of the basis.
    fn direction(&self, column: &[(usize, f64)]) -> Vec<f64> {
        let of = |row: &[f64]| column.iter().map(|(at, value)| row[*at] * value).sum();
        self.inverse.chunks_exact(self.rows).map(of).collect()
    }

    /// Puts what has this `direction` at the place of `row` in the basis.
    fn pivot(&mut self, row: usize, direction: &[f64]) {
        let rows = self.rows;
        let pivot = direction[row];
        let (before, rest) = self.inverse.split_at_mut(row * rows);
        let (at, after) = rest.split_at_mut(rows);
        at.iter_mut().for_each(|value| *value /= pivot);
        self.values[row] /= pivot;
        let value = self.values[row];
        let others = before.chunks_exact_mut(rows).chain(after.chunks_exact_mut(rows));
        let places = (0..rows).filter(|place| *place != row);
        for (other, place) in others.zip(places) {
            let times = direction[place];
            if times != 0.0 {
                other.iter_mut().zip(at.iter()).for_each(|(other, at)| *other -= times * at);
                self.values[place] -= times * value;
            }
        }
    }
}

/// 1 for ranks. Links get something tiny of their own, so that no two are busy to the same degree:
/// where many are, the method would go round in circles.
fn right_side(row: usize, links: usize) -> f64 {
    if row < links { -1e-7 * (1.0 + (row * 7919 % 1009) as f64 / 1009.0) } else { 1.0 }
}
