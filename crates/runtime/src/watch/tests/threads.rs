//! Ranks on threads of one process.

use std::time::{Duration, Instant};

use msccl_collective::Rank;

use super::{Member, gather, members};
use crate::call::Operation;
use crate::error::ErrorKind;
use crate::shared_state::RankState;
use crate::shared_state::check::check_arguments;
use crate::shared_state::tests::{SUM, call};

const TIMEOUT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(5);

/// A report without what changes from run to run.
fn redacted(member: &Member, report: &str) -> String {
    let pid = format!("pid {}", std::process::id());
    report.replace(&format!("{:016x}", member.group.id()), "[id]").replace(&pid, "pid [pid]")
}

/// All reports that `ranks` ranks log, in the order of ranks, when they do `rank`.
fn reports(ranks: u32, rank: impl Fn(&Member) + Sync) -> Vec<String> {
    let reports = members(ranks, |member| {
        rank(member);
        member.group.barrier().unwrap();
        let reports = member.event_log.reports();
        reports.iter().map(|report| redacted(member, report)).collect::<Vec<_>>()
    });
    reports.concat()
}

fn only(reports: Vec<String>) -> String {
    assert_eq!(reports.len(), 1, "{reports:#?}");
    reports.concat()
}

#[test]
fn calls_that_get_on_are_left_alone() {
    members(3, |member| {
        let watch = member.watch(Some(TIMEOUT));
        for _ in 0..5 {
            let sequence = member.issue(&gather());
            std::thread::sleep(TIMEOUT / 3);
            member.engine.finish(sequence);
        }
        std::thread::sleep(TIMEOUT * 2);
        let since = Instant::now();
        drop(watch);
        assert!(since.elapsed() < Duration::from_millis(200), "{:?}", since.elapsed());
        assert_eq!((member.failure.get(), member.engine.has_stopped()), (None, false));
        assert_eq!((member.event_log.reports().len(), member.failures()), (0, 0));
        assert_eq!(member.shared_state.state(member.me()), RankState::Closed);
    });
}

