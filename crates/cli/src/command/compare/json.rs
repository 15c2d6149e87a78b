//! What `compare` says to programs.

use msccl_topology::cluster::Cluster;
use serde_json::{Value, json};

use super::human::{Range, ranges};
use super::{Compared, Comparison, Time};
use crate::loads::Busiest;

/// The whole comparison.
pub fn to_json(found: &Comparison) -> Value {
    let Comparison { hardware, measured_on, sizes, bounds_us, algorithms } = found;
    let bytes: Vec<u64> = sizes.iter().map(|size| size.0).collect();
    let algorithms = algorithms.iter().map(|of| algorithm(of, &hardware.cluster));
    let algorithms: Vec<Value> = algorithms.collect();
    let best: Vec<_> = ranges(found).iter().map(|range| best(range, found)).collect();
    json!({
        "assumptions": hardware.to_string(),
        "measured_on": measured_on,
        "sizes": bytes,
        "bounds_us": bounds_us,
        "algorithms": algorithms,
        "best": best,
    })
}

fn algorithm(of: &Compared, cluster: &Cluster) -> Value {
    let Compared { name, times, loads, chain } = of;
    let times: Vec<_> = times.iter().map(time).collect();
    let loads: Vec<_> = loads.iter().map(|of| load(of, cluster)).collect();
    json!({ "name": name, "times": times, "busiest_links": loads, "messages_in_chain": chain })
}

fn time(time: &Result<Time, String>) -> Value {
    match time {
        Ok(Time { us, service, blocks }) => {
            json!({ "us": us, "service": service, "thread_blocks": blocks })
        }
        Err(reason) => json!({ "reason": reason }),
    }
}

fn load(load: &Busiest, cluster: &Cluster) -> Value {
    let Busiest { place: _, link, share, seconds_per_byte: _ } = load;
    let (class, link) = (link.medium.name(), cluster.link_name(link));
    json!({ "class": class, "share": share.to_string(), "link": link })
}

fn best(range: &Range, found: &Comparison) -> Value {
    let Range { algorithm, from, to } = range;
    let name = &found.algorithms[*algorithm].name;
    let bytes = |size: &Option<crate::size::ByteSize>| size.map(|size| size.0);
    json!({ "algorithm": name, "from_bytes": bytes(from), "to_bytes": bytes(to) })
}
