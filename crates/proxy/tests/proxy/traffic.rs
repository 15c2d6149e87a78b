//! Messages between ranks on threads.

use msccl_fabric::Abort;
use msccl_proxy::{Config, Proxy};

use crate::world::{SHAPES, config, connect_all, run, talk};

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
