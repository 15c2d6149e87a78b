//! An unsafe boundary: the symbol that proxies look for, and the table behind it, whose functions
//! anybody may call from C. `msccl_proxy::rdma::offer` makes them of what this file says of ports,
//! registrations and rails.

#![expect(unsafe_code, reason = "exports a symbol with a table of functions in the C ABI")]

use std::ffi::c_void;
use std::sync::Arc;

use msccl_proxy::rdma::abi;
use msccl_proxy::rdma::offer::{Library, OfferedDmaBuf, Refusal, table};

use crate::address::{mtu_bytes, padded};
use crate::machine::{Machine, Port, Registration, Settings};
use crate::rail::{Rail, Unconnected};
use crate::verbs::{Refused, Region};

static API: abi::Api = table::<Machine>();

/// Gives the table of `version`, or null: [`abi::ENTRY`].
#[unsafe(no_mangle)]
pub extern "C" fn msccl_rdma_api(version: u32) -> *const abi::Api {
    if version == abi::VERSION { &raw const API } else { std::ptr::null() }
}

impl From<Unconnected> for Refusal {
    fn from(unconnected: Unconnected) -> Self {
        match unconnected {
            Unconnected::Never(why) => Self::Failed(why),
            Unconnected::NotNow(why) => Self::Unanswered(why),
        }
    }
}

impl Library for Machine {
    type Registration = Arc<Registration>;
    type Rail = Rail;

    fn open(hca: &str, config: &abi::VerbsConfig) -> Result<Self, Refusal> {
        let abi::VerbsConfig {
            hca: _,
            hca_bytes: _,
            gid_index,
            timeout,
            retry_count,
            traffic_class,
            service_level,
        } = *config;
        let numbers = [gid_index, timeout, retry_count, traffic_class, service_level];
        Ok(Self::open(Settings::new(hca, numbers)?)?)
    }

    fn devices(&self) -> Vec<abi::Device> {
        self.ports().iter().map(|port| device(port)).collect()
    }

    unsafe fn register(
        &self,
        device: u32,
        address: *mut c_void,
        bytes: u64,
    ) -> Result<Self::Registration, Refusal> {
        let port = self.port(device)?;
        // SAFETY: the caller gives memory that stays as long as the registration.
        let region = unsafe { Region::new(port.watch.adapter(), address, bytes) };
        registered(port, region)
    }

    fn register_dmabuf(
        &self,
        device: u32,
        memory: OfferedDmaBuf,
    ) -> Result<Self::Registration, Refusal> {
        let port = self.port(device)?;
        let OfferedDmaBuf { descriptor, offset, bytes, address } = memory;
        let adapter = port.watch.adapter();
        registered(port, Region::of_dmabuf(adapter, descriptor, offset, bytes, address))
    }

    fn rail(&self, memory: &Self::Registration) -> Result<(Rail, abi::Address), Refusal> {
        let rail = Rail::new(self.settings(), Arc::clone(memory))?;
        let address = rail.address();
        Ok((rail, address))
    }

    fn connect(rail: &mut Rail, peer: &abi::Address) -> Result<(), Refusal> {
        Ok(rail.connect(peer)?)
    }

    fn describe(rail: &Rail) -> String {
        rail.describe()
    }

    fn post(rail: &mut Rail, write: &abi::RawWrite) -> Result<bool, Refusal> {
        Ok(rail.post(write)?)
    }

    fn poll(rail: &mut Rail, happened: &mut [abi::RawRailEvent]) -> Result<usize, Refusal> {
        Ok(rail.poll(happened)?)
    }

    fn fail(rail: &mut Rail) {
        rail.close();
    }
}

fn device(port: &Port) -> abi::Device {
    abi::Device {
        name: padded(port.watch.adapter().name()),
        pci_path: padded(&port.pci_path()),
        port: u32::from(port.number),
        mtu_bytes: mtu_bytes(port.facts.mtu_code),
        gbit_per_s: port.gbit_per_s(),
        ethernet: u32::from(port.facts.ethernet),
    }
}

/// The registration of `region`, or why there is none.
fn registered(
    port: &Arc<Port>,
    region: Result<Region, Refused>,
) -> Result<Arc<Registration>, Refusal> {
    let region = region.map_err(|refused| not_registered(port, &refused))?;
    Ok(Arc::new(Registration { region, port: Arc::clone(port) }))
}

fn not_registered(port: &Port, refused: &Refused) -> Refusal {
    let port = port.describe();
    if refused.is_unsupported() {
        return Refusal::Unsupported(format!("{port} does not offer that: {refused}"));
    }
    let advice = match refused.error.kind() {
        std::io::ErrorKind::OutOfMemory => {
            "; memory that may be locked is limited (see `ulimit -l`)"
        }
        _ => "",
    };
    Refusal::Failed(format!("{port} cannot access the memory: {refused}{advice}"))
}
