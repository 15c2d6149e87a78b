//! The loader and the wrapping of a library, with one made up for the purpose. An unsafe boundary,
//! for the memory that it does not look at. `NCCL_IB_HCA` names the world of each test and chooses
//! how the library behaves in it.

#![expect(unsafe_code, reason = "a library made up for the tests has functions in the C ABI")]

use std::collections::VecDeque;
use std::ffi::c_void;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};

use rustix::fs::{Mode, OFlags};

use crate::config::RdmaConfig;
use crate::endpoint::{DmaBuf, Memory};
use crate::rail::{Broken, Posted, Rail, RailEvent, Write};
use crate::rdma::abi::{self, Api, Status};
use crate::rdma::offer::{self, Library, Refusal};
use crate::rdma::{Devices, Half, library};

/// What a context of the library that is made up knows.
#[derive(Default)]
struct FakeWorld {
    scenario: String,
    /// Calls in order, for their order at the end.
    calls: Vec<&'static str>,
    events: VecDeque<abi::RawRailEvent>,
    posts: Vec<(u64, u64, u32, u32)>,
}

static LAST: Mutex<Vec<(String, Arc<Mutex<FakeWorld>>)>> = Mutex::new(Vec::new());

/// A context, a registration or a rail; its end is a call as well, of that name.
struct Fake {
    world: Arc<Mutex<FakeWorld>>,
    end: &'static str,
}

impl Fake {
    /// Notes the call, and answers what the context was opened with.
    fn note(&self, call: &'static str) -> String {
        let mut world = self.world.lock().unwrap();
        world.calls.push(call);
        world.scenario.clone()
    }

    fn with_end(&self, end: &'static str) -> Self {
        Self { world: self.world.clone(), end }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.note(self.end);
    }
}

/// The world of the context that was opened with `scenario`.
fn world(scenario: &str) -> Arc<Mutex<FakeWorld>> {
    LAST.lock().unwrap().iter().rev().find(|(name, _)| name == scenario).unwrap().1.clone()
}

fn failed<T>(why: &str) -> Result<T, Refusal> {
    Err(Refusal::Failed(why.to_owned()))
}

impl Library for Fake {
    type Registration = Self;
    type Rail = Self;

    fn open(hca: &str, config: &abi::VerbsConfig) -> Result<Self, Refusal> {
        assert_eq!((config.gid_index, config.timeout, config.service_level), (3, -1, -1));
        if hca == "^all" {
            return failed("no device is left by ^all");
        }
        let world = FakeWorld { scenario: hca.to_owned(), ..FakeWorld::default() };
        let context = Self { world: Arc::new(Mutex::new(world)), end: "close" };
        LAST.lock().unwrap().push((hca.to_owned(), context.world.clone()));
        Ok(context)
    }

    fn devices(&self) -> Vec<abi::Device> {
        let device = |(index, bytes): (u32, &[u8; 6])| {
            let mut name = [0; 64];
            name[..6].copy_from_slice(bytes);
            let (pci_path, mtu_bytes, gbit_per_s) = ([0; 256], 4096, 400 * index);
            abi::Device { name, pci_path, port: 1, mtu_bytes, gbit_per_s, ethernet: index }
        };
        (0..).zip([b"fake_0", b"fake_1"]).map(device).collect()
    }

    unsafe fn register(
        &self,
        device: u32,
        address: *mut c_void,
        bytes: u64,
    ) -> Result<Self, Refusal> {
        assert!(!address.is_null() && bytes > 0);
        let scenario = self.note("register");
        if scenario == "no memory" || (scenario.starts_with("first fails") && device == 0) {
            return failed("too little memory may be locked");
        }
        Ok(self.with_end("deregister"))
    }

    fn register_dmabuf(&self, _device: u32, memory: offer::OfferedDmaBuf) -> Result<Self, Refusal> {
        assert!(memory.descriptor >= 0 && memory.offset == 4096);
        match self.note("register_dmabuf").as_str() {
            "no dma-buf" | "no memory" => Err(Refusal::Unsupported("EOPNOTSUPP".to_owned())),
            "bad dma-buf" => failed("EINVAL"),
            _ => Ok(self.with_end("deregister")),
        }
    }

