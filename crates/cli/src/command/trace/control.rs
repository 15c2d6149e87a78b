//! `msccl trace start` and `msccl trace stop`: recordings of processes that run.

use std::path;
use std::thread;
use std::time::Duration;

use msccl_environment::trace_control::{TraceAnswer, TraceRequest, ask};

use crate::args::{TraceStartArgs, TraceStopArgs};
use crate::exit::Exit;
use crate::failure::{Failure, Result};

/// Longest time for which a command waits, in seconds: a day.
const SECONDS_MAX: f64 = 86_400.0;

/// Lets processes record.
pub fn start(args: &TraceStartArgs) -> Result<Exit> {
    let TraceStartArgs { folder, pid, seconds } = args;
    if let Some(seconds) = seconds.filter(|seconds| !(0.0..=SECONDS_MAX).contains(seconds)) {
        let text = format!("--seconds is {seconds}, expected a number from 0 to {SECONDS_MAX}");
        return Err(Failure::new(text));
    }
    // The processes may run in other folders.
    let folder = path::absolute(folder)
        .map_err(|error| Failure::new(format!("{folder}: {error}")))?
        .display()
        .to_string();
    let begun = ask_all(pid, &TraceRequest::Start(folder));
    if let (Some(seconds), Ok(_)) = (seconds, &begun) {
        thread::sleep(Duration::from_secs_f64(*seconds));
        return ask_all(pid, &TraceRequest::Stop);
    }
    begun
}

/// Lets processes record no longer.
pub fn stop(args: &TraceStopArgs) -> Result<Exit> {
    let TraceStopArgs { pid } = args;
    ask_all(pid, &TraceRequest::Stop)
}

/// Asks all, also when some refuse.
fn ask_all(processes: &[u32], request: &TraceRequest) -> Result<Exit> {
    let refused = |process: &u32| match ask(*process, request) {
        Ok(TraceAnswer::Done) => None,
        Ok(TraceAnswer::Refused(why)) => Some(format!("process {process}: {why}")),
        Err(why) => Some(why),
    };
    let refused: Vec<_> = processes.iter().filter_map(refused).collect();
    if refused.is_empty() { Ok(Exit::Success) } else { Err(Failure::new(refused.join("; "))) }
}
