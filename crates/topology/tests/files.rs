//! Files as makers and clouds write them: used as far as they say something, with a note for the
//! rest.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use msccl_topology::system::{Arch, Cpu, CpuVendor, Device, Gpu};
use msccl_topology::{GpuIndex, NetIndex, Node, PathType, Place, Topology, text, xml};

/// A file, and the notes on it.
fn read(text: &str) -> (Topology, Vec<String>) {
    let xml::Read { system, notes } = xml::read(text).unwrap();
    // What is read is written so that nothing is left to note.
    let again = xml::read(&xml::write(&system)).unwrap();
    assert_eq!((again.system, again.notes), (system.clone(), vec![]), "{text}");
    (Topology::new(system), notes.iter().map(ToString::to_string).collect())
}

/// A file of which everything is understood.
fn whole(text: &str) -> Topology {
    let (topology, notes) = read(text);
    assert_eq!(notes, [""; 0], "{text}");
    topology
}

fn cpus(topology: &Topology) -> &[Cpu] {
    &topology.system().cpus
}

fn kind(topology: &Topology, from: Node, to: Node) -> PathType {
    topology.path(from, to).unwrap().kind
}

fn gpu(at: u32) -> Node {
    Node::Gpu(GpuIndex(at))
}

fn net(at: u32) -> Node {
    Node::Net(NetIndex(at))
}

/// As Amazon describes some of its machines: only at which NUMA node a device is.
#[test]
fn addresses_alone_say_what_is_near() {
    let topology = whole(
        "<system version=\"1\">
           <cpu numaid=\"0\"><pci busid=\"0000:00:16.0\"/><pci busid=\"0000:00:17.0\"/></cpu>
           <cpu numaid=\"1\"><pci busid=\"0000:00:1a.0\"/></cpu>
         </system>",
    );
    let place = |text: &str| Place::Function(text.parse().unwrap());
    let paths =
        topology.paths_from(place("0000:00:16.0"), &[place("0000:00:17.0"), place("0000:00:1a.0")]);
    let kinds: Vec<_> = paths.into_iter().map(|path| path.unwrap().kind).collect();
    assert_eq!(kinds, [PathType::Phb, PathType::Sys]);
}