    fn rail(&self, _memory: &Self) -> Result<(Self, abi::Address), Refusal> {
        self.note("rail");
        let mut address = abi::Address { bytes: [0; 128] };
        address.bytes[0] = 42;
        Ok((self.with_end("end"), address))
    }

    fn connect(rail: &mut Self, peer: &abi::Address) -> Result<(), Refusal> {
        rail.note("connect");
        match peer.bytes[0] {
            42 => Ok(()),
            1 => Err(Refusal::Unanswered("Connection timed out".to_owned())),
            _ => failed("no path to that GID"),
        }
    }

    fn describe(_rail: &Self) -> String {
        "fake_0:1 QP 7 → QP 9".to_owned()
    }

    fn post(rail: &mut Self, write: &abi::RawWrite) -> Result<bool, Refusal> {
        let abi::RawWrite { from, to, bytes, tag } = *write;
        match tag {
            1 => Ok(false),
            2 => failed("the queue pair is in its error state"),
            _ => {
                rail.world.lock().unwrap().posts.push((from, to, bytes, tag));
                Ok(true)
            }
        }
    }

    fn poll(rail: &mut Self, events: &mut [abi::RawRailEvent]) -> Result<usize, Refusal> {
        let mut world = rail.world.lock().unwrap();
        if world.events.front().is_some_and(|event| event.kind == 99) {
            return failed("retries exceeded (status 12)");
        }
        let count = events.len().min(world.events.len());
        events
            .iter_mut()
            .zip(world.events.drain(..count))
            .for_each(|(place, event)| *place = event);
        Ok(count)
    }

    fn fail(rail: &mut Self) {
        rail.note("fail");
    }
}

static API: Api = offer::table::<Fake>();

/// A function of a library that keeps to nothing.
unsafe extern "C" fn odd_post(
    _: *mut abi::RailHandle,
    _: *const abi::RawWrite,
    _: *mut abi::Text,
) -> Status {
    -77
}

static ODD: Api = Api { post: odd_post, ..API };

/// Eight bytes, with a dma-buf (in truth any file) or without.
struct Plain(Box<[u64; 1]>, Option<OwnedFd>);

impl Memory for Plain {
    fn address(&self) -> *mut u8 {
        self.0.as_ptr().cast_mut().cast()
    }

    fn bytes(&self) -> u64 {
        8
    }

    fn dmabuf(&self) -> Option<DmaBuf<'_>> {
        self.1.as_ref().map(|file| DmaBuf { descriptor: file.as_fd(), offset: 4096 })
    }
}

fn host_memory() -> Arc<dyn Memory> {
    Arc::new(Plain(Box::new([0]), None))
}

fn gpu_memory() -> Arc<dyn Memory> {
    let file = rustix::fs::open("/dev/null", OFlags::RDONLY, Mode::empty()).unwrap();
    Arc::new(Plain(Box::new([0]), Some(file)))
}

fn opened(scenario: &str) -> Devices {
    Devices::open(&API, &config(scenario)).unwrap()
}

fn connected(scenario: &str) -> Box<dyn Rail> {
    connected_by(&API, scenario)
}

/// Ends on all devices that reach `memory`, and why others do not.
fn all_halves(
    devices: &Devices,
    memory: &Arc<dyn Memory>,
) -> Result<(Vec<Half>, Vec<String>), String> {
    let registrations = devices.register_on_devices(memory)?;
    let near = registrations.devices.iter().enumerate().filter(|(_, device)| device.near);
    let halves = near.map(|(number, _)| devices.half(number, memory).unwrap()).collect();
    Ok((halves, registrations.troubles))
}

fn config(scenario: &str) -> RdmaConfig {
    RdmaConfig { hca: Some(scenario.to_owned()), gid_index: Some(3), ..RdmaConfig::default() }
}

