//! Collects facts from their sources.

use std::fs;

use msccl_doctor::Facts;
use msccl_doctor::facts::{Interface, NetworkFacts, SetVariable};

use super::sources::Sources;
use super::{libraries, python};

/// What is known of the machine, and of process `pid` if one is named.
pub fn collect(sources: &impl Sources, pid: Option<u32>) -> Facts {
    let found = python::ask(sources);
    let (python, nccl_paths) = match found {
        Some(python::FoundPython { facts, nccl_paths }) => (Some(facts), nccl_paths),
        None => (None, Vec::new()),
    };
    let libraries = libraries::find(sources, &nccl_paths);
    Facts {
        gpus: sources.gpus(),
        network: network(sources),
        shared_memory: sources.shared_memory(),
        limits: sources.limits(),
        python,
        has_rdma_library: libraries::has_rdma(&libraries),
        libraries,
        variables: variables(sources),
        value_errors: value_errors(sources),
        process: pid.map(|pid| libraries::of_process(sources, pid)),
    }
}

/// Variables whose names begin as those of libraries of collectives do.
fn variables(sources: &impl Sources) -> Vec<SetVariable> {
    let all = sources.variables().into_iter().map(|(name, value)| SetVariable { name, value });
    let is_ours = |set: &SetVariable| {
        ["NCCL_", "MSCCL_"].iter().any(|begin| set.name.starts_with(begin)) && !set.value.is_empty()
    };
    let mut found: Vec<_> = all.filter(is_ours).collect();
    found.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    found
}

/// Names that are misspelt, and values that make no sense.
fn value_errors(sources: &impl Sources) -> Vec<String> {
    let mut names: Vec<_> = sources.variables().into_iter().map(|(name, _)| name).collect();
    names.sort_unstable();
    let mut errors: Vec<_> =
        names.iter().filter_map(|name| msccl_environment::unknown_name(name)).collect();
    let lookup = |name: &str| sources.variable(name);
    let mut reader = msccl_environment::Reader::new(&lookup);
    let preferences = msccl_environment::Preferences::read(&mut reader);
    errors.extend(reader.value_errors());
    errors.extend(preferences.unsupported);
    errors
}

/// Interfaces of cards and of virtual machines, and RDMA devices, as `/sys` has them.
fn network(sources: &impl Sources) -> NetworkFacts {
    let names = libraries::names_in(&sources.place("/sys/class/net"));
    let interfaces = names.into_iter().filter_map(|name| interface(sources, name)).collect();
    let rdma_devices = libraries::names_in(&sources.place("/sys/class/infiniband"));
    NetworkFacts { interfaces, rdma_devices }
}

/// Interface `name`, if a device stands behind it; bridges, tunnels and loopback have none.
fn interface(sources: &impl Sources, name: String) -> Option<Interface> {
    let folder = sources.place(&format!("/sys/class/net/{name}"));
    let read = |file: &str| fs::read_to_string(folder.join(file)).ok();
    let text = |file: &str| read(file).map(|text| text.trim().to_owned());
    let is_loopback = text("type").as_deref() == Some(LOOPBACK);
    let has_device = folder.join("device").exists() || name.starts_with("eth");
    (has_device && !is_loopback).then(|| Interface {
        is_up: text("operstate").as_deref() == Some("up"),
        mbit_per_s: text("speed").and_then(|rate| rate.parse().ok()).filter(|rate| *rate > 0),
        name,
    })
}

/// The kernel's number of the type (`ARPHRD_LOOPBACK`).
const LOOPBACK: &str = "772";
