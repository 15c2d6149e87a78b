//! RDMA, as a library of its own that is looked for at run time.
//!
//! `libmsccl-rdma.so` (crate `rdma`, which is outside of the workspace) speaks verbs. It offers one
//! symbol, [`abi::ENTRY`], which gives the functions of [`abi::Api`] ([`offer`] makes them).
//! Without it, or where there is no libibverbs or no device, everything else works.
//!
//! **Where it is looked for.** At [`RdmaConfig::library`] if that is set, and nowhere else then.
//! Otherwise beside the library or executable that holds this code, then beside the executable,
//! then wherever the system's loader looks.
//!
//! **Memory.** A device reaches the memory of ports by its dma-buf, if it has one
//! ([`Memory::dmabuf`]); if the device or the driver does not offer that, by its address, if it is
//! the host's. A registration is shared by all rails of a device that use the same memory, and ends
//! with the last of them.

pub mod abi;
mod calls;
mod library;
pub mod offer;
mod port_selection;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError, Weak};

use msccl_topology::PathType;

use crate::config::{MachineFacts, Nics, RdmaConfig};
use crate::endpoint::Memory;
use crate::processors;
use crate::rail::{Broken, Posted, Rail, RailEvent, Write};
use calls::{DevicePort, MemoryRegistration, RailEnd, VerbsContext};
pub(crate) use offer::Refusal;
use port_selection::Choice;

/// The devices of this host that may be used.
pub(crate) struct Devices {
    context: Arc<VerbsContext>,
    devices: Vec<DevicePort>,
    /// Those that this rank uses, if it can.
    chosen: Choice,
    registrations: Mutex<Vec<Known>>,
}

/// A device as peers must know it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Usable {
    pub(crate) name: String,
    /// Whether this rank has chosen it, and it reaches the memory in question.
    pub(crate) near: bool,
}

/// What devices can do for the memory of links to one peer.
pub(crate) struct Registrations {
    /// All devices, in their order.
    pub(crate) devices: Vec<Usable>,
    /// Why some that were chosen cannot reach it.
    pub(crate) troubles: Vec<String>,
    /// Keeps what was registered.
    pub(crate) registered: Registered,
}

/// Memory that all chosen devices reach as long as this lives; whoever connects it meanwhile need
/// not register it again.
pub struct Registered {
    _all: Vec<Arc<MemoryRegistration>>,
}

/// Memory that a device reaches already.
struct Known {
    device: u32,
    memory: Weak<dyn Memory>,
    registration: Weak<MemoryRegistration>,
}

impl Devices {
    /// Finds the library and its devices; the text says why there are none.
    pub(crate) fn find(config: &RdmaConfig) -> Result<Self, String> {
        match config.enabled {
            true => Self::open(library::load(config.library.as_deref())?, config),
            false => Err("RDMA is switched off".to_owned()),
        }
    }

    fn open(api: &'static abi::Api, config: &RdmaConfig) -> Result<Self, String> {
        let context = Arc::new(VerbsContext::open(api, config)?);
        let devices = context.devices();
        match devices.is_empty() {
            true => Err("no device for RDMA".to_owned()),
            false => {
                let chosen =
                    port_selection::choose(&devices, Nics::Every, &MachineFacts::default(), &[]);
                Ok(Self { context, devices, chosen, registrations: Mutex::new(Vec::new()) })
            }
        }
    }

    /// Of which this rank uses what it wishes for.
    pub(crate) fn choose(self, policy: Nics, around: &MachineFacts) -> Self {
        let chosen = port_selection::choose(&self.devices, policy, around, &processors::allowed());
        Self { chosen, ..self }
    }

    /// How far the chosen ones are, if that is known.
    pub(crate) fn distance(&self) -> Option<PathType> {
        self.chosen.distance
    }

    /// `mlx5_0:1 (InfiniBand, 400 Gbit/s), …; this rank uses mlx5_0:1 (nearest_ports to …)`
    pub(crate) fn describe(&self) -> String {
        let devices: Vec<_> = self.devices.iter().map(DevicePort::describe).collect();
        let all = devices.join(", ");
        if self.devices.len() == 1 {
            return all;
        }
        let Choice { devices: chosen, distance: _, why } = &self.chosen;
        let chosen = chosen.iter().map(|number| &self.devices[*number]);
        let chosen: Vec<_> =
            chosen.map(|device| format!("{}:{}", device.name, device.port)).collect();
        match chosen.len() == self.devices.len() {
            true => format!("{all}; this rank uses {why}"),
            false => format!("{all}; this rank uses {} ({why})", chosen.join(", ")),
        }
    }

    /// Lets the chosen devices reach `memory`. The text says why none can.
    pub(crate) fn register_on_devices(
        &self,
        memory: &Arc<dyn Memory>,
    ) -> Result<Registrations, String> {
        let (all, troubles) = self.register_chosen(memory);
        if all.is_empty() {
            return Err(troubles.join("; "));
        }
        let near = |number| all.iter().any(|(reaching, _)| *reaching == number);
        let devices = self.devices.iter().enumerate();
        let devices = devices
            .map(|(number, device)| Usable { name: device.name.clone(), near: near(number) })
            .collect();
        let all = all.into_iter().map(|(_, registration)| registration).collect();
        Ok(Registrations { devices, troubles, registered: Registered { _all: all } })
    }

    /// Lets every chosen device reach `memory`; the text names those that cannot.
    pub(crate) fn register_all(&self, memory: &Arc<dyn Memory>) -> Result<Registered, String> {
        let (all, troubles) = self.register_chosen(memory);
        let all = all.into_iter().map(|(_, registration)| registration).collect();
        if troubles.is_empty() { Ok(Registered { _all: all }) } else { Err(troubles.join("; ")) }
    }

