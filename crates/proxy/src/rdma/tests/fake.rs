//! The loader and the wrapping of a library, with one made up for the purpose: a door with `unsafe`, since
//! what it stands in for is C. `NCCL_IB_HCA` names the world of each test and chooses how the library
//! behaves in it.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};

use rustix::fs::{Mode, OFlags};

use crate::config::RdmaConfig;
use crate::port::{DmaBuf, Memory};
use crate::rail::{Broken, Happened, Posted, Rail, Write};
use crate::rdma::abi::{self, Api, Status};
use crate::rdma::{Devices, Half, Refusal, library};

/// What a context of the library that is made up knows.
#[derive(Default)]
struct World {
    wish: String,
    /// Calls in order, for their order at the end.
    calls: Vec<&'static str>,
    events: VecDeque<abi::Happened>,
    posts: Vec<(u64, u64, u32, u32)>,
}

static LAST: Mutex<Vec<(String, Arc<Mutex<World>>)>> = Mutex::new(Vec::new());

struct FakeContext(Arc<Mutex<World>>);
struct FakeHandle {
    world: Arc<Mutex<World>>,
}

/// The world of the context that was opened with `wish`.
fn world(wish: &str) -> Arc<Mutex<World>> {
    LAST.lock().unwrap().iter().rev().find(|(name, _)| name == wish).unwrap().1.clone()
}

fn note(world: &Arc<Mutex<World>>, call: &'static str) -> String {
    let mut world = world.lock().unwrap();
    world.calls.push(call);
    world.wish.clone()
}

/// Says `words`, cut to the room.
unsafe fn say(text: *mut abi::Text, words: &str) {
    // SAFETY: callers give a text with room.
    unsafe {
        let used = words.len().min((*text).room as usize);
        words.as_ptr().copy_to_nonoverlapping((*text).bytes, used);
        (*text).used = used as u64;
    }
}

unsafe extern "C" fn open(
    config: *const abi::Config,
    context: *mut *mut abi::Context,
    text: *mut abi::Text,
) -> Status {
    // SAFETY: as the ABI says.
    unsafe {
        let config = *config;
        let wish = std::slice::from_raw_parts(config.hca, config.hca_bytes as usize);
        let wish = String::from_utf8(wish.to_vec()).unwrap();
        assert_eq!((config.gid_index, config.timeout, config.service_level), (3, -1, -1));
        if wish == "^all" {
            say(text, "no device is left by ^all");
            return abi::FAILED;
        }
        let world = Arc::new(Mutex::new(World { wish: wish.clone(), ..World::default() }));
        LAST.lock().unwrap().push((wish, world.clone()));
        *context = Box::into_raw(Box::new(FakeContext(world))).cast();
    }
    abi::OK
}

unsafe extern "C" fn close(context: *mut abi::Context) {
    // SAFETY: as the ABI says.
    let context = unsafe { Box::from_raw(context.cast::<FakeContext>()) };
    note(&context.0, "close");
}

unsafe extern "C" fn devices(_: *mut abi::Context, devices: *mut abi::Device, room: u32) -> u32 {
    assert!(room >= 2);
    for (index, name) in [*b"fake_0", *b"fake_1"].iter().enumerate() {
        let mut device = abi::Device {
            name: [0; 64],
            pci_path: [0; 256],
            port: 1,
            mtu_bytes: 4096,
            gbit_per_s: 400 * index as u32,
            ethernet: index as u32,
        };
        device.name[..6].copy_from_slice(name);
        // SAFETY: there is room for two.
        unsafe { *devices.add(index) = device };
    }
    2
}

/// The world of `context`, and a new handle of it.
unsafe fn handle<T>(context: *mut abi::Context, place: *mut *mut T) -> Arc<Mutex<World>> {
    // SAFETY: as the ABI says.
    unsafe {
        let world = (*context.cast::<FakeContext>()).0.clone();
        *place = Box::into_raw(Box::new(FakeHandle { world: world.clone() })).cast();
        world
    }
}

unsafe fn world_of<T>(handle: *mut T) -> Arc<Mutex<World>> {
    // SAFETY: handles are made by `handle`.
    unsafe { (*handle.cast::<FakeHandle>()).world.clone() }
}

