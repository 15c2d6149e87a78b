//! Making communicators: what the callers' arguments ask for, as jobs.

use std::ffi::c_int;
use std::sync::Arc;

use msccl_collective::Rank;
use msccl_fabric::UniqueId;
use msccl_runtime::{Extent, PlaceOfRank, Settings};

use crate::abi::constant::{NO_COLOR, SAME_RANK, SHRINK_ABORT};
use crate::abi::{Argument, CommHandle, ConfigPointer, In, Out, OutArray, Outcome, UniqueIdBytes};
use crate::arguments::rank_among;
use crate::comm::Comm;
use crate::comm::config::Config;
use crate::comm::handles::{self, ReadyComm};
use crate::fault::Fault;
use crate::log::{NO_DEVICE, Scope};
use crate::observation::Observation;
use crate::requests::Requests;
use crate::task::{CommunicatorTask, Derive, Join, Meeting, Members};
use crate::{group, place, session};

/// The arguments with which a rank joins.
pub struct JoinArguments {
    /// Where its handle goes.
    pub place: Out<CommHandle>,
    /// How many ranks there are.
    pub ranks: c_int,
    /// Which of them it is.
    pub rank: c_int,
    /// By which they find one another.
    pub ids: Vec<UniqueIdBytes>,
}

/// A new id, whose root listens in this process.
pub fn unique_id() -> Result<UniqueId, Fault> {
    let mut settings = session::begin().settings().fabric;
    settings.log = Scope { device: NO_DEVICE }.for_fabric();
    Ok(UniqueId::create(&settings)?)
}

/// A rank joins from the calling thread, on its current device.
pub fn join(
    operation: &str,
    arguments: JoinArguments,
    config: ConfigPointer,
) -> Result<Outcome, Fault> {
    let requests = session::begin();
    let config = Config::read(config, &requests)?;
    let config = config.unwrap_or_else(|| Config::usual(&requests));
    let place = place::current(requests.preferences.device)?;
    join_at(operation, arguments, config, place, &requests)
}

fn join_at(
    operation: &str,
    arguments: JoinArguments,
    config: Config,
    place: PlaceOfRank,
    requests: &Requests,
) -> Result<Outcome, Fault> {
    let JoinArguments { place: out, ranks, rank, ids } = arguments;
    if out.is_null() {
        return Err(Fault::null(operation, "newcomm"));
    }
    let (rank, ranks) = rank_of(rank, ranks)?;
    let bytes: Vec<_> = ids.iter().map(|id| id.0).collect();
    let read = |id: &UniqueIdBytes| UniqueId::from_bytes(&id.0);
    let ids = ids.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let settings = session::with_files(requests);
    let extent = session::extent(&bytes, &settings);
    if rank == Rank(0) {
        session::greet();
        session::say(&settings.unmet);
    }
    let observation = Observation::begin(requests, &config, &place);
    let comm = Comm::joining(config, place, observation);
    let settings = Settings { extent, ..settings };
    let meeting = Meeting::Ids(ids);
    JoiningRank { operation, comm, place: out, meeting, rank, ranks, settings }.launch()
}

/// A rank of a communicator whose ranks are about to meet.
struct JoiningRank<'a> {
    operation: &'a str,
    comm: Comm,
    place: Out<CommHandle>,
    meeting: Meeting,
    rank: Rank,
    ranks: u32,
    /// What all communicators have; this one's own are added.
    settings: Settings,
}

impl JoiningRank<'_> {
    /// Gives the caller the handle, and takes up the meeting.
    fn launch(self) -> Result<Outcome, Fault> {
        let Self { operation, comm, place, meeting, rank, ranks, settings } = self;
        let comm = Arc::new(comm);
        let settings = comm.settings(settings);
        let handle = handles::enrol(Arc::clone(&comm));
        place.publish(handle);
        comm.log_join(handle, operation, rank, ranks);
        let join = Join { comm, handle, place, meeting, rank, ranks, settings };
        group::launch(CommunicatorTask::Join(join))
    }
}

fn rank_of(rank: c_int, ranks: c_int) -> Result<(Rank, u32), Fault> {
    match (u32::try_from(rank), u32::try_from(ranks)) {
        (Ok(rank), Ok(ranks)) if rank < ranks => Ok((Rank(rank), ranks)),
        _ => Err(Fault::argument(format!("Invalid rank requested : {rank}/{ranks}"))),
    }
}

