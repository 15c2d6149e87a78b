//! Whether calls are recorded, and where: for all communicators of this process.
//!
//! `MSCCL_TRACE` says it at the begin. Later the program says it (`mscclTraceStart`), a signal
//! (`MSCCL_TRACE_ON_SIGNAL`), or another process of the same user (`msccl trace start --pid`). Who
//! says it last counts. A thread waits for signals and for other processes; it costs nothing
//! meanwhile.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, LazyLock, Mutex, Once, OnceLock, PoisonError};
use std::thread;

use msccl_environment::trace_control::{
    LINE_BYTES, PATIENCE, Peer, TraceAnswer, TraceRequest, check_peer, own_address, read_line,
};
use msccl_environment::{ValueError, variable};
use msccl_runtime::{RecordingSwitch, Recordings};

use crate::log::{self, NO_DEVICE, Subsystem};
use crate::process::Process;
use crate::recording_folder::RecordingFolder;
use crate::requests::Requests;
use crate::signal;

/// The switch of this process.
static SWITCH: LazyLock<RecordingSwitch> = LazyLock::new(RecordingSwitch::default);

/// What the environment said last.
static OF_ENVIRONMENT: Mutex<Option<String>> = Mutex::new(None);

/// The switch that all communicators follow.
pub fn switch() -> RecordingSwitch {
    SWITCH.clone()
}

/// Follows `requests`, where they are not those of before, and the signal, if they say so.
///
/// # Errors
///
/// The folder cannot be made; in words.
pub fn follow(requests: &Requests) -> Result<(), ValueError> {
    requests.trace_signal.iter().for_each(|folder| await_signal(folder));
    let mut before = OF_ENVIRONMENT.lock().unwrap_or_else(PoisonError::into_inner);
    if *before == requests.trace {
        return Ok(());
    }
    before.clone_from(&requests.trace);
    match &requests.trace {
        Some(folder) => start(folder).map_err(|why| format!("{}: {why}", variable::TRACE.name)),
        None => Ok(()),
    }
}

/// Every rank of this process records its calls into `folder` from the next one on.
///
/// # Errors
///
/// The folder cannot be made; in words.
pub fn start(folder: &str) -> Result<(), String> {
    let made = Arc::new(RecordingFolder::make(folder)?);
    SWITCH.set(Some(made as Arc<dyn Recordings>));
    log::info(Subsystem::Init, NO_DEVICE, format_args!("calls are recorded into {folder}"));
    Ok(())
}

/// No rank records any longer.
pub fn stop() {
    SWITCH.set(None);
    log::info(Subsystem::Init, NO_DEVICE, format_args!("calls are no longer recorded"));
}

/// Listens for other processes, once in a process; not, where the socket cannot be made.
/// To be called when a communicator is made, so that making one needs no more descriptors.
pub fn listen() {
    static LISTENER: Mutex<Option<Process>> = Mutex::new(None);
    let mut listener = LISTENER.lock().unwrap_or_else(PoisonError::into_inner);
    let current = Process::current();
    if listener.replace(current) == Some(current) {
        return;
    }
    match own_address().and_then(|address| UnixListener::bind_addr(&address)) {
        Ok(bound) => spawn("msccl-control", move || {
            bound.incoming().for_each(|stream| stream.into_iter().for_each(answer))
        }),
        Err(error) => {
            let text = format_args!("msccl trace cannot reach this process: {error}");
            log::info(Subsystem::Init, NO_DEVICE, text);
        }
    }
}

/// Answers whoever has connected, unless it is another user.
fn answer(mut stream: UnixStream) {
    let limits = stream
        .set_read_timeout(Some(PATIENCE))
        .and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
    if limits.is_err() || check_peer(&stream, Peer::Asker).is_err() {
        return;
    }
    let Ok(line) = read_line(&mut stream) else { return };
    let answer = match TraceRequest::from_line(&line) {
        Some(TraceRequest::Start(folder)) => match start(&folder) {
            Ok(()) => TraceAnswer::Done,
            Err(why) => TraceAnswer::Refused(why),
        },
        Some(TraceRequest::Stop) => {
            stop();
            TraceAnswer::Done
        }
        None => TraceAnswer::Refused(format!("expected a request of at most {LINE_BYTES} bytes")),
    };
    // Whoever asked may have gone.
    let _ = stream.write_all(answer.to_line().as_bytes());
}

/// From now on the signal lets recording into `folder` begin, and end.
fn await_signal(folder: &str) {
    static FOLDER: OnceLock<String> = OnceLock::new();
    static ONCE: Once = Once::new();
    let folder = FOLDER.get_or_init(|| folder.to_owned());
    ONCE.call_once(|| {
        if let Some(mut signals) = signal::trace_signals() {
            spawn("msccl-signals", move || {
                let (mut byte, mut recordings) = ([0], 0_u64);
                while signals.read_exact(&mut byte).is_ok() {
                    toggle(folder, &mut recordings);
                }
            });
        }
    });
}

/// Ends recording, or begins the next one of so many in a folder of its number.
fn toggle(folder: &str, recordings: &mut u64) {
    if SWITCH.recordings().is_some() {
        return stop();
    }
    *recordings += 1;
    if let Err(why) = start(&format!("{folder}/{recordings}")) {
        log::report(NO_DEVICE, &format!("{}: {why}", variable::TRACE_ON_SIGNAL.name));
    }
}

/// Without a thread, nobody is answered; calls go on.
fn spawn(name: &str, body: impl FnOnce() + Send + 'static) {
    let _ = thread::Builder::new().name(name.to_owned()).spawn(body);
}