unsafe fn end_handle<T>(handle: *mut T, call: &'static str) {
    // SAFETY: handles are made by `handle` and ended once.
    let handle = unsafe { Box::from_raw(handle.cast::<FakeHandle>()) };
    note(&handle.world, call);
}

unsafe extern "C" fn register(
    context: *mut abi::Context,
    device: u32,
    address: *mut c_void,
    bytes: u64,
    registration: *mut *mut abi::Registration,
    text: *mut abi::Text,
) -> Status {
    assert!(!address.is_null() && bytes > 0);
    // SAFETY: as the ABI says.
    unsafe {
        let wish = note(&(*context.cast::<FakeContext>()).0, "register");
        if wish == "no memory" || (wish.starts_with("first fails") && device == 0) {
            say(text, "too little memory may be locked");
            return abi::FAILED;
        }
        handle(context, registration);
    }
    abi::OK
}

unsafe extern "C" fn register_dmabuf(
    context: *mut abi::Context,
    _device: u32,
    descriptor: i32,
    offset: u64,
    _bytes: u64,
    _address: u64,
    registration: *mut *mut abi::Registration,
    text: *mut abi::Text,
) -> Status {
    assert!(descriptor >= 0 && offset == 4096);
    // SAFETY: as the ABI says.
    unsafe {
        let wish = note(&(*context.cast::<FakeContext>()).0, "register_dmabuf");
        match wish.as_str() {
            "no dma-buf" | "no memory" => {
                say(text, "EOPNOTSUPP");
                return abi::UNSUPPORTED;
            }
            "bad dma-buf" => {
                say(text, "EINVAL");
                return abi::FAILED;
            }
            _ => drop(handle(context, registration)),
        }
    }
    abi::OK
}

unsafe extern "C" fn deregister(registration: *mut abi::Registration) {
    // SAFETY: as the ABI says.
    unsafe { end_handle(registration, "deregister") }
}

unsafe extern "C" fn rail(
    context: *mut abi::Context,
    _registration: *mut abi::Registration,
    rail: *mut *mut abi::Rail,
    address: *mut abi::Address,
    _text: *mut abi::Text,
) -> Status {
    // SAFETY: as the ABI says.
    unsafe {
        note(&handle(context, rail), "rail");
        (*address).bytes[0] = 42;
    }
    abi::OK
}

unsafe extern "C" fn connect(
    rail: *mut abi::Rail,
    address: *const abi::Address,
    text: *mut abi::Text,
) -> Status {
    // SAFETY: as the ABI says.
    unsafe {
        note(&world_of(rail), "connect");
        match (*address).bytes[0] {
            42 => abi::OK,
            1 => {
                say(text, "Connection timed out");
                abi::UNANSWERED
            }
            _ => {
                say(text, "no path to that GID");
                abi::FAILED
            }
        }
    }
}

unsafe extern "C" fn story(_: *mut abi::Rail, text: *mut abi::Text) {
    // SAFETY: as the ABI says.
    unsafe { say(text, "fake_0:1 QP 7 → QP 9") }
}

unsafe extern "C" fn post(
    rail: *mut abi::Rail,
    write: *const abi::Write,
    text: *mut abi::Text,
) -> Status {
    // SAFETY: as the ABI says.
    unsafe {
        let abi::Write { from, to, bytes, tag } = *write;
        let world = world_of(rail);
        let mut world = world.lock().unwrap();
        match tag {
            1 => abi::FULL,
            2 => {
                say(text, "the queue pair is in its error state");
                abi::FAILED
            }
            3 => -77,
            _ => {
                world.posts.push((from, to, bytes, tag));
                abi::OK
            }
        }
    }
}

unsafe extern "C" fn poll(
    rail: *mut abi::Rail,
    events: *mut abi::Happened,
    room: u32,
    text: *mut abi::Text,
) -> i32 {
    // SAFETY: as the ABI says.
    unsafe {
        let world = world_of(rail);
        let mut world = world.lock().unwrap();
        if world.events.front().is_some_and(|event| event.kind == 99) {
            say(text, "retries exceeded (status 12)");
            return abi::FAILED;
        }
        let mut count = 0;
        while count < room as usize {
            let Some(event) = world.events.pop_front() else { break };
            *events.add(count) = event;
            count += 1;
        }
        count as i32
    }
}

