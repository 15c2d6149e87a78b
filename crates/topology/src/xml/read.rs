//! From elements to a description.

use std::cell::Cell;

use super::error::{Note, Notes, ReadError};
use super::markup::{self, Element};
use super::values::{ARCHS, Attributes, NUMBER, VENDORS, bus_id, cpu_set, flag, generation};
use super::values::{hex, hex_as, microseconds};
use crate::address::{BusId, PciClass, PciId};
use crate::system::{
    C2c, Cpu, Device, Gpu, GpuLinkKind, HostHash, Name, Net, Nic, NvLinks, PciFunction, PciLink,
    Switch, System,
};

/// What NCCL takes for ports that do not state their speed.
const DEFAULT_SPEED_MBIT_PER_S: u32 = 10_000;
/// What NCCL takes for ports that do not state how many connections they bear.
const DEFAULT_CONNECTIONS: u32 = 65_536;
/// What stands for links that lead nobody knows where.
const UNKNOWN_TARGET: &str = "fffffff:ffff:ff";
/// Most lanes of a PCI link. `sysfs` says 63 or 255 of devices that do not know.
const MOST_LANES: u16 = 32;

/// A topology file, read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Read {
    /// What it says.
    pub system: System,
    /// What of it is not used, or not as it stands there, in the order of the file.
    pub notes: Vec<Note>,
}

/// Reads a topology file.
///
/// # Errors
///
/// The file is not XML, not a topology, of another version, or beyond the limits of this reader.
pub fn read(text: &str) -> Result<Read, ReadError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let root = markup::parse(text)?;
    let notes = Notes::new(text);
    let reader = Reader { text, notes: &notes, gpus: Cell::new(0), nets: Cell::new(0) };
    let system = reader.system(&root)?;
    Ok(Read { system, notes: notes.finish() })
}

const BUS_ID: &str = "a PCI address such as 0000:1b:00.0";
const HEX: &str = "a hexadecimal number";
const UNUSED: &str = "it is not used";

fn children<'a>(element: &'a Element, name: &'a str) -> impl Iterator<Item = &'a Element> {
    element.children.iter().filter(move |child| child.name == name)
}

struct Reader<'a> {
    text: &'a str,
    notes: &'a Notes<'a>,
    /// GPUs so far.
    gpus: Cell<u32>,
    /// Ports so far.
    nets: Cell<u32>,
}

/// One more, and what was counted before.
fn count(cell: &Cell<u32>) -> u32 {
    let before = cell.get();
    cell.set(before.saturating_add(1));
    before
}

