//! Joining: foreign connections, different arguments, missing ranks.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use msccl_collective::Rank;
use msccl_fabric::{
    Abort, Error, ErrorKind, Filter, Group, JoinRequest, Secret, Settings, UniqueId,
};

use crate::world::{request, run, settings, with_diary};

/// Lets `requests` join one id at once; answers in their order.
fn join(settings: &Settings, requests: &[JoinRequest]) -> Vec<Result<Group, Error>> {
    join_by(UniqueId::create(settings).unwrap(), settings, requests)
}

fn join_by(
    id: UniqueId,
    settings: &Settings,
    requests: &[JoinRequest],
) -> Vec<Result<Group, Error>> {
    thread::scope(|scope| {
        let join = |request| scope.spawn(move || Group::join(&[id], request, settings));
        let threads: Vec<_> = requests.iter().map(join).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[track_caller]
fn all_refused(results: Vec<Result<Group, Error>>, kind: ErrorKind, ranks: &[u32], text: &str) {
    for result in results {
        let error = result.expect_err("a refusal");
        assert!(error.to_string().contains(text), "{error}");
        let found: Vec<_> = error.ranks().iter().map(|rank| rank.0).collect();
        assert_eq!((error.kind(), found.as_slice()), (kind, ranks), "{error}");
    }
}

fn root_address(diary: &crate::world::Diary) -> SocketAddr {
    let line = diary.await_line("the root listens on ");
    let (_, address) = line.rsplit_once(' ').unwrap();
    // Behind the interface's name.
    address.parse().unwrap_or_else(|_| address.split_once(':').unwrap().1.parse().unwrap())
}

#[test]
fn who_has_not_come_is_named() {
    let settings = Settings { join_timeout: Duration::from_millis(300), ..settings() };
    let requests = [request(0, 4), request(1, 4), request(3, 4)];
    let text = "rank 2 of 4 has not connected within 0.3 s; ranks that have: 0, 1, 3; a rank that \
                was started and could not reach ";
    all_refused(join(&settings, &requests), ErrorKind::TimedOut, &[2], text);
}

#[test]
fn differences_are_named_on_all_ranks() {
    let with_version = |rank, version: &str| {
        let facts = vec![("version".to_owned(), version.to_owned())];
        JoinRequest { facts, ..request(rank, 3) }
    };
    let requests = [with_version(0, "1"), with_version(1, "2"), with_version(2, "1")];
    let text = "ranks differ in their version: ranks 0, 2: `1`; rank 1: `2`";
    all_refused(join(&settings(), &requests), ErrorKind::Mismatch, &[1], text);
    let requests = [request(0, 3), request(0, 3)];
    let text = "two processes claim one rank: rank 0 (host ";
    all_refused(join(&settings(), &requests), ErrorKind::Mismatch, &[0], text);
}

#[test]
fn different_numbers_of_ranks_are_named() {
    for result in join(&settings(), &[request(0, 2), request(1, 3)]) {
        let error = result.unwrap_err();
        assert!(error.to_string().contains("pass the same number on all ranks"), "{error}");
    }
}

#[test]
fn unauthenticated_connections_change_nothing() {
    let (settings, diary) = with_diary();
    let id = UniqueId::create(&settings).unwrap();
    let address = root_address(&diary);
    let garbage: [&[u8]; 4] =
        [b"GET / HTTP/1.1\r\n\r\n", &[0; 4096], b"msccl-hi wrong token 123456", b""];
    let mut silent = Vec::new();
    for bytes in garbage.into_iter().cycle().take(60) {
        let mut stream = TcpStream::connect(address).unwrap();
        // The root may have closed it already.
        let _ = stream.write_all(bytes);
        silent.push(stream);
    }
    silent.truncate(20);
    let requests = [request(0, 3), request(1, 3), request(2, 3)];
    let groups = join_by(id, &settings, &requests);
    let groups: Vec<_> = groups.into_iter().map(Result::unwrap).collect();
    diary.await_line("a stray connection from");
    diary.await_line("it speaks another protocol");
    // The ranks' own listeners see unauthenticated connections as well.
    for peer in groups[0].peers() {
        TcpStream::connect(peer.address).unwrap().write_all(b"SSH-2.0-scan\r\n").unwrap();
    }
    thread::scope(|scope| {
        groups.iter().for_each(|group| drop(scope.spawn(|| group.barrier().unwrap())));
    });
}

#[test]
fn the_root_lets_go_of_its_port_and_thread() {
    let (settings, diary) = with_diary();
    let first = join_with(&settings, 2);
    let address = root_address(&diary);
    assert!(TcpStream::connect(address).is_err(), "the root still listens");
    drop(first);
    // A root to whom nobody comes ends as well.
    let (settings, diary) = with_diary();
    let settings = Settings { root_timeout: Duration::from_millis(100), ..settings };
    UniqueId::create(&settings).unwrap();
    let address = root_address(&diary);
    let since = Instant::now();
    while TcpStream::connect(address).is_ok() {
        assert!(since.elapsed() < Duration::from_secs(5), "the root still listens");
        thread::sleep(Duration::from_millis(20));
    }
}

fn join_with(settings: &Settings, ranks: u32) -> Vec<Group> {
    let requests: Vec<_> = (0..ranks).map(|rank| request(rank, ranks)).collect();
    join(settings, &requests).into_iter().map(Result::unwrap).collect()
}

#[test]
fn several_groups_at_once() {
    thread::scope(|scope| {
        for ranks in [2, 3, 5, 4] {
            scope.spawn(move || {
                run(ranks, &settings(), |group| {
                    assert_eq!(group.all_gather(&[1]).unwrap().len(), ranks as usize);
                })
            });
        }
    });
}

#[test]
fn one_fixed_address_serves_group_after_group() {
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let settings = Settings { root: Some(SocketAddr::from(([127, 0, 0, 1], port))), ..settings() };
    thread::scope(|scope| {
        for rank in 0..3 {
            let settings = &settings;
            scope.spawn(move || {
                // No transport and no pause: all processes make the same id, and the fast ones
                // connect to the root of the former group.
                for _ in 0..10 {
                    let id = UniqueId::create(settings).unwrap();
                    let group = Group::join(&[id], &request(rank, 3), settings).unwrap();
                    assert_eq!(group.all_gather(&[rank as u8]).unwrap().concat(), [0, 1, 2]);
                }
            });
        }
    });
}

#[test]
fn who_has_another_secret_does_not_join() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let with_secret = |secret: &str| Settings {
        root: Some(SocketAddr::from(([127, 0, 0, 1], port))),
        secret: Some(Ok(Secret::new(secret.as_bytes()).unwrap())),
        connect_timeout: Duration::from_millis(500),
        join_timeout: Duration::from_millis(900),
        ..settings()
    };
    let join = |rank: u32, secret: &'static str| {
        let settings = with_secret(secret);
        thread::spawn(move || {
            let id = UniqueId::create(&settings).unwrap();
            Group::join(&[id], &request(rank, 2), &settings).map(drop).unwrap_err()
        })
    };
    let (known, other) = (join(0, "of the first rank"), join(1, "of the other rank"));
    let other = other.join().unwrap().to_string();
    assert!(other.contains("does not know the secret of this group"), "{other}");
    assert!(other.contains("the same MSCCL_SECRET_FILE"), "{other}");
    assert_eq!(known.join().unwrap().ranks(), [Rank(1)]);
    let lacking =
        Settings { secret: Some(Err("no such file".to_owned())), ..with_secret(&"x".repeat(16)) };
    let refused = UniqueId::create(&lacking).unwrap_err().to_string();
    assert!(
        refused.contains("there is no secret for the root at") && refused.contains("no such file")
    );
}

#[test]
fn an_unreachable_root_is_named() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let root = Some(SocketAddr::from(([127, 0, 0, 1], port)));
    let settings = Settings { root, connect_timeout: Duration::from_millis(200), ..settings() };
    let id = UniqueId::create(&settings).unwrap();
    let error = Group::join(&[id], &request(1, 2), &settings).unwrap_err();
    let text = format!(
        "cannot reach the root of the unique id at 127.0.0.1:{port}, tried for 0.2 s: \
         Connection refused"
    );
    assert!(error.to_string().starts_with(&text), "{error}");
}

