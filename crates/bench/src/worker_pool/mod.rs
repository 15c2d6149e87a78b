//! The workers of one library: they are started, get requests together, and are ended.
//!
//! A worker pool never makes its owner wait longer than the timeout: workers that do not answer in
//! time are ended, all of them, and the [`Failure`] says who was late. What workers and libraries
//! print is received line by line.

mod process;
mod round;
#[cfg(test)]
mod tests;

use std::io::{BufRead, BufReader, PipeReader};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use msccl_fabric::SharedMemory;

use crate::connection;
use crate::error::Error;
use crate::process_group::Alarm;
use crate::protocol::{Answer, Request};
use crate::worker::BARRIER_BYTES;
pub(crate) use process::Launch;
use process::{Process, Started};
use round::Round;
pub(crate) use round::Tally;

/// How often to look whether there is an alarm.
const LOOK: Duration = Duration::from_millis(200);

/// How long to listen for what the ended still had to say.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// Why a worker pool did not answer a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// Every rank answered that it could not; it can get further requests.
    Refused(String),
    /// A rank died, hung, or failed alone. The worker pool has been ended.
    Lost(String),
}

impl Failure {
    /// There are no workers.
    pub(crate) fn nobody() -> Self {
        Self::Lost("it has no workers".to_owned())
    }

    /// The reason in words.
    pub(crate) fn into_text(self) -> String {
        match self {
            Self::Refused(text) | Self::Lost(text) => text,
        }
    }
}

/// What comes from a worker.
enum Received {
    /// A line that a process printed, with its first rank.
    Line(u32, String),
    /// An answer; `None` if the worker has ended.
    Answer(u32, Result<Option<Answer>, Error>),
}

/// The workers of one library.
pub(crate) struct WorkerPool {
    alarm: Alarm,
    processes: Vec<Process>,
    /// In the order of ranks.
    members: Vec<Member>,
    received: Receiver<Received>,
}

/// A worker.
struct Member {
    rank: u32,
    connection: UnixStream,
    /// The number of the process that it is in.
    process: usize,
}

/// Receives lines that processes print: the first rank of the process, and the line.
pub(crate) type Listener<'a> = &'a mut dyn FnMut(u32, &str);

impl WorkerPool {
    /// Starts a process for each of `groups`, which are ranks that share a process; no rank occurs
    /// twice.
    pub(crate) fn start(launch: &Launch, groups: &[Vec<u32>]) -> Result<Self, Error> {
        let shared = SharedMemory::create(BARRIER_BYTES)?;
        let (sender, received) = channel();
        let alarm: Alarm = Box::new(|| false);
        let mut pool = Self { alarm, processes: Vec::new(), members: Vec::new(), received };
        for ranks in groups {
            let Started { process, connections, printed } =
                Process::start(launch, ranks.len(), shared.descriptor()?)?;
            pool.processes.push(process);
            let (first, lines) = (ranks.first().copied().unwrap_or(0), sender.clone());
            thread::spawn(move || receive_lines(first, printed, &lines));
            for (&rank, connection) in ranks.iter().zip(connections) {
                let (answers, copy) = (sender.clone(), BufReader::new(connection.try_clone()?));
                thread::spawn(move || receive_answers(rank, copy, &answers));
                let process = pool.processes.len() - 1;
                pool.members.push(Member { rank, connection, process });
            }
        }
        pool.members.sort_by_key(|member| member.rank);
        Ok(pool)
    }

    /// The same worker pool, which waits no longer than for one of its own failures once there is
    /// an `alarm`.
    pub(crate) fn with_alarm(mut self, alarm: Alarm) -> Self {
        self.alarm = alarm;
        self
    }

    /// Asks every rank and waits for all answers, which come in the order of ranks.
    pub(crate) fn ask(
        &mut self,
        request: impl Fn(u32) -> Request,
        timeout: Duration,
        listener: Listener<'_>,
    ) -> Tally {
        let ranks = self.ranks();
        self.ask_some(&ranks, request, timeout, listener)
    }

    /// Asks rank 0 alone, if it is here.
    pub(crate) fn ask_first(
        &mut self,
        request: &Request,
        timeout: Duration,
        listener: Listener<'_>,
    ) -> Tally {
        let first: Vec<u32> = self.ranks().into_iter().filter(|rank| *rank == 0).collect();
        self.ask_some(&first, |_| request.clone(), timeout, listener)
    }