fn connected_by(api: &'static Api, scenario: &str) -> Box<dyn Rail> {
    let devices = Devices::open(api, &config(scenario)).unwrap();
    let (halves, troubles) = all_halves(&devices, &host_memory()).unwrap();
    assert!(troubles.is_empty());
    let mut half = halves.into_iter().next().unwrap();
    let address = half.address().to_vec();
    half.connect(&address, "fake_7").unwrap();
    half.into_rail("fake_7")
}

#[test]
fn a_rail_passes_on_what_the_library_does() {
    let mut rail = connected("passes on");
    let world = world("passes on");
    assert_eq!(rail.describe(), "fake_0:1 QP 7 → QP 9");
    let write = |tag| Write { from: 1, to: 2, bytes: 3, tag };
    assert_eq!(rail.post(&write(9)), Ok(Posted::Yes));
    assert_eq!(rail.post(&write(1)), Ok(Posted::Full));
    assert_eq!(world.lock().unwrap().posts, [(1, 2, 3, 9)]);
    let event = |kind, tag, bytes| abi::RawRailEvent { kind, tag, bytes, reserved: 0 };
    let many = (0..200).map(|tag| event(1, tag, 5));
    world.lock().unwrap().events.extend([event(0, 0, 0)].into_iter().chain(many));
    let mut events = Vec::new();
    rail.poll(&mut events).unwrap();
    assert_eq!(events.len(), 201);
    assert_eq!(events[..2], [RailEvent::Sent, RailEvent::Arrived { tag: 0, bytes: 5 }]);
}

#[test]
fn failures_have_the_librarys_words_and_last() {
    let write = |tag| Write { from: 0, to: 0, bytes: 0, tag };
    let broken = |why: &str| Err(Broken { why: why.to_owned() });
    let mut rail = connected("posts fail");
    let why = "the queue pair is in its error state";
    assert_eq!(rail.post(&write(2)), broken(why));
    assert_eq!(rail.post(&write(9)), broken(why));
    let mut rail = connected_by(&ODD, "odd status");
    assert_eq!(rail.post(&write(3)), broken("no reason was given (status -77)"));
    let mut rail = connected("polls fail");
    let fatal = abi::RawRailEvent { kind: 99, tag: 0, bytes: 0, reserved: 0 };
    world("polls fail").lock().unwrap().events.push_back(fatal);
    assert_eq!(
        rail.poll(&mut Vec::new()),
        Err(Broken { why: "retries exceeded (status 12)".into() })
    );
    assert_eq!(rail.post(&write(9)), broken("retries exceeded (status 12)"));
}

#[test]
fn everything_ends_once_and_in_order() {
    let devices = opened("in order");
    let memory = host_memory();
    let (halves, _) = all_halves(&devices, &memory).unwrap();
    let (again, _) = all_halves(&devices, &memory).unwrap();
    let world = world("in order");
    let count = |call| world.lock().unwrap().calls.iter().filter(|known| **known == call).count();
    assert_eq!((count("register"), count("rail")), (2, 4), "a registration is shared");
    drop(devices);
    drop(again);
    let rail = |mut half: Half| {
        half.connect(&[42; 128], "fake").unwrap();
        half.into_rail("fake")
    };
    let mut rails: Vec<_> = halves.into_iter().map(rail).collect();
    assert_eq!((count("deregister"), count("close")), (0, 0), "they are in use");
    rails.iter_mut().for_each(|rail| rail.close());
    drop(rails);
    assert_eq!((count("end"), count("deregister"), count("close")), (4, 2, 1));
    let calls = world.lock().unwrap().calls.clone();
    assert_eq!(calls[calls.len() - 3..], ["end", "deregister", "close"]);
    assert_eq!(count("fail"), 2);
}

