//! An unsafe boundary: finds, opens and queries the devices of this machine.

#![expect(unsafe_code, reason = "calls libibverbs for devices")]

use std::ffi::{CStr, c_char};
use std::ptr::NonNull;

use ibverbs_sys as ffi;

use super::Refused;
use crate::gid::{Gid, GidType};

/// A device of this machine that is not open.
pub struct Found<'a> {
    device: NonNull<ffi::ibv_device>,
    list: &'a DeviceList,
}

/// Calls `each` with every device of this machine.
///
/// # Errors
/// If there is no RDMA in the kernel, or its list cannot be had.
pub fn find(mut each: impl FnMut(Found<'_>)) -> Result<(), Refused> {
    let list = DeviceList::new()?;
    for device in list.devices() {
        each(Found { device, list: &list });
    }
    Ok(())
}

struct DeviceList {
    first: NonNull<*mut ffi::ibv_device>,
    count: usize,
}

impl DeviceList {
    fn new() -> Result<Self, Refused> {
        let mut count = 0;
        // SAFETY: `count` is where the call puts a number.
        let first = unsafe { ffi::ibv_get_device_list(&raw mut count) };
        let first = NonNull::new(first).ok_or_else(|| Refused::by_errno("ibv_get_device_list"))?;
        Ok(Self { first, count: usize::try_from(count).unwrap_or(0) })
    }

    fn devices(&self) -> impl Iterator<Item = NonNull<ffi::ibv_device>> + '_ {
        // SAFETY: the list has `count` entries until it is freed, which is when `self` ends.
        let all = unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.count) };
        all.iter().filter_map(|device| NonNull::new(*device))
    }
}

impl Drop for DeviceList {
    fn drop(&mut self) {
        // SAFETY: it came from `ibv_get_device_list` and is freed once. Open devices outlive it.
        unsafe { ffi::ibv_free_device_list(self.first.as_ptr()) }
    }
}

impl Found<'_> {
    /// Such as `mlx5_0`.
    pub fn name(&self) -> String {
        // SAFETY: the device is of `self.list`, which lives; nobody writes to it.
        text(unsafe { &(*self.device.as_ptr()).name })
    }

    /// Whether it speaks InfiniBand's transport: over InfiniBand, or over Ethernet as RoCE. What
    /// does not (iWARP, for one) has no write with immediate.
    pub fn speaks_infiniband(&self) -> bool {
        // SAFETY: as in `name`.
        unsafe { (*self.device.as_ptr()).transport_type == ffi::IBV_TRANSPORT_IB }
    }

    /// Opens it.
    ///
    /// # Errors
    /// What the kernel said: often that `/dev/infiniband` may not be opened.
    pub fn open(&self) -> Result<Adapter, Refused> {
        let _alive: &DeviceList = self.list;
        // SAFETY: the device is of `self.list`, which lives.
        let context = unsafe { ffi::ibv_open_device(self.device.as_ptr()) };
        let context = NonNull::new(context).ok_or_else(|| Refused::by_errno("ibv_open_device"))?;
        let context = Context(context);
        // SAFETY: the context is open.
        let domain = unsafe { ffi::ibv_alloc_pd(context.0.as_ptr()) };
        let domain = NonNull::new(domain).ok_or_else(|| Refused::by_errno("ibv_alloc_pd"))?;
        // SAFETY: as in `name`.
        let folder = text(unsafe { &(*self.device.as_ptr()).ibdev_path });
        Ok(Adapter { domain: Domain(domain), context, name: self.name(), folder })
    }
}

struct Context(NonNull<ffi::ibv_context>);

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it was opened, is closed once, and all that was made of it has ended (`Adapter`).
        unsafe { ffi::ibv_close_device(self.0.as_ptr()) };
    }
}

struct Domain(NonNull<ffi::ibv_pd>);

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: it was made, and is ended once; regions and pairs keep it alive.
        unsafe { ffi::ibv_dealloc_pd(self.0.as_ptr()) };
    }
}

/// An open device with a protection domain. Ends after all regions and pairs of it.
pub struct Adapter {
    // Fields end in this order, and verbs wants this order.
    domain: Domain,
    context: Context,
    name: String,
    folder: String,
}

// SAFETY: libibverbs lets any thread use a context and a protection domain, also at the same time;
// only their end must be alone, and that is when the last owner ends.
unsafe impl Send for Adapter {}
// SAFETY: as above.
unsafe impl Sync for Adapter {}