    fn ask_some(
        &mut self,
        ranks: &[u32],
        request: impl Fn(u32) -> Request,
        timeout: Duration,
        listener: Listener<'_>,
    ) -> Tally {
        for (rank, member) in ranks.iter().filter_map(|&rank| Some((rank, self.member(rank)?))) {
            // A worker that is gone is noticed below.
            let _ = connection::send(&member.connection, &request(rank));
        }
        let mut round = Round::new(ranks, timeout);
        while round.is_waiting() {
            if (self.alarm)() {
                round.hurry();
            }
            match self.received.recv_timeout(round.left().min(LOOK)) {
                Ok(Received::Line(rank, line)) => listener(rank, &line),
                Ok(Received::Answer(rank, Ok(Some(answer)))) => round.take(rank, answer),
                Ok(Received::Answer(rank, Ok(None))) => round.lose(rank, self.ending(rank)),
                Ok(Received::Answer(rank, Err(error))) => round.lose(rank, error.to_string()),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let tally = round.tally();
        if let Err(Failure::Lost(_)) = tally.clone().verdict() {
            self.end(listener);
        }
        tally
    }

    /// Lets the workers go and waits until their processes have ended, as they should.
    pub(crate) fn dismiss(&mut self, timeout: Duration, listener: Listener<'_>) -> Tally {
        for member in &self.members {
            // It fails where the worker is gone already.
            let _ = member.connection.shutdown(Shutdown::Write);
        }
        let mut round = Round::new(&self.ranks(), timeout);
        while round.is_waiting() {
            match self.received.recv_timeout(round.left()) {
                Ok(Received::Line(rank, line)) => listener(rank, &line),
                Ok(Received::Answer(rank, Ok(None))) => match self.status(rank) {
                    Some(status) if status.success() => round.take(rank, Answer::Gone),
                    Some(status) => round.lose(rank, ended(status)),
                    None => round.lose(rank, "its process does not end".to_owned()),
                },
                Ok(Received::Answer(rank, _)) => round.lose(rank, "it answered unasked".to_owned()),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        self.end(listener);
        round.tally()
    }

    fn member(&self, rank: u32) -> Option<&Member> {
        self.members.iter().find(|member| member.rank == rank)
    }

    fn ranks(&self) -> Vec<u32> {
        self.members.iter().map(|member| member.rank).collect()
    }

    /// How the process of `rank`, whose connection has ended, has ended.
    fn ending(&mut self, rank: u32) -> String {
        self.status(rank).map_or_else(|| "it closed its connection".to_owned(), ended)
    }

    /// With what the process of `rank`, whose connection has ended, ends, if it soon does.
    fn status(&mut self, rank: u32) -> Option<ExitStatus> {
        let process = self.member(rank)?.process;
        self.processes.get_mut(process)?.status()
    }

    /// Ends the workers and receives what they still had to say.
    pub(crate) fn end(&mut self, listener: Listener<'_>) {
        self.kill();
        self.members.clear();
        while let Ok(received) = self.received.recv_timeout(LAST_WORDS) {
            if let Received::Line(rank, line) = received {
                listener(rank, &line);
            }
        }
    }

    fn kill(&mut self) {
        self.processes.iter_mut().for_each(Process::kill);
        for mut process in self.processes.drain(..) {
            // One that cannot be ended is the system's affair.
            let _ = process.status();
        }
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        self.kill();
    }
}

fn ended(status: ExitStatus) -> String {
    format!("its process ended ({status})")
}

fn receive_answers(rank: u32, mut stream: BufReader<UnixStream>, sender: &Sender<Received>) {
    loop {
        let answer = connection::receive(&mut stream);
        let is_last = !matches!(answer, Ok(Some(_)));
        if sender.send(Received::Answer(rank, answer)).is_err() || is_last {
            return;
        }
    }
}

fn receive_lines(rank: u32, printed: PipeReader, sender: &Sender<Received>) {
    let lines = BufReader::new(printed).split(b'\n');
    for line in lines.map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        if sender.send(Received::Line(rank, line)).is_err() {
            return;
        }
    }
}
