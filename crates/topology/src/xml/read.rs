//! From elements to a description.

use super::error::ReadError;
use super::markup::{self, Element};
use super::values::{ARCHS, Attributes, NUMBER, VENDORS, cpu_set, flag, generation};
use super::values::{hex, hex_as, microseconds};
use crate::address::{BusId, PciClass, PciId};
use crate::system::{
    C2c, Cpu, Device, Gpu, HostHash, Name, Net, Nic, NvLinks, PciFunction, PciLink, Switch, System,
};

/// What NCCL takes for ports that do not tell their speed.
const DEFAULT_SPEED_MBIT_PER_S: u32 = 10_000;
/// What NCCL takes for ports that do not tell how many connections they bear.
const DEFAULT_CONNECTIONS: u32 = 65_536;
/// What stands for NVLinks that lead nobody knows where.
const UNKNOWN_TARGET: &str = "fffffff:ffff:ff";

/// Reads a topology file.
///
/// # Errors
///
/// The file is not XML, not a topology, beyond NCCL's limits, or a value makes no sense.
pub fn read(text: &str) -> Result<System, ReadError> {
    let root = markup::parse(text)?;
    let reader = Reader { text };
    let attributes = reader.attributes(&root);
    if root.name != "system" {
        return Err(attributes.error("<system>".to_owned(), format!("<{}>", root.name)));
    }
    match attributes.text("version") {
        None | Some("1" | "2") => {}
        Some(other) => {
            let found = format!("version {other:?}");
            return Err(attributes.error("<system> of version 1".to_owned(), found));
        }
    }
    let name = attributes.optional("name", NAME, Name::new)?;
    let cpus = children(&root, "cpu").map(|cpu| reader.cpu(cpu)).collect::<Result<_, _>>()?;
    Ok(System { name, cpus })
}

const NAME: &str = "printable ASCII without quotes, `<`, `>` and `&`";
const BUS_ID: &str = "a PCI address such as 0000:1b:00.0";
const HEX: &str = "a hexadecimal number";

fn children<'a>(element: &'a Element, name: &'a str) -> impl Iterator<Item = &'a Element> {
    element.children.iter().filter(move |child| child.name == name)
}

struct Reader<'a> {
    text: &'a str,
}

