//! Corrections of clocks that messages require.

/// By how much the correction of one clock may exceed that of another:
/// `correction[ahead] - correction[behind] <= slack_ns`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Constraint {
    /// The clock whose correction is bounded above.
    pub ahead: usize,
    /// The clock that bounds it.
    pub behind: usize,
    /// The bound, in ns.
    pub slack_ns: f64,
    /// Why.
    pub origin: ConstraintOrigin,
}

/// Why a constraint holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConstraintOrigin {
    /// They are one clock.
    SameClock,
    /// Readings of clocks bound their difference.
    Reading,
    /// `ahead` sent a message that `behind` received.
    Message,
}

/// Constraints that contradict each other: clocks in a circle, each of which must be further behind
/// than the one before.
#[derive(Clone, PartialEq, Debug)]
pub struct Contradiction {
    /// The constraints of the circle.
    pub circle: Vec<Constraint>,
    /// By how much the readings must be wrong together, in ns.
    pub missing_ns: f64,
}

/// Corrections that meet the constraints.
#[derive(Clone, PartialEq, Debug)]
pub struct Tightened {
    /// What to add to each clock, in ns; nothing to the first.
    pub corrections_ns: Vec<f64>,
    /// A bound of what remains of the error of each clock against the first, in ns.
    pub errors_ns: Vec<f64>,
    /// What of the constraints could not be met together. Readings that contradict messages were
    /// given more room; messages that contradict each other were left out.
    pub contradictions: Vec<Contradiction>,
}

/// How often readings are given more room, each time twice as much.
const WIDENINGS: u32 = 30;

/// The least room that a reading is given.
const ROOM_NS: f64 = 100.0;

/// The corrections of `clocks` clocks that meet all `constraints`, in the middle of what they leave
/// open.
///
/// Shortest paths from the first clock are the greatest corrections, and those to it, negated, the
/// least; both meet all constraints, and so does their middle. A circle of negative length is a
/// contradiction (Bellman and Ford; Cormen et al., *Introduction to Algorithms*, section 24.4).
/// Every clock must be joined with the first by constraints in both directions.
pub fn tighten(clocks: usize, constraints: &[Constraint]) -> Tightened {
    let mut constraints = constraints.to_vec();
    let mut contradictions: Vec<Contradiction> = Vec::new();
    for widening in 0..=WIDENINGS {
        let paths = [Direction::From, Direction::To]
            .map(|direction| shortest_paths(clocks, &constraints, direction));
        match paths {
            [Ok(greatest), Ok(least)] => {
                let pairs = || greatest.iter().zip(&least);
                let corrections = pairs().map(|(most, least)| (most - least) / 2.0);
                let errors = pairs().map(|(most, least)| (most + least) / 2.0);
                return Tightened {
                    corrections_ns: corrections.collect(),
                    errors_ns: errors.collect(),
                    contradictions,
                };
            }
            [Err(circle), _] | [_, Err(circle)] => {
                let missing_ns = -circle.iter().map(|of| of.slack_ns).sum::<f64>();
                relax(&mut constraints, &circle, missing_ns, widening);
                contradictions.push(Contradiction { circle, missing_ns });
            }
        }
    }
    Tightened {
        corrections_ns: vec![0.0; clocks],
        errors_ns: vec![f64::INFINITY; clocks],
        contradictions,
    }
}

/// Gives the readings of a circle more room, or leaves out its tightest message if it has none.
fn relax(constraints: &mut Vec<Constraint>, circle: &[Constraint], missing_ns: f64, times: u32) {
    let readings = circle.iter().filter(|of| of.origin == ConstraintOrigin::Reading).count();
    if readings == 0 {
        let messages = circle.iter().filter(|of| of.origin == ConstraintOrigin::Message);
        let tightest = messages.min_by(|a, b| a.slack_ns.total_cmp(&b.slack_ns));
        constraints.retain(|of| Some(of) != tightest);
        return;
    }
    let room_ns = (missing_ns / readings as f64).max(ROOM_NS) * f64::from(1 + times);
    for of in constraints.iter_mut().filter(|of| circle.contains(of)) {
        if of.origin == ConstraintOrigin::Reading {
            of.slack_ns += room_ns;
        }
    }
}

/// From or to the first clock.
#[derive(Clone, Copy)]
enum Direction {
    From,
    To,
}

