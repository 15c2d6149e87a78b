//! Logarithmic axes: from values to pixels, and where the ticks are.

/// A logarithmic axis.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Axis {
    low: f64,
    high: f64,
    from_px: f64,
    to_px: f64,
}

impl Axis {
    /// An axis that shows all `values` above zero between two pixels; `None` if there are none.
    pub(crate) fn showing(
        values: impl Iterator<Item = f64>,
        from_px: f64,
        to_px: f64,
    ) -> Option<Self> {
        let shown = values.filter(|value| *value > 0.0 && value.is_finite());
        let (low, high) =
            shown.fold((f64::MAX, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        // One value alone stands in the middle.
        let (low, high) = if low < high { (low, high) } else { (low / 2.0, high * 2.0) };
        (high > 0.0).then_some(Self { low, high, from_px, to_px })
    }

    /// Where `value` is; zero and less are at the beginning.
    pub(crate) fn px(&self, value: f64) -> f64 {
        let Self { low, high, from_px, to_px } = *self;
        let share = (value.max(low) / low).ln() / (high / low).ln();
        from_px + share * (to_px - from_px)
    }

    /// Powers of 4 on the axis.
    pub(crate) fn sizes(&self) -> Vec<f64> {
        let powers = (0..32).map(|power| 4_f64.powi(power));
        powers.filter(|value| self.shows(*value)).collect()
    }

    /// 1, 2 and 5 of every power of 10 on the axis, or the powers alone if those are many.
    pub(crate) fn decades(&self) -> Vec<f64> {
        let is_long = self.high / self.low > 3000.0;
        let parts: &[f64] = if is_long { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let powers = (-6..9).map(|power| 10_f64.powi(power));
        let values = powers.flat_map(|power| parts.iter().map(move |part| part * power));
        values.filter(|value| self.shows(*value)).collect()
    }

    fn shows(&self, value: f64) -> bool {
        (self.low * 0.999..=self.high * 1.001).contains(&value)
    }
}

/// A size in bytes, short.
pub(crate) fn size_label(bytes: f64) -> String {
    let units = [("G", 30), ("M", 20), ("K", 10)];
    let unit = units.into_iter().find(|(_, shift)| bytes >= f64::from(1_u32 << shift));
    match unit {
        Some((unit, shift)) => format!("{:.0}{unit}", bytes / f64::from(1_u32 << shift)),
        None => format!("{bytes:.0}"),
    }
}

/// A number without needless zeros.
pub(crate) fn number_label(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lie_between_the_ends() {
        let axis = Axis::showing([1.0, 100.0, 0.0].into_iter(), 0.0, 200.0).unwrap();
        assert_eq!(
            [1.0, 10.0, 100.0, 0.0].map(|value| axis.px(value).round()),
            [0., 100., 200., 0.]
        );
        assert!(Axis::showing([0.0].into_iter(), 0.0, 1.0).is_none());
        assert_eq!(Axis::showing([8.0].into_iter(), 0.0, 10.0).unwrap().px(8.0).round(), 5.0);
    }

    #[test]
    fn ticks_lie_on_the_axis() {
        let axis = Axis::showing([8.0, 1000.0].into_iter(), 0.0, 1.0).unwrap();
        assert_eq!(axis.sizes(), [16.0, 64.0, 256.0]);
        assert_eq!(axis.decades(), [10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]);
    }

    #[test]
    fn labels_are_short() {
        let sizes = [4.0, 4096.0, 1_048_576.0, 1_073_741_824.0].map(size_label);
        assert_eq!(sizes, ["4", "4K", "1M", "1G"]);
        assert_eq!([0.5, 100.0, 0.001].map(number_label), ["0.5", "100", "0.001"]);
    }
}
