//! From times to ranges of sizes with one choice each.
//!
//! At a size, a choice is *as good as the best* if its median is within the tolerance of the best
//! median. The tolerance is [`ALIKE`], or more where rounds scatter more. Ranges are as long as possible: from
//! the smallest size on, that choice is taken which stays as good as the best for most sizes, then
//! the next. That gives the fewest ranges there can be, so that noise makes none. Among choices that last
//! equally long, one with staged links counts before one with direct links, which calls have only in some memory;
//! and then the one that loses least in the sum.

use super::data::{Point, Trial};
use super::field::links_of;

/// Differences of this share are no reason for a row of their own.
const ALIKE: f64 = 0.02;
/// Noise may not make worse choices than this acceptable.
const MOST: f64 = 0.10;

/// A choice for sizes that follow one another.
#[derive(Clone, PartialEq, Debug)]
pub struct Decision {
    /// The choice, as the last five columns of a tuning table.
    pub choice: String,
    /// The first point, counted from 0.
    pub first: usize,
    /// The last point.
    pub last: usize,
}

/// What serves which of `points`, whose sizes ascend; points at which nothing qualified are left out.
pub fn decide(points: &[&Point]) -> Vec<Decision> {
    let mut decisions = Vec::new();
    let mut first = 0;
    while first < points.len() {
        let longest = good(points[first]).into_iter().map(|(trial, _)| {
            let (last, loss) = reach(points, first, &trial.choice);
            (Decision { choice: trial.choice.clone(), first, last }, loss)
        });
        let best = longest.min_by(|(a, a_loss), (b, b_loss)| {
            let by_length = b.last.cmp(&a.last);
            let by_links = || links_of(&a.choice).cmp(&links_of(&b.choice));
            let by_loss = || a_loss.total_cmp(b_loss);
            let by_name = || a.choice.cmp(&b.choice);
            by_length.then_with(by_links).then_with(by_loss).then_with(by_name)
        });
        match best {
            Some((decision, _)) => {
                first = decision.last + 1;
                decisions.push(decision);
            }
            None => first += 1,
        }
    }
    decisions
}

/// The last point up to which `choice` is as good as the best from `first` on without a gap, and what it loses
/// against the best in the mean.
fn reach(points: &[&Point], first: usize, choice: &str) -> (usize, f64) {
    let losses = points[first..].iter().map_while(|point| {
        let alike = good(point);
        alike.into_iter().find(|(trial, _)| trial.choice == choice).map(|(_, loss)| loss)
    });
    let losses: Vec<f64> = losses.collect();
    let mean = losses.iter().sum::<f64>() / losses.len().max(1) as f64;
    (first + losses.len().saturating_sub(1), mean)
}

/// The trials that are as good as the best, with what they lose against it as a share.
fn good(point: &Point) -> Vec<(&Trial, f64)> {
    let ranking = point.ranking();
    let Some(&(best, best_us)) = ranking.first() else { return Vec::new() };
    let with_loss = ranking.into_iter().map(|(trial, us)| (trial, us / best_us.max(1e-9) - 1.0));
    let noise = |trial: &Trial| trial.noise().max(best.noise());
    let tolerance = |trial: &Trial| (2.0_f64 * noise(trial)).clamp(ALIKE, MOST);
    with_loss.filter(|(trial, loss)| *loss <= tolerance(trial)).collect()
}

#[cfg(test)]
mod tests {
    use msccl_runtime::Links;

    use super::super::sample_data::point;
    use super::*;

    /// Each size has a time for each of `a`, `b`, `c`; 0 is not measured. Expected is the choice for each size,
    /// `-` for none.
    #[track_caller]
    fn check(times: &[[f64; 3]], expected: &str) {
        let points: Vec<_> = times.iter().zip(10..).map(|(us, power)| point(power, us)).collect();
        let decisions = decide(&points.iter().collect::<Vec<_>>());
        let mut found = vec!["-"; times.len()];
        for Decision { choice, first, last } in &decisions {
            found[*first..=*last].fill(&choice[choice.len() - 1..]);
        }
        assert_eq!(found.concat(), expected, "{decisions:?}");
        let changes = found.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(decisions.len() <= changes + 1, "{decisions:?}");
    }

    #[test]
    fn the_fastest_is_chosen() {
        check(&[[1.0, 2.0, 3.0], [2.0, 1.0, 3.0], [3.0, 2.0, 1.0]], "abc");
        check(&[[1.0, 2.0, 3.0]], "a");
        check(&[], "");
    }

    #[test]
    fn neighbours_decide_between_those_alike() {
        // `b` is never more than 2 % behind.
        check(&[[10.0, 10.1, 0.0], [10.15, 10.0, 0.0], [10.1, 10.0, 0.0]], "bbb");
        check(&[[10.0, 10.1, 0.0], [10.1, 10.0, 0.0], [5.0, 10.0, 0.0]], "aaa");
        check(&[[10.0, 10.3, 0.0], [10.3, 10.0, 0.0]], "ab");
        // Both last equally long: the one that loses less.
        check(&[[10.0, 10.1, 11.0], [10.0, 10.1, 11.0]], "aa");
    }

    #[test]
    fn links_are_direct_only_where_it_pays() {
        let decided = |direct_us: f64| {
            let mut one = point(20, &[10.0, direct_us, 0.0]);
            let names = ["Simple staged 4 512 a", "Simple direct 4 512 a"];
            one.trials
                .iter_mut()
                .zip(names)
                .for_each(|(trial, name)| trial.choice = name.to_owned());
            links_of(&decide(&[&one])[0].choice)
        };
        assert_eq!([9.0, 9.9, 11.0].map(decided), [Links::Direct, Links::Staged, Links::Staged]);
    }

    #[test]
    fn what_is_not_measured_is_no_choice_there() {
        check(&[[1.0, 1.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]], "bba");
        check(&[[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]], "a-a");
    }

    #[test]
    fn noise_makes_more_alike_but_not_everything() {
        let mut noisy = [point(10, &[10.0, 10.5, 0.0]), point(11, &[10.5, 10.0, 0.0])];
        let choices = |points: &[Point]| decide(&points.iter().collect::<Vec<_>>()).len();
        assert_eq!(choices(&noisy), 2);
        noisy[1].trials[0].rounds_us = vec![10.5, 10.1, 10.9, 10.2, 10.8];
        assert_eq!(choices(&noisy), 1);
        noisy[1].trials[0].rounds_us = vec![20.0, 15.0, 25.0, 15.0, 25.0];
        assert_eq!(choices(&noisy), 2);
    }

    #[test]
    fn what_is_wrong_or_unchecked_is_never_chosen() {
        let mut points = [point(10, &[1.0, 2.0, 3.0])];
        points[0].trials[0].fault = Some("wrong".to_owned());
        points[0].trials[1].checked = false;
        let decisions = decide(&[&points[0]]);
        assert_eq!(
            decisions,
            [Decision { choice: "LL staged 4 512 c".to_owned(), first: 0, last: 0 }]
        );
    }
}
