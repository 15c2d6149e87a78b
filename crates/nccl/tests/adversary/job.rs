//! A job of processes on the host engine, which does what a test says.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::programs::{compile, folder};

/// One rank.
pub struct Rank {
    pub child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    log: PathBuf,
}

/// All ranks; those that still live are killed when it is dropped.
pub struct Job {
    pub ranks: Vec<Rank>,
    pub id: String,
}

/// What is special about a job.
#[derive(Clone, Default)]
pub struct Terms {
    pub ranks: usize,
    /// How many ranks pretend to share a host.
    pub per_host: usize,
    /// The soft limit of descriptors.
    pub descriptors: Option<u64>,
    /// Whether the hard limit is the same.
    pub hard: bool,
    pub environment: Vec<(String, String)>,
}

impl Job {
    /// Starts the ranks; rank 0 makes the id. Nobody joins yet. Nothing without a C compiler.
    pub fn start(name: &str, terms: &Terms) -> Option<Self> {
        let program = compile("target")?;
        let logs = folder().join(format!("logs-{name}"));
        fs::create_dir_all(&logs).unwrap();
        let start = |rank| Rank::start(&program, rank, terms, logs.join(format!("{rank}.log")));
        let mut job = Self { ranks: (0..terms.ranks).map(start).collect(), id: String::new() };
        // Where descriptors are lacking there is none.
        let id = job.ranks[0].ask("id");
        job.id = id.strip_prefix("id ").unwrap_or_default().to_owned();
        Some(job)
    }

    /// Lets rank `rank` begin to join.
    pub fn join(&mut self, rank: usize) {
        let order = format!("join {}", self.id);
        self.ranks[rank].say(&order);
    }

    /// Lets all ranks join and waits until they have.
    pub fn join_all(&mut self) {
        (0..self.ranks.len()).for_each(|rank| self.join(rank));
        self.receive("joined");
    }

    /// Gives all ranks an order.
    pub fn say(&mut self, order: &str) {
        self.ranks.iter_mut().for_each(|rank| rank.say(order));
    }

    /// Every rank's answer, which begins with `expected`.
    #[track_caller]
    pub fn receive(&mut self, expected: &str) -> Vec<String> {
        let answers: Vec<_> = self.ranks.iter_mut().map(Rank::receive).collect();
        assert!(answers.iter().all(|answer| answer.starts_with(expected)), "{answers:?}");
        answers
    }

    /// Gives an order and waits for the answers.
    #[track_caller]
    pub fn ask(&mut self, order: &str, expected: &str) -> Vec<String> {
        self.say(order);
        self.receive(expected)
    }

    /// The most memory that each rank had so far, in KiB, and what it has.
    pub fn memory(&mut self) -> Vec<[u64; 2]> {
        let answers = self.ask("memory", "memory ");
        let numbers = |answer: &String| {
            let mut numbers = answer.split(' ').skip(1).map(|number| number.parse().unwrap());
            [numbers.next().unwrap(), numbers.next().unwrap()]
        };
        answers.iter().map(numbers).collect()
    }

    /// Ends all ranks, which must succeed.
    #[track_caller]
    pub fn end(mut self) {
        self.ask("end", "ended");
        for rank in &mut self.ranks {
            rank.input = None;
            assert!(rank.child.wait().unwrap().success());
        }
    }

    /// What all ranks have logged.
    pub fn logs(&self) -> String {
        self.ranks.iter().map(Rank::log).collect()
    }

    /// Waits until a log has `text`, in what was written behind `from` bytes of all logs together.
    #[track_caller]
    pub fn await_line(&self, text: &str, before: usize) {
        let since = Instant::now();
        while self.logs().matches(text).count() <= before {
            let in_time = since.elapsed() < Duration::from_secs(20);
            assert!(in_time, "nobody logs `{text}` once more:\n{}", self.logs());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        for rank in &mut self.ranks {
            let _ = rank.child.kill();
            let _ = rank.child.wait();
        }
    }
}

impl Rank {
    fn start(program: &PathBuf, rank: usize, terms: &Terms, log: PathBuf) -> Self {
        let _ = fs::remove_file(&log);
        let mut command = match terms.descriptors {
            Some(limit) => {
                let which = if terms.hard { "-n" } else { "-Sn" };
                let mut shell = Command::new("sh");
                let script = format!("ulimit {which} {limit}; exec \"$0\" \"$@\"");
                shell.arg("-c").arg(script).arg(program);
                shell
            }
            None => Command::new(program),
        };
        command.arg(rank.to_string()).arg(terms.ranks.to_string());
        command.env("LD_LIBRARY_PATH", folder()).env("MSCCL_DEVICE", "host");
        command.env("NCCL_SOCKET_IFNAME", "lo").env("NCCL_DEBUG", "INFO");
        command.env("NCCL_DEBUG_FILE", &log).env("NCCL_HOSTID", host(rank, terms));
        command.envs(terms.environment.iter().cloned());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        Self { child, input, output: BufReader::new(output), log }
    }

    pub fn say(&mut self, order: &str) {
        // One that was killed receives nothing.
        let _ = writeln!(self.input.as_ref().unwrap(), "{order}");
    }

    /// Its next answer; nothing if it has ended.
    pub fn receive(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub fn ask(&mut self, order: &str) -> String {
        self.say(order);
        self.receive()
    }

    pub fn log(&self) -> String {
        fs::read(&self.log)
            .map(|log| String::from_utf8_lossy(&log).into_owned())
            .unwrap_or_default()
    }

    /// The sockets of this process, by their inodes.
    fn sockets(&self) -> Vec<String> {
        let folder = format!("/proc/{}/fd", self.child.id());
        let links = fs::read_dir(folder).unwrap().filter_map(|entry| {
            let link = fs::read_link(entry.ok()?.path()).ok()?;
            let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
            Some(inode.to_owned())
        });
        links.collect()
    }

    /// The ports at which it listens.
    pub fn ports(&self) -> Vec<u16> {
        let sockets = self.sockets();
        let table = fs::read_to_string("/proc/net/tcp").unwrap();
        let listening = table.lines().skip(1).filter_map(|line| {
            let fields: Vec<_> = line.split_whitespace().collect();
            let ours = fields[3] == "0A" && sockets.iter().any(|inode| inode == fields[9]);
            ours.then(|| u16::from_str_radix(fields[1].split_once(':').unwrap().1, 16).unwrap())
        });
        listening.collect()
    }

    /// The names without a file of the unix sockets at which it listens.
    pub fn names(&self) -> Vec<String> {
        let sockets = self.sockets();
        let table = fs::read_to_string("/proc/net/unix").unwrap();
        let named = table.lines().skip(1).filter_map(|line| {
            let fields: Vec<_> = line.split_whitespace().collect();
            let name = fields.get(7)?.strip_prefix('@')?;
            // Every accepted connection has the name, too.
            let listens = fields[3] == "00010000" && sockets.iter().any(|it| it == fields[6]);
            listens.then(|| name.to_owned())
        });
        named.collect()
    }
}

/// Under which name rank `rank` lives.
fn host(rank: usize, terms: &Terms) -> String {
    // Of this process alone: other tests run at the same time.
    format!("host{}-{}", rank / terms.per_host.max(1), std::process::id())
}
