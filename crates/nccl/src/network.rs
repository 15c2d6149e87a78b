//! How ranks find and reach one another, as the environment asks for it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use msccl_environment::{Reader, ValueError, Variable, variable};
use msccl_fabric::{self as fabric, Choice, Secret};
use msccl_proxy::{self as proxy, MachineFacts, Nics, RdmaConfig};

use crate::session;

/// What the environment asks of the network.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Network {
    interface: Choice,
    root: Option<SocketAddr>,
    secret: Option<Result<Secret, String>>,
    host: Option<String>,
    rdma: RdmaConfig,
    /// As a variable asks for it.
    pub net: Option<Net>,
    /// How long it may be away.
    silence: Option<Duration>,
    topology: Option<String>,
}

/// By what links to other hosts go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Net {
    /// RDMA alone.
    Rdma,
    /// TCP alone.
    Sockets,
}

impl Net {
    /// What NCCL calls so.
    pub fn named(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "ib" => Some(Net::Rdma),
            "socket" => Some(Net::Sockets),
            _ => None,
        }
    }
}

impl Network {
    /// What the variables of `reader` say.
    pub fn read(reader: &mut Reader<'_>) -> Self {
        let interface = msccl_environment::interface(reader);
        let family = interface.family;
        let net = reader.parse(&variable::NET, Net::named);
        Self {
            interface,
            net,
            silence: silence(reader),
            root: reader.parse(&variable::COMM_ID, |text| fabric::parse_address(text, family).ok()),
            secret: msccl_environment::secret(reader),
            host: reader.text(&variable::HOSTID),
            rdma: rdma(reader, net),
            topology: reader.text(&variable::TOPO_FILE),
        }
    }

    /// The settings of the fabric, the rest of which `others` says.
    pub fn fabric(&self, others: fabric::Settings) -> fabric::Settings {
        let Self { interface, root, secret, host, rdma: _, net: _, silence, topology: _ } =
            self.clone();
        let silence_timeout = silence.unwrap_or(others.silence_timeout);
        fabric::Settings { interface, root, secret, host, silence_timeout, ..others }
    }

    /// Why the description of this machine that was named cannot be used, if so.
    pub fn topology_error(&self) -> Option<ValueError> {
        self.topology.as_deref().and_then(msccl_environment::topology_error)
    }

    /// How a proxy is configured.
    pub fn proxy(&self) -> proxy::Config {
        let (mut rdma, file) = (self.rdma.clone(), self.topology.clone());
        let retries = rdma.retry_count.unwrap_or(RDMA_RETRIES);
        rdma.timeout = rdma.timeout.or(self.silence.map(|limit| rdma_timeout(limit, retries)));
        // That a file which was named cannot be used is said when a communicator is made.
        let report = |value_error| session::report_once(value_error);
        let topologies = move || match file.as_deref() {
            Some(named) => msccl_environment::topologies(Some(named), drop),
            None => msccl_environment::topologies(None, report),
        };
        let machine = MachineFacts { topologies: Arc::new(topologies), gpu: None };
        let usual = proxy::Config::default();
        let silence_timeout = self.silence.unwrap_or(usual.silence_timeout);
        proxy::Config { rdma, machine, silence_timeout, ..usual }
    }
}

/// How often RDMA sends again where nobody says how often.
const RDMA_RETRIES: u32 = 7;

/// The longest time of RDMA before it sends again, as `NCCL_IB_TIMEOUT` has it.
const RDMA_TIMEOUT_MAX: u32 = 31;

/// What `NCCL_IB_TIMEOUT` must be for the last of `retries` to come after `limit`.
fn rdma_timeout(limit: Duration, retries: u32) -> u32 {
    let last_ns = |timeout: u32| (u128::from(retries.max(1)) * 4096) << timeout;
    let enough = |timeout: &u32| last_ns(*timeout) >= limit.as_nanos();
    (0..RDMA_TIMEOUT_MAX).find(enough).unwrap_or(RDMA_TIMEOUT_MAX)
}

fn silence(reader: &mut Reader<'_>) -> Option<Duration> {
    let forever = Duration::from_secs(u64::from(u32::MAX));
    let limit = reader.seconds(&variable::NETWORK_TIMEOUT_S)?;
    Some(if limit.is_zero() { forever } else { limit })
}

fn rdma(reader: &mut Reader<'_>, net: Option<Net>) -> RdmaConfig {
    let disabled = reader.flag(&variable::IB_DISABLE).unwrap_or(false);
    RdmaConfig {
        enabled: !disabled && net != Some(Net::Sockets),
        required: net == Some(Net::Rdma),
        library: reader.text(&variable::RDMA_LIBRARY).map(PathBuf::from),
        hca: reader.text(&variable::IB_HCA),
        nics: reader.parse(&variable::NETDEVS_POLICY, nics).unwrap_or_default(),
        crosses: reader.parse(&variable::CROSS_NIC, crosses).unwrap_or(true),
        gid_index: number(reader, &variable::IB_GID_INDEX),
        timeout: number(reader, &variable::IB_TIMEOUT),
        retry_count: number(reader, &variable::IB_RETRY_CNT),
        traffic_class: number(reader, &variable::IB_TC),
        service_level: number(reader, &variable::IB_SL),
    }
}

fn nics(text: &str) -> Option<Nics> {
    match text.to_ascii_uppercase().as_str() {
        "AUTO" => Some(Nics::Auto),
        "ALL" => Some(Nics::Nearest),
        "EVERY" => Some(Nics::Every),
        other => {
            let most = other.strip_prefix("MAX:")?.parse().ok();
            most.filter(|most| *most > 0).map(Nics::AtMost)
        }
    }
}