#[test]
fn eight_ranks_that_time_out_give_one_report() {
    let report = only(reports(8, |member| {
        let watch = member.watch(Some(TIMEOUT));
        let sequence = member.issue(&gather());
        member.engine.finish(sequence);
        member.group.barrier().unwrap();
        if member.me() == Rank(5) {
            // Its failure would be another report: the others' is over by then.
            std::thread::sleep(Duration::from_secs(2));
            assert_eq!(member.failure.get(), None);
            return;
        }
        member.issue_and_wait(&call(Operation::AllReduce(SUM), 64), Rank(5));
        let error = member.await_failure(LONG);
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        let text = error.to_string();
        let start = "call 2, allreduce of 64 f32 sum, has not moved for 0.3 s: r5 holds up r0-r4, ";
        assert!(text.starts_with(start), "{text}");
        assert_eq!(text.ends_with("(r0 logs the full report)"), member.me() != Rank(0), "{text}");
        assert!(member.engine.has_stopped());
        drop(watch);
        assert_eq!(member.shared_state.state(member.me()), RankState::TimedOut);
    }));
    insta::assert_snapshot!(report, @r"
    => r5 holds up r0-r4, r6, r7: it has not entered call 2 (its last call was #1, allgather of 1024 f32)
    who waits for whom among the 8 ranks of [id], reported by r0: call 2, allreduce of 64 f32 sum, has not moved for 0.3 s
      r0-r4, r6, r7: in call 2, allreduce of 64 f32 sum
      r5: idle after call 1, allgather of 1024 f32
      r0-r4, r6, r7: tb0 s0 waits for message 7 from r5 on ch0; r5 has not entered this collective (its last call was #1, allgather of 1024 f32)
    ");
}

#[test]
fn a_circle_is_reported_once() {
    let report = only(reports(8, |member| {
        let _watch = member.watch(Some(TIMEOUT));
        member.group.barrier().unwrap();
        member.issue_and_wait(&gather(), Rank((member.me().0 + 3) % 8));
        assert_eq!(member.await_failure(LONG).kind(), ErrorKind::TimedOut);
    }));
    insta::assert_snapshot!(report, @r"
    => r0 waits for r3, r3 waits for r6, r6 waits for r1, r1 waits for r4, r4 waits for r7, r7 waits for r2, r2 waits for r5, r5 waits for r0: a circle; do all ranks make their calls in the same order?
    who waits for whom among the 8 ranks of [id], reported by r0: call 1, allgather of 1024 f32, has not moved for 0.3 s
      r0-r7: in call 1, allgather of 1024 f32
      r0 tb0 s0 waits for message 7 from r3 on ch0; r3 waits itself
      r1 tb0 s0 waits for message 7 from r4 on ch0; r4 waits itself
      r2 tb0 s0 waits for message 7 from r5 on ch0; r5 waits itself
      r3 tb0 s0 waits for message 7 from r6 on ch0; r6 waits itself
      r4 tb0 s0 waits for message 7 from r7 on ch0; r7 waits itself
      r5 tb0 s0 waits for message 7 from r0 on ch0; r0 waits itself
      r6 tb0 s0 waits for message 7 from r1 on ch0; r1 waits itself
      r7 tb0 s0 waits for message 7 from r2 on ch0; r2 waits itself
    ");
}

/// What every one of four ranks fails of, and the only report, when rank 3 does `odd` and the
/// others `usual`.
fn mismatched(usual: impl Fn(&Member) + Sync, odd: impl Fn(&Member) + Sync) -> (String, String) {
    let failures = std::sync::Mutex::new(std::collections::BTreeSet::new());
    let report = only(reports(4, |member| {
        if member.me() == Rank(3) {
            odd(member)
        } else {
            usual(member)
        }
        // Who looks finds the calls of all.
        member.group.barrier().unwrap();
        let _watch = member.watch(None);
        let since = Instant::now();
        let error = member.await_failure(LONG);
        assert!(since.elapsed() < Duration::from_secs(1), "{:?}", since.elapsed());
        assert_eq!((error.kind(), member.failures()), (ErrorKind::InvalidUsage, 1));
        assert!(member.engine.has_stopped());
        assert_eq!(member.shared_state.state(member.me()), RankState::Mismatched);
        failures.lock().unwrap().insert(error.to_string());
        // The report is reported by now.
        std::thread::sleep(Duration::from_millis(800));
    }));
    let failures = failures.into_inner().unwrap();
    assert_eq!(failures.len(), 1, "{failures:?}");
    (failures.into_iter().collect(), report)
}

#[test]
fn different_calls_fail_all_ranks_with_one_report() {
    let (failure, report) = mismatched(
        |member| member.issue_and_wait(&call(Operation::AllReduce(SUM), 1024), Rank(3)),
        |member| member.issue_and_wait(&call(Operation::AllReduce(SUM), 512), Rank(0)),
    );
    insta::assert_snapshot!(failure, @r"r0-r2 and r3 call different things: call 1 is allreduce of 1024 f32 sum on r0-r2, allreduce of 512 f32 sum on r3; make the same call on all ranks");
    insta::assert_snapshot!(report, @r"
    => r0-r2 and r3 call different things: call 1 is allreduce of 1024 f32 sum on r0-r2, allreduce of 512 f32 sum on r3; make the same call on all ranks
    who waits for whom among the 4 ranks of [id], reported by r0: the communicator has failed
      r0-r2: in call 1, allreduce of 1024 f32 sum
      r3: in call 1, allreduce of 512 f32 sum
      r0-r2: tb0 s0 waits for message 7 from r3 on ch0; r3 waits itself
      r3 tb0 s0 waits for message 7 from r0 on ch0; r0 waits itself
    ");
}

/// What differs hangs nobody: calls end, and so does the failure of ranks that are idle or have not
/// called.
#[test]
fn different_calls_that_end_fail_all_ranks() {
    let done = |member: &Member, operation| {
        let sequence = member.issue(&call(operation, 1024));
        member.engine.finish(sequence);
    };
    let max = crate::call::Combine::Plain(msccl_collective::Reduction::Max);
    let idle = |member: &Member| {
        if member.me() != Rank(2) {
            done(member, Operation::AllReduce(SUM));
        }
    };
    let (failure, _) = mismatched(idle, |member| done(member, Operation::AllReduce(max)));
    assert!(failure.contains(
        "call 1 is allreduce of 1024 f32 sum on r0, r1, allreduce of 1024 f32 max on r3"
    ));
}

#[test]
fn a_rank_whose_watch_is_stopped_is_reported() {
    let report = only(reports(2, |member| {
        if member.me() == Rank(1) {
            // No watch, as if its process were stopped.
            member.issue(&gather());
            std::thread::sleep(Duration::from_secs(2));
            return;
        }
        let _watch = member.watch(Some(TIMEOUT));
        member.issue_and_wait(&gather(), Rank(1));
        member.await_failure(LONG);
    }));
    insta::assert_snapshot!(report, @r"
    => r1 holds up r0: it did not answer (pid [pid]): its process is stopped or gone (its last call was #1, allgather of 1024 f32)
    who waits for whom among the 2 ranks of [id], reported by r0: call 1, allgather of 1024 f32, has not moved for 0.3 s
      r0: in call 1, allgather of 1024 f32
      r1: did not answer (pid [pid]), last issued call 1, allgather of 1024 f32
      r0 tb0 s0 waits for message 7 from r1 on ch0; r1 did not answer (pid [pid]): its process is stopped or gone (its last call was #1, allgather of 1024 f32)
    ");
}

#[test]
fn an_abort_under_way_is_reported_and_reaches_the_others() {
    let report = only(reports(3, |member| {
        let watch = member.watch(None);
        member.issue_and_wait(&gather(), Rank((member.me().0 + 1) % 3));
        member.group.barrier().unwrap();
        let since = Instant::now();
        if member.me() == Rank(1) {
            watch.abort("ncclCommAbort");
            assert_eq!(member.await_failure(LONG).kind(), ErrorKind::Aborted);
            assert!(member.engine.has_stopped() && since.elapsed() < Duration::from_millis(50));
            return;
        }
        let error = member.await_failure(LONG);
        assert_eq!(error.kind(), ErrorKind::Remote);
        let wait = match member.me() {
            Rank(0) => "on r0 tb0 s0 waits for message 7 from r1 on ch0",
            _ => "on r2 tb0 s0 waits for message 7 from r0 on ch0",
        };
        let end = "call 1, allgather of 1024 f32 cannot finish";
        assert_eq!(error.to_string(), format!("r1 aborted: ncclCommAbort; {wait}; {end}"));
        assert!(since.elapsed() >= Duration::from_millis(900), "{:?}", since.elapsed());
        assert_eq!(member.failures(), 1);
    }));
    insta::assert_snapshot!(report, @r"
    => r1 holds up r0, and through them r1, r2: it has aborted: ncclCommAbort
    who waits for whom among the 3 ranks of [id], reported by r1: this rank gives up (ncclCommAbort)
      r0, r2: in call 1, allgather of 1024 f32
      r1: aborted (ncclCommAbort), in call 1, allgather of 1024 f32
      r0 tb0 s0 waits for message 7 from r1 on ch0; r1 has aborted: ncclCommAbort
      r1 tb0 s0 waits for message 7 from r2 on ch0; r2 waits itself
      r2 tb0 s0 waits for message 7 from r0 on ch0; r0 waits itself
    ");
}

#[test]
fn an_abort_is_reported_even_if_the_communicator_goes_at_once() {
    let reports = reports(1, |member| {
        let watch = member.watch(None);
        member.issue_and_wait(&gather(), Rank(0));
        watch.abort("enough");
        drop(watch);
        assert_eq!(member.shared_state.state(Rank(0)), RankState::Aborted);
    });
    assert!(only(reports).contains("reported by r0: this rank gives up (enough)"));
}

#[test]
fn an_abort_with_nothing_under_way_harms_nobody() {
    let reports = reports(2, |member| {
        let watch = member.watch(None);
        let sequence = member.issue(&gather());
        if member.me() == Rank(0) {
            member.engine.finish(sequence);
            watch.abort("the job is over");
            assert_eq!(member.shared_state.state(Rank(0)), RankState::Closed);
        }
        std::thread::sleep(Duration::from_millis(1500));
        // The other rank has not finished, but need not wait for the first one.
        assert_eq!(member.failure.get().is_some(), member.me() == Rank(0));
    });
    assert_eq!(reports, [""; 0]);
}

/// Rank 1 aborts its second call. Rank 0 is in that one and fails, rank 2 in the first one, which
/// goes on.
#[test]
fn an_abort_fails_only_calls_of_which_it_left_out_a_part() {
    members(3, |member| {
        let watch = member.watch(None);
        let first = member.issue(&gather());
        if member.me() != Rank(2) {
            member.engine.finish(first);
            member.issue_and_wait(&gather(), Rank(2));
        } else {
            member.engine.wait_for(first, Rank(0), "tb0 s0 waits");
        }
        member.group.barrier().unwrap();
        match member.me() {
            Rank(0) => {
                let text = member.await_failure(LONG).to_string();
                assert!(text.starts_with("r1 aborted: enough; "), "{text}");
                member.group.barrier().unwrap();
            }
            Rank(1) => {
                watch.abort("enough");
                assert_eq!(member.shared_state.state(Rank(1)), RankState::Aborted);
                assert!(member.shared_state.had_completed(Rank(1), 1));
                assert!(!member.shared_state.had_completed(Rank(1), 2));
                member.group.barrier().unwrap();
            }
            _ => {
                std::thread::sleep(Duration::from_millis(1500));
                // Rank 0 fails by itself, a second later.
                let failure = member.failure.get().map(ToString::to_string);
                assert!(failure.is_none_or(|text| !text.starts_with("r1")));
                member.group.barrier().unwrap();
            }
        }
    });
}

/// Rank 0 leaves after one call; what the others do goes on for a while.
fn with_a_rank_that_left(ranks: u32, other: impl Fn(&Member, u64) + Sync) {
    members(ranks, |member| {
        let watch = member.watch(None);
        let sequence = member.issue(&gather());
        if member.me() == Rank(0) {
            member.engine.finish(sequence);
            drop(watch);
            return std::thread::sleep(Duration::from_millis(2000));
        }
        other(member, sequence);
    });
}

#[test]
fn a_rank_that_left_is_not_missed_by_those_who_wait_for_others() {
    with_a_rank_that_left(3, |member, sequence| {
        let other = Rank(3 - member.me().0);
        member.engine.wait_for(sequence, other, "tb0 s0 waits");
        std::thread::sleep(Duration::from_millis(2000));
        assert_eq!(member.failure.get(), None);
    });
}

#[test]
fn a_rank_that_left_is_missed_in_the_next_collective() {
    with_a_rank_that_left(2, |member, sequence| {
        member.engine.finish(sequence);
        member.issue(&gather());
        let text = member.await_failure(LONG).to_string();
        let end = "call 2, allgather of 1024 f32 cannot finish";
        assert_eq!(text, format!("r0 has left the communicator; {end}"));
    });
}

#[test]
fn a_rank_that_left_is_missed_by_those_who_wait_for_it() {
    with_a_rank_that_left(2, |member, sequence| {
        member.engine.finish(sequence);
        member.shared_state.post_messages_of(2, &[call(Operation::Receive(Rank(0)), 1)]);
        member.engine.wait_for(2, Rank(0), "waits for a message from r0");
        let text = member.await_failure(LONG).to_string();
        let wait = format!("on {} waits for a message from r0", member.me());
        let end = "receive of 1 f32 from r0 cannot finish";
        assert_eq!(text, format!("r0 has left the communicator; {wait}; {end}"));
    });
}

#[test]
fn a_report_names_the_other_call_of_a_rank_that_left() {
    members(2, |member| {
        let watch = member.watch(None);
        if member.me() == Rank(0) {
            let sequence = member.issue(&call(Operation::AllGather, 512));
            member.engine.finish(sequence);
            drop(watch);
            return std::thread::sleep(Duration::from_millis(2000));
        }
        member.issue_and_wait(&gather(), Rank(0));
        let text = member.await_failure(LONG).to_string();
        let expected = "r0 and r1 call different things: call 1 is allgather of 512 f32 on r0, \
                        allgather of 1024 f32 on r1; make the same call on all ranks";
        assert_eq!(text, expected);
    });
}

#[test]
fn checked_calls_end_with_the_failure_of_a_late_rank() {
    let report = only(reports(3, |member| {
        let watch = member.watch((member.me() != Rank(2)).then_some(TIMEOUT));
        member.group.barrier().unwrap();
        if member.me() == Rank(2) {
            std::thread::sleep(Duration::from_secs(2));
            return;
        }
        member.issue(&gather());
        let error = check_arguments(&member.shared_state, 1, &member.failure).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        let text = error.to_string();
        let expected = "r2 holds up r0, r1: it has not entered call 1 (it has made no call)";
        assert!(text.contains(expected), "{text}");
        drop(watch);
    }));
    insta::assert_snapshot!(report, @r"
    => r2 holds up r0, r1: it has not entered call 1 (it has made no call)
    who waits for whom among the 3 ranks of [id], reported by r0: call 1, allgather of 1024 f32, has not moved for 0.3 s
      r0, r1: in call 1, allgather of 1024 f32
      r2: has made no call
      r0, r1: waits for r2 to make this call, to compare the arguments; r2 has not entered this collective (it has made no call)
    ");
}

#[test]
fn a_failure_that_somebody_else_set_is_shown_to_all() {
    members(2, |member| {
        let _watch = member.watch(None);
        member.issue(&gather());
        if member.me() == Rank(1) {
            let error = crate::error::Error::new(ErrorKind::Cuda, "the device is on fire");
            member.failure.set(error).unwrap();
            return std::thread::sleep(Duration::from_millis(300));
        }
        let error = member.await_failure(LONG);
        let expected =
            "r1 failed: the device is on fire; call 1, allgather of 1024 f32 cannot finish";
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Remote, expected));
    });
}

#[test]
fn the_first_failure_counts() {
    members(1, |member| {
        let watch = member.watch(None);
        let error = |text: &str| crate::error::Error::new(ErrorKind::Cuda, text);
        watch.fail(error("first"));
        watch.fail(error("second"));
        watch.abort("third");
        assert_eq!(member.failure.get(), Some(&error("first")));
        assert_eq!(
            (member.failures(), member.shared_state.reason(Rank(0)).words.as_str()),
            (1, "first")
        );
        assert!(member.engine.has_stopped());
    });
}
