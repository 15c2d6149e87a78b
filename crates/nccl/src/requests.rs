//! Everything that the environment asks of a communicator: what all front ends read, and what this
//! one does.

use std::ops::RangeInclusive;
use std::time::Duration;

use msccl_environment::{Lookup, Preferences, Reader, ValueError, variable};
use msccl_fabric as fabric;
use msccl_proxy as proxy;
use msccl_runtime::{GraphOrder, InterNodeFifo, OnFailure, PathType, Settings};

use crate::network::Network;

/// What the environment asks for.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Requests {
    /// Where ranks run, and by which algorithms.
    pub preferences: Preferences,
    /// Whether communicators are blocking, whatever their configuration says.
    pub blocking: Option<bool>,
    /// Whether the signal is watched.
    pub report_signal: bool,
    /// What was requested and does not happen, as far as the environment says.
    pub unmet: Vec<ValueError>,
    /// What is wrong with variables that protect a job; it is among what is unmet.
    errors: Vec<ValueError>,
    strict: bool,
    timeout: Option<Duration>,
    join_timeout: Option<Duration>,
    check: bool,
    peer_memory: bool,
    on_failure: OnFailure,
    pdl: bool,
    launch_order: bool,
    graphs: GraphOrder,
    prefetch: bool,
    buffer_bytes: Option<u64>,
    inbox_bytes: Option<u64>,
    inter_node_fifo: InterNodeFifo,
    /// The folder of recordings, if calls are recorded.
    pub trace: Option<String>,
    /// The folder of recordings that a signal begins.
    pub trace_signal: Option<String>,
    /// The file of metrics.
    pub metrics: Option<String>,
    /// The profiler plugin.
    pub profiler: Option<String>,
    /// How ranks reach one another.
    pub network: Network,
}

impl Requests {
    /// What `lookup` asks for, and what in it makes no sense.
    pub fn read(lookup: Lookup<'_>) -> (Self, Vec<ValueError>) {
        let mut reader = Reader::new(lookup);
        let mut requests = Self {
            preferences: Preferences::read(&mut reader),
            blocking: reader.flag(&variable::COMM_BLOCKING),
            report_signal: reader.flag(&variable::REPORT_SIGNAL).unwrap_or(true),
            unmet: Vec::new(),
            errors: Vec::new(),
            strict: reader.flag(&variable::STRICT).unwrap_or(false),
            timeout: reader.seconds(&variable::TIMEOUT_S).filter(|limit| !limit.is_zero()),
            join_timeout: join_timeout(&mut reader),
            check: reader.flag(&variable::CHECK).unwrap_or(false),
            peer_memory: !reader.flag(&variable::P2P_DISABLE).unwrap_or(false),
            on_failure: reader.parse(&variable::ON_FAILURE, on_failure).unwrap_or_default(),
            pdl: reader.flag(&variable::PDL).unwrap_or(true),
            launch_order: reader.flag(&variable::LAUNCH_ORDER_IMPLICIT).unwrap_or(false),
            graphs: match reader.flag(&variable::GRAPH_MIXING_SUPPORT) {
                Some(true) | None => GraphOrder::Launches,
                Some(false) => GraphOrder::Users,
            },
            prefetch: reader.flag(&variable::PREFETCH).unwrap_or(true),
            buffer_bytes: buffer_bytes(&mut reader),
            inbox_bytes: reader.parse(&variable::INBOX_BYTES, |text| text.parse().ok()),
            inter_node_fifo: reader
                .parse(&variable::NET_GDR_LEVEL, inter_node_fifo)
                .unwrap_or_default(),
            trace: reader.text(&variable::TRACE),
            trace_signal: reader.text(&variable::TRACE_ON_SIGNAL),
            metrics: reader.text(&variable::METRICS),
            profiler: reader.text(&variable::PROFILER_PLUGIN),
            network: Network::read(&mut reader),
        };
        requests.errors = reader.errors().to_vec();
        (requests, reader.value_errors())
    }