/// The lengths of the shortest paths between the first clock and each, or a circle of negative
/// length.
fn shortest_paths(
    clocks: usize,
    constraints: &[Constraint],
    direction: Direction,
) -> Result<Vec<f64>, Vec<Constraint>> {
    // Sums of floats that differ by less are equal.
    const EQUAL_NS: f64 = 1e-3;
    let ends = |of: &Constraint| match direction {
        Direction::From => (of.behind, of.ahead),
        Direction::To => (of.ahead, of.behind),
    };
    let mut lengths = vec![f64::INFINITY; clocks];
    let mut before: Vec<Option<usize>> = vec![None; clocks];
    lengths[0] = 0.0;
    let mut changed = None;
    for _ in 0..=clocks {
        changed = None;
        for (number, constraint) in constraints.iter().enumerate() {
            let (from, to) = ends(constraint);
            if lengths[from] + constraint.slack_ns < lengths[to] - EQUAL_NS {
                lengths[to] = lengths[from] + constraint.slack_ns;
                before[to] = Some(number);
                changed = Some(to);
            }
        }
        if changed.is_none() {
            return Ok(lengths);
        }
    }
    let Some(mut at) = changed else { return Ok(lengths) };
    let step_back = |at: usize| before[at].map(|number| (number, ends(&constraints[number]).0));
    for _ in 0..clocks {
        at = step_back(at).map_or(at, |(_, from)| from);
    }
    let (start, mut circle) = (at, Vec::new());
    while let Some((number, from)) = step_back(at) {
        circle.push(constraints[number]);
        at = from;
        if at == start || circle.len() > clocks {
            break;
        }
    }
    Err(circle)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(ahead: usize, behind: usize, slack_ns: f64) -> Constraint {
        Constraint { ahead, behind, slack_ns, origin: ConstraintOrigin::Reading }
    }

    fn message(ahead: usize, behind: usize, slack_ns: f64) -> Constraint {
        Constraint { ahead, behind, slack_ns, origin: ConstraintOrigin::Message }
    }

    #[test]
    fn readings_alone_leave_clocks_as_they_are() {
        let found = tighten(2, &[reading(0, 1, 500.0), reading(1, 0, 500.0)]);
        assert_eq!(found.corrections_ns, [0.0, 0.0]);
        assert_eq!(found.errors_ns, [0.0, 500.0]);
        assert!(found.contradictions.is_empty());
    }

    #[test]
    fn messages_tighten_what_readings_leave_open() {
        // The clock of 1 is really 400 ns behind: its messages from 0 seem to come too early.
        let constraints = [
            reading(0, 1, 1000.0),
            reading(1, 0, 1000.0),
            message(0, 1, -300.0),
            message(1, 0, 500.0),
        ];
        let found = tighten(2, &constraints);
        assert_eq!(found.corrections_ns, [0.0, 400.0]);
        assert_eq!(found.errors_ns, [0.0, 100.0]);
        assert!(found.contradictions.is_empty());
    }

    #[test]
    fn paths_over_other_clocks_count() {
        let far = 1e9;
        let constraints = [
            reading(0, 1, far),
            reading(1, 0, far),
            reading(0, 2, far),
            reading(2, 0, far),
            message(0, 1, -100.0),
            message(1, 2, -100.0),
            message(2, 0, 240.0),
        ];
        let found = tighten(3, &constraints);
        assert_eq!(found.corrections_ns, [0.0, 120.0, 220.0]);
        assert!(found.errors_ns.iter().all(|error| *error <= 20.0), "{found:?}");
    }

    #[test]
    fn contradictions_are_named_and_messages_win() {
        let constraints = [
            reading(0, 1, 100.0),
            reading(1, 0, 100.0),
            message(0, 1, -900.0),
            message(1, 0, 950.0),
        ];
        let found = tighten(2, &constraints);
        assert_eq!(found.contradictions.len(), 1);
        assert!((found.contradictions[0].missing_ns - 800.0).abs() < 1.0, "{found:?}");
        let correction = found.corrections_ns[1];
        assert!((900.0..=950.0).contains(&correction), "{found:?}");
    }

    #[test]
    fn messages_that_contradict_each_other_do_not_hang() {
        let constraints =
            [reading(0, 1, 10.0), reading(1, 0, 10.0), message(0, 1, -900.0), message(1, 0, 100.0)];
        let found = tighten(2, &constraints);
        assert!(!found.contradictions.is_empty());
        assert!(found.corrections_ns.iter().all(|it| it.is_finite()), "{found:?}");
    }
}
