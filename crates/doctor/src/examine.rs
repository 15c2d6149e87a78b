//! From facts to findings.

use crate::facts::Facts;
use crate::finding::Finding;
use crate::{host, processes, variables};

/// What is to be said of a machine, the gravest first, and otherwise in a fixed order.
pub fn examine(facts: &Facts) -> Vec<Finding> {
    let Facts {
        gpus,
        network,
        shared_memory,
        limits,
        python,
        libraries,
        has_rdma_library,
        variables,
        value_errors,
        process,
    } = facts;
    let mut findings = host::gpus(gpus);
    findings.extend(host::network(network, *has_rdma_library));
    findings.push(host::shared_memory(*shared_memory));
    findings.extend(host::limits(*limits, network));
    findings.extend(processes::python(python.as_ref(), gpus));
    findings.extend(processes::libraries(libraries, python.as_ref()));
    findings.extend(process.iter().map(processes::running));
    findings.extend(variables::findings(variables, value_errors));
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}
