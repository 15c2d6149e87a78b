//! Every launcher's variables, as they really are, and what can be wrong with them.

use super::*;

/// What `variables` say.
fn read(variables: &[(&str, &str)]) -> Result<Option<Launched>, LaunchError> {
    launched(&|name| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    })
}

/// The launcher, the four numbers and the master's host in a line.
#[track_caller]
fn check(variables: &[(&str, &str)], expected: &str) -> u16 {
    let Launched { rank, ranks, local_rank, local_ranks, master, by } =
        read(variables).unwrap().unwrap();
    let or_dash = |number: Option<u32>| number.map_or("-".to_owned(), |number| number.to_string());
    let (local_rank, local_ranks) = (or_dash(local_rank), or_dash(local_ranks));
    let host = &master.host;
    assert_eq!(format!("{by}: {rank}/{ranks} {local_rank}/{local_ranks} at {host}"), expected);
    master.port
}

#[track_caller]
fn refused(variables: &[(&str, &str)], expected: &str) {
    assert_eq!(read(variables).unwrap_err().to_string(), expected);
}

const TORCHRUN: [(&str, &str); 6] = [
    ("RANK", "5"),
    ("WORLD_SIZE", "8"),
    ("LOCAL_RANK", "1"),
    ("LOCAL_WORLD_SIZE", "4"),
    ("MASTER_ADDR", "node-a"),
    ("MASTER_PORT", "29500"),
];

const SLURM: [(&str, &str); 9] = [
    ("SLURM_PROCID", "5"),
    ("SLURM_NTASKS", "99"),
    ("SLURM_STEP_NUM_TASKS", "7"),
    ("SLURM_LOCALID", "1"),
    ("SLURM_NODEID", "1"),
    ("SLURM_STEP_TASKS_PER_NODE", "4,3"),
    ("SLURM_JOB_NODELIST", "gpu[007-009]"),
    ("SLURM_JOB_ID", "4711"),
    ("SLURM_STEP_ID", "0"),
];

/// `variables` without those in `names`.
fn without<'a>(variables: &[(&'a str, &'a str)], names: &[&str]) -> Vec<(&'a str, &'a str)> {
    variables.iter().copied().filter(|(name, _)| !names.contains(name)).collect()
}

#[test]
fn nobody_launched_this() {
    assert_eq!(read(&[]), Ok(None));
    assert_eq!(read(&[("MASTER_ADDR", "a"), ("MSCCL_MASTER_PORT", "1")]), Ok(None));
    assert_eq!(read(&[("RANK", "")]), Ok(None));
    // A pod that works alone; the script of a Slurm job, or a shell in an allocation.
    assert_eq!(read(&[("JOB_COMPLETION_INDEX", "3")]), Ok(None));
    assert_eq!(read(&without(&SLURM, &["SLURM_STEP_ID"])), Ok(None));
}

#[test]
fn our_own_variables() {
    let mut ours =
        vec![("MSCCL_RANK", "2"), ("MSCCL_RANKS", "4"), ("MSCCL_MASTER_ADDR", "fd00::7")];
    let port = check(&ours, "variables of ours: 2/4 -/- at fd00::7");
    assert_eq!(port, check(&ours, "variables of ours: 2/4 -/- at fd00::7"));
    ours.extend([("MSCCL_MASTER_PORT", "4000"), ("MSCCL_LOCAL_RANK", "0")]);
    // They win over those of whoever else had a hand in it.
    ours.extend(without(&TORCHRUN, &[]));
    assert_eq!(check(&ours, "variables of ours: 2/4 0/- at fd00::7"), 4000);
    assert_eq!(read(&ours).unwrap().unwrap().master.to_string(), "[fd00::7]:4000");
    let one_host = [("MSCCL_RANK", "2"), ("MSCCL_RANKS", "4"), ("MSCCL_LOCAL_RANKS", "4")];
    check(&one_host, "variables of ours: 2/4 -/4 at 127.0.0.1");
}

#[test]
fn torchrun() {
    assert_eq!(check(&TORCHRUN, "torchrun: 5/8 1/4 at node-a"), 29500);
    let with_agent = [&TORCHRUN[..], &[("TORCHELASTIC_USE_AGENT_STORE", "True")]].concat();
    assert_eq!(check(&with_agent, "torchrun: 5/8 1/4 at node-a"), 29501);
    let fixed = [&with_agent[..], &[("MSCCL_MASTER_PORT", "7")]].concat();
    assert_eq!(check(&fixed, "torchrun: 5/8 1/4 at node-a"), 7);
    for missing in ["WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"] {
        let text = format!(
            "RANK is set, and {missing}, which belongs to it (torchrun), is not; set both, or none"
        );
        refused(&without(&TORCHRUN, &[missing]), &text);
    }
}

