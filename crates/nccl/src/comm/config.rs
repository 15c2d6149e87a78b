//! The configuration of a communicator: what the caller's `ncclConfig_t` asks for, with defaults
//! filled in and the environment's wishes laid over it.
//!
//! Fields newer than the caller's version are not looked at: in a caller's older structure they
//! may be padding.

use std::ffi::{c_int, c_uint};

use msccl_proxy::RdmaConfig;
use msccl_runtime::CtaPolicy;

use crate::abi::constant::{CTA_POLICY_ZERO, UNDEFINED};
use crate::abi::layout::API_MAGIC;
use crate::abi::{ConfigFields, ConfigPointer, pointer};
use crate::fault::Fault;
use crate::network::Net;
use crate::requests::Requests;

/// Most thread blocks that a configuration may allow.
const CTAS_LIMIT: c_int = 64;

/// How a communicator behaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Whether calls return when they are done, or taken up.
    pub blocking: bool,
    /// Most thread blocks of a call, if somebody said.
    pub ctas_max: Option<u32>,
    /// Whether multiprocessors are left alone where that can be.
    pub cta_policy: CtaPolicy,
    /// What logs call it.
    pub name: Option<String>,
    /// By what links to other hosts go, if no variable says.
    pub net: Option<Net>,
    /// Which traffic class and service level packets of RDMA have, if no variable says.
    pub traffic_class: Option<u32>,
}

impl Config {
    /// What callers get who say nothing.
    pub fn usual(requests: &Requests) -> Self {
        Self {
            blocking: requests.blocking.unwrap_or(true),
            ctas_max: requests.preferences.budget.blocks_max,
            cta_policy: requests.preferences.budget.cta_policy.unwrap_or_default(),
            name: None,
            net: None,
            traffic_class: None,
        }
    }

    /// What the caller's `pointer` asks for; nothing if it is null.
    ///
    /// # Errors
    ///
    /// It was not initialised, or a field is out of range.
    pub fn read(pointer: ConfigPointer, requests: &Requests) -> Result<Option<Self>, Fault> {
        let Some(fields) = pointer.read() else { return Ok(None) };
        if fields.magic != API_MAGIC {
            return Err(Fault::argument(
                "ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER",
            ));
        }
        let fields = known_to_caller(fields);
        check(&fields)?;
        let ctas_max = (fields.max_ctas != UNDEFINED).then_some(fields.max_ctas.unsigned_abs());
        let cta_policy = match fields.cta_policy {
            UNDEFINED => CtaPolicy::Default,
            flags if flags & CTA_POLICY_ZERO != 0 => CtaPolicy::Zero,
            _ => CtaPolicy::Default,
        };
        Ok(Some(Self {
            blocking: requests.blocking.unwrap_or(fields.blocking != 0),
            ctas_max: requests.preferences.budget.blocks_max.or(ctas_max),
            cta_policy: requests.preferences.budget.cta_policy.unwrap_or(cta_policy),
            name: pointer::text(fields.comm_name),
            // The name of a plugin, which is not here either, leaves the choice open.
            net: pointer::text(fields.net_name)
                .filter(|_| requests.network.net.is_none())
                .and_then(|name| Net::named(&name)),
            traffic_class: u32::try_from(fields.traffic_class).ok(),
        }))
    }

    /// How RDMA is used, where the environment asked for `requested`.
    pub fn rdma(&self, requested: RdmaConfig) -> RdmaConfig {
        let class = |most: u32| self.traffic_class.filter(|class| *class <= most);
        RdmaConfig {
            enabled: requested.enabled && self.net != Some(Net::Sockets),
            required: requested.required || self.net == Some(Net::Rdma),
            traffic_class: requested.traffic_class.or(class(255)),
            service_level: requested.service_level.or(class(15)),
            ..requested
        }
    }
}

