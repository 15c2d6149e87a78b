//! The shape of a line.

use std::fmt;

use super::clock;

/// What stands in front of every line.
pub struct Line {
    /// The device that it concerns.
    pub device: i32,
}

/// The host's name, up to the first dot.
pub fn host() -> String {
    let system = rustix::system::uname();
    let name = system.nodename().to_string_lossy();
    name.split('.').next().unwrap_or_default().to_owned()
}

impl Line {
    fn head(&self) -> String {
        // Asked anew each time: a process that forks goes on under another number.
        let process = rustix::process::getpid().as_raw_nonzero();
        let thread = rustix::thread::gettid().as_raw_nonzero();
        format!("{}:{process}:{thread} [{}]", host(), self.device)
    }

    /// A line of information.
    pub fn info(&self, text: fmt::Arguments<'_>) -> String {
        format!("{} NCCL INFO {text}\n", self.head())
    }

    /// A warning, set apart by an empty line.
    pub fn warning(&self, place: &str, text: &str) -> String {
        format!("\n[{}] {} {place} NCCL WARN {text}\n", clock::now(), self.head())
    }

    /// A text of several lines, each with its head, so that the lines of processes that write into
    /// one terminal can be distinguished.
    pub fn report(&self, text: &str) -> String {
        let head = self.head();
        let lines = text.lines().map(|line| format!("{head} NCCL WARN {line}\n"));
        lines.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_shape_that_scripts_look_for() {
        let line = Line { device: 3 };
        let head = format!("{}:{}:", host(), std::process::id());
        let info = line.info(format_args!("comm {}", 1));
        assert!(info.starts_with(&head) && info.ends_with(" [3] NCCL INFO comm 1\n"), "{info}");
        let warning = line.warning("exports/group.rs:7 (GroupEnd)", "no group");
        assert!(warning.starts_with("\n[20"), "{warning}");
        assert!(warning.ends_with(" [3] exports/group.rs:7 (GroupEnd) NCCL WARN no group\n"));
        assert_eq!(line.report("a\nb").matches("NCCL WARN").count(), 2);
    }
}
