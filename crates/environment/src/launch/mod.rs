//! Who started this process, and as which rank of how many.
//!
//! A launcher starts the same program many times; variables say to each process which one it is.
//! Every launcher has names of its own: [`Launcher`] lists those understood here, in the order in
//! which they are asked. The order matters where launchers are nested, as `mpirun` in a Slurm job:
//! the inner one, whose ranks this process is one of, is asked first; and our own variables win
//! over all.
//!
//! # Guarantees
//!
//! * Processes of one launch that have the variables of their launcher find one [`Master`], and
//!   nothing is asked of the network for it.
//! * What is set by half, contradicts itself, or is out of range is a [`LaunchError`] that names
//!   the variables, never a guess: processes that took one another for foreign ones would each
//!   measure alone.
//! * A process that nobody launched is `Ok(None)`. So is a process of an indexed Kubernetes Job
//!   that does not learn how many there are, and the script of a Slurm job before it calls `srun`.
//!
//! Not guaranteed: that the master can be reached, or that its port is free.

mod dialect;
mod error;
mod host_list;
mod master;

use super::Lookup;
use super::variable;
pub use dialect::Launcher;
use dialect::{DIALECTS, Dialect};
pub use error::LaunchError;
pub use master::Master;

/// One process of a launch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Launched {
    /// Which rank it is, less than [`Launched::ranks`].
    pub rank: u32,
    /// How many there are.
    pub ranks: u32,
    /// Which it is on its host, as far as the launcher says.
    pub local_rank: Option<u32>,
    /// How many there are on its host, as far as the launcher says.
    pub local_ranks: Option<u32>,
    /// Where rank 0 can be met.
    pub master: Master,
    /// Who started it.
    pub by: Launcher,
}

/// What `lookup` says of the launch that this process belongs to, if it does.
///
/// # Errors
///
/// Variables are set by half, contradict one another, or leave open where rank 0 is.
pub fn launched(lookup: Lookup<'_>) -> Result<Option<Launched>, LaunchError> {
    let variables = Variables(lookup);
    let Some(dialect) = DIALECTS.iter().find(|dialect| dialect.speaks(&variables)) else {
        return half_set(&variables).map_or(Ok(None), Err);
    };
    let place = Place::read(dialect, &variables)?;
    let master = master::find(dialect, &place, &variables)?;
    let Place { rank, ranks, local_rank, local_ranks } = place;
    Ok(Some(Launched { rank, ranks, local_rank, local_ranks, master, by: dialect.by }))
}

/// Our variables without the one that says which rank this is, and no launcher that does.
fn half_set(variables: &Variables<'_>) -> Option<LaunchError> {
    let ours = [variable::RANKS, variable::LOCAL_RANK, variable::LOCAL_RANKS];
    let set = ours.into_iter().find(|variable| variables.text(variable.name).is_some())?;
    Some(LaunchError::Missing { by: Launcher::Msccl, set: set.name, missing: variable::RANK.name })
}

/// Where a process stands among the others.
struct Place {
    rank: u32,
    ranks: u32,
    local_rank: Option<u32>,
    local_ranks: Option<u32>,
}

impl Place {
    fn read(dialect: &Dialect, variables: &Variables<'_>) -> Result<Self, LaunchError> {
        let (rank, ranks) = (dialect.rank(variables)?, dialect.ranks(variables)?);
        let local_rank = dialect.local_rank(variables)?;
        let local_ranks = dialect.local_ranks(variables)?;
        below(&rank, &ranks)?;
        if let Some(set) = variables.number(variable::RANKS.name)?
            && set.value != ranks.value
        {
            return Err(LaunchError::Contradiction { one: set, other: ranks });
        }
        if let Some(local_rank) = &local_rank {
            below(local_rank, local_ranks.as_ref().unwrap_or(&ranks))?;
        }
        let value = |found: Number| found.value;
        let place = Self {
            rank: rank.value,
            ranks: ranks.value,
            local_rank: local_rank.map(value),
            local_ranks: local_ranks.clone().map(value),
        };
        match local_ranks {
            Some(one) if one.value > ranks.value => {
                Err(LaunchError::Contradiction { one, other: ranks })
            }
            Some(_) | None => Ok(place),
        }
    }

    /// Whether all ranks are known to live on one host.
    fn is_one_host(&self) -> bool {
        self.local_ranks == Some(self.ranks)
    }
}

fn below(place: &Number, count: &Number) -> Result<(), LaunchError> {
    match place.value < count.value {
        true => Ok(()),
        false => Err(LaunchError::OutOfRange { place: place.clone(), count: count.clone() }),
    }
}

/// A number, and the variable that it was read from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Number {
    /// The variable.
    pub name: &'static str,
    /// What it is set to.
    pub value: u32,
}

/// What variables are set to; empty is not set.
struct Variables<'a>(Lookup<'a>);

impl Variables<'_> {
    fn text(&self, name: &str) -> Option<String> {
        (self.0)(name).filter(|value| !value.is_empty())
    }

    fn number(&self, name: &'static str) -> Result<Option<Number>, LaunchError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        match text.trim().parse() {
            Ok(value) => Ok(Some(Number { name, value })),
            Err(_) => Err(LaunchError::NotANumber { name, text }),
        }
    }

    /// The first of `names` that is set.
    fn first_number(&self, names: &[&'static str]) -> Result<Option<Number>, LaunchError> {
        let set = names.iter().find(|name| self.text(name).is_some());
        set.map_or(Ok(None), |name| self.number(name))
    }
}

#[cfg(test)]
mod tests;
