//! A library for RDMA whose devices reach no memory, for tests of which of them ranks choose. It is
//! compiled as a file of its own, so it includes what it stands in for; only its list of devices is
//! true. An unsafe boundary, for the symbol that it exports.

#[allow(dead_code, missing_docs, reason = "a part of it is used")]
#[path = "../../../proxy/src/rdma/abi.rs"]
mod abi;
#[allow(dead_code, missing_docs, reason = "a part of it is used")]
#[path = "../../../proxy/src/rdma/offer.rs"]
mod offer;

use std::convert::Infallible;
use std::ffi::c_void;

use abi::{Address, Api, Device, RawRailEvent, RawWrite, VerbsConfig};
use offer::{Library, OfferedDmaBuf, Refusal};

/// Ports of 400 Gbit/s, after which there is one of 25.
const FAST: usize = 2;

struct Unreachable;

fn padded<const LENGTH: usize>(text: &str) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    bytes
}

/// Without registrations there are no rails.
impl Library for Unreachable {
    type Registration = Infallible;
    type Rail = Infallible;

    fn open(_: &str, _: &VerbsConfig) -> Result<Self, Refusal> {
        Ok(Self)
    }

    fn devices(&self) -> Vec<Device> {
        let device = |index| Device {
            name: padded(&format!("mlx5_{index}")),
            pci_path: [0; 256],
            port: 1,
            mtu_bytes: 4096,
            gbit_per_s: if index < FAST { 400 } else { 25 },
            ethernet: 0,
        };
        (0..=FAST).map(device).collect()
    }

    unsafe fn register(&self, _: u32, _: *mut c_void, _: u64) -> Result<Infallible, Refusal> {
        Err(Refusal::Failed("no such hardware".to_owned()))
    }

    fn register_dmabuf(&self, _: u32, _: OfferedDmaBuf) -> Result<Infallible, Refusal> {
        Err(Refusal::Failed("no such hardware".to_owned()))
    }

    fn rail(&self, memory: &Infallible) -> Result<(Infallible, Address), Refusal> {
        match *memory {}
    }

    fn connect(rail: &mut Infallible, _: &Address) -> Result<(), Refusal> {
        match *rail {}
    }

    fn describe(rail: &Infallible) -> String {
        match *rail {}
    }

    fn post(rail: &mut Infallible, _: &RawWrite) -> Result<bool, Refusal> {
        match *rail {}
    }

    fn poll(rail: &mut Infallible, _: &mut [RawRailEvent]) -> Result<usize, Refusal> {
        match *rail {}
    }

    fn fail(rail: &mut Infallible) {
        match *rail {}
    }
}

static API: Api = offer::table::<Unreachable>();

#[unsafe(no_mangle)]
extern "C" fn msccl_rdma_api(version: u32) -> *const Api {
    if version == abi::VERSION { &raw const API } else { std::ptr::null() }
}
