//! Medians and quantiles.

/// The value below which `part` of the values lie; 0 without values.
pub(super) fn quantile(values: &mut [f64], part: f64) -> f64 {
    let Some(last) = values.len().checked_sub(1) else { return 0.0 };
    let at = (part * last as f64).round() as usize;
    // There may be millions; to sort them all takes longer.
    *values.select_nth_unstable_by(at, f64::total_cmp).1
}

/// The middle value; 0 without values.
pub(super) fn median(values: &mut [f64]) -> f64 {
    quantile(values, 0.5)
}
