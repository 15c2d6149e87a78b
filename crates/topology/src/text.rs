//! A topology for people: a tree of devices, and a matrix of the paths between them.

use std::fmt::Write;

use crate::bandwidth::Bandwidth;
use crate::graph::Node;
use crate::path::Path;
use crate::system::{Device, Gpu, GpuLinkKind, Net, Nic, PciFunction, Switch};
use crate::topology::Topology;

/// The devices, each below what it is attached to.
pub fn tree(topology: &Topology) -> String {
    let mut out = String::new();
    for cpu in &topology.system().cpus {
        let host = cpu.host.map(|host| format!(" of host {:#x}", host.0)).unwrap_or_default();
        line(&mut out, 0, &format!("numa {}{host}", cpu.numa));
        devices(&mut out, 1, &cpu.devices);
    }
    out
}

fn line(out: &mut String, depth: usize, text: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{:indent$}{text}", "", indent = 2 * depth);
}

fn devices(out: &mut String, depth: usize, below: &[Device]) {
    for device in below {
        line(out, depth, &label(device));
        match device {
            Device::Switch(switch) => devices(out, depth + 1, &switch.devices),
            Device::Gpu(_) => {}
            Device::Nic(nic) => nic.nets.iter().for_each(|net| line(out, depth + 1, &port(net))),
        }
    }
}

/// One line about a device.
pub fn label(device: &Device) -> String {
    match device {
        Device::Switch(Switch { function, devices, .. }) => {
            let bandwidth = Bandwidth::of_pci(function.link);
            let guess = if devices.is_empty() { by_class(function) } else { "" };
            format!("pci {}, {bandwidth}{guess}", function.bus_id)
        }
        Device::Gpu(gpu) => gpu_label(gpu),
        Device::Nic(Nic { function: Some(function), .. }) => {
            format!("nic {}, {}", function.bus_id, Bandwidth::of_pci(function.link))
        }
        Device::Nic(Nic { function: None, .. }) => "nic without a PCI address".to_owned(),
    }
}

/// What a device is of which the description says nothing but its class.
fn by_class(function: &PciFunction) -> &'static str {
    match function.class {
        Some(class) if class.is_gpu() => ", a GPU by its class",
        Some(class) if class.is_nic() => ", a NIC by its class",
        Some(_) | None => "",
    }
}

fn gpu_label(gpu: &Gpu) -> String {
    let bandwidth = Bandwidth::of_pci(gpu.function.link);
    let sm = gpu.sm.map(|sm| format!(", sm {sm}")).unwrap_or_default();
    let gcn = gpu.gcn.as_ref().map(|gcn| format!(", {gcn}")).unwrap_or_default();
    let links = |kind, name| {
        let of_kind = gpu.nvlinks.iter().filter(|links| links.kind == kind);
        let count = of_kind.fold(0u32, |sum, links| sum.saturating_add(links.count));
        let together = Bandwidth::of_gpu_links(gpu, kind, count);
        if count == 0 { String::new() } else { format!(", {count} {name} of {together} together") }
    };
    let (nvlinks, xgmi) =
        (links(GpuLinkKind::NvLink, "NVLinks"), links(GpuLinkKind::Xgmi, "xGMI links"));
    format!("gpu {} at {}, {bandwidth}{sm}{gcn}{nvlinks}{xgmi}", gpu.dev, gpu.function.bus_id)
}

/// One line about a port.
pub fn port(net: &Net) -> String {
    let gdr = if net.gdr { ", reaches GPU memory" } else { "" };
    format!("net {} {}, {}{gdr}", net.dev, net.name, Bandwidth::of_net(net.speed_mbit_per_s))
}

/// Every GPU and port, under the name that the matrix gives it.
pub fn ends(topology: &Topology) -> Vec<(Node, String)> {
    let gpus = topology.gpus().map(|(gpu, _, _)| (Node::Gpu(gpu), gpu.to_string()));
    let nets = topology.nets().map(|(net, _, _)| (Node::Net(net), net.to_string()));
    gpus.chain(nets).collect()
}

/// The type of the path from each GPU and port to each other, with its bandwidth in GB/s.
pub fn matrix(topology: &Topology) -> String {
    let ends = ends(topology);
    let nodes: Vec<_> = ends.iter().map(|(node, _)| *node).collect();
    let mut rows = vec![std::iter::once(String::new()).chain(names(&ends)).collect::<Vec<_>>()];
    for (node, name) in &ends {
        let paths = topology.paths(*node, &nodes);
        rows.push(std::iter::once(name.clone()).chain(paths.iter().map(cell)).collect());
    }
    let widest =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(String::len).max();
    let widths: Vec<_> = (0..=ends.len()).map(|column| widest(column).unwrap_or(0)).collect();
    let mut out = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        line(&mut out, 0, cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    out
}

fn names(ends: &[(Node, String)]) -> impl Iterator<Item = String> {
    ends.iter().map(|(_, name)| name.clone())
}

fn cell(path: &Path) -> String {
    let Path { kind, bandwidth, hops } = path;
    match hops {
        0 => kind.to_string(),
        _ => format!("{kind} {:.0}", bandwidth.gb_per_s()),
    }
}
