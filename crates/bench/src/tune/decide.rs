//! From times to ranges of sizes with one choice each.
//!
//! At a size, the [`Rule`] says which choices are best and alike. Ranges are as long as possible:
//! from the smallest size on, that choice is taken which stays among the best for most sizes, then
//! the next. That gives the fewest ranges there can be, so that noise makes none. Among choices
//! that last equally long, one with staged links counts before one with other links, which calls
//! have only in some memory; and then the one that loses least in the sum.

use super::candidates::links_of;
use super::columns::behind;
use super::data::TunePoint;
use super::rule::Rule;

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

/// What serves which of `points` by `rule`, whose sizes ascend; points at which nothing qualified
/// are left out.
pub fn decide(points: &[&TunePoint], rule: &Rule) -> Vec<Decision> {
    let mut decisions = Vec::new();
    let mut first = 0;
    while first < points.len() {
        let longest = rule.best(points[first]).into_iter().map(|(trial, _)| {
            let (last, loss) = last_served(&points[first..], rule, &trial.choice);
            let last = first + last;
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

/// What serves each of `points`.
pub(super) fn by_point<'a>(
    points: &[&TunePoint],
    decisions: &'a [Decision],
) -> Vec<Option<&'a str>> {
    let serves = |at: usize, of: &&Decision| (of.first..=of.last).contains(&at);
    let of_one = |at| decisions.iter().find(|of| serves(at, of)).map(|of| of.choice.as_str());
    (0..points.len()).map(of_one).collect()
}

/// Why `choice` serves at `point`, in a phrase.
pub(super) fn why(point: &TunePoint, rule: &Rule, choice: &str) -> String {
    let ranking = point.ranking();
    let found = ranking.iter().find(|(trial, _)| trial.choice == choice);
    let (Some((fastest, fastest_us)), Some((chosen, us))) = (ranking.first(), found) else {
        return String::new();
    };
    let loss = behind(*us, *fastest_us);
    match (fastest.blocks, chosen.blocks) {
        _ if fastest.choice == choice => "fastest".to_owned(),
        (Some(more), Some(fewer)) if fewer < more => {
            let limit = rule.blocks_max.filter(|most| more > *most);
            let limit = limit.map(|most| format!(", at most {most} are allowed"));
            format!("{loss} with {fewer} blocks instead of {more}{}", limit.unwrap_or_default())
        }
        _ => format!("{loss}, alike over more sizes"),
    }
}

/// The last of `points` up to which `choice` is among the best without a gap, and what it loses
/// against the fastest of them in the mean.
fn last_served(points: &[&TunePoint], rule: &Rule, choice: &str) -> (usize, f64) {
    let losses = points.iter().map_while(|point| {
        let best = rule.best(point);
        best.into_iter().find(|(trial, _)| trial.choice == choice).map(|(_, loss)| loss)
    });
    let losses: Vec<f64> = losses.collect();
    let mean = losses.iter().sum::<f64>() / losses.len().max(1) as f64;
    (losses.len().saturating_sub(1), mean)
}

#[cfg(test)]
mod tests {
    use msccl_runtime::Links;

    use super::super::sample_data::{point, point_with};
    use super::*;

    fn usual(points: &[&TunePoint]) -> Vec<Decision> {
        decide(points, &Rule::default())
    }

    /// Each size has a time for each of `a`, `b`, `c`; 0 is not measured. Expected is the choice
    /// for each size, `-` for none.
    #[track_caller]
    fn check(times: &[[f64; 3]], expected: &str) {
        let points: Vec<_> = times.iter().zip(10..).map(|(us, power)| point(power, us)).collect();
        let decisions = usual(&points.iter().collect::<Vec<_>>());
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
            links_of(&usual(&[&one])[0].choice)
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
        let choices = |points: &[TunePoint]| usual(&points.iter().collect::<Vec<_>>()).len();
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
        let decisions = usual(&[&points[0]]);
        assert_eq!(
            decisions,
            [Decision { choice: "LL staged 4 512 c".to_owned(), first: 0, last: 0 }]
        );
    }

    #[test]
    fn reasons_are_given() {
        let point = point_with(&[(100.0, 128), (102.0, 32), (100.5, 128)]);
        let reason =
            |rule: Rule, name: char| why(&point, &rule, &format!("LL staged 4 512 {name}"));
        let rule = Rule::default();
        assert_eq!(reason(rule, 'a'), "fastest");
        assert_eq!(reason(rule, 'b'), "+2.0% with 32 blocks instead of 128");
        assert_eq!(reason(rule, 'c'), "+0.5%, alike over more sizes");
        let limited = Rule { blocks_max: Some(64), ..rule };
        let expected = "+2.0% with 32 blocks instead of 128, at most 64 are allowed";
        assert_eq!(reason(limited, 'b'), expected);
        assert_eq!(reason(rule, 'z'), "");
    }
}
