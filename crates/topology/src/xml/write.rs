//! From a description to a file.

use std::fmt::{self, Write};

use super::values::{ARCHS, VENDORS, speed, spelled};
use crate::system::{
    C2c, Cpu, Device, Gpu, GpuLinkKind, Net, Nic, NvLinks, PciFunction, PciLink, Switch, System,
};

/// `system` as a topology file.
pub fn write(system: &System) -> String {
    let System { name, cpus } = system;
    let mut writer = Writer { out: String::new(), depth: 0 };
    let mut attributes = AttributeWriter::default();
    attributes.add("version", 1);
    attributes.maybe("name", name.as_ref());
    writer.element("system", &attributes, |writer| cpus.iter().for_each(|cpu| writer.cpu(cpu)));
    writer.out
}

/// AttributeWriter as they stand in a tag.
#[derive(Default)]
struct AttributeWriter {
    text: String,
}

impl AttributeWriter {
    /// No value that is written here needs an escape: [`Name`](crate::system::Name) sees to it.
    fn add(&mut self, name: &str, value: impl fmt::Display) {
        // Writing to a string cannot fail.
        let _ = write!(self.text, " {name}=\"{value}\"");
    }

    fn maybe(&mut self, name: &str, value: Option<impl fmt::Display>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }

    fn of_function(function: &PciFunction) -> Self {
        let PciFunction {
            bus_id,
            class,
            vendor,
            device,
            subsystem_vendor,
            subsystem_device,
            link: PciLink { generation, width },
        } = function;
        let mut attributes = Self::default();
        attributes.add("busid", bus_id);
        attributes.maybe("class", class.as_ref());
        attributes.maybe("vendor", vendor.as_ref());
        attributes.maybe("device", device.as_ref());
        attributes.maybe("subsystem_vendor", subsystem_vendor.as_ref());
        attributes.maybe("subsystem_device", subsystem_device.as_ref());
        attributes.add("link_speed", generation.map_or("", speed));
        attributes.add("link_width", width);
        attributes
    }
}

struct Writer {
    out: String,
    depth: usize,
}

impl Writer {
    fn element(
        &mut self,
        name: &str,
        attributes: &AttributeWriter,
        inside: impl FnOnce(&mut Self),
    ) {
        let indent = "  ".repeat(self.depth);
        self.out.extend([&indent, "<", name, &attributes.text, ">\n"]);
        let start = self.out.len();
        self.depth += 1;
        inside(self);
        self.depth -= 1;
        if self.out.len() == start {
            self.out.truncate(start - ">\n".len());
            self.out.push_str("/>\n");
        } else {
            self.out.extend([&indent, "</", name, ">\n"]);
        }
    }

    fn cpu(&mut self, cpu: &Cpu) {
        let Cpu { numa, affinity, arch, vendor, family, model, host, devices } = cpu;
        let mut attributes = AttributeWriter::default();
        attributes.maybe("host_hash", host.map(|host| format!("{:#x}", host.0)));
        attributes.add("numaid", numa);
        attributes.add("affinity", affinity);
        attributes.maybe("arch", arch.map(|arch| spelled(&ARCHS, &arch)));
        attributes.maybe("vendor", vendor.map(|vendor| spelled(&VENDORS, &vendor)));
        attributes.maybe("familyid", family.as_ref());
        attributes.maybe("modelid", model.as_ref());
        self.element("cpu", &attributes, |writer| writer.devices(devices));
    }

    fn devices(&mut self, devices: &[Device]) {
        for device in devices {
            match device {
                Device::Switch(switch) => self.switch(switch),
                Device::Gpu(gpu) => {
                    let attributes = AttributeWriter::of_function(&gpu.function);
                    self.element("pci", &attributes, |writer| writer.gpu(gpu));
                }
                Device::Nic(Nic { function: None, nets }) => self.nic(nets),
                Device::Nic(Nic { function: Some(function), nets }) => {
                    let attributes = AttributeWriter::of_function(function);
                    self.element("pci", &attributes, |writer| writer.nic(nets));
                }
            }
        }
    }

    fn switch(&mut self, switch: &Switch) {
        let Switch { function, peers, devices } = switch;
        self.element("pci", &AttributeWriter::of_function(function), |writer| {
            for peer in peers {
                let mut attributes = AttributeWriter::default();
                attributes.add("target", peer);
                writer.element("pcilink", &attributes, |_| {});
            }
            writer.devices(devices);
        });
    }

    fn gpu(&mut self, gpu: &Gpu) {
        let Gpu { function: _, dev, sm, gcn, rank, gdr, nvlinks, c2c } = gpu;
        let mut attributes = AttributeWriter::default();
        attributes.add("dev", dev);
        attributes.maybe("sm", sm.as_ref());
        attributes.maybe("gcn", gcn.as_ref());
        attributes.maybe("rank", rank.as_ref());
        attributes.maybe("gdr", gdr.map(u8::from));
        self.element("gpu", &attributes, |writer| {
            nvlinks.iter().for_each(|links| writer.nvlinks(links));
            if let Some(C2c { megabytes_per_s, count }) = c2c {
                let mut attributes = AttributeWriter::default();
                attributes.add("bw", megabytes_per_s);
                attributes.add("count", count);
                writer.element("c2c", &attributes, |_| {});
            }
        });
    }

    fn nvlinks(&mut self, links: &NvLinks) {
        let NvLinks { kind, target, count, target_class } = links;
        let name = match kind {
            GpuLinkKind::NvLink => "nvlink",
            GpuLinkKind::Xgmi => "xgmi",
        };
        let mut attributes = AttributeWriter::default();
        match target {
            Some(target) => attributes.add("target", target),
            None => attributes.add("target", "fffffff:ffff:ff"),
        }
        attributes.add("count", count);
        attributes.add("tclass", target_class);
        self.element(name, &attributes, |_| {});
    }

    fn nic(&mut self, nets: &[Net]) {
        self.element("nic", &AttributeWriter::default(), |writer| {
            nets.iter().for_each(|net| writer.net(net));
        });
    }

    fn net(&mut self, net: &Net) {
        let Net {
            name,
            dev,
            speed_mbit_per_s,
            port,
            latency_ns,
            guid,
            max_connections,
            gdr,
            coll,
            rail,
            plane,
        } = net;
        let mut attributes = AttributeWriter::default();
        attributes.add("name", name);
        attributes.add("dev", dev);
        attributes.add("latency", format_args!("{}.{:03}", latency_ns / 1000, latency_ns % 1000));
        attributes.add("speed", speed_mbit_per_s);
        attributes.add("port", port);
        attributes.add("guid", format_args!("{guid:#x}"));
        attributes.add("maxconn", max_connections);
        attributes.add("gdr", u8::from(*gdr));
        attributes.add("coll", u8::from(*coll));
        attributes.maybe("rail", rail.as_ref());
        attributes.maybe("plane", plane.as_ref());
        self.element("net", &attributes, |_| {});
    }
}
