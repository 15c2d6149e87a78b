//! The table of all variables. Most of `docs/ENVIRONMENT.md` is made of it; a test compares them.

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
    STRICT "MSCCL_STRICT" "0 or 1" "0"
        "Whether a request that is not met is an error: a file or table that is not used, an \
         algorithm that can serve no call, a variable that is misspelt, makes no sense or has no \
         effect. With 1 no communicator is made, on any rank, if one rank has this variable. With \
         0, rank 0 prints a line on standard error, and the job goes on."
    DEVICE "MSCCL_DEVICE" "`host` or `cuda`" "a GPU if there is one"
        "Where ranks run. On the host, buffers are host memory, streams are ignored, and calls \
         return when they are done. With `cuda` no communicator is made without a usable GPU."
    XML_FILES "MSCCL_XML_FILES" "paths, separated by colons" "none"
        "Algorithms to load, in any format. The same on all ranks, in the same order. A program \
         serves calls in place and out of place, as far as it is proved for both. A file that \
         cannot be used is reported, and the job goes on without it (see `MSCCL_STRICT`)."
    ALGO_DIR "MSCCL_ALGO_DIR" "a folder" "none"
        "Loads every `.xml`, `.json` and `.msccl` file of the folder, in the order of their \
         names, after those of `MSCCL_XML_FILES`."
    ALGO "MSCCL_ALGO" "part of a name" "by measurement"
        "Uses only algorithms whose name contains this, where one of them serves the call. An \
         algorithm of exactly this name comes first, then those of which it is the part behind a \
         slash."
    ORDER "MSCCL_ORDER" "`any`, `flat` or `tree`" "any"
        "The order in which reductions add. With `flat` or `tree` only algorithms that are proved \
         to add in this order serve them, so results do not depend on the size of a call, the \
         place of an element, or the run; a call that none of them can serve is an error \
         (`docs/REPRODUCIBILITY.md`). The same on all ranks."
    PROTO "MSCCL_PROTO" "`Simple`, `LL` or `LL128`" "by measurement"
        "Uses this protocol where it can be used."
    INSTANCES "MSCCL_INSTANCES" "a number from 1 on" "by measurement"
        "Uses that many instances of the algorithm where the GPU has room for them."
    THREADS "MSCCL_THREADS" "a number from 1 on" "by measurement"
        "Uses that many threads in a thread block, rounded up to whole warps, as far as kernels \
         allow."
    TUNING "MSCCL_TUNING" "a path" "the table that comes with the library"
        "A tuning table, whose rows come before those of the library (`docs/SELECTION.md`). The \
         same on all ranks. A file that cannot be used is reported, and counts as not set (see \
         `MSCCL_STRICT`)."
    TRACE "MSCCL_TRACE" "a folder" "none"
        "Records what every step of every collective does, in a file of this folder for each rank \
         and communicator (`docs/TRACING.md`). The folder is made if it does not exist. On GPUs \
         calls take 0.1 to 0.5 µs longer, and NVRTC is needed."
    TRACE_ON_SIGNAL "MSCCL_TRACE_ON_SIGNAL" "a folder" "none"
        "Lets `SIGUSR2` begin and end recordings into folders `1`, `2`, … of this folder \
         (`docs/TRACING.md`), unless the program handles that signal. On GPUs ranks then have the \
         kernels ready that record."
    METRICS "MSCCL_METRICS" "a path; `%h` is the host, `%p` the process" "none"
        "Writes metrics of every communicator for Prometheus to this file, every 5 s and at the \
         end of each communicator: calls, bytes, bandwidths, failures (`docs/TRACING.md`). Each \
         process writes all of the file, so several processes need `%p`."
    DIRECT "MSCCL_DIRECT" "0, 1 or 2" "1"
        "When GPUs store to and load from one another's buffers directly, where that is proved \
         sound and peers can map that memory (`docs/MEMORY.md`): 0 never, 1 for calls of which a \
         tuning table says so, 2 for all. The same on all ranks."
    ON_FAILURE "MSCCL_ON_FAILURE" "`hold` or `trap`" "`hold`"
        "What kernels of a communicator that has failed do. `hold`: they stay in their streams, \
         and nothing behind them runs, until the program aborts, revokes or destroys the \
         communicator. `trap`: they fault, so the next CUDA call of the process returns an error, \
         and its GPU context is lost. On host threads calls return the error. Ranks may differ."
    PDL "MSCCL_PDL" "0 or 1" "1"
        "Lets the kernel of a collective start while the kernel ahead of it in its stream ends \
         (programmatic dependent launch), on GPUs of compute capability 9.0 and above. Behind \
         low-latency kernels it starts while these run. Ranks may differ."
    LOW_LATENCY "MSCCL_LOW_LATENCY" "0 or 1" "1"
        "Runs LL and LL128 calls in which no thread has more than eight packets of a chunk on \
         low-latency kernels. They need what `MSCCL_PREFETCH` allows. Ranks may differ."
    PREFETCH "MSCCL_PREFETCH" "0 or 1" "1"
        "Lets kernels of LL and LL128 find all operands of a small call before its first step, so \
         that their threads need not meet at every step. Ranks may differ."
    SPECIALISED "MSCCL_SPECIALISED" "0, 1 or 2" "1"
        "Whether GPUs run specialised kernels, compiled for one algorithm each: 0 never, 1 those \
         that the cache holds, 2 also compiles those that are missing when a communicator is \
         made. That takes seconds to minutes the first time; `msccl specialise` does it ahead. \
         Ranks may differ."
    KERNEL_CACHE "MSCCL_KERNEL_CACHE" "a folder, or `off`"
        "`msccl/kernels` in `$XDG_CACHE_HOME` or `~/.cache`"
        "Where specialised kernels are kept. Many processes and hosts may share it. Whoever can \
         write there can run code on the GPUs of those who read it. So the folder is used only if \
         it and all folders above it belong to the user or to root, and nobody else can write to \
         them; a sticky folder above it, such as `/tmp`, is allowed. No link in it is followed, \
         and no file that others can write to is read."
    NVRTC "MSCCL_NVRTC" "a path" "that of the process, of the loader, or of `/usr/local/cuda`"
        "NVIDIA's run-time compiler (`libnvrtc.so.12` or `.13`), which compiles specialised \
         kernels."
    TIMEOUT_S "MSCCL_TIMEOUT_S" "seconds, 0 for no limit" "0"
        "How long a call may stand still, and how long the end of a communicator waits for peers \
         on other hosts that have not taken what was sent. After that one rank prints a hang \
         report, and the communicator fails on all ranks."
    NETWORK_TIMEOUT_S "MSCCL_NETWORK_TIMEOUT_S" "seconds, 0 for no limit" "40"
        "How long the network between hosts may be away, or a host silent. Calls outlast whatever \
         is shorter; after that the communicator fails on all ranks (`docs/FAILURES.md`). \
         `MSCCL_TIMEOUT_S` limits the same calls."
    JOIN_TIMEOUT_S "MSCCL_JOIN_TIMEOUT_S" "seconds, 0 for no limit" "600"
        "How long making a communicator may take, counted from each rank's call: joining, \
         splitting or shrinking, and all that ranks exchange until it can be used. After that all \
         ranks that came fail, and name those that did not."
    SECRET_FILE "MSCCL_SECRET_FILE" "a path" "none"
        "The secret of ranks that meet at a fixed address (`NCCL_COMM_ID`, `MSCCL_MASTER_ADDR`): \
         a file of 16 to 4096 bytes, the same on all ranks, such as `openssl rand -hex 32` makes. \
         It must belong to this user, and nobody else may read or write it; a file of root may be \
         readable by a group. A file that cannot be used is an error. Ids of `ncclGetUniqueId` \
         are secrets themselves and need none."
    CHECK "MSCCL_CHECK" "0 or 1" "0"
        "Compares the arguments of every collective across ranks before it runs, and refuses \
         calls that differ. Slow. Without it ranks are compared afterwards, and a difference \
         fails the communicator within a second."
    REPORT_SIGNAL "MSCCL_REPORT_SIGNAL" "0 or 1" "1"
        "Whether SIGUSR1 makes the process print a hang report. A program that handles the signal \
         itself is left alone."
    RDMA_LIBRARY "MSCCL_RDMA_LIBRARY" "a path" "`libmsccl-rdma.so`, where the proxy looks for it"
        "The library by which links to other hosts use RDMA."
    LIBRARY "MSCCL_LIBRARY" "a path" "`libnccl.so.2` beside `msccl`, or in `lib` beside its folder"
        "The library that `msccl launch` preloads and that `msccl bench`, `tune`, `calibrate` and \
         `compare` measure. The library itself does not read it."
    RANK "MSCCL_RANK" "a number from 0 on" "as the launcher says"
        "Which rank this process is, for launchers without variables of their own. `msccl bench` \
         and `msccl run` read it; the library does not."
    RANKS "MSCCL_RANKS" "a number from 1 on" "as the launcher says"
        "How many ranks there are. Needed with `MSCCL_RANK`, with the index of a Kubernetes Job, \
         and with the rank of PMIx, none of which comes with a number of ranks."
    LOCAL_RANK "MSCCL_LOCAL_RANK" "a number from 0 on" "its place among the ranks of its host"
        "Which rank this process is on its host, and so which GPU it uses."
    LOCAL_RANKS "MSCCL_LOCAL_RANKS" "a number from 1 on" "as the launcher says"
        "How many ranks there are on this host. If that is all of them, they meet on the \
         loopback."
    MASTER_ADDR "MSCCL_MASTER_ADDR" "a host name or an address" "as the launcher says"
        "The host of rank 0, where launched ranks meet. Wins over what the launcher says."
    MASTER_PORT "MSCCL_MASTER_PORT" "a port" "as the launcher says, or made of the job's number"
        "The port at which rank 0 waits for the others. Wins over what the launcher says."
    DEBUG "NCCL_DEBUG" "`VERSION`, `WARN`, `INFO`, `ABORT` or `TRACE`" "nothing is logged"
        "How much is logged. `ABORT` and `TRACE` log as much as `INFO`."
    DEBUG_SUBSYS "NCCL_DEBUG_SUBSYS" "NCCL's names, separated by commas; `^` in front excludes"
        "`INIT,BOOTSTRAP,ENV,NET`"
        "What is logged. `COLL` adds a line for every call."
    DEBUG_FILE "NCCL_DEBUG_FILE" "a path; `%h` is the host, `%p` the process" "standard output"
        "Where the log goes. Lines are added at the end of a file that exists; it must be a \
         regular file of this user, without a link or a second name. `/dev/stdout`, `/dev/stderr` \
         and `/dev/null` mean what they say."
    PROFILER_PLUGIN "NCCL_PROFILER_PLUGIN" "a path, a name, `none` or `STATIC_PLUGIN`"
        "`libnccl-profiler.so`, if there is one"
        "A profiler plugin of NCCL, which follows every call (`docs/TRACING.md`): a library, or \
         `libnccl-profiler-NAME.so` of this name. `STATIC_PLUGIN` is the program itself. A plugin \
         has variables of its own, such as `NCCL_PROFILE_EVENT_MASK`."
    CONF_FILE "NCCL_CONF_FILE" "a path" "`~/.nccl.conf`"
        "A file of `NAME=value` lines, of at most 1 MiB. It sets what the process does not set, \
         and wins over `/etc/nccl.conf`."
    SOCKET_IFNAME "NCCL_SOCKET_IFNAME" "names or prefixes; `=` in front for names, `^` excludes"
        "by NCCL's rules"
        "Which network interfaces ranks use to find one another, and for links to other hosts \
         over TCP."
    SOCKET_FAMILY "NCCL_SOCKET_FAMILY" "`AF_INET` or `AF_INET6`" "either"
        "Which addresses ranks use to find one another, and for links over TCP."
    COMM_ID "NCCL_COMM_ID" "`host:port` or `[IPv6]:port`" "chosen by `ncclGetUniqueId`"
        "Where rank 0 listens, so that nobody has to hand on an id. Whoever knows the port can \
         take part in the job or end it, unless `MSCCL_SECRET_FILE` is set (`docs/SECURITY.md`)."
    HOSTID "NCCL_HOSTID" "any text" "this host's name and the kernel's name for its run"
        "Which host a rank counts as living on. Ranks with different texts share no memory, \
         wherever they run; ranks with the same text must be able to."
    NET "NCCL_NET" "`IB` or `Socket`" "RDMA where both ends have it, TCP elsewhere"
        "What links to other hosts use. `Socket`: TCP. `IB`: RDMA; links that cannot use it fail, \
         and say why."
    IB_DISABLE "NCCL_IB_DISABLE" "0 or 1" "0"
        "Does not use RDMA: links to other hosts go over TCP."
    IB_HCA "NCCL_IB_HCA"
        "names or prefixes, `:port` after them; `=` in front for names, `^` excludes"
        "all that are up"
        "Which devices, and which of their ports, RDMA may use."
    NETDEVS_POLICY "NCCL_NETDEVS_POLICY" "`AUTO`, `ALL`, `MAX:N` or `EVERY`" "`AUTO`"
        "Which of these ports a rank uses (`docs/RDMA.md`). `ALL`: those nearest to its GPU. \
         `AUTO`: its share of them, where other GPUs of the communicator on this host are as \
         near. `MAX:N`: at most N of them. `EVERY`, which NCCL does not have: all ports, however \
         far. Ranks may differ."
    CROSS_NIC "NCCL_CROSS_NIC" "0, 1 or 2" "2"
        "Whether RDMA joins ports of different places among those of their hosts. 0: never, for \
         networks that join only ports of the same place; enough if one of two ranks has it. 1 \
         and 2: where that is nearest to both GPUs."
    TOPO_FILE "NCCL_TOPO_FILE" "a path"
        "`/var/run/nvidia-topologyd/virtualTopology.xml`, if there is one"
        "A description of this machine in NCCL's XML, which says how far network cards are from \
         GPUs. It wins over the kernel. A file that cannot be used is reported, and counts as not \
         set (see `MSCCL_STRICT`). Parts of a file that cannot be used are reported as well; \
         `msccl topo` shows all of it."
    IB_GID_INDEX "NCCL_IB_GID_INDEX" "0 to 255, -1 for the default" "the best of the port"
        "Which of a port's addresses RDMA uses."
    IB_TIMEOUT "NCCL_IB_TIMEOUT" "0 to 255, -1 for the default" "the library's"
        "RDMA waits 4.096 µs · 2^timeout for an answer before it sends again."
    IB_RETRY_CNT "NCCL_IB_RETRY_CNT" "0 to 255, -1 for the default" "the library's"
        "How often RDMA sends again before a rail counts as broken."
    IB_TC "NCCL_IB_TC" "0 to 255, -1 for the default" "the library's"
        "The traffic class of RDMA's packets."
    IB_SL "NCCL_IB_SL" "0 to 255, -1 for the default" "the library's"
        "The service level of RDMA's packets."
    NET_GDR_LEVEL "NCCL_NET_GDR_LEVEL" "`LOC`, `PIX`, `PXB`, `PHB`, `SYS`, or 0 to 5"
        "GPU memory wherever RDMA can use it"
        "How far from the GPU a network card may be that reads and writes its memory: behind one \
         PCI switch (`PIX`, 1), behind several (`PXB`, 2), at its NUMA node (`PHB`, 3), anywhere \
         (`SYS`, 4 and 5). If a card of the rank is farther, or its distance is unknown, messages \
         for other hosts lie in host memory, as with `LOC` (0). Ranks may differ."
    P2P_DISABLE "NCCL_P2P_DISABLE" "0 or 1" "0"
        "Keeps GPUs from mapping one another's memory. Links lie in host memory instead."
    BUFFSIZE "NCCL_BUFFSIZE" "bytes" "524288, less with more than five GPUs of a node"
        "Bytes of each wire from a GPU of the same node under Simple. A message of a large call \
         has a quarter of them. From 65536 to 2097152, and at most a sixteenth of the GPU's \
         memory for all. With larger ones each thread block moves more, and memory is needed for \
         80 wires from each GPU. If ranks differ, the least counts."
    MAX_CTAS "NCCL_MAX_CTAS" "a number from 1 on" "by measurement"
        "Most thread blocks that a call may occupy; sends and receives have two at least. With 16 \
         and less, copy engines carry copies of 16 MiB and more and make the exchange of \
         reductions of 64 MiB and more, as with `NCCL_CTA_POLICY=2`: they are faster than so few \
         thread blocks. What the user loads or names for such calls comes first. Wins over \
         `maxCTAs` of a configuration."
    SM_BUDGET "MSCCL_SM_BUDGET" "a number" "by measurement"
        "Most multiprocessors that a call may occupy: 0 is `NCCL_CTA_POLICY=2`, any other number \
         `NCCL_MAX_CTAS` with that number. Wins over both."
    CTA_POLICY "NCCL_CTA_POLICY" "0, 1, 2, `DEFAULT`, `EFFICIENCY` or `ZERO`" "0"
        "With 2, calls that are nothing but copies are carried by copy engines, and take no \
         multiprocessor, where their outputs lie in windows (`docs/PYTORCH.md`). Of reductions of \
         8 MiB and more they make the exchange, and eight multiprocessors combine. Wins over \
         `CTAPolicy` of a configuration. The same on all ranks."
    INBOX_BYTES "MSCCL_INBOX_BYTES" "bytes" "268435456"
        "Memory of each rank of a communicator for reductions and all-to-alls that copy engines \
         carry, made by the first of them; it is kept while a communicator is suspended. Larger \
         reductions come in rounds. With 0 kernels carry reductions. If \
         ranks differ, the least counts."
    LAUNCH_ORDER_IMPLICIT "NCCL_LAUNCH_ORDER_IMPLICIT" "0 or 1" "0"
        "Lets kernels of different communicators start on a GPU in the order of the calls of this \
         process (`docs/KERNELS.md`). For programs that use more than two communicators, in one \
         order on all ranks, but in streams of their own. `MSCCL_PDL` is ignored then. \
         With a driver before CUDA 12.3 each kernel waits for the end of the one before it \
         instead, which does not help ranks of one communicator that share a GPU and a process."
    GRAPH_MIXING_SUPPORT "NCCL_GRAPH_MIXING_SUPPORT" "0 or 1" "1"
        "Whether CUDA graphs with calls of a communicator, and calls beside them, run in the order \
         in which they are launched, whatever their streams. Each such graph has two nodes more, \
         and once a call was captured, every other call waits for an event. With 0 the program \
         orders them; graphs within loops and conditional nodes need that."
    MAX_NCHANNELS "NCCL_MAX_NCHANNELS" "a number from 1 on" "by measurement"
        "The older name of `NCCL_MAX_CTAS`, which wins over it."
    NCCL_ALGO "NCCL_ALGO"
        "names, separated by commas; `^` in front excludes; `allreduce:` in front is for one \
         collective, `;` between"
        "by measurement"
        "Which built-in algorithms come first: for `Ring` those with `ring` or `chain` in their \
         names, for `Tree` those with `tree`. Where none of them serves, others do. This costs \
         speed wherever another would be best, above all in small calls. `MSCCL` stands for \
         loaded algorithms, which come first always. NCCL's other names are no algorithms of this \
         library: a list of nothing else is not followed, which is reported (see `MSCCL_STRICT`). \
         `allreduce:tree`, and `Tree` with one number of channels, ask for `MSCCL_ORDER=flat` \
         (`docs/REPRODUCIBILITY.md`). `MSCCL_ALGO` wins, and what `MSCCL_TUNING` names comes \
         first. The \
         same on all ranks."
    NCCL_PROTO "NCCL_PROTO" "`Simple`, `LL` and `LL128`, in lists like those of `NCCL_ALGO`"
        "by measurement"
        "Which protocols collectives may use. One that may not be used is replaced by the most \
         similar one that may. Where none of those can be used, as between nodes, it is `Simple`. \
         `MSCCL_PROTO` wins. The same on all ranks."
    NTHREADS "NCCL_NTHREADS" "a number from 1 on" "by measurement"
        "Most threads in a thread block, rounded up to whole warps. `MSCCL_THREADS` wins. The \
         same on all ranks."
    MIN_CTAS "NCCL_MIN_CTAS" "a number from 1 on" "by measurement"
        "More than 1 is not followed, which is reported (see `MSCCL_STRICT`): a call takes as \
         many thread blocks as are best for its size. `MSCCL_INSTANCES` asks for more."
    MIN_NCHANNELS "NCCL_MIN_NCHANNELS" "a number from 1 on" "by measurement"
        "The older name of `NCCL_MIN_CTAS`."
    COMM_BLOCKING "NCCL_COMM_BLOCKING" "0 or 1" "as configured"
        "Whether communicators are blocking. Wins over `blocking` of a configuration."
}