#[test]
fn a_root_that_says_nothing_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let root = Some(listener.local_addr().unwrap());
    let settings = Settings { root, connect_timeout: Duration::from_millis(300), ..settings() };
    let id = UniqueId::create(&settings).unwrap();
    // It accepts, reads and hangs up, as another service might.
    let service = thread::spawn(move || {
        listener.set_nonblocking(true).unwrap();
        let since = Instant::now();
        while since.elapsed() < Duration::from_secs(1) {
            if let Ok((mut stream, _)) = listener.accept() {
                stream.set_nonblocking(false).unwrap();
                let _ = stream.read(&mut [0; 64]);
            }
            thread::sleep(Duration::from_millis(1));
        }
    });
    let error = Group::join(&[id], &request(1, 2), &settings).unwrap_err();
    assert!(error.to_string().contains("did not answer"), "{error}");
    service.join().unwrap();
}

#[test]
fn an_abort_ends_the_join() {
    let abort = Abort::new();
    let settings = Settings { abort: abort.clone(), ..settings() };
    let id = UniqueId::create(&settings).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(100));
            abort.raise("the user changed their mind");
        });
        let error = Group::join(&[id], &request(0, 2), &settings).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Aborted);
    });
}

#[test]
fn a_root_whose_maker_aborts_tells_who_waits() {
    let abort = Abort::new();
    let id = UniqueId::create(&Settings { abort: abort.clone(), ..settings() }).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(100));
            abort.raise("out of memory");
        });
        let error = Group::join(&[id], &request(1, 2), &settings()).unwrap_err();
        let text = "the process that made the unique id gave up: out of memory";
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::RankLost, text));
    });
}