    /// The registrations of `memory` with chosen devices, by their numbers, and why there are no
    /// others.
    fn register_chosen(
        &self,
        memory: &Arc<dyn Memory>,
    ) -> (Vec<(usize, Arc<MemoryRegistration>)>, Vec<String>) {
        let (mut all, mut troubles) = (Vec::new(), Vec::new());
        for &number in &self.chosen.devices {
            match self.registration(number as u32, memory) {
                Ok(registration) => all.push((number, registration)),
                Err(why) => troubles.push(format!("{}: {why}", self.devices[number].name)),
            }
        }
        (all, troubles)
    }

    /// One end of a rail on device `number` for `memory`.
    pub(crate) fn half(&self, number: usize, memory: &Arc<dyn Memory>) -> Result<Half, String> {
        let device = self.devices.get(number);
        let device = device.ok_or_else(|| format!("there is no device {number}"))?;
        let registration = self.registration(number as u32, memory);
        let result = registration.and_then(|registration| registration.end());
        let (end, address) = result.map_err(|why| format!("{}: {why}", device.name))?;
        Ok(Half { device: device.name.clone(), address, end })
    }

    fn registration(
        &self,
        device: u32,
        memory: &Arc<dyn Memory>,
    ) -> Result<Arc<MemoryRegistration>, String> {
        let mut known = self.registrations.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|known| known.registration.strong_count() > 0);
        let same = known.iter().find(|known| {
            known.device == device && Weak::ptr_eq(&known.memory, &Arc::downgrade(memory))
        });
        if let Some(registration) = same.and_then(|known| known.registration.upgrade()) {
            return Ok(registration);
        }
        let registration = Arc::new(self.register(device, memory)?);
        let (memory, weak) = (Arc::downgrade(memory), Arc::downgrade(&registration));
        known.push(Known { device, memory, registration: weak });
        Ok(registration)
    }

    fn register(
        &self,
        device: u32,
        memory: &Arc<dyn Memory>,
    ) -> Result<MemoryRegistration, String> {
        let in_host = memory.copies().is_none();
        if in_host && memory.dmabuf().is_none() {
            return self.context.register(device, memory).map_err(Refusal::text);
        }
        match self.context.register_dmabuf(device, memory) {
            Ok(registration) => Ok(registration),
            Err(Refusal::Failed(why) | Refusal::Unanswered(why)) => Err(why),
            // What is registered by its address may be read by processors.
            Err(Refusal::Unsupported(why)) if !in_host => Err(why),
            Err(Refusal::Unsupported(why)) => self
                .context
                .register(device, memory)
                .map_err(|other| format!("dma-buf: {why}; by address: {}", other.text())),
        }
    }
}

impl DevicePort {
    fn describe(&self) -> String {
        let Self { name, pci: _, port, gbit_per_s, ethernet } = self;
        let layer = if *ethernet { "RoCE" } else { "InfiniBand" };
        match gbit_per_s {
            0 => format!("{name}:{port} ({layer})"),
            _ => format!("{name}:{port} ({layer}, {gbit_per_s} Gbit/s)"),
        }
    }
}

/// One end of a rail that waits for the peer's address.
pub(crate) struct Half {
    device: String,
    address: abi::Address,
    end: RailEnd,
}

impl Half {
    /// What the peer must know.
    pub(crate) fn address(&self) -> &[u8] {
        &self.address.bytes
    }

    /// Connects with the end on the peer's device `device`, which is known by `address`.
    pub(crate) fn connect(&mut self, address: &[u8], device: &str) -> Result<(), Refusal> {
        let bytes = address.try_into().map_err(|_| {
            Refusal::Failed(format!("an address of {} bytes, 128 were expected", address.len()))
        })?;
        let name_rail = |why| format!("{} → {device}: {why}", self.device);
        self.end.connect(&abi::Address { bytes }).map_err(|refusal| match refusal {
            Refusal::Failed(why) => Refusal::Failed(name_rail(why)),
            Refusal::Unsupported(why) => Refusal::Unsupported(name_rail(why)),
            Refusal::Unanswered(why) => Refusal::Unanswered(name_rail(why)),
        })
    }

    /// The rail, once it is connected with `device`.
    pub(crate) fn into_rail(self, device: &str) -> Box<dyn Rail> {
        let description = self.end.describe();
        let description = match description.is_empty() {
            true => format!("{} → {device}", self.device),
            false => description,
        };
        Box::new(RdmaRail { end: self.end, description, broken: None })
    }
}

/// A queue pair as a rail.
struct RdmaRail {
    end: RailEnd,
    description: String,
    broken: Option<String>,
}

impl RdmaRail {
    fn check(&self) -> Result<(), Broken> {
        self.broken.clone().map_or(Ok(()), |why| Err(Broken { why }))
    }

    fn note<T>(&mut self, result: Result<T, String>) -> Result<T, Broken> {
        result.map_err(|why| {
            self.broken = Some(why.clone());
            Broken { why }
        })
    }
}

impl Rail for RdmaRail {
    fn describe(&self) -> String {
        self.description.clone()
    }

    fn post(&mut self, write: &Write) -> Result<Posted, Broken> {
        self.check()?;
        let posted = self.end.post(write);
        self.note(posted)
    }

    fn poll(&mut self, events: &mut Vec<RailEvent>) -> Result<(), Broken> {
        self.check()?;
        let polled = self.end.poll(events);
        self.note(polled)
    }

    fn close(&mut self) {
        self.broken.get_or_insert_with(|| "it was closed".to_owned());
        self.end.fail();
    }
}