impl<'a> Reader<'a> {
    /// The attributes of `element`, of which it may have those that `known` names.
    fn attributes(&self, element: &'a Element, known: &[&str]) -> Attributes<'a> {
        let attributes = Attributes { text: self.text, notes: self.notes, element };
        attributes.note_unknown(known);
        attributes
    }

    /// Notes an element that nobody knows where it stands.
    fn stray(&self, parent: &Element, child: &Element) {
        let (child_name, parent) = (super::error::clip(&child.name), &parent.name);
        let instead = if child.children.is_empty() {
            UNUSED
        } else {
            "what it holds counts as held by what is above"
        };
        let message = format!("<{child_name}> in <{parent}> is not known; {instead}");
        self.notes.add(child.offset, message);
    }

    fn system(&self, root: &'a Element) -> Result<System, ReadError> {
        let attributes = self.attributes(root, &["version", "name"]);
        if root.name != "system" {
            return Err(attributes.error("<system>".to_owned(), format!("<{}>", root.name)));
        }
        match attributes.text("version").map(str::trim) {
            None | Some("" | "1" | "2") => {}
            Some(other) => {
                let found = format!("version {other:?}");
                return Err(attributes.error("<system> of version 1 or 2".to_owned(), found));
            }
        }
        let name = attributes.name("name", UNUSED);
        let mut cpus = Vec::new();
        for child in &root.children {
            match child.name.as_str() {
                "cpu" => cpus.push(self.cpu(child)),
                _ => self.stray(root, child),
            }
        }
        Ok(System { name, cpus })
    }

    fn cpu(&self, element: &'a Element) -> Cpu {
        let known = ["numaid", "affinity", "arch", "vendor", "familyid", "modelid", "host_hash"];
        let attributes = self.attributes(element, &known);
        let (mask, slow) = ("a processor mask or list", "links between sockets count as slow");
        let affinity = attributes.optional("affinity", mask, UNUSED, cpu_set);
        Cpu {
            // NCCL writes -1 on machines without NUMA.
            numa: attributes.number("numaid", "0 is taken").unwrap_or(0),
            affinity: affinity.unwrap_or_default(),
            arch: attributes.word("arch", &ARCHS, slow),
            vendor: attributes.word("vendor", &VENDORS, slow),
            family: attributes.number("familyid", UNUSED),
            model: attributes.number("modelid", UNUSED),
            host: attributes.optional("host_hash", HEX, UNUSED, hex).map(HostHash),
            devices: self.devices(element),
        }
    }

    /// The devices within `element`. What is attached to an element that is not known counts as
    /// attached to what is above it.
    fn devices(&self, element: &'a Element) -> Vec<Device> {
        let mut devices = Vec::new();
        for child in &element.children {
            match child.name.as_str() {
                "pci" => devices.extend(self.pci(child)),
                // Read by whoever reads the <pci> itself; NVLinks of processors are not used.
                "gpu" | "nic" | "pcilink" | "nvlink" if element.name == "pci" => {}
                "nic" => devices.push(Device::Nic(self.nic(child, None))),
                _ => {
                    self.stray(element, child);
                    devices.extend(self.devices(child));
                }
            }
        }
        devices
    }

    /// A `<pci>` is every GPU and every NIC that it holds, and a switch if it holds none. What is
    /// attached to a GPU or a NIC counts as attached to what is above.
    fn pci(&self, element: &'a Element) -> Vec<Device> {
        let Some(function) = self.function(element) else { return self.nowhere(element) };
        let gpus = children(element, "gpu");
        let gpus = gpus.map(|gpu| Device::Gpu(self.gpu(gpu, function.clone())));
        let mut ends: Vec<_> = gpus.collect();
        let nics = children(element, "nic");
        ends.extend(nics.map(|nic| Device::Nic(self.nic(nic, Some(function.clone())))));
        let below = self.devices(element);
        if !ends.is_empty() {
            return ends.into_iter().chain(below).collect();
        }
        let peers = children(element, "pcilink").filter_map(|link| {
            self.attributes(link, &["target"]).optional("target", BUS_ID, UNUSED, bus_id)
        });
        vec![Device::Switch(Switch { function, peers: peers.collect(), devices: below })]
    }

    /// A `<pci>` that does not state where it is.
    fn nowhere(&self, element: &'a Element) -> Vec<Device> {
        let mut devices: Vec<_> =
            children(element, "nic").map(|nic| Device::Nic(self.nic(nic, None))).collect();
        devices.extend(self.devices(element));
        devices
    }

    /// What `<pci>` says of itself; `None` if it does not state where it is, with a note.
    fn function(&self, element: &'a Element) -> Option<PciFunction> {
        let known = [
            "busid",
            "class",
            "vendor",
            "device",
            "subsystem_vendor",
            "subsystem_device",
            "link_speed",
            "link_width",
            "keep",
        ];
        let attributes = self.attributes(element, &known);
        let Some(bus_id) = attributes.text("busid").and_then(bus_id) else {
            let found =
                attributes.text("busid").map_or("none".to_owned(), |text| format!("{text:?}"));
            attributes.note(format!(
                "expected <pci> with a `busid`, {BUS_ID}, found {found}; what is attached to it \
                 counts as attached to what is above it, and a GPU without an address is not used"
            ));
            return None;
        };
        let id = |name| attributes.optional(name, HEX, UNUSED, hex_as).map(PciId);
        let lanes = |text: &str| {
            let lanes = text.trim().parse::<u16>().ok()?;
            (lanes <= MOST_LANES).then_some(lanes)
        };
        let speed = "8 GT/s is taken";
        Some(PciFunction {
            bus_id,
            class: attributes.optional("class", HEX, UNUSED, class),
            vendor: id("vendor"),
            device: id("device"),
            subsystem_vendor: id("subsystem_vendor"),
            subsystem_device: id("subsystem_device"),
            link: PciLink {
                generation: attributes.optional(
                    "link_speed",
                    "a speed such as 16.0 GT/s PCIe",
                    speed,
                    generation,
                ),
                width: attributes
                    .optional("link_width", "a number of lanes up to 32", "16 are taken", lanes)
                    .unwrap_or(0),
            },
        })
    }

    fn gpu(&self, element: &'a Element, function: PciFunction) -> Gpu {
        // RCCL states by `arch` what `gcn` states as well.
        let known = ["dev", "sm", "rank", "gdr", "gcn", "arch", "keep", "mlopart"];
        let attributes = self.attributes(element, &known);
        let order = count(&self.gpus);
        let gcn = attributes.name("gcn", UNUSED);
        // RCCL has the number of compute units there.
        let sm = attributes.number("sm", UNUSED).filter(|_| gcn.is_none());
        let mut nvlinks = Vec::new();
        for child in &element.children {
            match child.name.as_str() {
                "nvlink" => nvlinks.extend(self.links(child, GpuLinkKind::NvLink)),
                "xgmi" => nvlinks.extend(self.links(child, GpuLinkKind::Xgmi)),
                "c2c" => {}
                _ => self.stray(element, child),
            }
        }
        Gpu {
            function,
            dev: numbered(&attributes, order),
            sm,
            gcn,
            rank: attributes.number("rank", UNUSED),
            gdr: attributes.optional("gdr", "0 or 1", UNUSED, flag),
            nvlinks,
            c2c: children(element, "c2c").find_map(|c2c| self.c2c(c2c)),
        }
    }

    /// A bundle of links; none if they lead nowhere.
    fn links(&self, element: &'a Element, kind: GpuLinkKind) -> Option<NvLinks> {
        let attributes = self.attributes(element, &["target", "count", "tclass"]);
        let target_class = attributes.optional("tclass", HEX, "it counts as a GPU", class);
        let target_class = target_class.unwrap_or(PciClass::GPU);
        let target = attributes.optional("target", BUS_ID, UNUSED, target).flatten();
        let count = attributes.number("count", "1 is taken").unwrap_or_else(|| {
            if attributes.text("count").is_none() {
                attributes.note(format!(
                    "expected `count` of <{}>, {NUMBER}, found none; 1 is taken",
                    element.name
                ));
            }
            1
        });
        Some(NvLinks { kind, target, count, target_class })
    }

    /// The link to the processor in the package, if the file says how fast it is.
    fn c2c(&self, element: &'a Element) -> Option<C2c> {
        let attributes = self.attributes(element, &["bw", "count"]);
        let megabytes_per_s = attributes.number("bw", UNUSED);
        if megabytes_per_s.is_none() && attributes.text("bw").is_none() {
            attributes.note(format!("expected `bw` of <c2c>, {NUMBER}, found none; {UNUSED}"));
        }
        let count = attributes.number("count", "1 is taken").unwrap_or(1);
        Some(C2c { megabytes_per_s: megabytes_per_s?, count })
    }

    fn nic(&self, element: &'a Element, function: Option<PciFunction>) -> Nic {
        self.attributes(element, &["keep"]);
        let mut nets = Vec::new();
        for child in &element.children {
            match child.name.as_str() {
                "net" => nets.push(self.net(child)),
                _ => self.stray(element, child),
            }
        }
        Nic { function, nets }
    }

    fn net(&self, element: &'a Element) -> Net {
        let known = [
            "name", "dev", "speed", "port", "latency", "guid", "maxconn", "gdr", "coll", "rail",
            "plane", "keep", "net", "gin", "rma",
        ];
        let attributes = self.attributes(element, &known);
        let order = count(&self.nets);
        let flag = |name| attributes.optional(name, "0 or 1", "0 is taken", flag).unwrap_or(false);
        let speed = attributes.number("speed", "10000 is taken").filter(|&speed| speed > 0);
        let microseconds = |text: &str| microseconds(text);
        let dev = numbered(&attributes, order);
        Net {
            name: named(&attributes, dev),
            dev,
            speed_mbit_per_s: speed.unwrap_or(DEFAULT_SPEED_MBIT_PER_S),
            port: attributes.number("port", UNUSED).unwrap_or(0),
            latency_ns: attributes
                .optional("latency", "a time in microseconds", "0 is taken", microseconds)
                .unwrap_or(0),
            guid: attributes.optional("guid", HEX, UNUSED, hex).unwrap_or(0),
            max_connections: attributes.number("maxconn", UNUSED).unwrap_or(DEFAULT_CONNECTIONS),
            gdr: flag("gdr"),
            coll: flag("coll"),
            rail: attributes.number("rail", UNUSED),
            plane: attributes.number("plane", UNUSED),
        }
    }
}

/// `dev`, or the place in the order of the file.
fn numbered(attributes: &Attributes<'_>, order: u32) -> u32 {
    attributes.number("dev", "the order of the file decides").unwrap_or_else(|| {
        if attributes.text("dev").is_none() {
            let element = &attributes.element.name;
            attributes.note(format!(
                "expected `dev` of <{element}>, {NUMBER}, found none; the order of the file decides"
            ));
        }
        order
    })
}

/// The name of port number `dev`.
fn named(attributes: &Attributes<'_>, dev: u32) -> Name {
    let named = attributes.name("name", "its number stands for it");
    named.unwrap_or_else(|| {
        if attributes.text("name").is_none() {
            attributes
                .note("expected `name` of <net>, found none; its number stands for it".to_owned());
        }
        Name::of_port(dev)
    })
}

/// A class; base class, subclass and interface fill 24 bits.
fn class(text: &str) -> Option<PciClass> {
    hex_as(text).filter(|class| *class < 1 << 24).map(PciClass)
}

/// Where links lead.
fn target(text: &str) -> Option<Option<BusId>> {
    if text.starts_with(UNKNOWN_TARGET) { Some(None) } else { bus_id(text).map(Some) }
}
