//! Hosts in one, for tests of what crosses a network: each is a network namespace with a name of
//! its own, and all are joined by cables that can be pulled. `tests/namespaces/run` makes them and
//! says what they are like.
//!
//! # Guarantees
//!
//! * The hosts, and all that runs on them, end when [`Hosts`] is dropped, and when its process ends
//!   in whatever way.
//! * Hosts of two tests at a time do not meet, although they have the same addresses.
//!
//! Not guaranteed: that hosts can be had, which takes privileges. Files, memory and processes are
//! those of the one host that there is.

#![deny(unsafe_code)]

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// By which the scripts find the hosts.
const NAME: &str = "NAMESPACES";

/// The exit code of the script where namespaces are not allowed.
const NOT_HERE: i32 = 77;

/// An address that no interface has.
const NOBODY: &str = "02:00:00:00:00:00";

/// Hosts, numbered from 0 on.
pub struct Hosts {
    name: String,
    count: u32,
    /// The script, which ends them when it reads no more.
    keeper: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Hosts {
    /// `count` hosts, each with an interface `eth7`.
    ///
    /// # Errors
    ///
    /// They cannot be had here; the text says why.
    ///
    /// # Panics
    ///
    /// They can be had, and yet the script has failed.
    pub fn new(count: u32) -> Result<Self, String> {
        Self::made(count, &[])
    }

    /// Hosts that have another interface, `eth0`, before that one, which leads nowhere.
    ///
    /// # Errors
    ///
    /// As for [`Hosts::new`].
    ///
    /// # Panics
    ///
    /// As for [`Hosts::new`].
    pub fn with_dead_ends(count: u32) -> Result<Self, String> {
        Self::made(count, &["-d"])
    }

    fn made(count: u32, options: &[&str]) -> Result<Self, String> {
        let failed = |error: io::Error| format!("tests/namespaces/run: {error}");
        let mut script = Command::new(script("run"));
        script.args(["-n", &count.to_string()]).args(options);
        script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut keeper = script.spawn().map_err(failed)?;
        let (orders, stdout) = (keeper.stdin.take(), keeper.stdout.take());
        let mut answers = BufReader::new(stdout.ok_or("the script has no output")?);
        let mut name = String::new();
        answers.read_line(&mut name).map_err(failed)?;
        if name.is_empty() {
            return Err(refusal(keeper).map_err(failed)?);
        }
        Ok(Self { name: name.trim_end().to_owned(), count, keeper, orders, answers })
    }

    /// The address of `host`.
    pub fn address(host: u32) -> String {
        format!("10.231.18.{}", host + 1)
    }

    /// A command that runs `program` on `host`, as the very process that is started.
    pub fn command(&self, host: u32, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(script("enter"));
        command.arg(host.to_string()).arg(program).env(NAME, &self.name);
        command
    }

    /// A program that launchers can use in place of `ssh`, when they run on one of the hosts.
    pub fn remote_shell() -> PathBuf {
        script("rsh")
    }

    /// Pulls the cable of `host`.
    ///
    /// # Errors
    ///
    /// The script has ended.
    pub fn cut(&mut self, host: u32) -> io::Result<()> {
        self.order("cut", host)
    }

    /// Puts the cable of `host` back.
    ///
    /// # Errors
    ///
    /// The script has ended.
    pub fn mend(&mut self, host: u32) -> io::Result<()> {
        self.order("mend", host)
    }

    /// Lets everything be lost that `host` and other hosts send one another, of which no system
    /// notices anything. A pulled cable is noticed: then systems try again sooner.
    ///
    /// # Errors
    ///
    /// `ip` cannot be run.
    pub fn lose(&self, host: u32) -> io::Result<()> {
        self.join(host, |_| Ok(NOBODY.to_owned()))
    }

    /// Nothing is lost any more.
    ///
    /// # Errors
    ///
    /// As for [`Hosts::lose`].
    pub fn find(&self, host: u32) -> io::Result<()> {
        self.join(host, |of| self.said_by(of, "cat", &["/sys/class/net/eth7/address"]))
    }

    /// Lets `host` and the others believe that these are one another's hardware addresses.
    fn join(&self, host: u32, hardware: impl Fn(u32) -> io::Result<String>) -> io::Result<()> {
        for other in (0..self.count).filter(|other| *other != host) {
            for (here, there) in [(host, other), (other, host)] {
                let (address, hardware) = (Self::address(there), hardware(there)?);
                let place = ["dev", "eth7", "nud", "permanent"];
                let entry =
                    [&["neigh", "replace", &address, "lladdr", hardware.trim()], &place[..]];
                self.said_by(here, "ip", &entry.concat())?;
            }
        }
        Ok(())
    }

    /// What `program` says on `host`.
    fn said_by(&self, host: u32, program: &str, arguments: &[&str]) -> io::Result<String> {
        let output = self.command(host, program).args(arguments).output()?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()))
        }
    }

    fn order(&mut self, verb: &str, host: u32) -> io::Result<()> {
        if let Some(orders) = &mut self.orders {
            writeln!(orders, "{verb} {host}")?;
        }
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        match answer.trim_end() {
            "done" => Ok(()),
            other => Err(io::Error::other(format!("{verb} {host}: `{other}`"))),
        }
    }

    /// The processes that run on `host`.
    ///
    /// # Errors
    ///
    /// `ip` cannot be run.
    pub fn processes(&self, host: u32) -> io::Result<Vec<u32>> {
        let namespace = format!("{}-{host}", self.name);
        let output = Command::new("ip").args(["netns", "pids", &namespace]).output()?;
        let numbers = String::from_utf8_lossy(&output.stdout);
        Ok(numbers.split_whitespace().filter_map(|number| number.parse().ok()).collect())
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.orders = None;
        // Whoever is to make hosts next should not find the machine busy with the end of these.
        let _ = self.keeper.wait();
    }
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/namespaces").join(name)
}