/// Variables that protect a job: to go on without what they ask for would take away what somebody
/// relies on, and nobody would notice before it is needed.
const PROTECTING: [Variable; 7] =
    [STRICT, TIMEOUT_S, NETWORK_TIMEOUT_S, JOIN_TIMEOUT_S, CHECK, ON_FAILURE, ORDER];

impl Variable {
    /// Whether a value that makes no sense is an error, where that of other variables is ignored.
    pub fn protects(&self) -> bool {
        PROTECTING.contains(self)
    }
}

/// What the document says of variables that [protect](Variable::protects).
#[cfg(test)]
const PROTECTS: &str = " A value that makes no sense is an error.";

/// Whether there is a variable of that name.
pub fn is_known(name: &str) -> bool {
    ALL.iter().any(|variable| variable.name == name)
}

/// The name of ours that `name` is most likely meant to be, if it is like one.
pub fn nearest(name: &str) -> Option<&'static str> {
    nearest_of(name, ALL.iter().map(|variable| variable.name).filter(|of| of.starts_with(PREFIX)))
}

/// Whether the part of `name` before its first underscore is how ours begin, but for two letters.
pub(crate) fn begins_nearly_as_ours(name: &str) -> bool {
    let begin = name.split('_').next().unwrap_or_default().to_ascii_lowercase();
    changes(&begin, PREFIX.trim_end_matches('_').to_ascii_lowercase().as_str()) <= 2
}

