//! The workers of one library: started, asked all at once, ended.
//!
//! A crew never makes its owner wait longer than asked: workers that do not answer in time are ended,
//! all of them, and the [`Failure`] says who was late. What workers and libraries print is heard line by
//! line.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, PipeReader, pipe};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use msccl_fabric::SharedMemory;

use crate::connection;
use crate::error::Error;
use crate::protocol::{Answer, Request};
use crate::worker::BARRIER_BYTES;

/// How long other ranks may take to answer once one has failed: they may wait for it without end.
const GRACE: Duration = Duration::from_secs(3);

/// How to start a worker: a program that calls [`crate::serve`] with its standard input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Launch {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Variables set in addition to the environment of this process.
    pub environment: Vec<(OsString, OsString)>,
}

/// Why a crew did not do what it was asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// Every rank answered that it could not; it can be asked again.
    Refused(String),
    /// A rank died, hung, or failed alone. The crew has been ended.
    Lost(String),
}

impl Failure {
    /// There are no workers to ask.
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
enum Heard {
    /// A line that it, or its library, printed.
    Line(u32, String),
    /// An answer; `None` if it has ended.
    Answer(u32, Result<Option<Answer>, Error>),
}

/// The workers of one library.
pub(crate) struct Crew {
    members: Vec<Member>,
    heard: Receiver<Heard>,
}

struct Member {
    child: Child,
    stream: UnixStream,
}

/// Hears lines that workers print: the rank, and the line.
pub(crate) type Listener<'a> = &'a mut dyn FnMut(u32, &str);

impl Crew {
    /// Starts a worker for each of `ranks` ranks.
    pub(crate) fn start(launch: &Launch, ranks: u32) -> Result<Self, Error> {
        let shared = SharedMemory::create(BARRIER_BYTES)?;
        let (say, heard) = channel();
        let mut crew = Self { members: Vec::new(), heard };
        for rank in 0..ranks {
            crew.members.push(Member::start(launch, rank, shared.as_fd(), &say)?);
        }
        Ok(crew)
    }

    /// Asks every rank and waits for all answers, which come in the order of ranks.
    pub(crate) fn ask(
        &mut self,
        request: impl Fn(u32) -> Request,
        timeout: Duration,
        listener: Listener<'_>,
    ) -> Result<Vec<Answer>, Failure> {
        let ranks = self.ranks();
        self.ask_some(&ranks, request, timeout, listener)
    }

    /// Asks rank 0 alone.
    pub(crate) fn ask_first(
        &mut self,
        request: &Request,
        timeout: Duration,
        listener: Listener<'_>,
    ) -> Result<Answer, Failure> {
        let answers = self.ask_some(&[0], |_| request.clone(), timeout, listener)?;
        answers.into_iter().next().ok_or_else(Failure::nobody)
    }