/// This process is all ranks, one per device of `devices`.
pub fn join_all(places: OutArray<CommHandle>, devices: &[c_int]) -> Result<Outcome, Fault> {
    (0..devices.len()).for_each(|index| places.at(index).blank());
    let requests = session::begin();
    let id = UniqueIdBytes(unique_id()?.to_bytes());
    let ranks = c_int::try_from(devices.len()).unwrap_or(c_int::MAX);
    group::start();
    let joined = (0..ranks).zip(devices).try_for_each(|(rank, device)| {
        let place = places.at(rank.unsigned_abs() as usize);
        let arguments = JoinArguments { place, ranks, rank, ids: vec![id] };
        let at = place::numbered(requests.preferences.device, *device)?;
        join_at("ncclCommInitAll", arguments, Config::usual(&requests), at, &requests).map(|_| ())
    });
    if let Err(fault) = &joined {
        group::latch(fault);
    }
    let ended = group::end();
    joined.and(ended)
}

/// A communicator of the ranks of one color.
pub fn split(
    comm: CommHandle,
    color: c_int,
    key: c_int,
    place: Out<CommHandle>,
    config: ConfigPointer,
) -> Result<Outcome, Fault> {
    let parent = handles::find(comm, "CommSplit")?;
    if color < NO_COLOR {
        let text = format!("CommSplit : color is {color}, expected 0 or more, or no color (-1)");
        return Err(Fault::argument(text));
    }
    parent.member()?;
    let members = Members::Color(u32::try_from(color).ok(), key);
    derive("CommSplit", parent, members, place, config)
}

/// A communicator of the ranks that are left.
pub fn shrink(
    comm: CommHandle,
    excluded: (In<c_int>, c_int),
    place: Out<CommHandle>,
    config: ConfigPointer,
    flags: c_int,
) -> Result<Outcome, Fault> {
    let parent = handles::find(comm, "CommShrink")?;
    if !(0..=SHRINK_ABORT).contains(&flags) {
        return Err(Fault::argument(format!("CommShrink : flags are {flags}, expected 0 or 1")));
    }
    let member = parent.survivor()?;
    let (list, count) = excluded;
    let count = usize::try_from(count).unwrap_or_default();
    let excluded = list.read_all(count).ok_or_else(|| Fault::null("CommShrink", "excludeRanks"))?;
    let excluded = ranks_to_exclude(&excluded, member.rank(), member.ranks())?;
    let members = Members::Without(excluded, flags == SHRINK_ABORT);
    derive("CommShrink", parent, members, place, config)
}

/// The ranks of `list`, seen from the rank `own` of `ranks`.
fn ranks_to_exclude(list: &[c_int], own: Rank, ranks: u32) -> Result<Vec<Rank>, Fault> {
    if list.is_empty() {
        return Err(Fault::argument("CommShrink : excludeRanks is empty, expected one at least"));
    }
    let mut excluded = Vec::new();
    for &number in list {
        let rank = rank_among(ranks, number).ok_or_else(|| {
            let last = ranks.saturating_sub(1);
            Fault::argument(format!("CommShrink : invalid rank {number}, expected 0..{last}"))
        })?;
        if rank == own || excluded.contains(&rank) {
            let why = if rank == own { "is the caller's own" } else { "is there twice" };
            return Err(Fault::argument(format!("CommShrink : the rank {number} {why}")));
        }
        excluded.push(rank);
    }
    Ok(excluded)
}

/// The id by which new ranks come to `comm`.
pub fn growth_id(comm: CommHandle) -> Result<UniqueIdBytes, Fault> {
    let found = handles::find_ready(comm, "CommGetUniqueId")?.comm;
    let id = found.make_growth_id(unique_id).map_err(|fault| fault.during("CommGetUniqueId"))?;
    Ok(UniqueIdBytes(id.to_bytes()))
}

/// The arguments with which a rank comes to a communicator that grows.
pub struct GrowthArguments {
    /// The communicator, of a rank that it has; nothing for a new one.
    pub comm: CommHandle,
    /// How many ranks there will be.
    pub ranks: c_int,
    /// By which new ranks come, where it is known.
    pub id: In<UniqueIdBytes>,
    /// Which of them a new one is.
    pub rank: c_int,
    /// Where its handle goes.
    pub place: Out<CommHandle>,
}

