//! Groups of threads: operations, messages, families, failures.

use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use msccl_collective::Rank;
use msccl_fabric::{Abort, DepartureReason, Error, ErrorKind, Group, Settings};

use crate::world::{Meeting, run, settings, with_diary};

fn hasty() -> Settings {
    Settings { operation_timeout: Some(Duration::from_millis(300)), ..settings() }
}

#[test]
fn all_gather_broadcast_barrier() {
    for ranks in [1, 2, 3, 8, 64] {
        let lengths = run(ranks, &settings(), |group| {
            let mine = vec![group.rank().0 as u8; group.rank().index()];
            let all = group.all_gather(&mine).unwrap();
            for (rank, bytes) in all.iter().enumerate() {
                assert_eq!(*bytes, vec![rank as u8; rank]);
            }
            let last = Rank(ranks - 1);
            let reported =
                group.broadcast(last, format!("from {}", group.rank()).as_bytes()).unwrap();
            assert_eq!(reported, format!("from {last}").into_bytes());
            group.barrier().unwrap();
            all.len()
        });
        assert_eq!(lengths, vec![ranks as usize; ranks as usize]);
    }
}

#[test]
fn large_parts_arrive_whole() {
    run(4, &settings(), |group| {
        let mine: Vec<u8> = (0..5_000_000_u32).map(|i| (i * 7 + group.rank().0) as u8).collect();
        let all = group.all_gather(&mine).unwrap();
        for (rank, bytes) in all.iter().enumerate() {
            let at = |i: usize| (i as u32 * 7 + rank as u32) as u8;
            assert!(
                bytes.len() == 5_000_000 && [0, 1, 4_999_999].iter().all(|i| bytes[*i] == at(*i))
            );
        }
    });
}

