//! A proxy as its owner sees it.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use msccl_collective::Rank;
use msccl_fabric::{Abort, Doorbell, ErrorKind, Group};
use msccl_topology::PathType;

use crate::config::Config;
use crate::connect::{
    ConnectAttempt, EndpointFacts, INTRODUCTION_TAG, Introduction, RdmaPort, TcpOffer, VERSION,
    Verbs, check_endpoints, send,
};
use crate::endpoint::{Endpoints, Memory};
use crate::error::{Error, Failure};
use crate::event_loop::{EventLoop, host};
use crate::log::Event;
use crate::processors;
use crate::rdma::{Devices, Registered, Usable};
use crate::shared::{Command, Shared, Wait, lock};
use crate::tcp::Listener;

/// How long [`Proxy::waits`] waits for the proxy's thread.
const ANSWER: Duration = Duration::from_millis(500);

/// Carries the links of one rank to ranks on other hosts, with a thread of its own.
///
/// Dropping it posts what lies in send endpoints, for at most [`Config::drain_timeout`] or what
/// [`Proxy::leave_within`] was given, takes leave of the peers, and ends the thread, the rails and
/// the registrations. After an abort it ends at once. Peers of a proxy that has left in order see
/// no failure; what they post to it stays where it is.
pub struct Proxy {
    shared: Arc<Shared>,
    group: Arc<Group>,
    config: Config,
    address: SocketAddr,
    /// None for the reason that the text says.
    devices: Result<Arc<Devices>, String>,
    /// Those that were connected.
    peers: Mutex<BTreeSet<Rank>>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts to serve the links of this rank of `group`. `abort` ends it early, when raised.
    pub fn start(group: Arc<Group>, config: Config, abort: Abort) -> Result<Self, Error> {
        let devices = Devices::find(&config.rdma);
        Self::start_with(devices, group, config, abort)
    }

    /// As [`Proxy::start`], with these devices, if there are any.
    pub(crate) fn start_with(
        devices: Result<Devices, String>,
        group: Arc<Group>,
        config: Config,
        abort: Abort,
    ) -> Result<Self, Error> {
        let key = group.key("rails between proxies");
        let here = listening_address(&group, &config)?;
        let listener = Listener::open(here, key.clone(), group.rank(), group.ranks());
        let listener = listener
            .map_err(|error| Error::system(format_args!("cannot listen on {here}"), error))?;
        let address = listener.address();
        let address = address.map_err(|error| Error::system("a socket has no address", error))?;
        let shared = Arc::new(Shared::new(config.drain_timeout, abort)?);
        let Config { rdma, machine, .. } = &config;
        let devices = devices.map(|devices| Arc::new(devices.choose(rdma.nics, machine)));
        let description = devices.as_ref().map_or_else(Clone::clone, |devices| devices.describe());
        config.log.event(&Event::Devices { description });
        let event_loop =
            EventLoop::new(shared.clone(), group.clone(), config.clone(), listener, key);
        let thread = thread::Builder::new().name("msccl-proxy".to_owned());
        let processors = config.processors.clone();
        let thread = thread.spawn(move || {
            processors::prefer(&processors);
            processors::wake_in_time();
            event_loop.run();
        });
        let thread =
            thread.map_err(|error| Error::system("cannot start the proxy's thread", error))?;
        let peers = Mutex::new(BTreeSet::new());
        Ok(Self { shared, group, config, address, devices, peers, thread: Some(thread) })
    }

    /// Connects `endpoints` with those that `peer` connects with this rank, once. Returns at once,
    /// apart from registering memory and from the group's own connection to that peer; messages
    /// wait in send endpoints until the links stand. What goes wrong later is a [`Failure`].
    pub fn connect(&self, peer: Rank, endpoints: Endpoints) -> Result<(), Error> {
        let me = self.group.rank();
        if peer == me || self.group.peer(peer).is_none() {
            let ranks = self.group.ranks();
            let text = format!("r{} cannot connect with r{} in a group of {ranks}", me.0, peer.0);
            return Err(Error::invalid(text));
        }
        check_endpoints(&endpoints).map_err(|why| {
            Error::invalid(format!("links between r{} and r{}: {why}", me.0, peer.0))
        })?;
        if !lock(&self.peers).insert(peer) {
            return Err(Error::invalid(format!("r{} is connected with r{} already", me.0, peer.0)));
        }
        let (rdma, verbs) = self.verbs(&endpoints.memory);
        let introduction = Introduction {
            version: VERSION,
            send_endpoints: endpoints.send_endpoints.len(),
            receive_endpoints: endpoints
                .receive_endpoints
                .iter()
                .map(|receive_endpoint| EndpointFacts::of(receive_endpoint.as_ref()))
                .collect(),
            tcp: TcpOffer { address: self.address, sockets: self.config.sockets_per_peer },
            rdma,
            crosses: self.config.rdma.crosses,
        };
        send(&self.group, peer, INTRODUCTION_TAG, &introduction)?;
        let attempt = ConnectAttempt::new(me, peer, endpoints, introduction, verbs);
        self.shared.command(Command::Connect(Box::new(attempt)));
        Ok(())
    }

