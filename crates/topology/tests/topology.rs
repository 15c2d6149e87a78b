//! An eight-GPU host with NVSwitches: text, paths, files there and back, detection, refusals.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::fmt::Write;

use msccl_topology::detect::{Files, detect};
use msccl_topology::system::{Device, Net};
use msccl_topology::{GpuIndex, NetIndex, Node, PathType, Place, Topology, text, xml};

/// Two sockets, each with two switches, each with two GPUs and two NICs; NVLinks to switches.
fn eight_gpus(hosts: u32) -> String {
    let mut out = "<system version=\"1\">\n".to_owned();
    for socket in 0..2 * hosts {
        let (host, numa) = (socket / 2, socket % 2);
        writeln!(
            out,
            "<cpu host_hash=\"0x{host}\" numaid=\"{numa}\" affinity=\"0000ffff\" arch=\"x86_64\" \
             vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\">"
        )
        .unwrap();
        for switch in 2 * numa..2 * numa + 2 {
            out.push_str(&pci(switch, 0, "0x060400"));
            for dev in 2 * switch..2 * switch + 2 {
                out.push_str(&pci(switch, 1 + dev, "0x030200"));
                write!(out, "<gpu dev=\"{dev}\" sm=\"90\" rank=\"{}\" gdr=\"1\">", 8 * host + dev)
                    .unwrap();
                out.push_str("<nvlink target=\"0000:07:00.0\" count=\"18\" tclass=\"0x068000\"/>");
                out.push_str("</gpu></pci>\n");
                out.push_str(&pci(switch, 8 + dev, "0x020700"));
                write!(
                    out,
                    "<nic><net name=\"mlx5_{dev}\" dev=\"{dev}\" speed=\"400000\" gdr=\"1\" \
                     future=\"x\"/></nic></pci>"
                )
                .unwrap();
            }
            out.push_str("</pci>\n");
        }
        out.push_str("</cpu>\n");
    }
    out + "</system>\n"
}

fn pci(switch: u32, place: u32, class: &str) -> String {
    format!(
        "<pci busid=\"0000:{switch}{place:x}:00.0\" class=\"{class}\" \
         link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">"
    )
}

fn topology(hosts: u32) -> Topology {
    Topology::new(xml::read(&eight_gpus(hosts)).unwrap().system)
}

#[test]
fn text_shows_devices_and_paths() {
    let topology = topology(1);
    insta::assert_snapshot!("tree", text::tree(&topology));
    insta::assert_snapshot!("matrix", text::matrix(&topology));
}

#[test]
fn questions_have_answers() {
    let topology = topology(2);
    let kind = |from, to| topology.path(from, to).unwrap().kind;
    let (gpu, net) = (|at| Node::Gpu(GpuIndex(at)), |at| Node::Net(NetIndex(at)));
    assert_eq!(kind(gpu(0), gpu(0)), PathType::Local);
    assert_eq!(kind(gpu(0), gpu(7)), PathType::NvLink);
    assert_eq!(kind(gpu(0), net(1)), PathType::Pix);
    assert_eq!(kind(gpu(0), net(7)), PathType::Pxn);
    assert_eq!(kind(net(0), net(7)), PathType::Sys);
    assert_eq!(kind(gpu(0), gpu(8)), PathType::Net);
    assert_eq!(topology.hosts(), 2);
    assert_eq!(topology.nearest_nets(GpuIndex(9)), [NetIndex(8), NetIndex(9)]);
    assert_eq!(topology.nvlink_peers(GpuIndex(9)).len(), 7);
    assert_eq!(topology.path(gpu(0), gpu(99)), None);
}

#[test]
fn nics_are_reached_by_pci_alone() {
    let topology = topology(2);
    let port = |name| Place::Port { name, number: 1 };
    let kinds = |from, to: &[Place<'_>]| {
        let paths = topology.paths_from(from, to).into_iter();
        paths.map(|path| path.map_or("none", |path| path.kind.name())).collect::<Vec<_>>()
    };
    let gpu = Place::Function("0000:01:00.0".parse().unwrap());
    let nics = ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_7", "mlx5_9"].map(port);
    // GPUs beside the others would help out; they are not used.
    assert_eq!(kinds(gpu, &nics), ["PIX", "PIX", "PHB", "SYS", "none"]);
    assert_eq!(kinds(Place::Numa(1), &nics), ["SYS", "SYS", "SYS", "PHB", "none"]);
    let card = Place::Function("0000:08:00.0".parse().unwrap());
    assert_eq!(kinds(gpu, &[card]), ["PIX"]);
    let nobody = Place::Function("0000:aa:00.0".parse().unwrap());
    assert_eq!(kinds(nobody, &nics), ["none"; 5]);
}

