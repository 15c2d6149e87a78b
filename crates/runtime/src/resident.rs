//! How many threads of a rank can run at once, by the kernel that runs them.
//!
//! There is an interpreter for every protocol, and under Simple one for every kind of links; each takes as many
//! registers as it needs, some differently by type. So each has its own number of threads that fit on a GPU beside
//! one another. What ranks of a communicator have in common is the [least](Resident::least) of each.
//!
//! Absent: what a call needs, which kernel serves it.

use msccl_collective::{DataType, Protocol};

use crate::engine::TYPES;
use crate::select::Links;

/// Threads in blocks of the largest size, by kernel.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Resident {
    /// With staged links, by protocol in the order of [`Protocol::ALL`].
    pub staged: [u32; 3],
    /// With direct links, under Simple, by type in the order of [`DataType::ALL`]; zeros if there are none.
    pub direct: [u32; TYPES],
}

impl Resident {
    /// Of the kernel for calls on `data_type` with such links; none if there is no such kernel.
    pub fn of(&self, protocol: Protocol, links: Links, data_type: DataType) -> u32 {
        let by_protocol = || Protocol::ALL.iter().position(|&of| of == protocol);
        let by_type = || DataType::ALL.iter().position(|&of| of == data_type);
        let found = match links {
            Links::Staged => by_protocol().and_then(|at| self.staged.get(at)),
            Links::Direct => by_type().and_then(|at| self.direct.get(at)),
        };
        found.copied().unwrap_or(0)
    }

    /// Whether some call can have such links.
    pub fn has(&self, links: Links) -> bool {
        let threads = match links {
            Links::Staged => &self.staged[..],
            Links::Direct => &self.direct[..],
        };
        threads.iter().any(|threads| *threads > 0)
    }

    /// Every number replaced by what `each` makes of it.
    pub fn map(self, each: impl Fn(u32) -> u32) -> Self {
        let Self { staged, direct } = self;
        Self { staged: staged.map(&each), direct: direct.map(&each) }
    }

    /// The least of both, kernel by kernel.
    pub fn least(self, other: Self) -> Self {
        let Self { staged, direct } = self;
        Self { staged: least(staged, other.staged), direct: least(direct, other.direct) }
    }

    /// As ranks tell one another.
    pub fn to_bytes(self) -> Vec<u8> {
        let Self { staged, direct } = self;
        let numbers = staged.into_iter().chain(direct);
        numbers.flat_map(u32::to_le_bytes).collect()
    }

    /// What [`Resident::to_bytes`] wrote; `None` if it is shorter or longer.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (staged, direct) = split(bytes)?;
        let (direct, []) = split(direct)? else { return None };
        Some(Self { staged, direct })
    }
}

fn least<const LENGTH: usize>(one: [u32; LENGTH], other: [u32; LENGTH]) -> [u32; LENGTH] {
    std::array::from_fn(|at| one[at].min(other[at]))
}

/// The next numbers, and what follows them.
fn split<const LENGTH: usize>(bytes: &[u8]) -> Option<([u32; LENGTH], &[u8])> {
    let (numbers, rest) = bytes.split_at_checked(4 * LENGTH)?;
    let numbers: &[[u8; 4]; LENGTH] = numbers.as_chunks().0.try_into().ok()?;
    Some((numbers.map(u32::from_le_bytes), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resident() -> Resident {
        Resident { staged: [1000, 2000, 3000], direct: std::array::from_fn(|at| 10 + at as u32) }
    }

    #[test]
    fn each_kernel_has_its_own_number() {
        let resident = resident();
        let of = |protocol, links| resident.of(protocol, links, DataType::ALL[3]);
        assert_eq!(Protocol::ALL.map(|of_one| of(of_one, Links::Staged)), [1000, 2000, 3000]);
        assert_eq!(of(Protocol::Simple, Links::Direct), 13);
        assert!(Links::ALL.into_iter().all(|links| resident.has(links)));
        let plain = Resident { direct: [0; TYPES], ..resident };
        assert!(plain.has(Links::Staged) && !plain.has(Links::Direct));
        assert!(!Links::ALL.into_iter().any(|links| Resident::default().has(links)));
    }

    #[test]
    fn ranks_hear_what_others_tell() {
        let resident = resident();
        let bytes = resident.to_bytes();
        assert_eq!(Resident::from_bytes(&bytes), Some(resident));
        assert_eq!(Resident::from_bytes(&bytes[1..]), None);
        assert_eq!(Resident::from_bytes(&[&bytes[..], &[0]].concat()), None);
    }

    #[test]
    fn the_least_is_what_all_have() {
        let one = resident();
        let other = Resident { staged: [5000, 10, 3000], ..one.map(|threads| threads / 2) };
        let expected = Resident { staged: [1000, 10, 3000], ..one.map(|threads| threads / 2) };
        assert_eq!(one.least(other), expected);
    }
}
