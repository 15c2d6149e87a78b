//! What an algorithm puts on links of each class.

use msccl_simulate::link_loads;
use msccl_topology::cluster::{Cluster, Medium};
use msccl_verify::Verified;
use num_rational::Ratio;

/// The link of a class that is busy longest.
pub struct ClassLoad {
    /// The class.
    pub medium: Medium,
    /// Its part of the bytes of a call: 7/8, 2.
    pub share: Ratio<u64>,
    /// From where to where it leads.
    pub link: String,
}

/// The busiest link of each class that carries something; nothing where a message has no way.
pub fn of(verified: &Verified, cluster: &Cluster) -> Vec<ClassLoad> {
    let Ok(loads) = link_loads(verified.algorithm(), cluster) else { return Vec::new() };
    let of_class = |medium: Medium| {
        let links = cluster.links().iter().zip(&loads.chunks);
        let links = links.filter(|(link, chunks)| link.medium == medium && **chunks > 0);
        let busy = |chunks: u64, mb_per_s: u32| chunks as f64 / f64::from(mb_per_s);
        let busiest = links.max_by(|(one, some), (other, more)| {
            let [one, other] = [one, other].map(|link| link.rate.mb_per_s());
            busy(**some, one).total_cmp(&busy(**more, other))
        });
        busiest.map(|(link, chunks)| {
            let name = |at: msccl_topology::cluster::VertexIndex| {
                cluster.vertices()[at.index()].name.as_str()
            };
            let share = Ratio::new(*chunks, loads.chunks_of_call.max(1));
            let link = format!("{} > {}", name(link.from), name(link.to));
            ClassLoad { medium, share, link }
        })
    };
    Medium::ALL.into_iter().filter_map(of_class).collect()
}