/// As clouds describe their virtual machines: addresses, classes, and nothing about what the
/// devices are.
#[test]
fn devices_without_a_description_have_places() {
    let function = |bus_id: &str, class: &str, inside: &str| {
        format!("<pci busid=\"{bus_id}\" class=\"{class}\">{inside}</pci>")
    };
    let pair = |at: u32| {
        let gpu = function(&format!("000{at}:00:00.0"), "0x030200", "");
        let nic = function(&format!("010{at}:00:00.0"), "0x020700", "");
        function(&format!("ffff:ff:0{at}.0"), "0x060400", &(gpu + &nic))
    };
    let text = format!("<system><cpu numaid=\"0\">{}{}</cpu></system>", pair(1), pair(2));
    let topology = Topology::new(xml::read(&text).unwrap().system);
    let place = |text: &str| Place::Function(text.parse().unwrap());
    let nics = [place("0101:00:00.0"), place("0102:00:00.0")];
    let paths = topology.paths_from(place("0002:00:00.0"), &nics);
    let kinds: Vec<_> = paths.into_iter().map(|path| path.unwrap().kind).collect();
    assert_eq!(kinds, [PathType::Phb, PathType::Pix]);
}

#[test]
fn without_a_link_there_is_no_path() {
    let text = "<system><cpu host_hash=\"1\"><pci busid=\"0000:01:00.0\" class=\"0x030200\">\
        <gpu dev=\"0\"/></pci></cpu><cpu host_hash=\"2\">\
        <pci busid=\"0000:01:00.0\" class=\"0x030200\"><gpu dev=\"0\"/></pci></cpu></system>";
    let topology = Topology::new(xml::read(text).unwrap().system);
    let path = topology.path(Node::Gpu(GpuIndex(0)), Node::Gpu(GpuIndex(1))).unwrap();
    assert_eq!(path.kind, PathType::Disconnected);
    assert!(topology.nearest_nets(GpuIndex(0)).is_empty());
}

#[test]
fn gpus_forward_once() {
    let gpu = |at: u32, to: &str| {
        format!(
            "<pci busid=\"0000:0{at}:00.0\" class=\"0x030200\"><gpu dev=\"{at}\">{to}</gpu></pci>"
        )
    };
    let link = |to| format!("<nvlink target=\"0000:0{to}:00.0\" count=\"2\"/>");
    let chain: String = (0..4).map(|at| gpu(at, &link(at + 1))).collect();
    let text = format!("<system><cpu>{chain}</cpu></system>");
    let topology = Topology::new(xml::read(&text).unwrap().system);
    let kinds = (0..4).map(|to| {
        topology.path(Node::Gpu(GpuIndex(0)), Node::Gpu(GpuIndex(to))).unwrap().kind.name()
    });
    assert_eq!(kinds.collect::<Vec<_>>(), ["LOC", "NVL", "NVB", "PHB"]);
}

#[test]
fn malformed_files_are_refused_with_a_place() {
    let check = |text: &str, expected: &str| {
        let error = xml::read(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    };
    check("", "line 1, column 1: expected <system>, found the end");
    check("<algo/>", "expected <system>, found <algo>");
    check("<system version=\"9\"/>", "found version \"9\"");
    check("<system>", "expected </system>, found the end");
    check("<system/>\n<system/>", "line 2, column 1: expected one root element");
    check("<system>x</system>", "column 9: expected elements only, found text");
    check("<!DOCTYPE x><system/>", "found <!DOCTYPE");
    check("<system><cpu></system>", "expected well-formed XML");
    check(&"<system>".repeat(40), "at most 32 levels");
    check(&format!("<system>{}</system>", "<cpu/>".repeat(4097)), "at most 4096 elements");
    check(&format!("<system name=\"{}\"/>", "x".repeat(4097)), "at most 4096 bytes");
    check("<system a=\"1\" a=\"2\"/>", "expected attributes name=\"value\"");
}

proptest::proptest! {
    #[test]
    fn files_there_and_back(
        (speed, port, guid) in (1u32.., proptest::num::u32::ANY, proptest::num::u64::ANY),
        (latency_ns, rail) in (proptest::num::u32::ANY, proptest::option::of(0u32..)),
        words in proptest::collection::vec(0u32.., 0..28),
        name in "[ -!#-%(-;=?-~]{0,255}",
    ) {
        let mut system = xml::read(&eight_gpus(2)).unwrap().system;
        system.cpus[0].affinity.words = words;
        let mut nets = Vec::new();
        collect(&mut system.cpus[0].devices, &mut nets);
        for net in nets {
            net.speed_mbit_per_s = speed;
            net.name = msccl_topology::system::Name::new(&name).unwrap();
            (net.port, net.guid, net.latency_ns, net.rail) = (port, guid, latency_ns, rail);
        }
        proptest::prop_assert_eq!(xml::read(&xml::write(&system)).unwrap().system, system);
    }

    #[test]
    fn arbitrary_text_never_panics(text in "(<(system|cpu|pci|gpu|/cpu)( \
                                            [a-z]+=\"[0-9a-f:.]*\")*/?>){0,9}") {
        let _ = xml::read(&text);
    }
}

fn collect<'a>(devices: &'a mut [Device], nets: &mut Vec<&'a mut Net>) {
    for device in devices {
        match device {
            Device::Switch(switch) => collect(&mut switch.devices, nets),
            Device::Gpu(_) => {}
            Device::Nic(nic) => nets.extend(nic.nets.iter_mut()),
        }
    }
}