fn crosses(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" | "2" => Some(true),
        _ => None,
    }
}

/// A number from 0 to 255; -1 leaves the choice to the library.
fn number(reader: &mut Reader<'_>, variable: &Variable) -> Option<u32> {
    let number = reader.parse(variable, |text| match text.parse().ok()? {
        -1 => Some(None),
        number @ 0..=255_i64 => Some(u32::try_from(number).ok()),
        _ => None,
    });
    number.flatten()
}

#[cfg(test)]
mod tests {
    use msccl_fabric::AddressFamily;

    use super::*;

    #[track_caller]
    fn check(values: &[(&str, &str)], value_errors: usize) -> Network {
        let lookup = |name: &str| {
            let found = values.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let mut reader = Reader::new(&lookup);
        let network = Network::read(&mut reader);
        assert_eq!(reader.value_errors().len(), value_errors, "{values:?}");
        network
    }

    #[test]
    fn everything_reaches_fabric_and_proxy() {
        assert_eq!(check(&[], 0), Network::default());
        let network = check(
            &[
                ("NCCL_SOCKET_IFNAME", "^docker"),
                ("NCCL_SOCKET_FAMILY", "AF_INET"),
                ("NCCL_COMM_ID", "127.0.0.1:4000"),
                ("MSCCL_SECRET_FILE", "/no/such"),
                ("NCCL_HOSTID", "rack 3"),
                ("MSCCL_NETWORK_TIMEOUT_S", "90"),
                ("NCCL_NET", "ib"),
                ("NCCL_IB_HCA", "=mlx5_0:1,mlx5_1"),
                ("NCCL_NETDEVS_POLICY", "max:2"),
                ("NCCL_CROSS_NIC", "0"),
                ("NCCL_IB_GID_INDEX", "3"),
                ("NCCL_IB_TIMEOUT", "20"),
                ("NCCL_IB_RETRY_CNT", "0"),
                ("NCCL_IB_TC", "106"),
                ("NCCL_IB_SL", "-1"),
                ("MSCCL_RDMA_LIBRARY", "/opt/libmsccl-rdma.so"),
            ],
            0,
        );
        let fabric = network.fabric(fabric::Settings::default());
        assert_eq!(fabric.interface.family, Some(AddressFamily::V4));
        assert_eq!(fabric.root, "127.0.0.1:4000".parse().ok());
        let no_secret = fabric.secret.clone().unwrap().unwrap_err();
        assert!(no_secret.starts_with("MSCCL_SECRET_FILE names /no/such: it cannot be read: "));
        assert_eq!(fabric.host.as_deref(), Some("rack 3"));
        let expected = RdmaConfig {
            enabled: true,
            required: true,
            library: Some("/opt/libmsccl-rdma.so".into()),
            hca: Some("=mlx5_0:1,mlx5_1".to_owned()),
            nics: Nics::AtMost(2),
            crosses: false,
            gid_index: Some(3),
            timeout: Some(20),
            retry_count: Some(0),
            traffic_class: Some(106),
            service_level: None,
        };
        assert_eq!(network.proxy().rdma, expected);
        let silence = [fabric.silence_timeout, network.proxy().silence_timeout];
        assert_eq!(silence, [Duration::from_secs(90); 2]);
    }

    #[test]
    fn rdma_tries_for_as_long_as_the_network_may_be_away() {
        let timeout = |values: &[(&str, &str)]| check(values, 0).proxy().rdma.timeout;
        let limit = ("MSCCL_NETWORK_TIMEOUT_S", "90");
        assert_eq!(timeout(&[]), None);
        // 7 · 17.2 s, the 60 s of one less being too short; one try of 137 s.
        assert_eq!(timeout(&[limit]), Some(22));
        assert_eq!(timeout(&[limit, ("NCCL_IB_RETRY_CNT", "0")]), Some(25));
        assert_eq!(timeout(&[limit, ("NCCL_IB_TIMEOUT", "18")]), Some(18));
        assert_eq!(timeout(&[("MSCCL_NETWORK_TIMEOUT_S", "0")]), Some(31));
    }

    #[test]
    fn sockets_alone() {
        for values in [("NCCL_NET", "Socket"), ("NCCL_IB_DISABLE", "1")] {
            let rdma = check(&[values], 0).proxy().rdma;
            assert!(!rdma.enabled && !rdma.required);
        }
    }

    #[test]
    fn nonsense_counts_as_not_set() {
        let nonsense = [
            ("NCCL_NET", "pigeons"),
            ("NCCL_IB_TC", "256"),
            ("NCCL_IB_GID_INDEX", "-2"),
            ("NCCL_NETDEVS_POLICY", "MAX:0"),
            ("NCCL_CROSS_NIC", "3"),
        ];
        assert_eq!(check(&nonsense, 5), Network::default());
    }

    #[test]
    fn a_topology_file_reaches_the_proxy() {
        let config = check(&[("NCCL_TOPO_FILE", "/no/such.xml")], 0).proxy();
        let network = check(&[("NCCL_TOPO_FILE", "/no/such.xml")], 0);
        let value_error = network.topology_error().unwrap();
        assert!(
            value_error.starts_with("NCCL_TOPO_FILE is not used: /no/such.xml: "),
            "{value_error}"
        );
        // What the operating system reports is always there.
        assert_eq!((config.machine.topologies)().len(), 1);
    }
}
