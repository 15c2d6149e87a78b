//! Searches that begin where what is looked for should be.

/// How many of `items` come first, which `is_first` says: it holds for those at the front, and for
/// no others. Fastest if these are not many more than `near`, however many items there are.
pub(super) fn count_first<T>(items: &[T], near: usize, is_first: impl Fn(&T) -> bool) -> usize {
    let (before, behind) = items.split_at(near.min(items.len()));
    if before.last().is_some_and(|last| !is_first(last)) {
        return before.partition_point(is_first);
    }
    let mut width = 1;
    while behind.get(width - 1).is_some_and(&is_first) {
        width *= 2;
    }
    before.len() + behind[..behind.len().min(width)].partition_point(is_first)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::count_first;

    #[test]
    fn it_counts_wherever_the_search_begins() {
        let items: Vec<u32> = (0..40).map(|number| number / 3).collect();
        for bound in 0..15 {
            let count = items.partition_point(|item| *item < bound);
            for near in 0..50 {
                assert_eq!(count_first(&items, near, |item| *item < bound), count);
            }
        }
        assert_eq!(count_first(&[0; 0], 1, |_| true), 0);
    }

    #[test]
    fn what_is_near_is_found_soon() {
        let items: Vec<u32> = (0..1 << 20).collect();
        let looks = Cell::new(0);
        let found = count_first(&items, 500_000, |item| {
            looks.set(looks.get() + 1);
            *item < 500_003
        });
        assert_eq!(found, 500_003);
        assert!(looks.get() < 10);
    }
}