/// The fields that the caller's version has; all others undefined.
fn known_to_caller(fields: ConfigFields) -> ConfigFields {
    const fn version(minor: c_uint) -> c_uint {
        20000 + minor * 100
    }
    /// The first one whose structure has a field where older ones of 2.30 have padding.
    const GRAPH_STREAM_ORDERING: c_uint = version(30) + 5;
    let mut known = fields;
    let open = ConfigFields::UNDEFINED;
    if fields.version < version(17) {
        known.cga_cluster_size = open.cga_cluster_size;
        known.min_ctas = open.min_ctas;
        known.max_ctas = open.max_ctas;
        known.net_name = open.net_name;
    }
    if fields.version < version(18) {
        known.split_share = open.split_share;
    }
    if fields.version < version(26) {
        known.traffic_class = open.traffic_class;
    }
    if fields.version < version(27) {
        known.comm_name = open.comm_name;
        known.collnet_enable = open.collnet_enable;
        known.cta_policy = open.cta_policy;
        known.shrink_share = open.shrink_share;
        known.nvls_ctas = open.nvls_ctas;
    }
    if fields.version < version(28) {
        known.channels_per_net_peer = open.channels_per_net_peer;
        known.nvlink_centric_sched = open.nvlink_centric_sched;
    }
    if fields.version < version(29) {
        known.graph_usage_mode = open.graph_usage_mode;
        known.num_rma_ctx = open.num_rma_ctx;
    }
    if fields.version < version(30) {
        known.max_p2p_peers = open.max_p2p_peers;
    }
    if fields.version < GRAPH_STREAM_ORDERING {
        known.graph_stream_ordering = open.graph_stream_ordering;
    }
    known
}

/// Checks the ranges of all fields, those too that mean nothing here, so that what NCCL would
/// refuse is refused.
fn check(fields: &ConfigFields) -> Result<(), Fault> {
    let ConfigFields {
        size: _,
        magic: _,
        version: _,
        blocking,
        cga_cluster_size,
        min_ctas,
        max_ctas,
        net_name: _,
        split_share,
        traffic_class: _,
        comm_name: _,
        collnet_enable,
        cta_policy,
        shrink_share,
        nvls_ctas,
        channels_per_net_peer,
        nvlink_centric_sched,
        graph_usage_mode,
        num_rma_ctx,
        max_p2p_peers,
        graph_stream_ordering,
    } = *fields;
    within("blocking", blocking, 0, 1)?;
    within("cgaClusterSize", cga_cluster_size, 0, c_int::MAX)?;
    within("minCTAs", min_ctas, 1, c_int::MAX)?;
    within("maxCTAs", max_ctas, 1, c_int::MAX)?;
    within("splitShare", split_share, 0, 1)?;
    within("collnetEnable", collnet_enable, 0, 1)?;
    within("CTAPolicy", cta_policy, 0, 3)?;
    within("shrinkShare", shrink_share, 0, 1)?;
    within("nvlsCTAs", nvls_ctas, 1, c_int::MAX)?;
    within("nChannelsPerNetPeer", channels_per_net_peer, 1, c_int::MAX)?;
    within("nvlinkCentricSched", nvlink_centric_sched, 0, 1)?;
    within("graphUsageMode", graph_usage_mode, 0, 2)?;
    within("numRmaCtx", num_rma_ctx, 0, c_int::MAX)?;
    within("maxP2pPeers", max_p2p_peers, 1, c_int::MAX)?;
    within("graphStreamOrdering", graph_stream_ordering, 0, 1)?;
    let least = if min_ctas == UNDEFINED { 1 } else { min_ctas };
    let most = if max_ctas == UNDEFINED { CTAS_LIMIT.max(least) } else { max_ctas };
    if least > most {
        let text = format!("config minCTAs is {least} and maxCTAs {most}; expected min <= max");
        return Err(Fault::argument(text));
    }
    Ok(())
}