/// Why there are no hosts. The script says it, and that it is no failure.
fn refusal(mut keeper: Child) -> io::Result<String> {
    let status = keeper.wait()?;
    let mut said = String::new();
    keeper.stderr.take().map_or(Ok(0), |mut stderr| stderr.read_to_string(&mut said))?;
    match status.code() {
        Some(NOT_HERE) => Ok(said.trim_end().to_owned()),
        _ => panic!("tests/namespaces/run ended with {status}: {said}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use super::*;

    #[test]
    fn cables_can_be_pulled_and_put_back() {
        let mut hosts = match Hosts::new(2) {
            Ok(hosts) => hosts,
            // Written past the test harness, which keeps back what tests print.
            Err(why) => return writeln!(io::stderr(), "SKIPPED: {why}").unwrap(),
        };
        let carrier = |hosts: &Hosts| {
            let mut command = hosts.command(1, "sh");
            let output = command.args(["-c", "hostname; cat /sys/class/net/eth7/carrier"]).output();
            String::from_utf8(output.unwrap().stdout).unwrap()
        };
        assert_eq!(carrier(&hosts), "host1\n1\n");
        hosts.cut(1).unwrap();
        assert_eq!(carrier(&hosts), "host1\n0\n");
        hosts.mend(1).unwrap();
        assert_eq!(carrier(&hosts), "host1\n1\n");
        let echo = |hosts: &Hosts| {
            let mut command = hosts.command(0, "ping");
            command.args(["-c", "1", "-W", "1", &Hosts::address(1)]).output()
        };
        let answers = |hosts: &Hosts| echo(hosts).unwrap().status.success();
        // Not every machine has the program.
        if answers(&hosts) {
            hosts.lose(1).unwrap();
            assert!(!answers(&hosts));
            hosts.find(1).unwrap();
            assert!(answers(&hosts));
        }
        // What runs there ends with the hosts.
        let mut child = hosts.command(0, "sleep").arg("1000").spawn().unwrap();
        while hosts.processes(0).unwrap() != [child.id()] {
            std::thread::yield_now();
        }
        drop(hosts);
        assert!(!child.wait().unwrap().success());
    }
}
