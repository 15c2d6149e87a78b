//! Which wave a link is free in.

use msccl_collective::Rank;
use rustc_hash::FxHashMap;

use crate::chunk::LinkKey;

/// The waves in which each link already carries a message.
///
/// A link here is a pair of ranks and a [`LinkKey`]: messages whose channel is still open share one
/// key of their instance, so that any later choice of channels keeps their order.
#[derive(Debug, Default)]
pub struct LinkWaves {
    /// Dense numbers of links.
    links: FxHashMap<(Rank, Rank, LinkKey), u32>,
    /// For a taken `(link, wave)`: a later wave to try. Paths are compressed, so that a long queue
    /// on one link costs near-constant time per message.
    taken: FxHashMap<u64, u32>,
}

/// A link, by number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkNumber(u32);

impl LinkWaves {
    /// The link of `link_key` from `from` to `to`.
    pub fn link(&mut self, from: Rank, to: Rank, link_key: LinkKey) -> LinkNumber {
        let next = self.links.len() as u32;
        LinkNumber(*self.links.entry((from, to, link_key)).or_insert(next))
    }

    /// The first wave from `wave` on in which `link` is free.
    pub fn first_free(&mut self, link: LinkNumber, wave: u32) -> u32 {
        let mut free = wave;
        while let Some(&later) = self.taken.get(&key(link, free)) {
            free = later;
        }
        let mut passed = wave;
        while passed != free {
            let later = self.taken.insert(key(link, passed), free);
            passed = later.unwrap_or(free);
        }
        free
    }

    /// Marks `link` as carrying a message in `wave`.
    pub fn take(&mut self, link: LinkNumber, wave: u32) {
        self.taken.insert(key(link, wave), wave + 1);
    }

    /// When every link carries messages, once all have been placed.
    pub fn timetable(&self) -> Timetable {
        let mut keys: Vec<u64> = self.taken.keys().copied().collect();
        keys.sort_unstable();
        Timetable { keys }
    }
}

/// The taken waves of all links.
#[derive(Debug)]
pub struct Timetable {
    /// One for every message, by link, then by wave.
    keys: Vec<u64>,
}

impl Timetable {
    /// Whether `link` carries no message after wave `sent` up to wave `taken`.
    pub fn is_free(&self, link: LinkNumber, sent: u32, taken: u32) -> bool {
        let next = self.keys.partition_point(|&message| message <= key(link, sent));
        self.keys.get(next).is_none_or(|&message| message > key(link, taken))
    }
}

fn key(link: LinkNumber, wave: u32) -> u64 {
    u64::from(link.0) << 32 | u64::from(wave)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_wave_is_passed_over() {
        let mut waves = LinkWaves::default();
        let link = waves.link(Rank(0), Rank(1), LinkKey::Open { instance: 0 });
        let other = waves.link(Rank(0), Rank(1), LinkKey::Requested { channel: 0 });
        for expected in [3, 4, 5] {
            let free = waves.first_free(link, 3);
            assert_eq!(free, expected);
            waves.take(link, free);
        }
        assert_eq!(waves.first_free(link, 0), 0);
        assert_eq!(waves.first_free(link, 4), 6);
        assert_eq!(waves.first_free(other, 3), 3);
    }

    #[test]
    fn a_link_is_free_between_messages() {
        let mut waves = LinkWaves::default();
        let link = waves.link(Rank(0), Rank(1), LinkKey::Open { instance: 0 });
        let other = waves.link(Rank(0), Rank(2), LinkKey::Open { instance: 0 });
        for wave in [7, 3] {
            waves.take(link, wave);
        }
        waves.take(other, 5);
        let timetable = waves.timetable();
        for (sent, taken, free) in [(3, 6, true), (3, 7, false), (2, 3, false), (7, 9, true)] {
            assert_eq!(timetable.is_free(link, sent, taken), free, "{sent}..={taken}");
        }
    }
}