    /// Whether there are devices for RDMA.
    pub fn has_devices(&self) -> bool {
        self.devices.is_ok()
    }

    /// How far the devices are that this rank has chosen, from its GPU or its processors; `None` if
    /// nobody knows, or if there are none.
    pub fn distance(&self) -> Option<PathType> {
        self.devices.as_ref().ok().and_then(|devices| devices.distance())
    }

    /// Lets every device that this rank has chosen reach `memory`, as long as the answer lives or a
    /// rail uses it. The text names those that cannot.
    pub fn register(&self, memory: &Arc<dyn Memory>) -> Result<Registered, String> {
        self.devices.as_ref().map_err(Clone::clone)?.register_all(memory)
    }

    /// The ports of this host as a new peer must know them, and what stands behind; the text says
    /// why there are none.
    fn verbs(&self, memory: &Arc<dyn Memory>) -> (Result<Vec<RdmaPort>, String>, Option<Verbs>) {
        let registrations = self.devices.as_ref().map_err(Clone::clone);
        let registrations = registrations
            .and_then(|devices| Ok((devices.clone(), devices.register_on_devices(memory)?)));
        let (devices, registrations) = match registrations {
            Ok(registrations) => registrations,
            Err(why) => return (Err(why), None),
        };
        for why in registrations.troubles {
            self.config.log.event(&Event::Trouble(format!("a device is not used: {why}")));
        }
        let port = |usable: Usable| RdmaPort { device: usable.name, near: usable.near };
        let ports = registrations.devices.into_iter().map(port).collect();
        (Ok(ports), Some(Verbs { devices, _registered: registrations.registered }))
    }

    /// What ends of ring buffers signal when something changes; see [`crate::ring_buffers::pair`].
    pub fn doorbell(&self) -> Arc<Doorbell> {
        self.shared.doorbell.clone()
    }

    /// Says that executors whose endpoints do not signal are about to send or to receive: the proxy
    /// looks at them without a pause for a while. Never waits.
    pub fn wake(&self) {
        self.shared.wake();
    }

    /// Says that from now on executors may send and receive without [`Proxy::wake`] before, as
    /// those in graphs do that are launched again: the proxy sleeps for shorter times. Never waits.
    pub fn expect_graphs(&self) {
        self.shared.expect_graphs();
    }

    /// The end of the proxy shall take no longer than `limit`, even if peers do not take what lies
    /// in send endpoints. Never waits.
    pub fn leave_within(&self, limit: Duration) {
        self.shared.limit_drain(limit);
    }

    /// The first failure, if there is one. Never waits.
    pub fn failure(&self) -> Option<Failure> {
        self.failures().into_iter().next()
    }

    /// All failures so far, at most one for each peer. Never waits.
    pub fn failures(&self) -> Vec<Failure> {
        let mut failures = self.shared.failures();
        let ended = self.thread.as_ref().is_some_and(JoinHandle::is_finished);
        if ended && !self.shared.abort.is_raised() {
            let known: BTreeSet<_> = failures.iter().map(|failure| failure.peer).collect();
            let peers = lock(&self.peers);
            failures.extend(peers.difference(&known).map(|peer| self.by_panic(*peer)));
        }
        failures
    }

    /// The thread has ended, which nobody requested.
    fn by_panic(&self, peer: Rank) -> Failure {
        Failure {
            peer,
            host: host(&self.group, peer),
            kind: ErrorKind::System,
            rail: format!("the proxy of r{}", self.group.rank().0),
            why: "its thread has panicked, which is a defect; standard error says where".to_owned(),
        }
    }

    /// What is under way to and from every peer, and what is waited for. Nothing after an abort.
    pub fn waits(&self) -> Vec<Wait> {
        let (sender, answer) = mpsc::sync_channel(1);
        self.shared.command(Command::DescribeWaits(sender));
        // The thread has ended, or is held up by the system.
        answer.recv_timeout(ANSWER).unwrap_or_default()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.command(Command::End);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported by the panic hook and by `failures`.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Proxy({:?}, at {}, doorbell {:?})",
            self.group,
            self.address,
            self.shared.doorbell.as_fd()
        )
    }
}

/// Where to listen, with a port that the system chooses.
fn listening_address(group: &Group, config: &Config) -> Result<SocketAddr, Error> {
    if let Some(choice) = &config.interface {
        return Ok(choice.address(0)?);
    }
    let own = group.peer(group.rank());
    let own =
        own.ok_or_else(|| Error::invalid(format!("r{} is not in its own group", group.rank().0)))?;
    let mut address = own.address;
    address.set_port(0);
    Ok(address)
}