/// A made-up tree: files by path; links by where they lead.
#[derive(Default)]
struct Made {
    files: BTreeMap<String, String>,
    links: BTreeMap<String, String>,
}

impl Made {
    fn function(&mut self, path: &str, class: &str, vendor: &str) {
        for (name, value) in [
            ("class", class),
            ("vendor", vendor),
            ("numa_node", "1"),
            ("max_link_speed", "32.0 GT/s PCIe"),
            ("max_link_width", "16"),
        ] {
            self.files.insert(format!("{path}/{name}"), format!("{value}\n"));
        }
        let name = path.rsplit('/').next().unwrap();
        self.links.insert(format!("sys/bus/pci/devices/{name}"), path.to_owned());
    }
}

impl Files for Made {
    fn read(&self, path: &str) -> Option<String> {
        self.files.get(path).cloned()
    }

    fn list(&self, path: &str) -> Vec<String> {
        let all = self.files.keys().chain(self.links.keys());
        let below = all.filter_map(|key| key.strip_prefix(path)?.strip_prefix('/'));
        let names: std::collections::BTreeSet<_> =
            below.filter_map(|rest| rest.split('/').next()).collect();
        names.into_iter().map(str::to_owned).collect()
    }

    fn resolve(&self, path: &str) -> Option<String> {
        self.links.get(path).cloned()
    }
}

#[test]
fn a_machine_is_found_out() {
    let mut made = Made::default();
    let root = "sys/devices/pci0000:10/0000:10:01.0";
    let switch = format!("{root}/0000:11:00.0");
    let (gpu, nic) = (
        format!("{switch}/0000:12:00.0/0000:13:00.0"),
        format!("{switch}/0000:12:01.0/0000:14:00.0"),
    );
    made.function(root, "0x060400", "0x8086");
    made.function(&switch, "0x060400", "0x1000");
    made.function(&gpu, "0x030200", "0x10de");
    made.function(&nic, "0x020700", "0x15b3");
    for numa in 0..2 {
        made.files.insert(format!("sys/devices/system/node/node{numa}/cpumap"), "ff\n".to_owned());
    }
    let info = "vendor_id : AuthenticAMD\ncpu family : 25\nmodel : 17\n";
    made.files.insert("proc/cpuinfo".to_owned(), info.to_owned());
    let verbs = "sys/class/infiniband/mlx5_0";
    made.links.insert(verbs.to_owned(), format!("{nic}/infiniband/mlx5_0"));
    made.files.insert(format!("{verbs}/ports/1/rate"), "400 Gb/sec (4X NDR)\n".to_owned());
    made.files.insert(format!("{verbs}/node_guid"), "0c42:a103:0051:9b5e\n".to_owned());
    made.links.insert("sys/class/net/ib0".to_owned(), format!("{nic}/net/ib0"));
    made.links.insert("sys/class/net/lo".to_owned(), "sys/devices/virtual/net/lo".to_owned());
    let system = detect(&made, &[]);
    insta::assert_snapshot!("detected", xml::write(&system));
    assert_eq!(xml::read(&xml::write(&system)).unwrap().system, system);
    assert!(detect(&Made::default(), &[]).cpus[0].devices.is_empty());
}
