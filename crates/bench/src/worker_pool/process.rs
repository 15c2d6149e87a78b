//! A process with one or several workers.
//!
//! The process has one end of a socket pair as its standard input, over which it is sent a
//! connection for each of its workers, and no more after that.

use std::ffi::OsString;
use std::io::{PipeReader, pipe};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::connection;
use crate::error::Error;

/// How long a process may take to end once it was killed, or has left all connections: a driver may
/// have to clean up after it.
const LAST_BREATH: Duration = Duration::from_secs(5);

/// How to start workers: a program that calls [`crate::serve`] with its standard input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Launch {
    /// The program.
    pub(crate) program: PathBuf,
    /// Its arguments.
    pub(crate) arguments: Vec<OsString>,
    /// Variables set in addition to the environment of this process.
    pub(crate) environment: Vec<(OsString, OsString)>,
}

/// A process, and what it prints.
pub(super) struct Process {
    child: Child,
}

/// A process that was just started.
pub(super) struct Started {
    pub(super) process: Process,
    /// The connections to its workers.
    pub(super) connections: Vec<UnixStream>,
    /// Standard output and standard error together.
    pub(super) printed: PipeReader,
}

impl Process {
    /// Starts a process of `workers` workers who share `memory`.
    pub(super) fn start(
        launch: &Launch,
        workers: usize,
        memory: BorrowedFd<'_>,
    ) -> Result<Started, Error> {
        let (control, theirs) = UnixStream::pair()?;
        // Everything waits there for the process, which may end before reading it.
        let connection = |_| -> Result<UnixStream, Error> {
            let (here, there) = UnixStream::pair()?;
            connection::send_descriptor(&here, memory)?;
            connection::send_descriptor(&control, there.as_fd())?;
            Ok(here)
        };
        let connections = (0..workers).map(connection).collect::<Result<_, _>>()?;
        drop(control);
        let (printed, print) = pipe()?;
        let mut command = Command::new(&launch.program);
        command.args(&launch.arguments).envs(launch.environment.iter().cloned());
        command.stdin(Stdio::from(OwnedFd::from(theirs)));
        command.stdout(print.try_clone()?).stderr(print);
        // What the child has of the pipe must not stay open here, or the pipe would never end; it
        // is closed with `command`.
        let child = command.spawn().map_err(|error| {
            Error::new(format!("cannot start {}: {error}", launch.program.display()))
        })?;
        Ok(Started { process: Self { child }, connections, printed })
    }

    /// With what the process ends, if it soon does.
    pub(super) fn status(&mut self) -> Option<ExitStatus> {
        let patience = Instant::now() + LAST_BREATH;
        while Instant::now() < patience {
            if let Some(status) = self.child.try_wait().ok()? {
                return Some(status);
            }
            thread::sleep(Duration::from_millis(1));
        }
        None
    }

    /// Ends the process, whatever it does, without waiting for it.
    pub(super) fn kill(&mut self) {
        // It fails where the process has ended already.
        let _ = self.child.kill();
    }
}