    /// Settings that follow the requests: the place, the log and what can be aborted are still the
    /// default's.
    pub fn settings(&self) -> Settings {
        let forever = Duration::from_secs(u64::from(u32::MAX));
        let join_timeout = self.join_timeout.unwrap_or(forever);
        let usual = fabric::Settings::default();
        Settings {
            fabric: self.network.fabric(fabric::Settings {
                connect_timeout: usual.connect_timeout.min(join_timeout),
                join_timeout,
                // Ranks operate together only while they make a communicator.
                operation_timeout: self.join_timeout,
                ..usual
            }),
            proxy: proxy::Config {
                // Peers may take as long for their calls.
                drain_timeout: self.timeout.unwrap_or(forever),
                ..self.network.proxy()
            },
            timeout: self.timeout,
            check: self.check,
            peer_memory: self.peer_memory,
            on_failure: self.on_failure,
            early_start: self.pdl,
            launch_order: self.launch_order,
            graphs: self.graphs,
            at_once: self.prefetch,
            buffer_bytes: self.buffer_bytes,
            inbox_bytes: self.inbox_bytes.unwrap_or(Settings::default().inbox_bytes),
            small: self.preferences.low_latency(),
            specialised: self.preferences.specialised(),
            inter_node_fifo: self.inter_node_fifo,
            overrides: self.preferences.overrides.clone(),
            order_reason: self.preferences.order_reason.clone(),
            strict: self.strict,
            records_later: self.trace_signal.is_some(),
            unmet: self.unmet.clone(),
            errors: self.errors.clone(),
            ..Settings::default()
        }
    }
}

/// Fewest and most bytes that a rank sets aside for a wire.
const BUFFER_BYTES: RangeInclusive<u64> = 64 << 10..=2 << 20;

fn buffer_bytes(reader: &mut Reader<'_>) -> Option<u64> {
    let requested: u64 = reader.count(&variable::BUFFSIZE)?;
    let (least, most) = (*BUFFER_BYTES.start(), *BUFFER_BYTES.end());
    let used = requested.clamp(least, most);
    if used != requested {
        let name = variable::BUFFSIZE.name;
        reader.report(format!(
            "{name} is {requested}, expected {least} to {most} bytes; {used} are used"
        ));
    }
    Some(requested)
}

/// How far network cards may be from the GPU.
fn inter_node_fifo(text: &str) -> Option<InterNodeFifo> {
    match text.to_ascii_uppercase().as_str() {
        "LOC" | "0" => Some(InterNodeFifo::Host),
        "PIX" | "1" => Some(InterNodeFifo::Within(PathType::Pix)),
        "PXB" | "2" => Some(InterNodeFifo::Within(PathType::Pxb)),
        "PHB" | "3" => Some(InterNodeFifo::Within(PathType::Phb)),
        "SYS" | "4" | "5" => Some(InterNodeFifo::Best),
        _ => None,
    }
}

fn on_failure(text: &str) -> Option<OnFailure> {
    match text.to_ascii_lowercase().as_str() {
        "hold" => Some(OnFailure::Hold),
        "trap" => Some(OnFailure::Trap),
        _ => None,
    }
}

/// `None` is no limit.
fn join_timeout(reader: &mut Reader<'_>) -> Option<Duration> {
    let requested = reader.seconds(&variable::JOIN_TIMEOUT_S);
    let limit = requested.unwrap_or(fabric::Settings::default().join_timeout);
    (!limit.is_zero()).then_some(limit)
}

#[cfg(test)]
mod tests {
    use msccl_collective::Protocol;
    use msccl_environment::DevicePreference;
    use msccl_runtime::{Links, Overrides};

    use super::*;

