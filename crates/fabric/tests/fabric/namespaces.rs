//! Ranks in network namespaces: two hosts in one.

use std::env;
use std::io::Write;
use std::process::{Child, Command};

use msccl_fabric::{Settings, UniqueId};

use crate::processes::{command, result};
use crate::world::settings;

const ADDRESSES: [&str; 2] = ["10.231.17.1", "10.231.17.2"];

/// Two network namespaces joined by a cable; removed on drop.
struct Cable([String; 2]);

impl Cable {
    fn new() -> Result<Self, String> {
        let cable = Self(["a", "b"].map(|end| format!("msccl-{}-{end}", std::process::id())));
        let [a, b] = &cable.0;
        ip(&["netns", "add", a])?;
        ip(&["netns", "add", b])?;
        ip(&["-n", a, "link", "add", "eth7", "type", "veth", "peer", "eth7", "netns", b])?;
        for (namespace, address) in cable.0.iter().zip(ADDRESSES) {
            ip(&["-n", namespace, "addr", "add", &format!("{address}/24"), "dev", "eth7"])?;
            ip(&["-n", namespace, "link", "set", "lo", "up"])?;
            ip(&["-n", namespace, "link", "set", "eth7", "up"])?;
        }
        Ok(cable)
    }

    fn rank(&self, id: &UniqueId, rank: u32, ranks: u32) -> Child {
        let mut inside = Command::new("ip");
        let namespace = &self.0[rank as usize % 2];
        inside.args(["netns", "exec", namespace]).arg(env::current_exe().unwrap());
        command(&mut inside, "hosts", id, rank, ranks)
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.0.iter().for_each(|namespace| drop(ip(&["netns", "del", namespace])));
    }
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(arguments).output();
    let output = output.map_err(|error| format!("`ip` cannot be run: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("ip {arguments:?}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

#[test]
fn ranks_of_two_hosts() {
    let cable = match Cable::new() {
        Ok(cable) => cable,
        // Written past the test harness, which keeps back what tests print.
        Err(why) => {
            let said = format!("SKIPPED: no network namespaces here: {why}\n");
            return std::io::stderr().write_all(said.as_bytes()).unwrap();
        }
    };
    // A root inside a namespace, which every rank must find by its address.
    let root = format!("{}:4711", ADDRESSES[0]).parse().unwrap();
    let id = UniqueId::create(&Settings { root: Some(root), ..settings() }).unwrap();
    let children: Vec<_> = (0..4).map(|rank| cable.rank(&id, rank, 4)).collect();
    let [a, b] = ADDRESSES;
    for child in children {
        assert_eq!(result(child), format!("{a} {b} {a} {b}"));
    }
}