#[test]
fn dma_buf_is_tried_first_and_may_be_missing() {
    let calls = |scenario: &str| {
        let outcome = all_halves(&opened(scenario), &gpu_memory());
        let outcome = outcome.map(|(halves, _)| halves.len()).map_err(|why| why.clone());
        let calls = world(scenario).lock().unwrap().calls.clone();
        (outcome, calls.into_iter().filter(|call| call.starts_with("register")).collect::<Vec<_>>())
    };
    assert_eq!(calls("with dma-buf"), (Ok(2), vec!["register_dmabuf"; 2]));
    let both = vec!["register_dmabuf", "register", "register_dmabuf", "register"];
    assert_eq!(calls("no dma-buf"), (Ok(2), both.clone()));
    let why = "dma-buf: EOPNOTSUPP; by address: too little memory may be locked";
    assert_eq!(calls("no memory"), (Err(format!("fake_0: {why}; fake_1: {why}")), both));
    let why = "fake_0: EINVAL; fake_1: EINVAL".to_owned();
    assert_eq!(calls("bad dma-buf"), (Err(why), vec!["register_dmabuf"; 2]));
}

#[test]
fn what_all_devices_access_is_registered_once() {
    let devices = opened("reach all");
    let memory = gpu_memory();
    let registered = devices.register_all(&memory).ok().unwrap();
    let (halves, troubles) = all_halves(&devices, &memory).unwrap();
    assert_eq!((halves.len(), troubles.len()), (2, 0));
    let world = world("reach all");
    let count = |call| world.lock().unwrap().calls.iter().filter(|known| **known == call).count();
    assert_eq!(count("register_dmabuf"), 2);
    drop(registered);
    assert_eq!(count("deregister"), 0, "rails use it");
    drop(halves);
    assert_eq!(count("deregister"), 2);
}

#[test]
fn memory_that_one_device_cannot_access_is_refused_whole() {
    let devices = opened("first fails, all refused");
    let why = devices.register_all(&host_memory()).err().unwrap();
    assert_eq!(why, "fake_0: too little memory may be locked");
    let calls = world("first fails, all refused").lock().unwrap().calls.clone();
    assert_eq!(calls.iter().filter(|call| **call == "deregister").count(), 1);
}

#[test]
fn one_device_that_fails_leaves_the_other() {
    let (halves, troubles) = all_halves(&opened("first fails"), &host_memory()).unwrap();
    assert_eq!(halves.iter().map(|half| half.device.as_str()).collect::<Vec<_>>(), ["fake_1"]);
    assert_eq!(troubles, ["fake_0: too little memory may be locked"]);
}

#[test]
fn connecting_may_fail() {
    let (halves, _) = all_halves(&opened("no path"), &host_memory()).unwrap();
    let mut halves = halves.into_iter();
    let why = halves.next().unwrap().connect(&[7; 128], "mlx5_3").unwrap_err();
    assert_eq!(why, Refusal::Failed("fake_0 → mlx5_3: no path to that GID".to_owned()));
    let mut half = halves.next().unwrap();
    let why = half.connect(&[1; 128], "mlx5_3").unwrap_err();
    assert_eq!(why, Refusal::Unanswered("fake_1 → mlx5_3: Connection timed out".to_owned()));
    let why = half.connect(&[42; 5], "mlx5_3").unwrap_err();
    assert_eq!(why, Refusal::Failed("an address of 5 bytes, 128 were expected".to_owned()));
    half.connect(&[42; 128], "mlx5_3").unwrap();
}

#[test]
fn devices_are_listed_or_why_there_are_none() {
    let description = opened("description").describe();
    let devices = "fake_0:1 (InfiniBand), fake_1:1 (RoCE, 400 Gbit/s)";
    assert_eq!(description, format!("{devices}; this rank uses all, as configured"));
    let why = Devices::open(&API, &config("^all")).err().unwrap();
    assert_eq!(why, "no device is left by ^all");
    let off = RdmaConfig { enabled: false, ..RdmaConfig::default() };
    assert_eq!(Devices::find(&off).err().unwrap(), "RDMA is switched off");
}

#[test]
fn tables_of_other_versions_are_refused() {
    let why = library::check(std::ptr::null()).err().unwrap();
    assert_eq!(why, "does not offer version 2 of its table");
    static OTHER: Api = Api { version: 1, ..API };
    let why = library::check(&OTHER).err().unwrap();
    assert_eq!(why, "answers a table of version 1, 2 was requested");
    assert!(library::check(&API).is_ok());
}