#[test]
fn wrong_arguments_are_refused_at_once() {
    let id = UniqueId::create(&settings()).unwrap();
    let check = |ids: &[UniqueId], rank, ranks, text| {
        let error = Group::join(ids, &request(rank, ranks), &settings()).unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
    };
    check(&[id], 2, 2, "rank 2 does not exist among 2 ranks");
    check(&[id], 0, 0, "rank 0 does not exist among 0 ranks");
    check(&[], 0, 1, "no unique id");
    let mut settings = settings();
    settings.interface.filter = Filter::parse("=nosuch0");
    let error = UniqueId::create(&settings).unwrap_err();
    assert!(error.to_string().starts_with("no network interface matches `=nosuch0`"), "{error}");
}

#[test]
fn bytes_carry_the_id() {
    let id = UniqueId::create(&settings()).unwrap();
    let id = UniqueId::from_bytes(&id.to_bytes()).unwrap();
    let other = thread::spawn(move || Group::join(&[id], &request(1, 2), &settings()).unwrap());
    let group = Group::join(&[id], &request(0, 2), &settings()).unwrap();
    assert_eq!(group.peer(Rank(1)).unwrap().pid, std::process::id());
    drop(other.join().unwrap());
}

/// Joins by several ids; answers in the order of `requests`.
fn join_by_all(
    ids: &[UniqueId],
    settings: &Settings,
    requests: &[JoinRequest],
) -> Vec<Result<Group, Error>> {
    thread::scope(|scope| {
        let join = |request| scope.spawn(move || Group::join(ids, request, settings));
        let threads: Vec<_> = requests.iter().map(join).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn several_ids_share_the_work_of_one() {
    let (settings, diary) = with_diary();
    let ids: Vec<_> = (0..3).map(|_| UniqueId::create(&settings).unwrap()).collect();
    let requests: Vec<_> = (0..8).map(|rank| request(rank, 8)).collect();
    let groups = join_by_all(&ids, &settings, &requests);
    let groups: Vec<_> = groups.into_iter().map(Result::unwrap).collect();
    assert!(groups.windows(2).all(|pair| pair[0].id() == pair[1].id()));
    // All three roots have served and are gone.
    let lines = diary.lines();
    let listening = lines.iter().filter_map(|line| line.strip_prefix("the root listens on "));
    let addresses: Vec<SocketAddr> = listening
        .map(|place| place.rsplit_once(' ').map_or(place, |(_, it)| it))
        .map(|place| {
            place.parse().unwrap_or_else(|_| place.split_once(':').unwrap().1.parse().unwrap())
        })
        .collect();
    assert_eq!(addresses.len(), 3);
    assert!(addresses.iter().all(|address| TcpStream::connect(address).is_err()), "{lines:#?}");
}

#[test]
fn refusals_reach_the_ranks_of_all_ids() {
    let settings = Settings { join_timeout: Duration::from_millis(300), ..settings() };
    let ids: Vec<_> = (0..2).map(|_| UniqueId::create(&settings).unwrap()).collect();
    let requests = [request(0, 4), request(1, 4), request(3, 4)];
    let text = "rank 2 of 4 has not connected within 0.3 s; ranks that have: 0, 1, 3";
    all_refused(join_by_all(&ids, &settings, &requests), ErrorKind::TimedOut, &[2], text);
    let ids: Vec<_> = (0..2).map(|_| UniqueId::create(&settings).unwrap()).collect();
    let odd = JoinRequest { facts: vec![("version".to_owned(), "2".to_owned())], ..request(1, 2) };
    let text = "ranks differ in their version: rank 0: `1`; rank 1: `2`";
    all_refused(
        join_by_all(&ids, &settings, &[request(0, 2), odd]),
        ErrorKind::Mismatch,
        &[1],
        text,
    );
}

#[test]
fn loopback_by_name() {
    let mut settings = settings();
    settings.interface.filter = Filter::parse("=lo");
    run(3, &settings, |group| {
        assert!(group.peers().all(|peer| peer.address.ip().is_loopback()));
        group.barrier().unwrap();
    });
}