unsafe extern "C" fn fail(rail: *mut abi::Rail) {
    // SAFETY: as the ABI says.
    unsafe { note(&world_of(rail), "fail") };
}

unsafe extern "C" fn end(rail: *mut abi::Rail) {
    // SAFETY: as the ABI says.
    unsafe { end_handle(rail, "end") }
}

static API: Api = Api {
    version: abi::VERSION,
    reserved: 0,
    open,
    close,
    devices,
    register,
    register_dmabuf,
    deregister,
    rail,
    connect,
    story,
    post,
    poll,
    fail,
    end,
};

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

fn opened(wish: &str) -> Devices {
    Devices::open(&API, &config(wish)).unwrap()
}

/// Ends on all devices that reach `memory`, and why others do not.
fn all_halves(
    devices: &Devices,
    memory: &Arc<dyn Memory>,
) -> Result<(Vec<Half>, Vec<String>), String> {
    let reach = devices.reach(memory)?;
    let near = reach.devices.iter().enumerate().filter(|(_, device)| device.near);
    let halves = near.map(|(number, _)| devices.half(number, memory).unwrap()).collect();
    Ok((halves, reach.troubles))
}

fn config(wish: &str) -> RdmaConfig {
    RdmaConfig { hca: Some(wish.to_owned()), gid_index: Some(3), ..RdmaConfig::default() }
}

fn connected(wish: &str) -> Box<dyn Rail> {
    let (halves, troubles) = all_halves(&opened(wish), &host_memory()).unwrap();
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
    assert_eq!(rail.story(), "fake_0:1 QP 7 → QP 9");
    let write = |tag| Write { from: 1, to: 2, bytes: 3, tag };
    assert_eq!(rail.post(&write(9)), Ok(Posted::Yes));
    assert_eq!(rail.post(&write(1)), Ok(Posted::Full));
    assert_eq!(world.lock().unwrap().posts, [(1, 2, 3, 9)]);
    let event = |kind, tag, bytes| abi::Happened { kind, tag, bytes, reserved: 0 };
    let many = (0..200).map(|tag| event(1, tag, 5));
    world.lock().unwrap().events.extend([event(0, 0, 0)].into_iter().chain(many));
    let mut happened = Vec::new();
    rail.poll(&mut happened).unwrap();
    assert_eq!(happened.len(), 201);
    assert_eq!(happened[..2], [Happened::Sent, Happened::Arrived { tag: 0, bytes: 5 }]);
}

#[test]
fn failures_have_the_librarys_words_and_last() {
    let write = |tag| Write { from: 0, to: 0, bytes: 0, tag };
    let broken = |why: &str| Err(Broken { why: why.to_owned() });
    let mut rail = connected("posts fail");
    let why = "the queue pair is in its error state";
    assert_eq!(rail.post(&write(2)), broken(why));
    assert_eq!(rail.post(&write(9)), broken(why));
    let mut rail = connected("odd status");
    assert_eq!(rail.post(&write(3)), broken("no reason was given (status -77)"));
    let mut rail = connected("polls fail");
    let fatal = abi::Happened { kind: 99, tag: 0, bytes: 0, reserved: 0 };
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
    let calls = |wish: &str| {
        let outcome = all_halves(&opened(wish), &gpu_memory());
        let outcome = outcome.map(|(halves, _)| halves.len()).map_err(|why| why.clone());
        let calls = world(wish).lock().unwrap().calls.clone();
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
fn what_all_devices_reach_is_registered_once() {
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
fn memory_that_one_device_does_not_reach_is_refused_whole() {
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
fn devices_are_told_or_why_there_are_none() {
    let story = opened("story").story();
    let devices = "fake_0:1 (InfiniBand), fake_1:1 (RoCE, 400 Gbit/s)";
    assert_eq!(story, format!("{devices}; this rank uses all, as configured"));
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
    assert_eq!(why, "answers a table of version 1, 2 was asked for");
    assert!(library::check(&API).is_ok());
}