/// A communicator of the ranks of another one and new ones.
pub fn grow(arguments: GrowthArguments, config: ConfigPointer) -> Result<Outcome, Fault> {
    let GrowthArguments { comm, ranks, id, rank, place } = arguments;
    if place.is_null() {
        return Err(Fault::null("CommGrow", "newcomm"));
    }
    if comm != CommHandle::default() {
        return grow_from(arguments, config);
    }
    let id = id.read().ok_or_else(|| Fault::null("CommGrow", "uniqueId of a new rank"))?;
    let arguments = JoinArguments { place, ranks, rank, ids: vec![id] };
    join("ncclCommGrow", arguments, config)
}

/// The same, of a rank that is there already.
fn grow_from(arguments: GrowthArguments, config: ConfigPointer) -> Result<Outcome, Fault> {
    let GrowthArguments { comm: parent, ranks, id, rank, place } = arguments;
    let ReadyComm { comm: parent, communicator: member } = handles::find_ready(parent, "CommGrow")?;
    if rank != SAME_RANK {
        let text = format!("CommGrow : a rank of the communicator passes -1, found {rank}");
        return Err(Fault::argument(text));
    }
    let known = u32::try_from(ranks).ok().filter(|ranks| *ranks > member.ranks());
    let ranks = known.ok_or_else(|| {
        let own = member.ranks();
        Fault::argument(format!("CommGrow : nRanks is {ranks}, expected more than {own}"))
    })?;
    let given = id.read().map(|id| UniqueId::from_bytes(&id.0)).transpose()?;
    let meeting = Meeting::Grown(Arc::clone(&parent), given.or(parent.growth_id()));
    let requests = session::begin();
    let config = Config::read(config, &requests)?.unwrap_or_else(|| parent.config.clone());
    let observation = Observation::begin(&requests, &config, &parent.place);
    let comm = Comm::joining(config, parent.place.clone(), observation);
    let settings = Settings { extent: Extent::Part, ..session::with_files(&requests) };
    let (operation, rank) = ("ncclCommGrow", member.rank());
    JoiningRank { operation, comm, place, meeting, rank, ranks, settings }.launch()
}

fn derive(
    operation: &str,
    parent: Arc<Comm>,
    members: Members,
    place: Out<CommHandle>,
    config: ConfigPointer,
) -> Result<Outcome, Fault> {
    if place.is_null() {
        return Err(Fault::null(operation, "newcomm"));
    }
    let requests = session::begin();
    let config = Config::read(config, &requests)?.unwrap_or_else(|| parent.config.clone());
    let settings = Settings { extent: Extent::Part, ..session::with_files(&requests) };
    let observation = Observation::begin(&requests, &config, &parent.place);
    let comm = Box::new(Comm::joining(config, parent.place.clone(), observation));
    group::launch(CommunicatorTask::Derive(Derive { parent, members, place, comm, settings }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_lie_in_their_range() {
        assert_eq!(rank_of(3, 4), Ok((Rank(3), 4)));
        for (rank, ranks) in [(4, 4), (-1, 4), (0, 0), (0, -1)] {
            let text = rank_of(rank, ranks).unwrap_err().text;
            assert_eq!(text, format!("Invalid rank requested : {rank}/{ranks}"));
        }
    }

    #[test]
    fn what_cannot_be_excluded() {
        let check = |list: &[c_int], expected: Result<&[u32], &str>| {
            let found = ranks_to_exclude(list, Rank(1), 4).map_err(|fault| fault.text);
            let found = found.map(|ranks| ranks.iter().map(|rank| rank.0).collect::<Vec<_>>());
            match expected {
                Ok(ranks) => assert_eq!(found.as_deref(), Ok(ranks)),
                Err(text) => assert!(found.unwrap_err().contains(text), "{list:?}"),
            }
        };
        check(&[3, 0], Ok(&[3, 0]));
        check(&[], Err("is empty"));
        check(&[4], Err("invalid rank 4, expected 0..3"));
        check(&[-1], Err("invalid rank -1"));
        check(&[1], Err("the caller's own"));
        check(&[2, 2], Err("twice"));
    }
}