    fn read(values: &[(&str, &str)]) -> (Requests, Vec<ValueError>) {
        Requests::read(&|name| {
            let found = values.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn nothing_requested_is_the_default() {
        let (requests, value_errors) = read(&[]);
        assert!(value_errors.is_empty());
        let settings = requests.settings();
        assert_eq!(settings.timeout, None);
        assert_eq!(settings.fabric.join_timeout, Duration::from_secs(600));
        assert_eq!(settings.overrides, Overrides::default());
        assert!(settings.peer_memory && !settings.check && requests.report_signal);
        assert!(settings.early_start && settings.at_once && settings.small);
        assert!(!settings.launch_order);
        assert_eq!(settings.graphs, GraphOrder::Launches);
        assert_eq!(settings.on_failure, OnFailure::Hold);
        assert_eq!(settings.inter_node_fifo, InterNodeFifo::Best);
        assert_eq!(requests.preferences, Preferences::default());
    }

    #[test]
    fn everything_reaches_the_settings() {
        let (requests, value_errors) = read(&[
            ("MSCCL_DEVICE", "HOST"),
            ("MSCCL_TIMEOUT_S", "2.5"),
            ("MSCCL_JOIN_TIMEOUT_S", "7"),
            ("MSCCL_CHECK", "1"),
            ("MSCCL_ALGO", "ring"),
            ("MSCCL_PROTO", "LL128"),
            ("MSCCL_INSTANCES", "4"),
            ("NCCL_P2P_DISABLE", "1"),
            ("MSCCL_DIRECT", "0"),
            ("MSCCL_ON_FAILURE", "Trap"),
            ("MSCCL_PDL", "0"),
            ("MSCCL_PREFETCH", "0"),
            ("MSCCL_LOW_LATENCY", "0"),
            ("NCCL_BUFFSIZE", "2097152"),
            ("NCCL_MAX_CTAS", "16"),
            ("NCCL_LAUNCH_ORDER_IMPLICIT", "1"),
            ("NCCL_GRAPH_MIXING_SUPPORT", "0"),
            ("NCCL_COMM_BLOCKING", "0"),
            ("NCCL_COMM_ID", "127.0.0.1:4000"),
            ("NCCL_HOSTID", "here"),
            ("NCCL_NET", "Socket"),
            ("NCCL_NET_GDR_LEVEL", "loc"),
        ]);
        assert_eq!(value_errors, [""; 0]);
        let settings = requests.settings();
        assert_eq!(requests.preferences.device, DevicePreference::Host);
        assert_eq!(requests.blocking, Some(false));
        assert_eq!(settings.timeout, Some(Duration::from_millis(2500)));
        assert_eq!(settings.fabric.join_timeout, Duration::from_secs(7));
        assert_eq!(settings.fabric.operation_timeout, Some(Duration::from_secs(7)));
        assert_eq!(settings.fabric.connect_timeout, Duration::from_secs(7));
        assert_eq!(settings.buffer_bytes, Some(2 << 20));
        assert_eq!((settings.on_failure, settings.graphs), (OnFailure::Trap, GraphOrder::Users));
        assert!(!settings.early_start && !settings.at_once && !settings.small);
        assert_eq!(settings.inter_node_fifo, InterNodeFifo::Host);
        assert!(settings.check && !settings.peer_memory && settings.launch_order);
        let overrides = settings.overrides;
        assert_eq!((overrides.links, overrides.blocks_max), (Some(Links::Staged), Some(16)));
        assert_eq!(overrides.algorithm.as_deref(), Some("ring"));
        assert_eq!((overrides.protocol, overrides.instances), (Some(Protocol::Ll128), Some(4)));
        assert_eq!(settings.fabric.root, "127.0.0.1:4000".parse().ok());
        assert_eq!(settings.fabric.host.as_deref(), Some("here"));
        assert!(!settings.proxy.rdma.enabled);
    }

    #[test]
    fn buffers_have_limits() {
        for (requested, value_errors) in [("65536", 0), ("2097152", 0), ("8388608", 1), ("4096", 1)]
        {
            let (requests, reported) = read(&[("NCCL_BUFFSIZE", requested)]);
            assert_eq!(
                (requests.buffer_bytes, reported.len()),
                (requested.parse().ok(), value_errors)
            );
        }
        let (_, reported) = read(&[("NCCL_BUFFSIZE", "8388608")]);
        let expected =
            "NCCL_BUFFSIZE is 8388608, expected 65536 to 2097152 bytes; 2097152 are used";
        assert_eq!(reported, [expected]);
    }

    #[test]
    fn channels_are_thread_blocks() {
        let blocks = |values| read(values).0.settings().overrides.blocks_max;
        assert_eq!(blocks(&[("NCCL_MAX_NCHANNELS", "8")]), Some(8));
        assert_eq!(blocks(&[("NCCL_MAX_NCHANNELS", "8"), ("NCCL_MAX_CTAS", "4")]), Some(4));
    }

    #[test]
    fn no_limit_is_not_the_usual_limit() {
        for zero in ["0", "0.0"] {
            let values = [("MSCCL_TIMEOUT_S", zero), ("MSCCL_JOIN_TIMEOUT_S", zero)];
            let (requests, value_errors) = read(&values);
            assert_eq!(value_errors, [""; 0]);
            assert_eq!((requests.timeout, requests.join_timeout), (None, None));
        }
    }

    #[test]
    fn what_protects_and_makes_no_sense_is_an_error() {
        let (wrong, value_errors) = read(&[("MSCCL_JOIN_TIMEOUT_S", "soon")]);
        let usual = read(&[]).0;
        assert_eq!(wrong.join_timeout, usual.join_timeout);
        assert_eq!((wrong.settings().errors, usual.settings().errors), (value_errors, vec![]));
        let (ignored, value_errors) = read(&[("MSCCL_LOW_LATENCY", "soon")]);
        assert_eq!((ignored.settings().errors.len(), value_errors.len()), (0, 1));
    }

    #[test]
    fn nonsense_is_the_default_and_an_error() {
        let (requests, value_errors) = read(&[
            ("MSCCL_DEVICE", "tpu"),
            ("MSCCL_PROTO", "LL256"),
            ("NCCL_COMM_ID", "nowhere"),
            ("NCCL_SOCKET_FAMILY", "ipv4"),
        ]);
        assert_eq!(value_errors.len(), 4, "{value_errors:?}");
        assert_eq!(requests, read(&[]).0);
    }
}
