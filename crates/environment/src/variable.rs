//! The table of all variables. `docs/ENVIRONMENT.md` is made of it; a test compares the two.

/// A variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Variable {
    /// What it is called.
    pub name: &'static str,
    /// What it may be set to.
    pub values: &'static str,
    /// What counts if it is not set.
    pub default: &'static str,
    /// What it does.
    pub meaning: &'static str,
}

macro_rules! variables {
    ($($constant:ident $name:literal $values:literal $default:literal $meaning:literal)*) => {
        $(#[doc = $meaning]
        pub const $constant: Variable =
            Variable { name: $name, values: $values, default: $default, meaning: $meaning };)*

        /// All of them, ours first.
        pub const ALL: &[Variable] = &[$($constant),*];
    };
}

variables! {
    DEVICE "MSCCL_DEVICE" "`host` or `cuda`" "a GPU if there is one"
        "Where ranks run. On the host, buffers are host memory, streams are ignored, and calls return \
         when they are done. `cuda` insists: without a usable GPU no communicator is made."
    XML_FILES "MSCCL_XML_FILES" "paths, separated by colons" "none"
        "Algorithms to load, in any format. The same on all ranks, in the same order. A file that \
         cannot be used is a warning; the job goes on without it."
    ALGO_DIR "MSCCL_ALGO_DIR" "a folder" "none"
        "Loads every `.xml`, `.json` and `.msccl` file of the folder, in order of their names, after \
         those of `MSCCL_XML_FILES`."
    ALGO "MSCCL_ALGO" "part of a name" "by measurement"
        "Uses only algorithms whose name contains this, where one of them serves the call."
    PROTO "MSCCL_PROTO" "`Simple`, `LL` or `LL128`" "by measurement"
        "Uses this protocol where it can be used."
    INSTANCES "MSCCL_INSTANCES" "a number from 1 on" "by measurement"
        "Uses that many instances of the algorithm where the GPU has room for them."
    THREADS "MSCCL_THREADS" "a number from 1 on" "by measurement"
        "Uses that many threads in a block, rounded up to whole warps, as far as kernels allow."
    TUNING "MSCCL_TUNING" "a path" "the table that comes with the library"
        "A table of what is best for which size, asked before the one that comes with the library; \
         `docs/RUNTIME.md` describes it. The same on all ranks. A file that cannot be used is a warning, \
         and counts as not set."
    DIRECT "MSCCL_DIRECT" "0 or 1" "0"
        "Lets GPUs store to and load from one another's buffers as the caller passed them, where that is          proved sound and they are plain device memory; `docs/MEMORY.md` says how. On all ranks, or it          counts as 0."
    TIMEOUT_S "MSCCL_TIMEOUT_S" "seconds, 0 for no limit" "0"
        "How long a call may stand still. Then the story of who waits for whom is told and the \
         communicator fails on all ranks."
    JOIN_TIMEOUT_S "MSCCL_JOIN_TIMEOUT_S" "seconds, 0 for no limit" "600"
        "How long the ranks of a new communicator wait for one another, from the first one's arrival."
    CHECK "MSCCL_CHECK" "0 or 1" "0"
        "Compares the arguments of every call across ranks before it runs. Slow; finds ranks that \
         call different things."
    STORY_SIGNAL "MSCCL_STORY_SIGNAL" "0 or 1" "1"
        "Whether SIGUSR1 makes the process tell who waits for whom. A program that handles the signal \
         itself is left alone."
    LIBRARY "MSCCL_LIBRARY" "a path" "`libnccl.so.2` beside `msccl`, or in `lib` beside its folder"
        "The library that `msccl bench` measures; nothing else reads it."
    DEBUG "NCCL_DEBUG" "`VERSION`, `WARN`, `INFO`, `ABORT` or `TRACE`" "nothing is said"
        "How much is said in the log. `ABORT` and `TRACE` say as much as `INFO`."
    DEBUG_SUBSYS "NCCL_DEBUG_SUBSYS" "NCCL's names, separated by commas; `^` in front excludes"
        "`INIT,BOOTSTRAP,ENV`"
        "About what. `COLL` adds a line for every call."
    DEBUG_FILE "NCCL_DEBUG_FILE" "a path; `%h` is the host, `%p` the process" "standard output"
        "Where the log goes."
    CONF_FILE "NCCL_CONF_FILE" "a path" "`~/.nccl.conf`"
        "A file of `NAME=value` lines. It sets what the process does not set, and wins over \
         `/etc/nccl.conf`."
    SOCKET_IFNAME "NCCL_SOCKET_IFNAME" "names or prefixes; `=` in front for names, `^` excludes"
        "by NCCL's rules"
        "Which network interfaces ranks may find one another by."
    SOCKET_FAMILY "NCCL_SOCKET_FAMILY" "`AF_INET` or `AF_INET6`" "either"
        "Which addresses ranks may find one another by."
    COMM_ID "NCCL_COMM_ID" "`host:port` or `[IPv6]:port`" "chosen by `ncclGetUniqueId`"
        "Where rank 0 listens, so that ids need no transport."
    P2P_DISABLE "NCCL_P2P_DISABLE" "0 or 1" "0"
        "Keeps GPUs from mapping one another's memory; links lie in host memory instead."
    MAX_CTAS "NCCL_MAX_CTAS" "a number from 1 on" "by measurement"
        "Most thread blocks that a call may occupy. Wins over `maxCTAs` of a configuration."
    COMM_BLOCKING "NCCL_COMM_BLOCKING" "0 or 1" "as configured"
        "Whether communicators are blocking. Wins over `blocking` of a configuration."
}

