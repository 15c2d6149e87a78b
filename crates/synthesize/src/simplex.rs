//! Linear programs, by the simplex method with columns made on demand.
//!
//! ```text
//! minimise Σ cost(j)·x(j)   where   Σ column(j)·x(j) = right side,   x(j) ≥ 0
//! ```
//!
//! The method keeps a basis: as many variables as there are rows, the others being zero. A price of
//! each row follows from the costs of the basis. A column that is worth more at these prices than
//! it costs makes the solution better. Columns need not be known before they are of use (Dantzig
//! and Wolfe 1960): where none that exists is worth more than it costs, the solution is the
//! optimum, and the prices are the dual solution.
//!
//! Numbers are floating point. Nobody has to trust them: what comes of them is checked in whole
//! numbers.

/// A column of the program: what is not zero, by row.
pub(crate) type Column = Vec<(usize, f64)>;

/// What is taken for zero.
pub(crate) const ZERO: f64 = 1e-9;

/// A row, and the variable that stands in no other row with which the basis begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<L> {
    /// What the row comes to.
    pub right: f64,
    /// The number of the variable in this row, 1 or -1.
    pub sign: f64,
    /// What the variable costs.
    pub cost: f64,
    /// What it is called.
    pub label: L,
}

/// A basis of the program, its inverse, and the values of its variables.
pub(crate) struct Simplex<L> {
    rows: usize,
    /// Row by row.
    inverse: Vec<f64>,
    /// By row of the inverse, as the three that follow: the values.
    values: Vec<f64>,
    costs: Vec<f64>,
    labels: Vec<L>,
    prices: Vec<f64>,
}

impl<L: Copy> Simplex<L> {
    /// The basis of the variables of `rows`. Where some of their values are below 0, columns must
    /// be put in by [`Self::replace`] until none is.
    pub fn new(rows: &[Row<L>]) -> Self {
        let count = rows.len();
        let mut inverse = vec![0.0; count * count];
        rows.iter().enumerate().for_each(|(at, row)| inverse[at * count + at] = row.sign);
        Self {
            rows: count,
            inverse,
            values: rows.iter().map(|row| row.sign * row.right).collect(),
            costs: rows.iter().map(|row| row.cost).collect(),
            labels: rows.iter().map(|row| row.label).collect(),
            prices: rows.iter().map(|row| row.sign * row.cost).collect(),
        }
    }

    /// What the solution costs.
    pub fn cost(&self) -> f64 {
        self.values.iter().zip(&self.costs).map(|(value, cost)| value * cost).sum()
    }

    /// Prices of rows.
    pub fn prices(&self) -> &[f64] {
        &self.prices
    }

    /// By row of the basis: the value of its variable.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The variables of the basis, with the values that they have where row `at` comes to 1 and all
    /// others to 0.
    pub fn solution_of(&self, at: usize) -> impl Iterator<Item = (L, f64)> {
        let values = self.inverse.chunks_exact(self.rows).map(move |row| row[at]);
        self.labels.iter().copied().zip(values)
    }

    /// What `column` is worth at the prices, less than what it costs.
    pub fn gain(&self, column: &[(usize, f64)], cost: f64) -> f64 {
        column.iter().map(|(row, value)| self.prices[*row] * value).sum::<f64>() - cost
    }

    /// Takes `column` into the basis; whether that is possible.
    pub fn enter(&mut self, column: &[(usize, f64)], cost: f64, label: L) -> bool {
        let direction = self.direction(column);
        let ratio = |row: &usize| self.values[*row].max(0.0) / direction[*row];
        let candidates = (0..self.rows).filter(|row| direction[*row] > ZERO);
        let row = candidates.min_by(|one, other| ratio(one).total_cmp(&ratio(other)));
        match row {
            Some(row) => {
                self.pivot(row, &direction, self.gain(column, cost));
                (self.costs[row], self.labels[row]) = (cost, label);
                true
            }
            None => false,
        }
    }

    /// Puts `column` in the place of what the basis has at `row`.
    pub fn replace(&mut self, row: usize, column: &[(usize, f64)], cost: f64, label: L) {
        let direction = self.direction(column);
        self.pivot(row, &direction, self.gain(column, cost));
        (self.costs[row], self.labels[row]) = (cost, label);
    }

    /// The column in terms of the basis.
    fn direction(&self, column: &[(usize, f64)]) -> Vec<f64> {
        let of = |row: &[f64]| column.iter().map(|(at, value)| row[*at] * value).sum();
        self.inverse.chunks_exact(self.rows).map(of).collect()
    }

    /// Puts what has this `direction` and `gain` at the place of `row` in the basis.
    fn pivot(&mut self, row: usize, direction: &[f64], gain: f64) {
        let rows = self.rows;
        let pivot = direction[row];
        let (before, rest) = self.inverse.split_at_mut(row * rows);
        let (at, after) = rest.split_at_mut(rows);
        at.iter_mut().for_each(|value| *value /= pivot);
        self.values[row] /= pivot;
        self.prices.iter_mut().zip(at.iter()).for_each(|(price, at)| *price -= gain * at);
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

/// Something tiny for row `at`, for right sides: where many variables are zero at once, the method
/// would go round in circles.
pub(crate) fn tiny(at: usize) -> f64 {
    1e-7 * (1.0 + (at * 7919 % 1009) as f64 / 1009.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of two machines with 4 and 6 hours, products take 1 and 3, or 2 and 1, and bring 3 and 2.
    #[test]
    fn the_optimum_and_its_prices_are_found() {
        let row = |right, label| Row { right, sign: 1.0, cost: 0.0, label };
        let mut simplex = Simplex::new(&[row(4.0, "idle"), row(6.0, "idle")]);
        let products =
            [("one", vec![(0, 1.0), (1, 3.0)], -3.0), ("other", vec![(0, 2.0), (1, 1.0)], -2.0)];
        while let Some((label, column, cost)) =
            products.iter().find(|(_, column, cost)| simplex.gain(column, *cost) > ZERO)
        {
            assert!(simplex.enter(column, *cost, label));
        }
        // 8/5 of one and 6/5 of the other.
        assert!((simplex.cost() + 36.0 / 5.0).abs() < 1e-9);
        let prices = simplex.prices();
        assert!((prices[0] * 4.0 + prices[1] * 6.0 - simplex.cost()).abs() < 1e-9);
        let hour: f64 = simplex
            .solution_of(0)
            .map(|(label, value)| match label {
                "one" => -3.0 * value,
                "other" => -2.0 * value,
                _ => 0.0,
            })
            .sum();
        assert!((hour - prices[0]).abs() < 1e-9);
    }
}
