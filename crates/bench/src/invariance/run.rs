//! Which calls are compared, and in which order.

use std::collections::BTreeMap;

use super::report::{InvarianceReport, InvarianceRow, LibraryBits};
use crate::case::Case;
use crate::piece::Piece;
use crate::placement::Placement;
use crate::process_group::ProcessGroup;
use crate::report::LibraryReport;
use crate::session::{CompareOutcome, LibrarySession, Plan, SessionObserver};

/// Buffers lie up to this far behind aligned addresses.
const OFFSET_MAX_BYTES: u64 = 60;
/// Up to this size, several offsets are tried with each algorithm.
const SMALL_MAX_BYTES: u64 = 64 << 10;
/// How many.
const OFFSETS: u64 = 4;

/// Whoever follows.
pub trait InvarianceObserver: SessionObserver {
    /// Ranks have joined, or not; calls begin.
    fn begin(&mut self, libraries: &[LibraryReport]);
    /// All calls of a size have been made.
    fn row(&mut self, row: &InvarianceRow);
}

/// Makes the calls of `plan`, which all reduce, in many ways, and compares their bits. How often
/// and how long the plan measures does not matter. With `group` there is one rank in each process.
pub fn compare_bits(
    plan: &Plan,
    group: Option<&ProcessGroup>,
    observer: &mut dyn InvarianceObserver,
) -> InvarianceReport {
    let roomy = with_offsets(plan);
    let mut sessions: Vec<LibrarySession<'_>> =
        plan.libraries.iter().map(|tested| LibrarySession::new(&roomy, group, tested)).collect();
    for session in &mut sessions {
        session.join(observer);
    }
    let reports = |sessions: &[LibrarySession<'_>]| {
        sessions.iter().map(|session| session.report.clone()).collect::<Vec<_>>()
    };
    observer.begin(&reports(&sessions));
    for whole in wholes(&plan.cases) {
        for session in &mut sessions {
            let piece = Piece { case: whole, first: 0 };
            session.compare(piece, Placement::OutOfPlace, observer);
        }
    }
    let mut rows = Vec::with_capacity(plan.cases.len());
    for (number, &case) in plan.cases.iter().enumerate() {
        let mut bits =
            |session: &mut LibrarySession<'_>| size(session, case, number as u64, observer);
        let libraries = sessions.iter_mut().map(&mut bits).collect();
        let row = InvarianceRow { case, libraries };
        observer.row(&row);
        rows.push(row);
    }
    for session in &mut sessions {
        session.leave(observer);
    }
    InvarianceReport { libraries: reports(&sessions), rows }
}

/// The plan with buffers that have room for every offset.
fn with_offsets(plan: &Plan) -> Plan {
    let at_most = |case: &Case| {
        let offset_bytes = Some(case.offset_bytes.unwrap_or(0).max(OFFSET_MAX_BYTES));
        Case { offset_bytes, ..*case }
    };
    Plan { cases: plan.cases.iter().map(at_most).collect(), ..plan.clone() }
}

/// The largest call of each type and reduction, an all-reduce if there is one.
fn wholes(cases: &[Case]) -> Vec<Case> {
    let mut largest = BTreeMap::<(&str, &str), Case>::new();
    for case in cases {
        let key = |case: &Case| {
            let Case { workload, count, ranks, .. } = case;
            (workload.blocks(*ranks).output == workload.blocks(*ranks).input, *count)
        };
        let found = largest.entry((case.element.name(), case.redop.name())).or_insert(*case);
        if key(case) > key(found) {
            *found = *case;
        }
    }
    largest.into_values().collect()
}

/// Every call of a size; `None` if the library is out.
fn size(
    session: &mut LibrarySession<'_>,
    case: Case,
    number: u64,
    observer: &mut dyn SessionObserver,
) -> Option<LibraryBits> {
    let mut bits = LibraryBits::default();
    for placement in case.workload.checked_placements() {
        let mut ways = 0;
        for (turn, choice) in (0..).zip(session.ways(case, placement, observer)) {
            // Without a choice, that ends what was pinned before.
            if session.report.reports_what_serves
                && session.pin(choice.as_deref(), observer).is_err()
            {
                continue;
            }
            ways += 1;
            let served = choice.as_deref().unwrap_or("what the library chooses");
            for piece in pieces(case, number + turn) {
                let call = || describe(&piece, placement, served);
                match session.compare(piece, placement, observer) {
                    CompareOutcome::Answered(ranks) => bits.add(&ranks, call),
                    // What is possible for such calls need not be at every offset.
                    CompareOutcome::Refused(_) if choice.is_some() => {}
                    CompareOutcome::Refused(reason) => {
                        bits.refused += 1;
                        bits.example.get_or_insert_with(|| format!("{}: {reason}", call()));
                    }
                    CompareOutcome::Out => return None,
                }
            }
        }
        bits.ways = bits.ways.max(ways);
    }
    // Whatever comes next begins with what the library chooses.
    if session.report.reports_what_serves {
        let _ = session.pin(None, observer);
    }
    (!session.is_out()).then_some(bits)
}

