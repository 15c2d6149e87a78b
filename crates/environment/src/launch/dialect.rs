//! The variables of each launcher, as data.

use std::fmt;

use super::{LaunchError, Number, Variables, host_list};

/// Who starts processes, in the order in which their variables are asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Launcher {
    /// Anybody who sets our own variables.
    Msccl,
    /// `torchrun`, and what imitates it.
    Torchrun,
    /// `mpirun` of Open MPI.
    OpenMpi,
    /// `mpiexec` of MPICH and what descends from it, such as Intel MPI; any PMI.
    Hydra,
    /// `srun`.
    Slurm,
    /// Something else that speaks PMIx.
    Pmix,
    /// An indexed Job, or a JobSet of them.
    Kubernetes,
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Launcher::Msccl => "variables of ours",
            Launcher::Torchrun => "torchrun",
            Launcher::OpenMpi => "Open MPI",
            Launcher::Hydra => "MPICH",
            Launcher::Slurm => "Slurm",
            Launcher::Pmix => "PMIx",
            Launcher::Kubernetes => "Kubernetes",
        })
    }
}

/// What a launcher calls things. Where there are several names, the first that is set counts.
pub(super) struct Dialect {
    pub(super) by: Launcher,
    pub(super) rank: &'static str,
    pub(super) ranks: &'static [&'static str],
    pub(super) local_rank: &'static [&'static str],
    pub(super) local_ranks: &'static [&'static str],
    /// Without this one, nobody was launched: the others are also set elsewhere.
    pub(super) witness: Option<&'static str>,
    /// What distinguishes jobs on a host.
    pub(super) job: &'static [&'static str],
}

/// How Slurm counts processes of each node: `4(x2),3`.
const TASKS_PER_NODE: &str = "SLURM_STEP_TASKS_PER_NODE";

/// All launchers.
pub(super) const DIALECTS: &[Dialect] = &[
    Dialect {
        by: Launcher::Msccl,
        rank: "MSCCL_RANK",
        ranks: &["MSCCL_RANKS"],
        local_rank: &["MSCCL_LOCAL_RANK"],
        local_ranks: &["MSCCL_LOCAL_RANKS"],
        witness: None,
        job: &[],
    },
    Dialect {
        by: Launcher::Torchrun,
        rank: "RANK",
        ranks: &["WORLD_SIZE"],
        local_rank: &["LOCAL_RANK"],
        local_ranks: &["LOCAL_WORLD_SIZE"],
        witness: None,
        job: &["TORCHELASTIC_RUN_ID"],
    },
    Dialect {
        by: Launcher::OpenMpi,
        rank: "OMPI_COMM_WORLD_RANK",
        ranks: &["OMPI_COMM_WORLD_SIZE"],
        local_rank: &["OMPI_COMM_WORLD_LOCAL_RANK"],
        local_ranks: &["OMPI_COMM_WORLD_LOCAL_SIZE"],
        witness: None,
        job: &["PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"],
    },
    Dialect {
        by: Launcher::Hydra,
        rank: "PMI_RANK",
        ranks: &["PMI_SIZE"],
        local_rank: &["MPI_LOCALRANKID"],
        local_ranks: &["MPI_LOCALNRANKS"],
        witness: None,
        job: &["PMI_JOBID"],
    },
    Dialect {
        by: Launcher::Slurm,
        rank: "SLURM_PROCID",
        ranks: &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"],
        local_rank: &["SLURM_LOCALID"],
        local_ranks: &[],
        // The script of a job has most of the others, and is one process.
        witness: Some("SLURM_STEP_ID"),
        job: &["SLURM_JOB_ID", "SLURM_STEP_ID"],
    },
    Dialect {
        by: Launcher::Pmix,
        rank: "PMIX_RANK",
        ranks: &["MSCCL_RANKS"],
        local_rank: &["MSCCL_LOCAL_RANK"],
        local_ranks: &["MSCCL_LOCAL_RANKS"],
        witness: None,
        job: &["PMIX_NAMESPACE"],
    },
    Dialect {
        by: Launcher::Kubernetes,
        rank: "JOB_COMPLETION_INDEX",
        ranks: &["MSCCL_RANKS"],
        local_rank: &["MSCCL_LOCAL_RANK"],
        local_ranks: &["MSCCL_LOCAL_RANKS"],
        // A Job's pods have an index although each may work alone.
        witness: Some("MSCCL_RANKS"),
        job: &[],
    },
];

impl Dialect {
    /// Whether this launcher has started the process. One of a pair is enough: the other is missed
    /// later, aloud.
    pub(super) fn speaks(&self, variables: &Variables<'_>) -> bool {
        let is_set = |name: &str| variables.text(name).is_some();
        is_set(self.rank) && self.witness.is_none_or(is_set)
    }

    pub(super) fn rank(&self, variables: &Variables<'_>) -> Result<Number, LaunchError> {
        variables.number(self.rank)?.ok_or(self.missing(self.rank))
    }

    pub(super) fn ranks(&self, variables: &Variables<'_>) -> Result<Number, LaunchError> {
        let missing = self.ranks.first().copied().unwrap_or(self.rank);
        variables.first_number(self.ranks)?.ok_or(self.missing(missing))
    }

    pub(super) fn local_rank(
        &self,
        variables: &Variables<'_>,
    ) -> Result<Option<Number>, LaunchError> {
        variables.first_number(self.local_rank)
    }

    pub(super) fn local_ranks(
        &self,
        variables: &Variables<'_>,
    ) -> Result<Option<Number>, LaunchError> {
        match self.by {
            Launcher::Slurm => tasks_of_this_node(variables),
            _ => variables.first_number(self.local_ranks),
        }
    }

    pub(super) fn missing(&self, missing: &'static str) -> LaunchError {
        LaunchError::Missing { by: self.by, set: self.rank, missing }
    }
}

/// How many processes of the step run on this node, if Slurm says so.
fn tasks_of_this_node(variables: &Variables<'_>) -> Result<Option<Number>, LaunchError> {
    let Some(text) = variables.text(TASKS_PER_NODE) else { return Ok(None) };
    let node = variables.number("SLURM_NODEID")?.map_or(0, |node| node.value);
    let malformed = LaunchError::NotANumber { name: TASKS_PER_NODE, text: text.clone() };
    let value = host_list::count_at(&text, node as usize).ok_or(malformed)?;
    Ok(Some(Number { name: TASKS_PER_NODE, value }))
}