fn within(name: &str, value: c_int, least: c_int, most: c_int) -> Result<(), Fault> {
    if value == UNDEFINED || (least..=most).contains(&value) {
        return Ok(());
    }
    let expected = match most {
        c_int::MAX => format!("{least} or more"),
        most => format!("{least} to {most}"),
    };
    Err(Fault::argument(format!(
        "Invalid config {name} attribute value {value}, expected {expected}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(fields: ConfigFields) -> Result<Config, String> {
        let config = Config::read(ConfigPointer::to(&fields), &Requests::default());
        config.map(Option::unwrap).map_err(|fault| fault.text)
    }

    #[test]
    fn what_nobody_said_is_usual() {
        let usual = Config::usual(&Requests::default());
        assert_eq!(read(ConfigFields::UNDEFINED), Ok(usual.clone()));
        assert!(usual.blocking);
        assert_eq!(Config::read(ConfigPointer::none(), &Requests::default()), Ok(None));
    }

    #[test]
    fn fields_are_taken() {
        let name = c"data parallel";
        let config = read(ConfigFields {
            blocking: 0,
            max_ctas: 8,
            comm_name: name.as_ptr(),
            ..ConfigFields::UNDEFINED
        });
        let name = Some("data parallel".to_owned());
        let open = Config::usual(&Requests::default());
        assert_eq!(config, Ok(Config { blocking: false, ctas_max: Some(8), name, ..open }));
    }

    #[test]
    fn links_go_as_the_configuration_wants_unless_a_variable_says() {
        let read = |net: &std::ffi::CStr, variables: &[(&str, &str)]| {
            let found = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            let (requests, value_errors) = Requests::read(&found);
            assert_eq!(value_errors, [""; 0]);
            let open = ConfigFields::UNDEFINED;
            let fields = ConfigFields { net_name: net.as_ptr(), traffic_class: 96, ..open };
            let config = Config::read(ConfigPointer::to(&fields), &requests).unwrap().unwrap();
            let rdma = config.rdma(requests.settings().proxy.rdma);
            (rdma.enabled, rdma.required, rdma.traffic_class, rdma.service_level)
        };
        assert_eq!(read(c"Socket", &[]), (false, false, Some(96), None));
        assert_eq!(read(c"IB", &[]), (true, true, Some(96), None));
        assert_eq!(read(c"a plugin", &[]), (true, false, Some(96), None));
        let variables = [("NCCL_NET", "IB"), ("NCCL_IB_TC", "7"), ("NCCL_IB_SL", "3")];
        assert_eq!(read(c"Socket", &variables), (true, true, Some(7), Some(3)));
    }

    #[test]
    fn the_environment_wins() {
        let mut requests = Requests::default();
        (requests.blocking, requests.preferences.budget.blocks_max) = (Some(true), Some(2));
        let fields = ConfigFields { blocking: 0, max_ctas: 8, ..ConfigFields::UNDEFINED };
        let config = Config::read(ConfigPointer::to(&fields), &requests).unwrap().unwrap();
        assert_eq!((config.blocking, config.ctas_max), (true, Some(2)));
    }

    #[test]
    fn padding_of_older_callers_is_not_looked_at() {
        let old = ConfigFields {
            size: 24,
            version: 21400,
            cga_cluster_size: 77,
            ..ConfigFields::UNDEFINED
        };
        assert!(read(old).is_ok());
        let padded =
            ConfigFields { version: 23004, graph_stream_ordering: 77, ..ConfigFields::UNDEFINED };
        assert!(read(padded).is_ok());
        assert!(read(ConfigFields { version: 23005, ..padded }).is_err());
        let newer = ConfigFields { size: 120, version: 23203, ..ConfigFields::UNDEFINED };
        // Its fields past those that are known here are not read.
        assert!(read(newer).is_ok());
    }

    #[test]
    fn nonsense_is_refused() {
        let check = |fields: ConfigFields, expected: &str| {
            let text = read(fields).unwrap_err();
            assert!(text.contains(expected), "{text}");
        };
        let open = ConfigFields::UNDEFINED;
        check(ConfigFields { magic: 0, ..open }, "NCCL_CONFIG_INITIALIZER");
        check(ConfigFields { size: 4, ..open }, "NCCL_CONFIG_INITIALIZER");
        check(ConfigFields { blocking: 2, ..open }, "blocking attribute value 2, expected 0 to 1");
        check(
            ConfigFields { min_ctas: 0, ..open },
            "minCTAs attribute value 0, expected 1 or more",
        );
        check(ConfigFields { min_ctas: 9, max_ctas: 8, ..open }, "expected min <= max");
    }
}
