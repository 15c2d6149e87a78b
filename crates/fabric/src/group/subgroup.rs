//! Groups out of groups: split by color, and shrink to those that are left.
//!
//! The children use their parent's connections, and live on when the parent is dropped. All members
//! derive the child's identity from the parent's and from what they agreed on, so no further
//! exchange is needed.
//!
//! Both wait for the other ranks for at most the join timeout of the settings that the caller
//! passes, and then name those that did not come, by their ranks in the parent. A split that failed
//! breaks the parent, which can still be shrunk; a shrink that failed leaves the parent as it is.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use msccl_collective::Rank;

use super::Group;
use super::collective::Operation;
use crate::abort::{Patience, seconds};
use crate::error::{self, Error, ErrorKind};
use crate::identity::Peer;
use crate::settings::Settings;
use crate::transport::Member;
use crate::wire::{Malformed, Reader, Writer, mark};

impl Group {
    /// Splits the group by `color`; every rank must call it. Ranks of one color form a group, in
    /// which they stand in order of `key`, then of their rank here. No color, no group. Of
    /// `settings` count the abort and the limits of time.
    pub fn split(
        &self,
        color: Option<u32>,
        key: i32,
        settings: &Settings,
    ) -> Result<Option<Self>, Error> {
        let mut writer = Writer::default();
        writer.u8(u8::from(color.is_some()));
        writer.u32(color.unwrap_or_default());
        writer.u32(key as u32);
        let joining = rendezvous(settings);
        let gathered = self.operate(Operation::Split, &writer.0, &joining)?;
        let count = self.splits.fetch_add(1, Ordering::Relaxed);
        let choices = self.parts(&gathered)?;
        let Some(color) = color else { return Ok(None) };
        let mut chosen = Vec::new();
        for (member, choice) in self.members.iter().zip(&choices) {
            let (its_color, its_key) = read_choice(choice).map_err(|Malformed(why)| {
                Error::network(format!("{} sent nonsense: {why}", member.peer.describe()))
            })?;
            if its_color == Some(color) {
                chosen.push((its_key, member));
            }
        }
        chosen.sort_by_key(|(key, member)| (*key, member.peer.rank));
        let chosen: Vec<_> = chosen.into_iter().map(|(_, member)| member).collect();
        let id = [&self.id.to_le_bytes()[..], b"split", &count.to_le_bytes(), &color.to_le_bytes()];
        self.child(mark(&id), &chosen, settings, joining).map(Some)
    }

    /// The group without the ranks in `exclude`, which need not be alive; every other rank must
    /// call it with the same ranks, and it returns when they have. Works on a broken group. Of
    /// `settings` count the abort and the limits of time.
    pub fn shrink(&self, exclude: &[Rank], settings: &Settings) -> Result<Self, Error> {
        for rank in exclude {
            self.member(*rank)?;
        }
        if exclude.contains(&self.me) {
            let text =
                format!("rank {} cannot exclude itself from the group that it asks for", self.me.0);
            return Err(Error::invalid(text));
        }
        let stays = |member: &&Member| !exclude.contains(&member.peer.rank);
        let chosen: Vec<_> = self.members.iter().filter(stays).collect();
        let ranks: Vec<u8> = chosen.iter().flat_map(|m| m.peer.rank.0.to_le_bytes()).collect();
        let count = self.count_shrink(&ranks);
        let id = [&self.id.to_le_bytes()[..], b"shrink", &count.to_le_bytes(), &ranks];
        let child = self.child(mark(&id), &chosen, settings, rendezvous(settings))?;
        let stayed: Vec<_> = chosen.iter().map(|member| member.peer.rank).collect();
        let came = child.meet(settings.join_timeout);
        came.map_err(|error| self.of_shrink(error, &stayed, settings))?;
        Ok(child)
    }

    /// What befell the first meeting of the ranks `stayed`, by their ranks here: those of the child
    /// mean nothing to a caller who has not got it.
    fn of_shrink(&self, error: Error, stayed: &[Rank], settings: &Settings) -> Error {
        let here = |rank: &Rank| stayed.get(rank.index()).copied();
        let missing: Vec<_> = error.ranks().iter().filter_map(here).collect();
        if error.kind() != ErrorKind::TimedOut || missing.is_empty() {
            return error;
        }
        let verb = "not called shrink, excluding the same ranks,";
        let limit = seconds(settings.join_timeout);
        error::absent_of(&missing, stayed, self.ranks(), verb, &limit)
    }

    /// How often the group was shrunk to `ranks` before.
    fn count_shrink(&self, ranks: &[u8]) -> u64 {
        let mut shrinks = self.shrinks.lock().unwrap_or_else(PoisonError::into_inner);
        let count = shrinks.entry(ranks.to_vec()).or_default();
        *count += 1;
        *count - 1
    }

    fn child(
        &self,
        id: u64,
        chosen: &[&Member],
        settings: &Settings,
        joining: Patience,
    ) -> Result<Self, Error> {
        let renumbered = chosen.iter().enumerate().map(|(position, member)| Member {
            world: member.world,
            peer: Peer { rank: Rank::from(position), ..member.peer.clone() },
        });
        let me = chosen.iter().position(|member| member.peer.rank == self.me);
        let me = me.ok_or_else(|| Error::network("the split does not contain this rank"))?;
        let (members, transport) = (renumbered.collect(), self.transport.clone());
        let timeout = settings.operation_timeout;
        Ok(Self::new(transport, id, Rank::from(me), members, timeout, joining))
    }
}

/// How long a rank waits for the others to come.
fn rendezvous(settings: &Settings) -> Patience {
    Patience::new(&settings.abort, Some(settings.join_timeout))
}

fn read_choice(bytes: &[u8]) -> Result<(Option<u32>, i32), Malformed> {
    let mut reader = Reader(bytes);
    let has_color = reader.u8()? != 0;
    let (color, key) = (reader.u32()?, reader.u32()? as i32);
    reader.end()?;
    Ok((has_color.then_some(color), key))
}
