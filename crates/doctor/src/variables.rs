//! Variables that have no effect here.

use msccl_environment::variable;

use crate::facts::SetVariable;
use crate::finding::{Finding, Severity, Topic};

/// Variables of NCCL that people set often, and why they change nothing.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("NCCL_NVLS_ENABLE", "NVLink multicast is not used"),
    ("NCCL_COLLNET_ENABLE", "reductions in switches are not used"),
    ("NCCL_TUNER_PLUGIN", "tuner plugins are not loaded; MSCCL_TUNING names a table"),
    ("NCCL_TUNER_CONFIG_FILE", "tuner plugins are not loaded; MSCCL_TUNING names a table"),
    ("NCCL_NET_PLUGIN", "network plugins are not loaded; docs/RDMA.md says how RDMA is used"),
    ("NCCL_P2P_LEVEL", "there is no such level; NCCL_P2P_DISABLE=1 switches peer access off"),
    ("NCCL_SHM_DISABLE", "shared memory is needed where GPUs cannot map one another"),
    ("NCCL_CUMEM_ENABLE", "how memory is shared is decided by what the driver can do"),
    ("NCCL_IB_QPS_PER_CONNECTION", "a rail has one queue pair"),
    ("NCCL_SOCKET_NTHREADS", "a proxy has one thread"),
    ("NCCL_NSOCKS_PERTHREAD", "a rail has one connection"),
    ("NCCL_TOPO_DUMP_FILE", "`msccl topo --format json` writes the topology"),
    ("NCCL_GRAPH_FILE", "algorithms are chosen by tables; MSCCL_XML_FILES loads your own"),
    ("NCCL_LL128_BUFFSIZE", "only NCCL_BUFFSIZE, that of Simple, can be set"),
    ("NCCL_LL_BUFFSIZE", "only NCCL_BUFFSIZE, that of Simple, can be set"),
];

/// How variables begin that profiler plugins of NCCL read themselves.
const OF_PLUGINS: [&str; 2] = ["NCCL_PROFILE_", "NCCL_INSPECTOR_"];

/// Variables that begin like NCCL's and are read by PyTorch or by a launcher.
const OF_OTHERS: [&str; 5] = [
    "NCCL_ASYNC_ERROR_HANDLING",
    "NCCL_BLOCKING_WAIT",
    "NCCL_DESYNC_DEBUG",
    "NCCL_ENABLE_TIMING",
    "NCCL_VERSION",
];

/// A finding for each variable without effect, and for each value that makes no sense.
pub(crate) fn findings(variables: &[SetVariable], value_errors: &[String]) -> Vec<Finding> {
    let without = variables.iter().filter_map(without_effect);
    let wrong = value_errors.iter().map(|error| {
        Finding::new(Severity::Fails, Topic::Variable, error.clone())
            .advise("`docs/ENVIRONMENT.md` has every variable and its values")
    });
    wrong.chain(without).collect()
}

/// That `variable` changes nothing, if so.
fn without_effect(variable: &SetVariable) -> Option<Finding> {
    let SetVariable { name, value } = variable;
    let is_of_nccl = name.starts_with("NCCL_") && !variable::is_known(name);
    let is_of_plugin = OF_PLUGINS.iter().any(|start| name.starts_with(start));
    if !is_of_nccl || is_of_plugin || OF_OTHERS.contains(&name.as_str()) {
        return None;
    }
    let known = WITHOUT_EFFECT.iter().find(|(known, _)| known == name);
    let why = known.map_or("this library does not have what it tunes", |(_, why)| why);
    let message = format!("{name}={value} has no effect: {why}");
    let finding = Finding::new(Severity::Note, Topic::Variable, message);
    Some(finding.advise(format!("unset {name}, or do not count on it")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, expected: Option<&str>) {
        let set = SetVariable { name: name.to_owned(), value: "1".to_owned() };
        let found = without_effect(&set).map(|finding| finding.message);
        assert_eq!(found.as_deref(), expected);
    }

    #[test]
    fn variables_without_effect_are_named() {
        let why = "NVLink multicast is not used";
        check("NCCL_NVLS_ENABLE", Some(&format!("NCCL_NVLS_ENABLE=1 has no effect: {why}")));
        let why = "this library does not have what it tunes";
        check("NCCL_RINGS", Some(&format!("NCCL_RINGS=1 has no effect: {why}")));
        let of_others = ["NCCL_ASYNC_ERROR_HANDLING", "NCCL_PROFILE_EVENT_MASK", "PATH"];
        for fine in ["NCCL_DEBUG", "NCCL_PROFILER_PLUGIN", "MSCCL_ALGO"].iter().chain(&of_others) {
            check(fine, None);
        }
    }

    #[test]
    fn what_has_an_effect_is_not_in_the_list() {
        let both = WITHOUT_EFFECT.iter().find(|(name, _)| variable::is_known(name));
        assert_eq!(both, None);
    }
}