    fn ask_some(
        &mut self,
        ranks: &[u32],
        request: impl Fn(u32) -> Request,
        timeout: Duration,
        listener: Listener<'_>,
    ) -> Result<Vec<Answer>, Failure> {
        for (rank, member) in ranks.iter().filter_map(|&rank| Some((rank, self.member(rank)?))) {
            // A worker that is gone is heard of below.
            let _ = connection::send(&member.stream, &request(rank));
        }
        let mut round = Round::new(ranks, timeout);
        while round.is_waiting() {
            match self.heard.recv_timeout(round.left()) {
                Ok(Heard::Line(rank, line)) => listener(rank, &line),
                Ok(Heard::Answer(rank, Ok(Some(answer)))) => round.take(rank, answer),
                Ok(Heard::Answer(rank, Ok(None))) => round.lose(rank, self.ending(rank)),
                Ok(Heard::Answer(rank, Err(error))) => round.lose(rank, error.to_string()),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        let answers = round.finish();
        if let Err(Failure::Lost(_)) = answers {
            self.end(listener);
        }
        answers
    }

    /// Lets the workers go and waits until their processes have ended, as they should.
    pub(crate) fn dismiss(
        &mut self,
        timeout: Duration,
        listener: Listener<'_>,
    ) -> Result<(), Failure> {
        for member in &self.members {
            // It fails where the worker is gone already.
            let _ = member.stream.shutdown(Shutdown::Write);
        }
        let mut round = Round::new(&self.ranks(), timeout);
        while round.is_waiting() {
            match self.heard.recv_timeout(round.left()) {
                Ok(Heard::Line(rank, line)) => listener(rank, &line),
                Ok(Heard::Answer(rank, Ok(None))) => match self.status(rank) {
                    Some(status) if status.success() => round.take(rank, Answer::Gone),
                    Some(status) => round.lose(rank, ended(status)),
                    None => round.lose(rank, "its process does not end".to_owned()),
                },
                Ok(Heard::Answer(rank, _)) => round.lose(rank, "it answered unasked".to_owned()),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        self.end(listener);
        round.finish().map(|_| ())
    }

    fn member(&self, rank: u32) -> Option<&Member> {
        self.members.get(rank as usize)
    }

    fn ranks(&self) -> Vec<u32> {
        (0..).take(self.members.len()).collect()
    }

    /// How the process of `rank`, whose connection has ended, has ended.
    fn ending(&mut self, rank: u32) -> String {
        self.status(rank).map_or_else(|| "it closed its connection".to_owned(), ended)
    }

    /// With what the process of `rank`, whose connection has ended, ends, if it soon does.
    fn status(&mut self, rank: u32) -> Option<ExitStatus> {
        let member = self.members.get_mut(rank as usize)?;
        let patience = Instant::now() + GRACE;
        while Instant::now() < patience {
            if let Some(status) = member.child.try_wait().ok()? {
                return Some(status);
            }
            thread::sleep(Duration::from_millis(1));
        }
        None
    }

    /// Ends the workers and hears what they still had to say.
    pub(crate) fn end(&mut self, listener: Listener<'_>) {
        for member in &mut self.members {
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
        self.members.clear();
        while let Ok(heard) = self.heard.recv_timeout(Duration::from_millis(100)) {
            if let Heard::Line(rank, line) = heard {
                listener(rank, &line);
            }
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for member in &mut self.members {
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
    }
}

/// Answers to one request, as they come in.
struct Round {
    ranks: Vec<u32>,
    answers: Vec<Option<Answer>>,
    failures: Vec<(u32, String)>,
    is_lost: bool,
    begin: Instant,
    deadline: Instant,
}

impl Round {
    fn new(ranks: &[u32], timeout: Duration) -> Self {
        let begin = Instant::now();
        // A wait beyond what the clock can count is one of a day.
        let deadline = begin.checked_add(timeout);
        let deadline = deadline.unwrap_or(begin + Duration::from_secs(86_400));
        let answers = vec![None; ranks.len()];
        let ranks = ranks.to_vec();
        Self { ranks, answers, failures: Vec::new(), is_lost: false, begin, deadline }
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    fn is_waiting(&self) -> bool {
        self.missing().next().is_some() && !self.left().is_zero()
    }

    /// Ranks that have neither answered nor failed.
    fn missing(&self) -> impl Iterator<Item = u32> {
        let asked = self.ranks.iter().zip(&self.answers);
        let silent = asked.filter(|(_, answer)| answer.is_none()).map(|(rank, _)| *rank);
        silent.filter(|rank| !self.failures.iter().any(|(failed, _)| failed == rank))
    }

    fn take(&mut self, rank: u32, answer: Answer) {
        if let Answer::Failed { text } = answer {
            return self.fail(rank, text);
        }
        let place = self.ranks.iter().position(|&asked| asked == rank);
        if let Some(place) = place.and_then(|place| self.answers.get_mut(place)) {
            *place = Some(answer);
        }
    }

    /// `rank` cannot answer any more.
    fn lose(&mut self, rank: u32, text: String) {
        self.is_lost = true;
        self.fail(rank, text);
    }

    fn fail(&mut self, rank: u32, text: String) {
        self.failures.push((rank, text));
        self.deadline = self.deadline.min(Instant::now() + GRACE);
    }

    fn finish(self) -> Result<Vec<Answer>, Failure> {
        let missing: Vec<String> = self.missing().map(|rank| format!("r{rank}")).collect();
        if self.failures.is_empty() && missing.is_empty() {
            return Ok(self.answers.into_iter().flatten().collect());
        }
        let all_refused = !self.is_lost && self.failures.len() == self.ranks.len();
        let mut story = told(self.failures);
        if !missing.is_empty() {
            let seconds = self.begin.elapsed().as_secs_f64();
            story.push(format!("no answer from {} in {seconds:.0} s", missing.join(", ")));
        }
        let story = story.join("; ");
        Err(if all_refused { Failure::Refused(story) } else { Failure::Lost(story) })
    }
}

fn ended(status: ExitStatus) -> String {
    format!("its process ended ({status})")
}

/// Failures, each text once with all ranks that have it.
fn told(mut failures: Vec<(u32, String)>) -> Vec<String> {
    failures.sort();
    let mut told: Vec<(String, String)> = Vec::new();
    for (rank, text) in failures {
        match told.iter_mut().find(|(_, known)| *known == text) {
            Some((ranks, _)) => ranks.push_str(&format!(", r{rank}")),
            None => told.push((format!("r{rank}"), text)),
        }
    }
    told.into_iter().map(|(ranks, text)| format!("{ranks}: {text}")).collect()
}

impl Member {
    fn start(
        launch: &Launch,
        rank: u32,
        shared: BorrowedFd<'_>,
        say: &Sender<Heard>,
    ) -> Result<Self, Error> {
        let (stream, theirs) = UnixStream::pair()?;
        // It waits there for the worker, who may end before reading it.
        connection::send_descriptor(&stream, shared)?;
        let (printed, print) = pipe()?;
        let mut command = Command::new(&launch.program);
        command.args(&launch.arguments).envs(launch.environment.iter().cloned());
        command.stdin(Stdio::from(OwnedFd::from(theirs)));
        command.stdout(print.try_clone()?).stderr(print);
        let child = command.spawn().map_err(|error| {
            Error::new(format!("cannot start {}: {error}", launch.program.display()))
        })?;
        // What the child holds of its ends must not be held here, too, or they would never end.
        drop(command);
        let member = Self { child, stream };
        let (answers, lines) = (say.clone(), say.clone());
        let stream = BufReader::new(member.stream.try_clone()?);
        thread::spawn(move || hear_answers(rank, stream, &answers));
        thread::spawn(move || hear_lines(rank, printed, &lines));
        Ok(member)
    }
}

fn hear_answers(rank: u32, mut stream: BufReader<UnixStream>, say: &Sender<Heard>) {
    loop {
        let answer = connection::receive(&mut stream);
        let is_last = !matches!(answer, Ok(Some(_)));
        if say.send(Heard::Answer(rank, answer)).is_err() || is_last {
            return;
        }
    }
}

fn hear_lines(rank: u32, printed: PipeReader, say: &Sender<Heard>) {
    let lines = BufReader::new(printed).split(b'\n');
    for line in lines.map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        if say.send(Heard::Line(rank, line)).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crew whose workers are shell scripts.
    fn crew(script: &str, ranks: u32) -> Crew {
        let arguments = ["-c", script].map(OsString::from).to_vec();
        let program = PathBuf::from("/bin/sh");
        Crew::start(&Launch { program, arguments, environment: Vec::new() }, ranks).unwrap()
    }

    fn ask(crew: &mut Crew, timeout: Duration) -> (Result<Vec<Answer>, Failure>, Vec<String>) {
        let mut lines = Vec::new();
        let mut listener = |rank: u32, line: &str| lines.push(format!("r{rank}: {line}"));
        let answers = crew.ask(|_| Request::MakeId, timeout, &mut listener);
        lines.sort();
        (answers, lines)
    }

    fn lost(text: &str) -> Result<Vec<Answer>, Failure> {
        Err(Failure::Lost(text.to_owned()))
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn answers_come_in_the_order_of_ranks() {
        // Standard input is a socket: what is written there arrives here.
        let script = r#"read -r line; echo '{"id":{"id":"00"}}' >&0; cat"#;
        let mut crew = crew(script, 3);
        let (answers, _) = ask(&mut crew, LONG);
        assert_eq!(answers, Ok(vec![Answer::Id { id: "00".to_owned() }; 3]));
    }

    #[test]
    fn the_silent_are_named_and_ended() {
        let mut crew = crew("sleep 1000", 2);
        let begin = Instant::now();
        let (answers, _) = ask(&mut crew, Duration::from_millis(200));
        assert_eq!(answers, lost("no answer from r0, r1 in 0 s"));
        assert!(begin.elapsed() < Duration::from_secs(20));
        assert!(crew.members.is_empty());
    }

    #[test]
    fn the_dead_are_named_with_their_last_words() {
        let mut crew = crew("echo alas >&2", 2);
        let (answers, lines) = ask(&mut crew, LONG);
        assert_eq!(answers, lost("r0, r1: its process ended (exit status: 0)"));
        assert_eq!(lines, ["r0: alas", "r1: alas"]);
    }

    #[test]
    fn what_all_refuse_is_told_once_and_leaves_the_crew_alive() {
        let script = r#"while read -r line; do echo '{"failed":{"text":"no room"}}' >&0; done"#;
        let mut crew = crew(script, 3);
        for _ in 0..2 {
            let (answers, _) = ask(&mut crew, LONG);
            assert_eq!(answers, Err(Failure::Refused("r0, r1, r2: no room".to_owned())));
        }
    }

    #[test]
    fn nobody_waits_long_for_those_who_wait_for_the_dead() {
        let mut round = Round::new(&[0, 1], LONG);
        round.fail(1, "no room".to_owned());
        assert!(round.left() <= GRACE && round.is_waiting());
        assert_eq!(round.finish(), lost("r1: no room; no answer from r0 in 0 s"));
    }

    #[test]
    fn workers_leave_when_dismissed() {
        let mut listener = |_: u32, _: &str| {};
        let mut polite = crew("cat >/dev/null", 2);
        assert_eq!(polite.dismiss(LONG, &mut listener), Ok(()));
        let mut rude = crew("cat >/dev/null; exit 3", 1);
        let ended = Failure::Lost("r0: its process ended (exit status: 3)".to_owned());
        assert_eq!(rude.dismiss(LONG, &mut listener), Err(ended));
        let mut stubborn = crew("sleep 1000", 1);
        let stayed = Failure::Lost("no answer from r0 in 0 s".to_owned());
        assert_eq!(stubborn.dismiss(Duration::from_millis(100), &mut listener), Err(stayed));
    }

    #[test]
    fn what_cannot_be_started_is_named() {
        let program = PathBuf::from("/no/such/program");
        let launch = Launch { program, arguments: Vec::new(), environment: Vec::new() };
        let refused = Crew::start(&launch, 1).map(|_| ()).unwrap_err();
        assert!(refused.to_string().contains("/no/such/program"));
    }
}
