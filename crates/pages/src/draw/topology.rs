//! A topology as layers: a row for each NUMA node, a column for each level below it.

use msccl_topology::system::Device;
use msccl_topology::{Topology, text};

use super::layers::{Arrow, Layers, Node, Tone};

/// The devices of `topology`; arrows lead from what is above to what is attached to it.
pub fn layers(topology: &Topology) -> Layers {
    let mut layers = Layers { title: "topology".to_owned(), ..Layers::default() };
    for (row, cpu) in topology.system().cpus.iter().enumerate() {
        layers.rows.push(format!("numa {}", cpu.numa));
        let mut drawing = TopologyDrawing { layers: &mut layers, row: row as u32 };
        let node = drawing.add(None, 0, format!("numa {}", cpu.numa), Tone::Wait);
        drawing.devices(node, 1, &cpu.devices);
    }
    layers
}

struct TopologyDrawing<'a> {
    layers: &'a mut Layers,
    row: u32,
}

impl TopologyDrawing<'_> {
    fn add(&mut self, above: Option<usize>, column: u32, label: String, tone: Tone) -> usize {
        let node = self.layers.boxes.len();
        let detail = label.clone();
        self.layers.boxes.push(Node { column, row: self.row, label, detail, tone });
        let arrow = above.map(|from| Arrow { from, to: node, carries_data: true });
        self.layers.arrows.extend(arrow);
        node
    }

    fn devices(&mut self, above: usize, column: u32, devices: &[Device]) {
        for device in devices {
            let tone = match device {
                Device::Switch(_) => Tone::Copy,
                Device::Gpu(_) => Tone::Send,
                Device::Nic(_) => Tone::Reduce,
            };
            let node = self.add(Some(above), column, text::label(device), tone);
            match device {
                Device::Switch(switch) => self.devices(node, column + 1, &switch.devices),
                Device::Gpu(_) => {}
                Device::Nic(nic) => nic.nets.iter().for_each(|net| {
                    self.add(Some(node), column + 1, text::port(net), Tone::Receive);
                }),
            }
        }
    }
}
