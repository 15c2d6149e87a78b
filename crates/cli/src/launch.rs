//! The launch that this process is a part of, if a launcher started it as one rank of several.
//!
//! A process that was launched alone, such as by `srun -n 1` with all GPUs of a node, counts as not
//! launched: it starts its ranks itself.

use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use msccl_bench::ProcessGroup;
use msccl_environment::{Launched, Master, Reader};
use msccl_fabric::{self as fabric, Choice, ErrorKind, Settings};

use crate::failure::{Failure, Result};
use crate::output::Output;

/// How long the name of rank 0's host may be unknown: pods get theirs when they run.
const NAME_TIMEOUT: Duration = Duration::from_secs(60);

/// How much longer a rank waits for the others than any of them may take for one step: they may
/// have to end workers that hang.
const GRACE: Duration = Duration::from_secs(20);

/// The other processes of the launch; nothing if this one is alone. From then on only the rank that
/// speaks for all writes to `output`.
///
/// # Errors
///
/// The launcher's variables make no sense, or the ranks do not find one another.
pub fn process_group(timeout: Duration, output: &mut Output) -> Result<Option<ProcessGroup>> {
    let launched = msccl_environment::launched(&msccl_environment::lookup);
    let launched = launched.map_err(|error| Failure::new(error.to_string()))?;
    let Some(launched) = launched.filter(|launched| launched.ranks > 1) else { return Ok(None) };
    let Launched { rank, ranks, local_rank, by, .. } = launched;
    let cannot = |error: fabric::Error| {
        let master = &launched.master;
        let text = format!("rank {rank} of {ranks} (from {by}) cannot join the others");
        Failure::new(match error.kind() {
            ErrorKind::Mismatch => format!("{text}: {error}"),
            _ => format!(
                "{text} at {master}: {error}; MSCCL_MASTER_ADDR and MSCCL_MASTER_PORT choose \
                 another place"
            ),
        })
    };
    let settings = settings(&launched, timeout, output).map_err(cannot)?;
    let group = ProcessGroup::join(rank, ranks, local_rank, terms(), &settings);
    let group = group.map_err(cannot)?;
    output.speak_only_if(group.is_speaker());
    Ok(Some(group))
}

/// `outcome` if it is good on all ranks; otherwise what is wrong on any.
pub fn fail_together<T>(group: Option<&ProcessGroup>, outcome: Result<T>) -> Result<T> {
    match group {
        None => outcome,
        Some(group) => {
            group.fail_together(outcome).map_err(|error| Failure::new(error.to_string()))
        }
    }
}

fn settings(
    launched: &Launched,
    timeout: Duration,
    output: &mut Output,
) -> std::result::Result<Settings, fabric::Error> {
    let mut reader = Reader::new(&msccl_environment::lookup);
    let interface = msccl_environment::interface(&mut reader);
    let secret = msccl_environment::secret(&mut reader);
    for value_error in reader.value_errors() {
        output.warn(value_error);
    }
    Ok(Settings {
        root: Some(address(launched, &interface)?),
        interface,
        secret,
        connect_timeout: timeout,
        join_timeout: timeout,
        operation_timeout: Some(timeout.saturating_add(GRACE)),
        ..Settings::default()
    })
}

/// The address of the master, as far as this host knows it.
fn address(
    launched: &Launched,
    interface: &Choice,
) -> std::result::Result<std::net::SocketAddr, fabric::Error> {
    let Launched { ranks, local_ranks, master, .. } = launched;
    let started = Instant::now();
    let found = loop {
        match fabric::parse_address(&master.to_string(), interface.family) {
            Err(_) if is_name(master) && started.elapsed() < NAME_TIMEOUT => {
                thread::sleep(Duration::from_millis(500));
            }
            found => break found?,
        }
    };
    // A host often knows its own name as a loopback address, which no other host can reach.
    let is_own_name = found.ip().is_loopback() && is_name(master);
    if is_own_name && *local_ranks != Some(*ranks) && master.host != "localhost" {
        interface.address(master.port)
    } else {
        Ok(found)
    }
}

fn is_name(master: &Master) -> bool {
    master.host.parse::<IpAddr>().is_err()
}

/// What all ranks must have in common: the program and its arguments.
fn terms() -> Vec<(String, String)> {
    let arguments = std::env::args_os().skip(1);
    let arguments: Vec<_> = arguments.map(|it| it.to_string_lossy().into_owned()).collect();
    let version = env!("CARGO_PKG_VERSION").to_owned();
    vec![("version".to_owned(), version), ("arguments".to_owned(), arguments.join(" "))]
}