#[test]
fn peers_know_one_another() {
    run(3, &settings(), |group| {
        let peers: Vec<_> = group.peers().collect();
        assert_eq!(peers.iter().map(|peer| peer.rank.0).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(peers[2].description, [2]);
        assert!(peers[0].same_process(peers[2]) && peers[0].shares_descriptors(peers[1]));
        assert_eq!(peers[1].pid, std::process::id());
    });
}

#[test]
fn whoever_does_not_wait_learns_whether_a_message_has_come() {
    run(2, &settings(), |group| {
        let peer = Rank(1 - group.rank().0);
        assert_eq!(group.try_receive(peer, 3).unwrap(), None);
        group.barrier().unwrap();
        group.send(peer, 3, b"last words").unwrap();
        let received = (0..2000).find_map(|_| {
            thread::sleep(Duration::from_millis(5));
            group.try_receive(peer, 3).unwrap()
        });
        assert_eq!(received.unwrap(), b"last words");
        if peer == Rank(0) {
            return;
        }
        let gone = (0..2000).find_map(|_| {
            thread::sleep(Duration::from_millis(5));
            group.try_receive(peer, 3).err()
        });
        check(Err::<(), _>(gone.unwrap()), ErrorKind::RankLost, &[1], "has left the group");
    });
}

#[test]
fn messages_keep_their_order_per_tag() {
    run(5, &settings(), |group| {
        let peers = || (0..5).map(Rank);
        for round in 0..50_u8 {
            peers().for_each(|peer| group.send(peer, 7, &[round, group.rank().0 as u8]).unwrap());
        }
        peers().for_each(|peer| group.send(peer, 8, b"other tag").unwrap());
        for peer in peers() {
            assert_eq!(group.receive(peer, 8).unwrap(), b"other tag");
            for round in 0..50_u8 {
                assert_eq!(group.receive(peer, 7).unwrap(), [round, peer.0 as u8]);
            }
        }
    });
}

#[test]
fn whoever_leaves_has_still_sent() {
    for _ in 0..20 {
        run(4, &settings(), |group| match group.rank() {
            Rank(0) => {
                for peer in (1..4).map(Rank) {
                    assert_eq!(group.receive(peer, 1).unwrap(), vec![peer.0 as u8; 100_000]);
                }
            }
            rank => group.send(Rank(0), 1, &vec![rank.0 as u8; 100_000]).unwrap(),
        });
    }
}

#[test]
fn descriptors_travel() {
    run(3, &settings(), |group| {
        let file = rustix::fs::memfd_create("gift", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::io::write(&file, format!("from {}", group.rank()).as_bytes()).unwrap();
        for peer in (0..3).map(Rank) {
            group.send_fd(peer, 3, file.as_fd()).unwrap();
        }
        for peer in (0..3).map(Rank) {
            let gift = group.receive_fd(peer, 3).unwrap();
            let mut text = [0; 16];
            let length = rustix::io::pread(&gift, &mut text, 0).unwrap();
            assert_eq!(&text[..length], format!("from {peer}").as_bytes());
            assert!(group.try_receive_fd(peer, 3).unwrap().is_none());
        }
        let next = Rank((group.rank().0 + 1) % 3);
        assert!(group.try_receive_fd(next, 4).unwrap().is_none());
        group.barrier().unwrap();
        group.send_fd(Rank((next.0 + 1) % 3), 4, file.as_fd()).unwrap();
        while group.try_receive_fd(next, 4).unwrap().is_none() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        group.barrier().unwrap();
    });
}

#[track_caller]
fn check(result: Result<impl Sized, Error>, kind: ErrorKind, ranks: &[u32], text: &str) {
    let error = result.err().expect("an error");
    let found: Vec<_> = error.ranks().iter().map(|rank| rank.0).collect();
    assert_eq!((error.kind(), found.as_slice()), (kind, ranks), "{error}");
    assert!(error.to_string().contains(text), "{error}");
}

#[test]
fn who_does_not_come_is_named_on_every_rank() {
    let end = Meeting::default();
    run(4, &hasty(), |group| {
        if group.rank() == Rank(2) {
            // It comes once the others have given up, and hears why.
            thread::sleep(Duration::from_millis(700));
        }
        let text = "rank 2 of 4 has not entered barrier (operation 1) within 0.3 s; \
                    ranks that have: 0, 1, 3";
        check(group.barrier(), ErrorKind::TimedOut, &[2], text);
        check(group.barrier(), ErrorKind::TimedOut, &[2], text);
        end.wait_for(4);
    });
}

#[test]
fn a_late_hub_is_named() {
    run(3, &hasty(), |group| match group.rank() {
        Rank(0) => thread::sleep(Duration::from_millis(700)),
        _ => check(group.barrier(), ErrorKind::TimedOut, &[0], "rank 0 of 3 has not entered"),
    });
}

#[test]
fn a_message_that_does_not_come_names_its_sender() {
    run(2, &hasty(), |group| {
        let peer = Rank(1 - group.rank().0);
        let text = format!("a message with tag 5 from rank {} (host ", peer.0);
        check(group.receive(peer, 5), ErrorKind::TimedOut, &[peer.0], &text);
        group.barrier().unwrap();
    });
}

#[test]
fn different_operations_are_distinguished() {
    run(4, &settings(), |group| {
        let result = match group.rank() {
            Rank(3) => group.barrier(),
            _ => group.all_gather(b"").map(drop),
        };
        let text = "ranks call different operations as number 1 of their group: \
                    all-gather on 0-2, barrier on 3; call the same on all";
        check(result, ErrorKind::Mismatch, &[3], text);
    });
}

#[test]
fn an_abort_ends_waits_from_another_thread() {
    run(3, &Settings { operation_timeout: None, ..settings() }, |group| {
        // Each rank has the flag of its own child group.
        let abort = Abort::new();
        let own = Settings { abort: abort.clone(), operation_timeout: None, ..settings() };
        let child = group.split(Some(0), 0, &own).unwrap().unwrap();
        let since = Instant::now();
        match group.rank() {
            Rank(1) => thread::scope(|scope| {
                scope.spawn(|| {
                    thread::sleep(Duration::from_millis(100));
                    abort.raise("the watchdog says so");
                });
                let text = "aborted (the watchdog says so)";
                check(child.receive(Rank(0), 9), ErrorKind::Aborted, &[0], text);
            }),
            Rank(2) => thread::scope(|scope| {
                scope.spawn(|| {
                    thread::sleep(Duration::from_millis(100));
                    abort.raise("me too");
                });
                check(child.barrier(), ErrorKind::Aborted, &[], "aborted (me too)");
            }),
            _ => {}
        }
        assert!(since.elapsed() < Duration::from_secs(5));
        group.barrier().unwrap();
        drop(child);
    });
}

#[test]
fn who_leaves_is_named() {
    let end = Meeting::default();
    run(3, &Settings { operation_timeout: None, ..settings() }, |group| {
        if group.rank() == Rank(2) {
            drop(group);
            end.wait_for(3);
            return;
        }
        let other = Rank(1 - group.rank().0);
        group.send(other, 0, b"hello").unwrap();
        let text = "has left the group";
        check(group.receive(Rank(2), 1), ErrorKind::RankLost, &[2], text);
        check(group.barrier(), ErrorKind::RankLost, &[2], text);
        assert_eq!(group.receive(other, 0).unwrap(), b"hello");
        let departed = group.departed();
        assert!(
            departed.iter().any(|of| of.rank == Rank(2) && of.reason == DepartureReason::Left),
            "{departed:?}"
        );
        end.wait_for(3);
    });
}

/// A rank that gives up because of another one is not taken for the culprit, not even by those that
/// know of its end from others alone.
#[test]
fn why_a_rank_gave_up_reaches_all() {
    let gone = Meeting::default();
    run(4, &Settings { operation_timeout: None, ..settings() }, |group| {
        group.barrier().unwrap();
        let text = "has left the group: rank 1 has died";
        if group.rank() == Rank(3) {
            group.give_up(&"rank 1 has died");
            drop(group);
            gone.wait_for(4);
            return;
        }
        // Rank 0 has a connection to rank 3, ranks 1 and 2 have none.
        gone.wait_for(4);
        check(group.receive(Rank(3), 1), ErrorKind::RankLost, &[3], text);
        check(group.send(Rank(3), 1, b"hello"), ErrorKind::RankLost, &[3], text);
    });
}

/// The same of the hub of a group to which nobody has a connection yet.
#[test]
fn why_the_hub_gave_up_reaches_all() {
    run(3, &Settings { operation_timeout: None, ..settings() }, |group| {
        let color = u32::from(group.rank() == Rank(0));
        let child = group.split(Some(color), 0, &settings()).unwrap().unwrap();
        match group.rank() {
            Rank(0) => {}
            Rank(1) => {
                child.give_up(&"rank 7 has died");
                drop(child);
            }
            _ => {
                thread::sleep(Duration::from_millis(50));
                let text = "has left the group: rank 7 has died";
                check(child.barrier(), ErrorKind::RankLost, &[0], text);
            }
        }
        group.barrier().unwrap();
    });
}

#[test]
fn split_by_color_and_key() {
    run(7, &settings(), |group| {
        let rank = group.rank().0;
        let color = (rank != 6).then_some(rank % 2);
        let child = group.split(color, -(rank as i32), &settings()).unwrap();
        let Some(child) = child else {
            assert_eq!(rank, 6);
            return;
        };
        // Ranks 4, 2, 0 and 5, 3, 1, by key.
        assert_eq!((child.ranks(), child.rank().0), (3, 2 - rank / 2));
        drop(group);
        let all = child.all_gather(&[rank as u8]).unwrap().concat();
        assert_eq!(all, [4, 2, 0].map(|even| even + (rank % 2) as u8));
        let names: Vec<_> = child.peers().map(|peer| peer.rank.0).collect();
        assert_eq!(names, [0, 1, 2]);
        let grandchild = child.split(Some(rank / 4), 0, &settings()).unwrap().unwrap();
        assert_eq!(grandchild.ranks(), if rank >= 4 { 1 } else { 2 });
        child.send(child.rank(), 4, b"self").unwrap();
        assert_eq!(child.receive(child.rank(), 4).unwrap(), b"self");
        grandchild.barrier().unwrap();
    });
}

#[test]
fn shrink_goes_on_without_the_departed_hub() {
    run(4, &settings(), |group| {
        if group.rank() == Rank(0) {
            return;
        }
        check(group.barrier(), ErrorKind::RankLost, &[0], "has left the group");
        check(group.barrier(), ErrorKind::RankLost, &[0], "has left the group");
        let rest = group.shrink(&[Rank(0)], &settings()).unwrap();
        assert_eq!((rest.ranks(), rest.rank().0), (3, group.rank().0 - 1));
        let all = rest.all_gather(&[group.rank().0 as u8]).unwrap().concat();
        assert_eq!(all, [1, 2, 3]);
        let again = rest.shrink(&[Rank(1)], &settings());
        match rest.rank() {
            Rank(1) => check(again, ErrorKind::InvalidArgument, &[], "cannot exclude itself"),
            _ => assert_eq!(again.unwrap().ranks(), 2),
        }
    });
}

/// Of those who stay the second time, one did not take part in the first.
#[test]
fn shrinks_to_different_ranks_do_not_mix() {
    run(4, &settings(), |group| {
        for excluded in [&[3][..], &[0], &[3], &[0, 1]] {
            if excluded.contains(&group.rank().0) {
                continue;
            }
            let excluded: Vec<_> = excluded.iter().copied().map(Rank).collect();
            let rest = group.shrink(&excluded, &settings()).unwrap();
            assert_eq!(rest.ranks() as usize, 4 - excluded.len());
            rest.barrier().unwrap();
        }
    });
}

#[test]
fn a_dropped_child_refuses_those_who_stay() {
    let settings = Settings { operation_timeout: None, ..settings() };
    // The one that leaves is the child's hub, or not; it leaves early or late.
    for (leaver, pause_ms) in [(0, 0), (0, 30), (1, 0), (1, 30)] {
        run(2, &settings, |group: Group| {
            let child = group.split(Some(0), 0, &settings).unwrap().unwrap();
            if group.rank() == Rank(leaver) {
                thread::sleep(Duration::from_millis(pause_ms));
                drop(child);
            } else {
                let gone = &[leaver];
                let received = child.receive(Rank(leaver), 0);
                check(received, ErrorKind::RankLost, gone, "has left the group");
                check(child.barrier(), ErrorKind::RankLost, gone, "has left the group");
            }
            group.barrier().unwrap();
        });
    }
}

/// Somebody never comes to a rendezvous: the hub of the group, or another rank. Those who came
/// learn who it was within their time, whatever the limit of operations.
#[test]
fn whoever_does_not_come_to_a_split_is_named() {
    let patient = Settings { operation_timeout: None, ..settings() };
    let hasty = Settings { join_timeout: Duration::from_millis(300), ..patient.clone() };
    for absent in [0, 1] {
        run(4, &patient, |group| {
            let came = Instant::now();
            if group.rank() != Rank(absent) {
                let text =
                    format!("rank {absent} of 4 has not entered split (operation 1) within 0.3 s");
                let split = group.split(Some(0), 0, &hasty);
                check(split, ErrorKind::TimedOut, &[absent], &text);
                assert!(came.elapsed() < Duration::from_secs(5), "{:?}", came.elapsed());
                // Those who are left can still go on without the one that is not there.
                let rest = group.shrink(&[Rank(absent)], &patient).unwrap();
                rest.barrier().unwrap();
            } else {
                // Longer than the others wait. The hub has their contributions, and meets nobody in
                // its child.
                thread::sleep(Duration::from_millis(900));
                let late = group.split(Some(0), 0, &hasty);
                let met = late.and_then(|child| child.unwrap().meet(hasty.join_timeout));
                let kind = met.unwrap_err().kind();
                assert!(matches!(kind, ErrorKind::TimedOut | ErrorKind::RankLost), "{kind:?}");
            }
        });
    }
}

#[test]
fn whoever_does_not_come_to_a_shrink_is_named_by_its_rank_in_the_parent() {
    let patient = Settings { operation_timeout: None, ..settings() };
    let hasty = Settings { join_timeout: Duration::from_millis(300), ..patient.clone() };
    // Without rank 0 the hub of the child is rank 1, with it rank 0.
    for (excluded, absent, others) in
        [(0, 1, "2-4"), (0, 3, "1, 2, 4"), (4, 0, "1-3"), (4, 2, "0, 1, 3")]
    {
        run(5, &patient, |group| {
            let rank = group.rank().0;
            if rank == excluded || rank == absent {
                thread::sleep(Duration::from_millis(900));
                return;
            }
            let text = format!(
                "rank {absent} of 5 has not called shrink, excluding the same ranks, within 0.3 s; \
                 ranks that have: {others}"
            );
            let shrunk = group.shrink(&[Rank(excluded)], &hasty);
            check(shrunk, ErrorKind::TimedOut, &[absent], &text);
        });
    }
}

#[test]
fn wrong_ranks_are_refused() {
    run(2, &settings(), |group| {
        let text = "there is no rank 2 in a group of 2";
        check(group.send(Rank(2), 0, b""), ErrorKind::InvalidArgument, &[], text);
        check(group.receive(Rank(2), 0), ErrorKind::InvalidArgument, &[], text);
        check(group.broadcast(Rank(9), b""), ErrorKind::InvalidArgument, &[], "no rank 9");
        check(group.shrink(&[Rank(2)], &settings()), ErrorKind::InvalidArgument, &[], text);
    });
}

#[test]
fn the_log_describes_the_join() {
    let (settings, diary) = with_diary();
    run(2, &settings, |group| group.barrier().unwrap());
    diary.await_line("the root listens on ");
    diary.await_line("rank 1 listens on ");
    diary.await_line("rank 1 of 2 joined in ");
    assert!(diary.lines().iter().all(|line| !line.contains("lost")), "{:#?}", diary.lines());
}

#[test]
fn messages_of_any_of_some_ranks() {
    run(4, &settings(), |group| {
        let (me, tag) = (group.rank(), 7);
        if me != Rank(0) {
            group.send(Rank(0), tag, &[me.0 as u8]).unwrap();
            group.send(Rank(0), tag + 1, b"other").unwrap();
        }
        group.barrier().unwrap();
        if me == Rank(0) {
            let next = |peers: &[Rank]| group.receive_any(peers, tag, Duration::from_millis(100));
            assert_eq!(next(&[Rank(3), Rank(2)]), Some((Rank(3), vec![3])));
            assert_eq!(next(&[Rank(3), Rank(2)]), Some((Rank(2), vec![2])));
            assert_eq!(next(&[Rank(3), Rank(2), Rank(9)]), None);
            // An abort ends other waits, not this one.
            group.abort().raise("enough");
            assert_eq!(next(&[Rank(1)]), Some((Rank(1), vec![1])));
        }
    });
}