/// Calls of one size at several offsets, and from several elements of the whole on. An offset that
/// the user gives is the only one.
fn pieces(case: Case, number: u64) -> impl Iterator<Item = Piece> {
    let turns = if case.size_bytes() <= SMALL_MAX_BYTES { OFFSETS } else { 1 };
    let size = case.element.size_bytes();
    (0..turns).map(move |turn| {
        let number = number * OFFSETS + turn;
        let offset = number * 4 % (OFFSET_MAX_BYTES + 4);
        // Between words of four bytes lie elements of narrow types.
        let narrow = if turn % 2 == 1 { number % 4 } else { 0 };
        let offset = (offset + narrow).min(OFFSET_MAX_BYTES) / size * size;
        let offset_bytes = Some(case.offset_bytes.unwrap_or(offset));
        Piece { case: Case { offset_bytes, ..case }, first: number * 977 }
    })
}

fn describe(piece: &Piece, placement: Placement, served: &str) -> String {
    let Case { workload, count, element, offset_bytes, .. } = piece.case;
    let offset = offset_bytes.unwrap_or(0);
    let placement = placement.name();
    format!("{workload} of {count} {element} {placement}, offset {offset} bytes, by {served}")
}

impl LibrarySession<'_> {
    /// What may serve such calls, one of each algorithm, protocol and delivery; what the library
    /// chooses itself (`None`) comes first, and is all where it cannot say.
    fn ways(
        &mut self,
        case: Case,
        placement: Placement,
        observer: &mut dyn SessionObserver,
    ) -> Vec<Option<String>> {
        let mut ways = vec![None];
        if !self.report.reports_what_serves {
            return ways;
        }
        let mut seen = Vec::new();
        for offer in self.choices(case, placement, observer) {
            let columns: Vec<&str> = offer.choice.split_whitespace().collect();
            let [protocol, delivery, _instances, _threads, algorithm @ ..] = &columns[..] else {
                continue;
            };
            let key = format!("{protocol} {delivery} {}", algorithm.join(" "));
            if !seen.contains(&key) {
                seen.push(key);
                ways.push(Some(offer.choice.clone()));
            }
        }
        ways
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::{ElementType, Redop};
    use crate::workload::Workload;
    use msccl_collective::{DataType, Reduction};

    fn case(workload: Workload, count: u64, data_type: DataType) -> Case {
        let (element, redop) = (ElementType(data_type), Redop::Plain(Reduction::Sum));
        Case { workload, element, redop, root: 0, count, ranks: 4, offset_bytes: None }
    }

    #[test]
    fn the_largest_all_reduce_is_the_whole() {
        let cases = [
            case(Workload::ReduceScatter, 500, DataType::F32),
            case(Workload::AllReduce, 100, DataType::F32),
            case(Workload::AllReduce, 300, DataType::F32),
            case(Workload::ReduceScatter, 9, DataType::F16),
        ];
        assert_eq!(wholes(&cases), [cases[2], cases[3]]);
    }

    #[test]
    fn small_calls_lie_at_all_offsets_that_fit_their_type() {
        for data_type in [DataType::F32, DataType::F16, DataType::F8E4M3] {
            let case = case(Workload::AllReduce, 64, data_type);
            let all = (0..16).flat_map(|number| pieces(case, number));
            let offsets: std::collections::BTreeSet<u64> =
                all.filter_map(|piece| piece.case.offset_bytes).collect();
            let size = case.element.size_bytes();
            assert!(offsets.iter().all(|offset| offset % size == 0 && *offset <= 60));
            assert!(offsets.len() >= 16, "{offsets:?}");
        }
        let fixed = Case { offset_bytes: Some(8), ..case(Workload::AllReduce, 64, DataType::F32) };
        assert!(pieces(fixed, 3).all(|piece| piece.case.offset_bytes == Some(8)));
        let large = case(Workload::AllReduce, 1 << 20, DataType::F32);
        assert_eq!(pieces(large, 3).count(), 1);
    }
}