/// Whether there is a variable of that name.
pub fn is_known(name: &str) -> bool {
    ALL.iter().any(|variable| variable.name == name)
}

/// The name of ours that shares the longest beginning with `name`.
pub fn nearest(name: &str) -> &'static str {
    let shared =
        |other: &str| name.bytes().zip(other.bytes()).take_while(|(mine, its)| mine == its).count();
    let names = ALL.iter().map(|variable| variable.name);
    names.rev().max_by_key(|other| shared(other)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    /// The table of `docs/ENVIRONMENT.md`; `MSCCL_BLESS=1` rewrites it there.
    #[test]
    fn the_document_says_the_same() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ENVIRONMENT.md");
        let document = fs::read_to_string(&path).unwrap_or_default();
        let mark = "| variable | values | default | meaning |\n|---|---|---|---|\n";
        let (before, after) = document.split_once(mark).expect("the document has the table");
        let end = after.find("\n\n").map_or(after.len(), |end| end + 1);
        let row = |variable: &Variable| {
            let Variable { name, values, default, meaning } = variable;
            format!("| `{name}` | {values} | {default} | {meaning} |\n")
        };
        let table: String = ALL.iter().map(row).collect();
        if std::env::var_os("MSCCL_BLESS").is_some() {
            fs::write(&path, format!("{before}{mark}{table}{}", &after[end..])).unwrap();
        } else {
            assert_eq!(&after[..end], table, "run with MSCCL_BLESS=1 to rewrite the table");
        }
    }

    #[test]
    fn names_are_distinct_and_fit_a_table() {
        let names: BTreeSet<_> = ALL.iter().map(|variable| variable.name).collect();
        assert_eq!(names.len(), ALL.len());
        for Variable { name, values, default, meaning } in ALL {
            assert!(name.starts_with("MSCCL_") || name.starts_with("NCCL_"), "{name}");
            assert!([values, default, meaning].iter().all(|text| !text.contains(['|', '\n'])));
        }
    }

    #[test]
    fn misspellings_find_their_way() {
        assert!(is_known("MSCCL_CHECK") && !is_known("MSCCL_CHECKS"));
        assert_eq!(nearest("MSCCL_XMLFILES"), "MSCCL_XML_FILES");
        assert_eq!(nearest("MSCCL_TIMEOUT"), "MSCCL_TIMEOUT_S");
    }
}
