//! Whole numbers in given proportions.

/// Largest numbers that are tried for proportions.
const DENOMINATORS_MAX: u32 = 5040;
/// How far from a whole number a scaled one may be, as part of the largest.
const CLOSE: f64 = 1e-8;
/// The largest number, if there is no small one.
pub(crate) const LARGEST: u32 = 1 << 20;

/// The least whole number for the largest of `parts` with which all are whole.
pub(crate) fn common_denominator(parts: &[f64]) -> Option<u32> {
    let largest = largest(parts);
    let is_whole = |scale: f64| {
        let mut scaled = parts.iter().map(|part| part / largest * scale);
        scaled.all(|it| (it - it.round()).abs() < CLOSE * scale.max(1.0))
    };
    (1..=DENOMINATORS_MAX).find(|denominator| is_whole(f64::from(*denominator)))
}

/// The nearest whole numbers if the largest of `parts` is to be `largest_of_whole`.
pub(crate) fn whole(parts: &[f64], largest_of_whole: u32) -> Vec<u32> {
    let largest = largest(parts);
    let scaled = parts.iter().map(|part| part / largest * f64::from(largest_of_whole));
    scaled.map(|part| part.round() as u32).collect()
}

fn largest(parts: &[f64]) -> f64 {
    parts.iter().copied().fold(f64::MIN_POSITIVE, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_become_small_whole_numbers() {
        assert_eq!(common_denominator(&[0.25, 0.5, 0.0, 1.0 / 12.0]), Some(6));
        assert_eq!(whole(&[0.25, 0.5, 0.0, 1.0 / 12.0], 6), [3, 6, 0, 1]);
        assert_eq!(common_denominator(&[1.0, std::f64::consts::FRAC_1_SQRT_2]), None);
    }
}
