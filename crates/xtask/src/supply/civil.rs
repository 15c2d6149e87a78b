//! Dates of the Gregorian calendar as days, for ages.

/// The day `YYYY-MM-DD`, counted from the first of March of the year 0.
pub fn day(text: &str) -> Option<u64> {
    let mut parts = text.splitn(3, '-').map(str::parse::<u64>);
    let mut part = || parts.next()?.ok();
    let (year, month, day) = (part()?, part()?, part()?);
    if !(1970..10_000).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years begin in March, so that the day that only some have is their last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let before = year * 365 + year / 4 - year / 100 + year / 400;
    Some(before + (153 * month + 2) / 5 + day - 1)
}

/// The day of so many seconds after the beginning of 1970, as [`day`] counts.
pub fn day_of_seconds(seconds: u64) -> u64 {
    // 1970-01-01.
    719_468 + seconds / 86_400
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_follow_one_another() {
        assert_eq!(day("1970-01-01"), Some(day_of_seconds(0)));
        assert_eq!(day("2026-11-25"), Some(day_of_seconds(1_795_564_800)));
        let next = |one: &str, other: &str| day(one).map(|day| day + 1) == day(other);
        assert!(next("2024-02-28", "2024-02-29") && next("2024-02-29", "2024-03-01"));
        assert!(next("2026-02-28", "2026-03-01") && next("2026-12-31", "2027-01-01"));
        for nonsense in ["", "2026", "2026-13-01", "2026-00-01", "2026-01-32", "x-y-z"] {
            assert_eq!(day(nonsense), None, "{nonsense}");
        }
    }
}