impl<'a> Reader<'a> {
    fn attributes(&self, element: &'a Element) -> Attributes<'a> {
        Attributes { text: self.text, element }
    }

    fn cpu(&self, element: &'a Element) -> Result<Cpu, ReadError> {
        let attributes = self.attributes(element);
        let affinity = attributes.optional("affinity", "words of a processor mask", cpu_set)?;
        Ok(Cpu {
            // NCCL writes -1 on machines without NUMA.
            numa: attributes.known_number("numaid")?.unwrap_or(0),
            affinity: affinity.unwrap_or_default(),
            arch: attributes.word("arch", &ARCHS)?,
            vendor: attributes.word("vendor", &VENDORS)?,
            family: attributes.number("familyid")?,
            model: attributes.number("modelid")?,
            host: attributes.optional("host_hash", HEX, hex)?.map(HostHash),
            devices: self.devices(element)?,
        })
    }

    /// The devices directly within `element`.
    fn devices(&self, element: &'a Element) -> Result<Vec<Device>, ReadError> {
        let mut devices = Vec::new();
        for child in &element.children {
            match child.name.as_str() {
                "pci" => devices.push(self.pci(child)?),
                "nic" => devices.push(Device::Nic(Nic { function: None, nets: self.nets(child)? })),
                _ => {}
            }
        }
        Ok(devices)
    }

    /// A `<pci>` is a GPU or a NIC if it holds one, and a switch otherwise.
    fn pci(&self, element: &'a Element) -> Result<Device, ReadError> {
        let function = self.function(element)?;
        let mut ends = element.children.iter().filter(|child| is_end(child));
        let Some(end) = ends.next() else {
            let peers = children(element, "pcilink").map(|link| {
                self.attributes(link).required("target", BUS_ID, |text| text.parse().ok())
            });
            let peers = peers.collect::<Result<_, _>>()?;
            return Ok(Device::Switch(Switch { function, peers, devices: self.devices(element)? }));
        };
        if let Some(second) = ends.next().or_else(|| children(element, "pci").next()) {
            let found = format!("<{}> beside <{}>", second.name, end.name);
            let expected = "one <gpu>, one <nic>, or <pci> elements in a <pci>".to_owned();
            return Err(self.attributes(second).error(expected, found));
        }
        Ok(match end.name.as_str() {
            "gpu" => Device::Gpu(self.gpu(end, function)?),
            _ => Device::Nic(Nic { function: Some(function), nets: self.nets(end)? }),
        })
    }

    fn function(&self, element: &'a Element) -> Result<PciFunction, ReadError> {
        let attributes = self.attributes(element);
        let id = |name| attributes.optional(name, HEX, hex_as).map(|id| id.map(PciId));
        let width = attributes.optional("link_width", NUMBER, |text| text.parse().ok())?;
        let generation = attributes.text("link_speed").and_then(generation);
        Ok(PciFunction {
            bus_id: attributes.required("busid", BUS_ID, |text| text.parse().ok())?,
            class: attributes.required("class", HEX, class)?,
            vendor: id("vendor")?,
            device: id("device")?,
            subsystem_vendor: id("subsystem_vendor")?,
            subsystem_device: id("subsystem_device")?,
            link: PciLink { generation, width: width.unwrap_or(0) },
        })
    }

    fn gpu(&self, element: &'a Element, function: PciFunction) -> Result<Gpu, ReadError> {
        let attributes = self.attributes(element);
        let nvlinks = children(element, "nvlink").map(|link| self.nvlinks(link));
        let c2c = children(element, "c2c").next().map(|link| self.c2c(link));
        Ok(Gpu {
            function,
            dev: attributes.required("dev", NUMBER, |text| text.parse().ok())?,
            sm: attributes.known_number("sm")?,
            rank: attributes.known_number("rank")?,
            gdr: attributes.optional("gdr", "0 or 1", flag)?,
            nvlinks: nvlinks.collect::<Result<_, _>>()?,
            c2c: c2c.transpose()?,
        })
    }

    fn nvlinks(&self, element: &'a Element) -> Result<NvLinks, ReadError> {
        let attributes = self.attributes(element);
        let class = attributes.optional("tclass", HEX, class)?;
        Ok(NvLinks {
            target: attributes.required("target", BUS_ID, target)?,
            count: attributes.required("count", NUMBER, |text| text.parse().ok())?,
            target_class: class.unwrap_or(PciClass::GPU),
        })
    }

    fn c2c(&self, element: &'a Element) -> Result<C2c, ReadError> {
        let attributes = self.attributes(element);
        Ok(C2c {
            megabytes_per_s: attributes.required("bw", NUMBER, |text| text.parse().ok())?,
            count: attributes.required("count", NUMBER, |text| text.parse().ok())?,
        })
    }

    fn nets(&self, nic: &'a Element) -> Result<Vec<Net>, ReadError> {
        children(nic, "net").map(|net| self.net(net)).collect()
    }

    fn net(&self, element: &'a Element) -> Result<Net, ReadError> {
        let attributes = self.attributes(element);
        let flag = |name| attributes.optional(name, "0 or 1", flag).map(|it| it.unwrap_or(false));
        let speed = attributes.known_number("speed")?.filter(|&speed| speed > 0);
        let latency = attributes.optional("latency", "a time in microseconds", microseconds)?;
        let connections = attributes.known_number("maxconn")?;
        Ok(Net {
            name: attributes.required("name", NAME, Name::new)?,
            dev: attributes.required("dev", NUMBER, |text| text.parse().ok())?,
            speed_mbit_per_s: speed.unwrap_or(DEFAULT_SPEED_MBIT_PER_S),
            port: attributes.number("port")?.unwrap_or(0),
            latency_ns: latency.unwrap_or(0),
            guid: attributes.optional("guid", HEX, hex)?.unwrap_or(0),
            max_connections: connections.unwrap_or(DEFAULT_CONNECTIONS),
            gdr: flag("gdr")?,
            coll: flag("coll")?,
            rail: attributes.known_number("rail")?,
            plane: attributes.known_number("plane")?,
        })
    }
}

fn is_end(element: &Element) -> bool {
    matches!(element.name.as_str(), "gpu" | "nic")
}

/// A class; base class, subclass and interface fill 24 bits.
fn class(text: &str) -> Option<PciClass> {
    hex_as(text).filter(|class| *class < 1 << 24).map(PciClass)
}

/// Where NVLinks lead.
fn target(text: &str) -> Option<Option<BusId>> {
    match text.starts_with(UNKNOWN_TARGET) {
        true => Some(None),
        false => text.parse().ok().map(Some),
    }
}
