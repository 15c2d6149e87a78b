//! Where the ranks of a launch meet: an address that each finds by itself.

use std::fmt;

use super::super::variable;
use super::dialect::{Dialect, Launcher};
use super::{LaunchError, Place, Variables, host_list};

/// Ports chosen here: none that systems give to clients, nor to services of Kubernetes nodes.
const FIRST_PORT: u16 = 20_000;
const PORTS: u64 = 10_000;

/// Where Slurm says which nodes take part, the step's before the job's.
const NODE_LISTS: [&str; 2] = ["SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"];

/// Where rank 0 listens: a name or an address, and a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Master {
    /// A host name, or an address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl fmt::Display for Master {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// The master of the launch. Our variables win, then those of torchrun, whoever has set them.
pub(super) fn find(
    dialect: &Dialect,
    place: &Place,
    variables: &Variables<'_>,
) -> Result<Master, LaunchError> {
    let host = match host(dialect, place, variables)? {
        Some(host) => host,
        None => return Err(LaunchError::NoMaster { by: dialect.by }),
    };
    Ok(Master { host, port: port(dialect, variables)? })
}

fn host(
    dialect: &Dialect,
    place: &Place,
    variables: &Variables<'_>,
) -> Result<Option<String>, LaunchError> {
    let given = [variable::MASTER_ADDR.name, "MASTER_ADDR"];
    let given = given.into_iter().find_map(|name| variables.text(name));
    if let Some(given) = given {
        return Ok(Some(given.trim().trim_matches(['[', ']']).to_owned()));
    }
    match dialect.by {
        Launcher::Torchrun => return Err(dialect.missing("MASTER_ADDR")),
        _ if place.is_one_host() => return Ok(Some("127.0.0.1".to_owned())),
        Launcher::Msccl | Launcher::Kubernetes => return Ok(None),
        Launcher::OpenMpi | Launcher::Hydra | Launcher::Slurm | Launcher::Pmix => {}
    }
    for name in NODE_LISTS {
        if let Some(text) = variables.text(name) {
            let malformed = LaunchError::NoHost { name, text: text.clone() };
            return host_list::first_host(&text).map(Some).ok_or(malformed);
        }
    }
    // Where `srun` runs: the first node if a job's script calls it.
    let launch_node = variables.text("SLURM_LAUNCH_NODE_IPADDR");
    Ok(launch_node.filter(|_| dialect.by == Launcher::Slurm))
}

fn port(dialect: &Dialect, variables: &Variables<'_>) -> Result<u16, LaunchError> {
    let given = [variable::MASTER_PORT.name, "MASTER_PORT"];
    let Some(found) = variables.first_number(&given)? else {
        return match dialect.by {
            Launcher::Torchrun => Err(dialect.missing("MASTER_PORT")),
            _ => Ok(port_of_job(dialect, variables)),
        };
    };
    // torchrun itself listens at its port for as long as its processes live.
    let agent = variables.text("TORCHELASTIC_USE_AGENT_STORE").as_deref() == Some("True");
    let taken = agent && found.name == "MASTER_PORT";
    let port = if taken { found.value.saturating_add(1) } else { found.value };
    let port = u16::try_from(port).ok().filter(|port| *port > 0);
    port.ok_or(LaunchError::NoPort { found })
}

/// The same port for all processes of a job, and most likely another one for other jobs.
fn port_of_job(dialect: &Dialect, variables: &Variables<'_>) -> u16 {
    let job = dialect.job.iter().filter_map(|name| variables.text(name));
    let job = job.collect::<Vec<_>>().join(".");
    let step = |mark: u64, byte: u8| (mark ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let mark = job.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    // Less than PORTS, which fits.
    FIRST_PORT + (mark % PORTS) as u16
}
