//! Messages between ranks on threads.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use msccl_collective::Rank;
use msccl_fabric::Abort;
use msccl_proxy::{Config, Proxy};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

use crate::world::{Diary, SHAPES, config, connect_all, run, talk};

#[test]
fn three_ranks_exchange_messages_on_all_links() {
    let failures = run(3, |group| {
        let proxy = Proxy::start(group.clone(), config(), Abort::new()).unwrap();
        let mut ends = connect_all(&proxy, &group, &SHAPES);
        talk(group.rank(), &mut ends, 0, 300);
        proxy.failure()
    });
    assert_eq!(failures, [None, None, None]);
}

#[test]
fn several_sockets_share_the_messages() {
    let failures = run(2, |group| {
        let config = Config { sockets_per_peer: 3 + group.rank().0, ..config() };
        let proxy = Proxy::start(group.clone(), config, Abort::new()).unwrap();
        let mut ends = connect_all(&proxy, &group, &SHAPES);
        talk(group.rank(), &mut ends, 0, 1000);
        group.barrier().unwrap();
        assert_eq!(proxy.waits()[0].rails.len(), 3, "the smaller number counts");
        group.barrier().unwrap();
        proxy.failure()
    });
    assert_eq!(failures, [None, None]);
}

/// Breaks one TCP connection of this process between ports `here` and `there`.
fn cut(here: u16, there: u16) {
    let own = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    let numbers = std::fs::read_dir("/proc/self/fd").unwrap();
    let numbers = numbers.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    for number in numbers {
        let Ok(socket) = pidfd_getfd(&own, number, PidfdGetfdFlags::empty()) else { continue };
        let stream = TcpStream::from(socket);
        let ports =
            stream.local_addr().and_then(|own| Ok((own.port(), stream.peer_addr()?.port())));
        if ports.is_ok_and(|ports| ports == (here, there)) {
            stream.shutdown(Shutdown::Both).unwrap();
            return;
        }
    }
    panic!("there is no connection from {here} to {there}");
}

/// The ports of a rail such as `TCP 0 10.0.0.1:4000 → 10.0.0.2:5000`.
fn ports(rail: &str) -> (u16, u16) {
    let mut words = rail.split(' ').filter_map(|word| word.parse::<SocketAddr>().ok());
    (words.next().unwrap().port(), words.next().unwrap().port())
}

#[test]
fn broken_connections_lose_nothing_while_one_stands() {
    let diary = Arc::new(Diary::default());
    let failures = run(2, |group| {
        let config = Config { sockets_per_peer: 3, log: diary.clone(), ..config() };
        let proxy = Proxy::start(group.clone(), config, Abort::new()).unwrap();
        let mut ends = connect_all(&proxy, &group, &SHAPES);
        talk(group.rank(), &mut ends, 0, 20);
        group.barrier().unwrap();
        let rails = proxy.waits()[0].rails.clone();
        assert_eq!(rails.len(), 3);
        group.barrier().unwrap();
        thread::scope(|scope| {
            let talking = scope.spawn(|| talk(group.rank(), &mut ends, 20, 2000));
            if group.rank() == Rank(0) {
                for rail in &rails[..2] {
                    thread::sleep(Duration::from_millis(20));
                    let (here, there) = ports(rail);
                    cut(here, there);
                }
            }
            talking.join().unwrap();
        });
        group.barrier().unwrap();
        let left = proxy.waits()[0].rails.clone();
        group.barrier().unwrap();
        (proxy.failure(), left == rails[2..])
    });
    assert_eq!(failures, [(None, true), (None, true)]);
    let lost = diary.lines().into_iter().filter(|line| line.contains(" broke: "));
    assert_eq!(lost.count(), 4, "two rails on two sides");
}