#[test]
fn open_mpi() {
    let one_host = [
        ("OMPI_COMM_WORLD_RANK", "3"),
        ("OMPI_COMM_WORLD_SIZE", "4"),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "3"),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
        ("PMIX_NAMESPACE", "2384592897"),
        ("PMIX_RANK", "3"),
    ];
    let port = check(&one_host, "Open MPI: 3/4 3/4 at 127.0.0.1");
    assert!((20_000..30_000).contains(&port));
    let other_job = [&[("PMIX_NAMESPACE", "2384592898")], &one_host[..]].concat();
    assert_ne!(check(&other_job, "Open MPI: 3/4 3/4 at 127.0.0.1"), port);
    let two_hosts = [
        &[("OMPI_COMM_WORLD_LOCAL_RANK", "1"), ("OMPI_COMM_WORLD_LOCAL_SIZE", "2")],
        &one_host[..],
    ]
    .concat();
    refused(
        &two_hosts,
        "nothing says where rank 0 is, and not all ranks are known to be on one host (Open MPI); \
         set MSCCL_MASTER_ADDR to rank 0's host on all ranks",
    );
    let addressed = [&two_hosts[..], &[("MSCCL_MASTER_ADDR", "worker-0.job")]].concat();
    check(&addressed, "Open MPI: 3/4 1/2 at worker-0.job");
    // In a job of Slurm, whose own variables are those of the daemons.
    check(&[&two_hosts[..], &SLURM[..]].concat(), "Open MPI: 3/4 1/2 at gpu007");
}

#[test]
fn mpich() {
    let hydra =
        [("PMI_RANK", "0"), ("PMI_SIZE", "2"), ("MPI_LOCALRANKID", "0"), ("MPI_LOCALNRANKS", "2")];
    check(&hydra, "MPICH: 0/2 0/2 at 127.0.0.1");
    check(&[&hydra[..2], &[("MASTER_ADDR", "10.0.0.1")]].concat(), "MPICH: 0/2 -/- at 10.0.0.1");
}

#[test]
fn slurm() {
    let port = check(&SLURM, "Slurm: 5/7 1/3 at gpu007");
    let other_step = [&[("SLURM_STEP_ID", "1")], &SLURM[..]].concat();
    assert_ne!(check(&other_step, "Slurm: 5/7 1/3 at gpu007"), port);
    let step = [&SLURM[..], &[("SLURM_STEP_NODELIST", "gpu009")]].concat();
    check(&step, "Slurm: 5/7 1/3 at gpu009");
    let no_list = [("SLURM_LAUNCH_NODE_IPADDR", "10.1.1.1")];
    let no_list = [&without(&SLURM, &["SLURM_JOB_NODELIST"])[..], &no_list].concat();
    check(&no_list, "Slurm: 5/7 1/3 at 10.1.1.1");
    let odd = [&[("SLURM_JOB_NODELIST", "gpu[007")], &SLURM[..]].concat();
    refused(&odd, "SLURM_JOB_NODELIST is `gpu[007`, expected hosts such as `node[01-16]`");
    let one_node = [&[("SLURM_STEP_TASKS_PER_NODE", "7"), ("SLURM_NODEID", "0")], &SLURM[..]];
    check(&one_node.concat(), "Slurm: 5/7 1/7 at 127.0.0.1");
}

#[test]
fn ranks_without_a_number_of_ranks() {
    let pod = [
        ("JOB_COMPLETION_INDEX", "1"),
        ("MSCCL_RANKS", "2"),
        ("MSCCL_MASTER_ADDR", "bench-0.bench"),
    ];
    check(&pod, "Kubernetes: 1/2 -/- at bench-0.bench");
    check(&[("PMIX_RANK", "1"), pod[1], pod[2]], "PMIx: 1/2 -/- at bench-0.bench");
    refused(
        &[("PMIX_RANK", "1")],
        "PMIX_RANK is set, and MSCCL_RANKS, which belongs to it (PMIx), is not; set both, or none",
    );
}

#[test]
fn half_set_and_contradictory() {
    let belongs = |set: &str, missing: &str| {
        format!(
            "{set} is set, and {missing}, which belongs to it (variables of ours), is not; set \
             both, or none"
        )
    };
    refused(&[("MSCCL_RANK", "1")], &belongs("MSCCL_RANK", "MSCCL_RANKS"));
    refused(&[("MSCCL_RANKS", "1")], &belongs("MSCCL_RANKS", "MSCCL_RANK"));
    refused(&[("MSCCL_LOCAL_RANK", "1")], &belongs("MSCCL_LOCAL_RANK", "MSCCL_RANK"));
    let range = "MSCCL_RANK=4 does not exist where MSCCL_RANKS=4; ranks are numbered from 0 on";
    refused(&[("MSCCL_RANK", "4"), ("MSCCL_RANKS", "4")], range);
    let word = "MSCCL_RANKS is `four`, expected a number from 0 on";
    refused(&[("MSCCL_RANK", "0"), ("MSCCL_RANKS", "four")], word);
    let others = [&TORCHRUN[..], &[("MSCCL_RANKS", "4")]].concat();
    refused(&others, "MSCCL_RANKS=4 contradicts WORLD_SIZE=8; unset the one that is wrong");
    let local = [&[("LOCAL_RANK", "4")], &TORCHRUN[..]].concat();
    let text = "LOCAL_RANK=4 does not exist where LOCAL_WORLD_SIZE=4; ranks are numbered from 0 on";
    refused(&local, text);
    let many = [&[("LOCAL_WORLD_SIZE", "9")], &TORCHRUN[..]].concat();
    refused(&many, "LOCAL_WORLD_SIZE=9 contradicts WORLD_SIZE=8; unset the one that is wrong");
    let no_place = [("MSCCL_RANK", "0"), ("MSCCL_RANKS", "2"), ("MSCCL_LOCAL_RANKS", "3")];
    let text = "MSCCL_LOCAL_RANKS=3 contradicts MSCCL_RANKS=2; unset the one that is wrong";
    refused(&no_place, text);
    let port = [&[("MASTER_PORT", "70000")], &TORCHRUN[..]].concat();
    refused(&port, "MASTER_PORT=70000, expected a port from 1 to 65535");
}