/// How names of ours begin.
pub(crate) const PREFIX: &str = "MSCCL_";

/// The one of `known` that takes the fewest changes of a letter to become `name`, or that it begins
/// or ends; if it is like one. Case does not matter.
pub(crate) fn nearest_of<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_ascii_lowercase();
    let stem = |text: &str| text.trim_start_matches(&PREFIX.to_ascii_lowercase()).to_owned();
    let closeness = |other: &str| {
        let other = other.to_ascii_lowercase();
        let (mine, its) = (stem(&name), stem(&other));
        let is_part = mine.len() > 2
            && (its.starts_with(&mine) || mine.starts_with(&its) || its.ends_with(&mine));
        let changes = changes(&name, &other);
        // A third of the letters may be wrong.
        (is_part || changes * 3 <= mine.len()).then_some(changes)
    };
    let like = known.filter_map(|other| Some((closeness(other)?, other)));
    like.min_by_key(|(changes, _)| *changes).map(|(_, other)| other)
}

/// How many letters must be put in, left out, replaced or swapped with the next to make `one` of
/// `other`.
fn changes(one: &str, other: &str) -> usize {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut rows = vec![vec![0; other.len() + 1]; one.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=other.len()).collect();
    for i in 1..=one.len() {
        for j in 1..=other.len() {
            let is_other = usize::from(one[i - 1] != other[j - 1]);
            let mut least =
                (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(rows[i - 1][j - 1] + is_other);
            let swapped =
                i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1];
            if swapped {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::older_names::older_name;

    /// The entries in `docs/ENVIRONMENT.md`; `MSCCL_BLESS=1` rewrites them there.
    #[test]
    fn the_document_says_the_same() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ENVIRONMENT.md");
        let document = fs::read_to_string(&path).unwrap_or_default();
        let (before, after) = document.split_once(BEGIN).expect("the document has the entries");
        let (found, after) = after.split_once(END).expect("the entries have an end");
        let entries: String = ALL.iter().map(entry).collect();
        if std::env::var_os("MSCCL_BLESS").is_some() {
            fs::write(&path, format!("{before}{BEGIN}{entries}{END}{after}")).unwrap();
        } else {
            let stale = found.lines().zip(entries.lines()).find(|(found, made)| found != made);
            assert_eq!(stale, None, "docs/ENVIRONMENT.md is stale; MSCCL_BLESS=1 rewrites it");
            assert_eq!(found.len(), entries.len(), "MSCCL_BLESS=1 rewrites the document");
        }
    }

    const BEGIN: &str = "<!-- variables: made by crates/environment/src/variable.rs -->\n";
    const END: &str = "<!-- end of variables -->\n";

    /// A heading, the values, and the meaning.
    fn entry(variable: &Variable) -> String {
        let Variable { name, values, default, meaning } = variable;
        let protects = if variable.protects() { PROTECTS } else { "" };
        let older = older_name(variable.name);
        let older =
            older.map_or_else(String::new, |older| format!(" Its older name is `{older}`."));
        let (values, meaning) = (
            wrapped(&format!("*Values:* {values}. *Default:* {default}.")),
            wrapped(&format!("{meaning}{protects}{older}")),
        );
        format!("\n### `{name}`\n\n{values}\n{meaning}")
    }

    /// `text` as a paragraph of lines of at most 100 columns.
    fn wrapped(text: &str) -> String {
        let mut lines = String::new();
        let mut columns = 0;
        for word in text.split(' ') {
            let length = word.chars().count();
            match columns + 1 + length {
                _ if columns == 0 => columns = length,
                longer if longer <= 100 => {
                    lines.push(' ');
                    columns = longer;
                }
                _ => {
                    lines.push('\n');
                    columns = length;
                }
            }
            lines.push_str(word);
        }
        lines + "\n"
    }

    #[test]
    fn names_are_distinct_and_texts_are_one_paragraph() {
        let names: BTreeSet<_> = ALL.iter().map(|variable| variable.name).collect();
        assert_eq!(names.len(), ALL.len());
        for Variable { name, values, default, meaning } in ALL {
            assert!(name.starts_with("MSCCL_") || name.starts_with("NCCL_"), "{name}");
            assert!([values, default, meaning].iter().all(|text| !text.contains('\n')));
        }
    }

    #[test]
    fn misspellings_find_their_way() {
        assert!(is_known("MSCCL_CHECK") && !is_known("MSCCL_CHECKS"));
        for (misspelt, meant) in [
            ("MSCCL_XMLFILES", Some("MSCCL_XML_FILES")),
            ("MSCCL_XLM_FILES", Some("MSCCL_XML_FILES")),
            ("MSCCL_TIMEOUT", Some("MSCCL_TIMEOUT_S")),
            ("MSCCL_JOIN_TIMEOUT", Some("MSCCL_JOIN_TIMEOUT_S")),
            ("MSCCL_AGLO", Some("MSCCL_ALGO")),
            ("MSCCL_ALGORITHM", Some("MSCCL_ALGO")),
            ("MSCCL_PROTOCOL", Some("MSCCL_PROTO")),
            ("MSCCL_FILES", Some("MSCCL_XML_FILES")),
            ("MSCCL_strict", Some("MSCCL_STRICT")),
            ("MSCCL_WEATHER", None),
        ] {
            assert_eq!(nearest(misspelt), meant, "{misspelt}");
        }
        assert!(begins_nearly_as_ours("MSCLC_RANK") && begins_nearly_as_ours("MCCL_ALGO"));
        // Launchers set these.
        assert!(!begins_nearly_as_ours("LOCAL_RANK") && !begins_nearly_as_ours("RANK"));
        assert_eq!((changes("ab", "ba"), changes("", "abc"), changes("abc", "abc")), (1, 3, 0));
    }
}