/// What a device says about one of its ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortFacts {
    /// Whether packets can leave it.
    pub active: bool,
    /// Its state in words.
    pub state: &'static str,
    /// Whether the link layer is Ethernet. If not, it is InfiniBand.
    pub ethernet: bool,
    /// Bytes of the largest packet, as verbs number them: 1 is 256, 5 is 4096.
    pub mtu_code: u8,
    /// The largest message.
    pub max_message_bytes: u32,
    /// InfiniBand's local address; 0 on Ethernet.
    pub lid: u16,
}

impl Adapter {
    /// Such as `mlx5_0`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its folder in sysfs.
    pub fn folder(&self) -> &str {
        &self.folder
    }

    pub(super) fn context(&self) -> *mut ffi::ibv_context {
        self.context.0.as_ptr()
    }

    pub(super) fn domain(&self) -> *mut ffi::ibv_pd {
        self.domain.0.as_ptr()
    }

    /// How many ports it has; they count from 1.
    ///
    /// # Errors
    /// What the driver said.
    pub fn ports(&self) -> Result<u8, Refused> {
        let mut facts = ffi::ibv_device_attr::default();
        // SAFETY: the context is open, and `facts` is what the call fills.
        let answer = unsafe { ffi::ibv_query_device(self.context(), &raw mut facts) };
        Refused::check("ibv_query_device", answer)?;
        Ok(facts.phys_port_cnt)
    }

    /// What is known of port `number`.
    ///
    /// # Errors
    /// What the driver said.
    pub fn port(&self, number: u8) -> Result<PortFacts, Refused> {
        let mut facts = ffi::ibv_port_attr::default();
        // SAFETY: the context is open. The symbol fills the beginning of `ibv_port_attr`, which is
        // what the structure was when the symbol was made; the rest stays 0 and is not read.
        let answer =
            unsafe { ffi::ibv_query_port(self.context(), number, (&raw mut facts).cast()) };
        Refused::check("ibv_query_port", answer)?;
        Ok(PortFacts {
            active: facts.state == ffi::ibv_port_state::IBV_PORT_ACTIVE,
            state: state_words(facts.state),
            ethernet: u32::from(facts.link_layer) == ffi::IBV_LINK_LAYER_ETHERNET,
            mtu_code: u8::try_from(facts.active_mtu).unwrap_or(1),
            max_message_bytes: facts.max_msg_sz,
            lid: facts.lid,
        })
    }

    /// The addresses of port `number`; those that are not set are left out.
    ///
    /// # Errors
    /// What the driver said.
    pub fn gids(&self, number: u8) -> Result<Vec<Gid>, Refused> {
        let mut entries = vec![ffi::ibv_gid_entry::default(); GIDS];
        // SAFETY: the context is open; there is room for so many entries of this size.
        let count = unsafe {
            ffi::_ibv_query_gid_table(
                self.context(),
                entries.as_mut_ptr(),
                entries.len(),
                0,
                size_of::<ffi::ibv_gid_entry>(),
            )
        };
        let count = usize::try_from(count).map_err(|_| {
            let code = i32::try_from(-count).unwrap_or(0);
            Refused { call: "ibv_query_gid_table", error: std::io::Error::from_raw_os_error(code) }
        })?;
        let ours = entries.iter().take(count).filter(|gid| gid.port_num == u32::from(number));
        Ok(ours.map(gid).collect())
    }
}

/// More than devices have: 256 for each of four ports.
const GIDS: usize = 1024;

fn gid(entry: &ffi::ibv_gid_entry) -> Gid {
    Gid {
        index: u8::try_from(entry.gid_index).unwrap_or(u8::MAX),
        // SAFETY: all of the union's 16 bytes are bytes, whichever way they were written.
        bytes: unsafe { entry.gid.raw },
        kind: match entry.gid_type {
            ffi::IBV_GID_TYPE_IB => GidType::InfiniBand,
            ffi::IBV_GID_TYPE_ROCE_V1 => GidType::RoceV1,
            _ => GidType::RoceV2,
        },
    }
}

fn state_words(state: ffi::ibv_port_state::Type) -> &'static str {
    match state {
        ffi::ibv_port_state::IBV_PORT_DOWN => "down",
        ffi::ibv_port_state::IBV_PORT_INIT => "not set up by a subnet manager yet",
        ffi::ibv_port_state::IBV_PORT_ARMED => "armed, but not active yet",
        ffi::ibv_port_state::IBV_PORT_ACTIVE => "active",
        ffi::ibv_port_state::IBV_PORT_ACTIVE_DEFER => "active, but its link is down",
        _ => "in no known state",
    }
}

fn text(bytes: &[c_char]) -> String {
    let bytes = bytes.iter().map(|byte| byte.cast_unsigned()).collect::<Vec<u8>>();
    CStr::from_bytes_until_nul(&bytes)
        .map(|text| text.to_string_lossy().into_owned())
        .unwrap_or_default()
}
