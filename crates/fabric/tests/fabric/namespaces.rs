//! Ranks in network namespaces: several hosts in one.

use std::env;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use msccl_fabric::{Settings, UniqueId};
use msccl_hosts::Hosts;
use msccl_processes::{playing, result, results};

use crate::processes::command;
use crate::world::settings;

#[test]
fn ranks_of_two_hosts() {
    let hosts = match Hosts::new(2) {
        Ok(hosts) => hosts,
        Err(why) => return skip(&why),
    };
    let addresses = [0, 1].map(Hosts::address);
    // A root on a host, which every rank must find by its address.
    let root = format!("{}:4711", addresses[0]).parse().unwrap();
    let id = UniqueId::create(&Settings { root: Some(root), ..settings() }).unwrap();
    let rank = |rank: u32| {
        let mut inside = hosts.command(rank % 2, env::current_exe().unwrap());
        command(&mut inside, "hosts", &id, rank, 4)
    };
    let [a, b] = &addresses;
    for child in [0, 1, 2, 3].map(rank) {
        assert_eq!(result(child), format!("{a} {b} {a} {b}"));
    }
}

/// Written past the test harness, which keeps back what tests print.
fn skip(why: &str) {
    std::io::stderr().write_all(format!("SKIPPED: {why}\n").as_bytes()).unwrap();
}

/// What ranks of `role` say, in no order, where `options` are those of `tests/namespaces/run`;
/// nothing where that cannot be run.
fn on_bridge(options: &[&str], role: &str, variables: &[(&str, &str)]) -> Option<Vec<String>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/namespaces/run");
    let root = "10.231.18.1:4711".parse().unwrap();
    let id = UniqueId::create(&Settings { root: Some(root), ..settings() }).unwrap();
    let mut run = Command::new(script);
    run.args(options).arg(env::current_exe().unwrap());
    playing(&mut run, "processes::rank_process");
    run.env("FABRIC_ROLE", role).env("FABRIC_ID", id.to_string());
    run.envs(variables.iter().copied());
    let output = run.output().unwrap();
    if output.status.code() == Some(77) {
        skip(String::from_utf8_lossy(&output.stderr).trim_end());
        return None;
    }
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    Some(results(&said).map(str::to_owned).collect())
}

#[test]
fn eight_hosts_on_a_bridge() {
    let Some(said) = on_bridge(&["-n", "8", "-r", "2"], "bridged", &[]) else { return };
    let addresses: Vec<_> = (1..=8).map(|host| format!("10.231.18.{host}")).collect();
    assert_eq!(said, vec![format!("2 of 16 on {}", addresses.join(" ")); 16]);
}

#[test]
fn hosts_choose_their_interface_by_name() {
    let chosen = [("FABRIC_INTERFACE", "=eth7")];
    let Some(said) = on_bridge(&["-n", "2"], "bridged", &chosen) else { return };
    assert_eq!(said, vec!["1 of 2 on 10.231.18.1 10.231.18.2"; 2]);
}

#[test]
fn a_host_that_is_cut_off_is_named() {
    let options = ["-n", "3", "-c", "2:2"];
    let Some(said) = on_bridge(&options, "cut_off", &[("FABRIC_TIMEOUT_S", "6")]) else { return };
    let missed = "TimedOut [r2]".to_owned();
    assert_eq!(said.iter().filter(|said| **said == missed).count(), 2, "{said:?}");
    assert_eq!(said.len(), 3, "{said:?}");
}