/// As the EFA plugin writes them at run time: bridges without a class, a host, speeds as it likes.
#[test]
fn amazons_groups_of_cards_are_near_their_gpu() {
    let topology = whole(
        "<system version=\"1\">
           <cpu host_hash=\"0x1f2e3d4c5b6a7988\" numaid=\"0\">
             <pci busid=\"0000:44:00.0\">
               <pci busid=\"0000:4f:00.0\" link_speed=\"32 GT/s PCIe/s\" link_width=\"16\"/>
               <pci busid=\"0000:53:00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" \
               link_width=\"16\"/>
             </pci>
             <pci busid=\"ffff:ff:01.0\" class=\"0x060400\" vendor=\"0xffff\" device=\"0xffff\" \
             subsystem_vendor=\"0xffff\"
                  subsystem_device=\"0xffff\" link_speed=\"8 GT/s\" link_width=\"16\">
               <pci busid=\"0000:64:00.0\" class=\"0x030200\" link_speed=\"8 GT/s\" \
               link_width=\"16\"/>
               <pci busid=\"0000:61:00.0\" class=\"0x020000\" vendor=\"0x1d0f\" device=\"0xefa1\" \
               link_speed=\"8 GT/s\" link_width=\"16\"/>
             </pci>
           </cpu>
         </system>",
    );
    let place = |text: &str| Place::Function(text.parse().unwrap());
    let nics = [place("0000:4f:00.0"), place("0000:61:00.0")];
    let kinds = |gpu| {
        let paths = topology.paths_from(place(gpu), &nics).into_iter();
        paths.map(|path| path.unwrap().kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds("0000:53:00.0"), [PathType::Pix, PathType::Phb]);
    assert_eq!(kinds("0000:64:00.0"), [PathType::Phb, PathType::Pix]);
    let tree = text::tree(&topology);
    assert!(tree.contains("pci 0000:64:00.0, 12.0 GB/s, a GPU by its class"), "{tree}");
    assert!(tree.contains("pci 0000:61:00.0, 12.0 GB/s, a NIC by its class"), "{tree}");
    assert!(tree.contains("pci 0000:4f:00.0, 48.0 GB/s\n"), "{tree}");
}

/// As RCCL dumps two accelerators, each beside a card.
#[test]
fn amds_accelerators_have_links_of_their_own() {
    let half = |at: u32, other: u32| {
        format!(
            "<pci busid=\"0000:{at}0:00.0\" class=\"0x060400\" link_speed=\"32.0 GT/s PCIe\" \
            link_width=\"16\">
               <pci busid=\"0000:{at}1:00.0\" class=\"0x120000\" vendor=\"0x1002\" \
               device=\"0x74a1\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">
                 <gpu dev=\"{at}\" sm=\"304\" gcn=\"gfx942\" arch=\"38911\" rank=\"{at}\" gdr=\"1\">
                   <xgmi target=\"0000:{other}1:00.0\" count=\"1\" tclass=\"0x120000\"/>
                 </gpu>
               </pci>
               <pci busid=\"0000:{at}2:00.0\" class=\"0x020700\" link_speed=\"32.0 GT/s PCIe\" \
               link_width=\"16\">
                 <nic><net name=\"mlx5_{at}\" dev=\"{at}\" speed=\"400000\" port=\"1\" \
                 latency=\"0.000000\" guid=\"0xb83fd20300a1b2c3\" maxconn=\"262144\" \
                 gdr=\"1\"/></nic>
               </pci>
             </pci>"
        )
    };
    let topology = whole(&format!(
        "<system version=\"2\"><cpu numaid=\"0\" affinity=\"00000000,ffffffff,00000000,ffffffff\" \
         arch=\"x86_64\" vendor=\"AuthenticAMD\" familyid=\"175\" \
         modelid=\"17\">{}{}</cpu></system>",
        half(0, 1),
        half(1, 0)
    ));
    assert_eq!(kind(&topology, gpu(0), gpu(1)), PathType::NvLink);
    assert_eq!(kind(&topology, gpu(0), net(0)), PathType::Pxb.min(PathType::Pix));
    assert_eq!(topology.nearest_nets(GpuIndex(1)), [NetIndex(1)]);
    let tree = text::tree(&topology);
    assert!(
        tree.contains(
            "gpu 0 at 0000:01:00.0, 48.0 GB/s, gfx942, 1 xGMI links of 48.0 GB/s together"
        ),
        "{tree}"
    );
    assert!(cpus(&topology)[0].affinity.contains(95) && !cpus(&topology)[0].affinity.contains(32));
}

#[test]
fn hygons_processors_are_known() {
    let topology = whole(
        "<system version=\"1\"><cpu numaid=\"0\" affinity=\"ffff\" arch=\"x86_64\" \
         vendor=\"HygonGenuine\" familyid=\"24\" modelid=\"1\"><pci busid=\"0000:0a:00.0\" \
         class=\"0x0b4000\" vendor=\"0x1d94\" link_speed=\"16 GT/s\" link_width=\"16\"><gpu \
         dev=\"0\" sm=\"80\" rank=\"0\" gdr=\"1\"/></pci></cpu></system>",
    );
    assert_eq!(
        (cpus(&topology)[0].vendor, cpus(&topology)[0].family),
        (Some(CpuVendor::Hygon), Some(24))
    );
    assert_eq!(topology.gpus().len(), 1);
    assert!(text::tree(&topology).contains("24.0 GB/s"));
}

/// A package with an arm processor and a GPU.
#[test]
fn arm_packages_join_gpu_and_processor() {
    let (topology, notes) = read(
        "<system version=\"1\"><cpu host_hash=\"0x8d4f1\" numaid=\"0\" \
         affinity=\"00000000,000000ff,ffffffff,ffffffff\" arch=\"aarch64\" vendor=\"ARM\" \
         familyid=\"-1\" modelid=\"-1\">
           <pci busid=\"0009:01:00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" \
           link_width=\"16\">
             <gpu dev=\"0\" sm=\"90\" rank=\"0\" gdr=\"1\"><c2c bw=\"44712\" \
             count=\"10\"/></gpu></pci>
           <pci busid=\"0000:01:00.0\" class=\"0x020700\" link_speed=\"32.0 GT/s PCIe\" \
           link_width=\"16\">
             <nic><net name=\"mlx5_0\" dev=\"0\" latency=\"0\" speed=\"400000\" port=\"1\" \
             guid=\"0x1\" maxconn=\"131072\" \
             gdr=\"1\" coll=\"0\" net=\"1\" gin=\"0\" rma=\"0\" keep=\"1\"/></nic></pci>
         </cpu></system>",
    );
    assert_eq!(cpus(&topology)[0].arch, Some(Arch::Arm64));
    assert_eq!(kind(&topology, gpu(0), net(0)), PathType::P2c);
    let expected = "line 1: expected `vendor` of <cpu> to be one of GenuineIntel, AuthenticAMD, \
                    HygonGenuine, CentaurHauls, Shanghai, found \"ARM\"; links between sockets \
                    count as slow";
    assert_eq!(notes, [expected]);
}

/// Several GPUs behind one address, and devices behind a GPU.
#[test]
fn a_function_may_hold_several_devices() {
    let topology = whole(
        "<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0000:01:00.0\" class=\"0x030200\">\
         <gpu dev=\"0\" sm=\"100\" rank=\"0\" mlopart=\"0\"/><gpu dev=\"1\" sm=\"100\" rank=\"1\" \
         mlopart=\"1\"/><nic><net name=\"a\" dev=\"0\"/></nic><pci \
         busid=\"0000:02:00.0\"><nic><net name=\"b\" dev=\"1\"/></nic></pci></pci></cpu></system>",
    );
    assert_eq!((topology.gpus().len(), topology.nets().len()), (2, 2));
}

#[test]
fn processors_are_masks_of_any_width_or_lists() {
    let affinity = |text: &str| {
        let file = format!("<system><cpu affinity=\"{text}\"/></system>");
        cpus(&whole(&file))[0].affinity.clone()
    };
    let has = |text: &str, number: usize| affinity(text).contains(number);
    assert!(has("0-15", 15) && !has("0-15", 16));
    assert!(has("0-3,64-67,130", 66) && has("0-3,64-67,130", 130) && !has("0-3,64-67,130", 63));
    assert!(has("0xffff", 15) && has("FFFF", 0) && has("ffff,", 15) && !has("ffff", 16));
    assert!(has("ffff000000000000", 63) && !has("ffff000000000000", 47));
    assert!(has("f,ffff000000000000,00000000", 95) && has("f,ffff000000000000,00000000", 96));
    assert!(has("0003ff,f0003fff", 41));
    // A thousand processors.
    let wide = ["ffffffff"; 40].join(",");
    assert!(has(&wide, 1279) && !has(&wide, 1280));
    assert_eq!(affinity(""), Default::default());
}

#[test]
fn values_have_many_spellings() {
    let one = |attributes: &str, inside: &str| {
        whole(&format!(
            "\u{feff}<?xml version='1.0'?>\r\n<system version='1'><cpu numaid='-1' \
             affinity='Unknown'>\r\n<pci {attributes}>{inside}</pci></cpu></system>"
        ))
    };
    for busid in ["0000:1b:00.0", "0000:1B:00.0", "1b:00.0", "0000:1b:00", "00000000:1B:00.0"] {
        let topology =
            one(&format!("busid='{busid}'"), "<gpu dev='0x0' sm='90' rank='-1' gdr='-1'/>");
        let (_, _, gpu) = topology.gpus().next().unwrap();
        let Gpu { function, dev, rank, gdr, .. } = gpu;
        assert_eq!((function.bus_id.to_string().as_str(), *dev), ("0000:1b:00.0", 0));
        assert_eq!((*rank, *gdr), (None, Some(true)));
    }
    let speed = |speed: &str, width: &str| {
        let topology = one(
            &format!("busid='1b:00.0' link_speed='{speed}' link_width='{width}'"),
            "<gpu dev='0'/>",
        );
        text::tree(&topology).lines().nth(1).unwrap().split(", ").nth(1).unwrap().to_owned()
    };
    assert_eq!(speed("32.0 GT/s PCIe", "16"), "48.0 GB/s");
    assert_eq!(speed("32 GT/s", "16"), "48.0 GB/s");
    assert_eq!(speed("16.0GT/s", "8"), "12.0 GB/s");
    assert_eq!(speed("2.5 GT/s", "4"), "0.8 GB/s");
    assert_eq!(speed("Unknown", "0"), "12.0 GB/s");
    assert_eq!(speed("", ""), "12.0 GB/s");
}

/// What cannot be used, and the note on it; the rest of the file is used.
#[test]
fn what_is_not_understood_is_noted() {
    let check = |element: &str, expected: &str| {
        let file = format!(
            "<system><cpu numaid=\"3\">\n<pci busid=\"0000:01:00.0\"><gpu \
             dev=\"7\"/></pci>\n{element}</cpu></system>"
        );
        let (topology, notes) = read(&file);
        assert!(notes.iter().any(|note| note.contains(expected)), "{element}: {notes:?}");
        assert_eq!(topology.gpus().next().unwrap().2.dev, 7, "{element}");
    };
    let pci = |attributes: &str, inside: &str| {
        format!("<pci busid=\"0000:02:00.0\" {attributes}>{inside}</pci>")
    };
    check("<wheel/>", "line 3: <wheel> in <cpu> is not known; it is not used");
    check("<gpu dev=\"1\"/>", "<gpu> in <cpu> is not known");
    check(&pci("color=\"red\"", ""), "<pci> has an attribute `color`, which is not known");
    check(
        &pci("class=\"bridge\"", ""),
        "`class` of <pci> to be a hexadecimal number, found \"bridge\"",
    );
    check(&pci("class=\"0x1234567890\"", ""), "`class`");
    check(&pci("vendor=\"Intel\"", ""), "`vendor` of <pci>");
    check(&pci("link_speed=\"fast\"", ""), "found \"fast\"; 8 GT/s is taken");
    check(&pci("link_speed=\"128.0 GT/s PCIe\"", ""), "8 GT/s is taken");
    check(&pci("link_width=\"255\"", ""), "lanes up to 32, found \"255\"; 16 are taken");
    check(
        "<pci class=\"0x060400\"/>",
        "expected <pci> with a `busid`, a PCI address such as 0000:1b:00.0, found none",
    );
    check("<pci busid=\"nowhere\"/>", "found \"nowhere\"");
    check(
        &pci("", "<gpu/>"),
        "expected `dev` of <gpu>, a whole number below 2^32, found none; the order",
    );
    check(&pci("", "<gpu dev=\"x\"/>"), "`dev` of <gpu> to be a whole number");
    check(
        &pci("", "<gpu dev=\"1\" sm=\"x\" gdr=\"maybe\" rank=\"1e99\"/>"),
        "`gdr` of <gpu> to be 0 or 1, found \"maybe\"",
    );
    check(
        &pci("", "<gpu dev=\"1\"><nvlink target=\"x\" count=\"1\"/></gpu>"),
        "`target` of <nvlink>",
    );
    check(
        &pci("", "<gpu dev=\"1\"><nvlink target=\"0000:01:00.0\"/></gpu>"),
        "found none; 1 is taken",
    );
    check(&pci("", "<gpu dev=\"1\"><c2c count=\"1\"/></gpu>"), "expected `bw` of <c2c>");
    check(&pci("", "<gpu dev=\"1\"><hylink/></gpu>"), "<hylink> in <gpu> is not known");
    check(&pci("", "<nic><net dev=\"1\"/></nic>"), "expected `name` of <net>");
    check(&pci("", "<nic><net name=\"&lt;\" dev=\"1\"/></nic>"), "printable ASCII");
    check(&pci("", "<nic><net name=\"a\"/></nic>"), "expected `dev` of <net>");
    check(
        &pci("", "<nic><net name=\"a\" dev=\"1\" speed=\"fast\"/></nic>"),
        "found \"fast\"; 10000 is taken",
    );
    check(&pci("", "<nic><net name=\"a\" dev=\"1\" latency=\"-1\"/></nic>"), "`latency`");
    check(&pci("", "<pcilink target=\"x\"/>"), "`target` of <pcilink>");
    let cpu = |attributes: &str, expected: &str| {
        let (topology, notes) =
            read(&format!("<system><cpu {attributes}><pci busid=\"01:00.0\"/></cpu></system>"));
        assert!(notes.iter().any(|note| note.contains(expected)), "{attributes}: {notes:?}");
        assert_eq!(cpus(&topology)[0].devices.len(), 1);
    };
    cpu("arch=\"z80\"", "`arch` of <cpu> to be one of x86_64, arm64, ppc64");
    cpu("vendor=\"Cyrix\"", "links between sockets count as slow");
    cpu("familyid=\"x\"", "`familyid` of <cpu> to be a whole number");
    cpu("numaid=\"x\"", "found \"x\"; 0 is taken");
    cpu("affinity=\"most\"", "a processor mask or list, found \"most\"");
    cpu("affinity=\"5-3\"", "a processor mask or list");
    cpu("host_hash=\"here\"", "`host_hash`");
}

/// Devices below what is not known, or does not state where it is, are not lost.
#[test]
fn what_stands_below_the_unknown_is_used() {
    let nic = "<pci busid=\"0000:05:00.0\"><nic><net name=\"a\" dev=\"0\"/></nic></pci>";
    for above in [
        "<pcivSwitch id=\"0\">|</pcivSwitch>",
        "<pci class=\"0x060400\">|</pci>",
        "<pci busid=\"?\">|</pci>",
    ] {
        let file = format!("<system><cpu numaid=\"0\">{}</cpu></system>", above.replace('|', nic));
        let (topology, notes) = read(&file);
        assert_eq!((topology.nets().len(), notes.len()), (1, 1), "{notes:?}");
        let Some(Device::Nic(found)) = cpus(&topology)[0].devices.first() else { panic!("{file}") };
        assert_eq!(found.function.as_ref().unwrap().bus_id.to_string(), "0000:05:00.0");
    }
}

#[test]
fn one_note_stands_for_many_elements() {
    let cpus = "<cpu vendor=\"Cyrix\"/>\n".repeat(1000);
    let (_, notes) = read(&format!("<system>\n{cpus}</system>"));
    assert_eq!(notes.len(), 1);
    assert!(notes[0].starts_with("line 2: ") && notes[0].ends_with(" (1000 times)"), "{notes:?}");
    let many: String = (0..1000).map(|at| format!("<cpu arch=\"{at}\"/>")).collect();
    assert_eq!(xml::read(&format!("<system>{many}</system>")).unwrap().notes.len(), 64);
}
