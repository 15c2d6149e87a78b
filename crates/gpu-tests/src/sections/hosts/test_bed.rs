//! The test bed's RDMA devices as communicators use them, and what can be done to them.

use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use msccl_proxy::{Event, Log, RdmaConfig};
use msccl_runtime::Settings;

use crate::Trouble;
use crate::hosts::Hosts;
use crate::tally::Tally;
use crate::world::settings;

/// Devices that the test bed has, for tests that cannot do without.
#[derive(Clone)]
pub struct RdmaTestBed {
    devices: u32,
    /// What proxies said since it was found.
    pub log: Arc<Rails>,
}

impl RdmaTestBed {
    /// The test bed, if it has `devices` devices; otherwise they are [`missing`].
    pub fn find(devices: u32, tally: &mut Tally) -> Option<Self> {
        let test_bed = Self::of(devices);
        if let Err(there) = test_bed {
            let why = format!("needs tests/rdma-rig/run --devices {devices}, there are {there}");
            missing(why, tally);
        }
        test_bed.ok()
    }

    /// The test bed, if it has `devices` devices; otherwise how many there are.
    pub fn of(devices: u32) -> Result<Self, u32> {
        match variable("RDMA_RIG_DEVICES").unwrap_or(0) {
            there if there < devices => Err(there),
            _ => Ok(Self { devices, log: Arc::default() }),
        }
    }

    /// Hosts that divide the devices among themselves.
    pub fn hosts(&self, count: u32) -> Hosts {
        Hosts { count, devices: self.devices }
    }

    /// Links between hosts go over RDMA or not at all.
    pub fn settings(&self, Patience { timeout, retry_count }: Patience) -> Settings {
        let mut settings = settings();
        settings.proxy.rdma = RdmaConfig {
            required: true,
            timeout: Some(timeout),
            retry_count: Some(retry_count),
            ..RdmaConfig::default()
        };
        settings.proxy.log = self.log.clone();
        settings
    }
}

/// Says aloud that something is not tested, and why. With `RDMA_REQUIRED=1` that is a failure.
pub fn missing(why: String, tally: &mut Tally) {
    match variable("RDMA_REQUIRED") {
        Some(1) => {
            tally.check(|| why.clone(), || Err("RDMA_REQUIRED=1".into()));
        }
        _ => tally.skip(why),
    }
}

/// A number that the environment holds.
pub fn variable(name: &str) -> Option<u32> {
    std::env::var(name).ok()?.parse().ok()
}

/// How long devices try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patience {
    /// A packet that is not answered is sent again after 4.096 µs · 2^timeout.
    timeout: u32,
    /// How often; Soft-RoCE takes 7 for "for ever".
    retry_count: u32,
}

impl Patience {
    /// As users have it who set nothing: every 4.3 s, for ever.
    pub const DEFAULT: Self = Self { timeout: 20, retry_count: 7 };
    /// Every 0.13 s, for ever.
    pub const BRISK: Self = Self { timeout: 15, retry_count: 7 };
    /// Gives up after seven tries of 0.54 s, which a busy machine does not take for nothing.
    pub const LIMITED: Self = Self { timeout: 17, retry_count: 6 };
    /// Gives up after seven tries of 67 ms.
    pub const HASTY: Self = Self { timeout: 14, retry_count: 6 };
}

/// What proxies log of their rails.
#[derive(Default)]
pub struct Rails(Mutex<Vec<Event>>);

impl Log for Rails {
    fn event(&self, event: &Event) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event.clone());
    }
}

impl Rails {
    /// What was said of rails that broke while others carried on.
    pub fn lost(&self) -> Vec<String> {
        self.entries(|event| matches!(event, Event::RailLost { .. }))
    }

    /// Which links go over which rails.
    pub fn connected(&self) -> Vec<String> {
        self.entries(|event| matches!(event, Event::Connected { .. }))
    }

    /// Fails if a link goes over something else than queue pairs, or if there is no link.
    pub fn all_over_rdma(&self) -> Result<(), Trouble> {
        let connected = self.connected();
        match connected.iter().all(|line| line.contains("queue pair")) {
            true if !connected.is_empty() => Ok(()),
            _ => Err(format!("{connected:#?}").into()),
        }
    }

    fn entries(&self, which: impl Fn(&Event) -> bool) -> Vec<String> {
        let events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        events.iter().filter(|event| which(event)).map(Event::to_string).collect()
    }
}

/// Runs a command of the test bed, such as `wire down 1`.
pub fn command(line: &str) -> Result<(), Trouble> {
    let mut words = line.split(' ');
    let status = Command::new(words.next().unwrap_or_default()).args(words).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        other => Err(format!("`{line}`: {other:?}").into()),
    }
}

/// Runs a command when it is dropped, however the test ends.
pub struct Afterwards(pub String);

impl Drop for Afterwards {
    fn drop(&mut self) {
        // The next test would notice.
        let _ = command(&self.0);
    }
}

/// What the kernel holds for users of verbs, by its own count: queue pairs, completion queues,
/// memory regions, protection domains and contexts of all devices.
pub fn held() -> Result<Held, Trouble> {
    let answer = Command::new("rdma").args(["resource", "show"]).output()?;
    let text = String::from_utf8(answer.stdout)?;
    let count = |kind: &str| {
        let words: Vec<_> = text.split_whitespace().collect();
        let of_kind = words.windows(2).filter(|pair| pair[0] == kind);
        of_kind.map(|pair| Ok(pair[1].parse::<u64>()?)).sum::<Result<u64, Trouble>>()
    };
    let [pairs, queues, regions, domains, contexts] = ["qp", "cq", "mr", "pd", "ctx"].map(count);
    let descriptors = std::fs::read_dir("/proc/self/fd")?.count();
    Ok(Held {
        pairs: pairs?,
        queues: queues?,
        regions: regions?,
        domains: domains?,
        contexts: contexts?,
        descriptors,
    })
}

/// See [`held`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// Queue pairs.
    pub pairs: u64,
    /// Completion queues.
    pub queues: u64,
    /// Memory regions.
    pub regions: u64,
    /// Protection domains.
    pub domains: u64,
    /// Open devices.
    pub contexts: u64,
    /// Open files of this process.
    pub descriptors: usize,
}
