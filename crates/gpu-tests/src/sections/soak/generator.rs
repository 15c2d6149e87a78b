//! Drawing scenes. The same seed and number give the same scene, whoever draws it.

use msccl_collective::{CollectiveKind, DataType, Rank, Reduction};

use super::case::{Capture, Late, Piece, Round, SoakCase, SoakStep};
use crate::case::{Case, Residence};
use crate::random::Random;
use crate::sections::combined::REDUCED_BYTES;
use crate::sections::point_to_point::Message;
use crate::sections::{combines, placements};

/// One act in so many has large buffers, where there is time for any.
const LARGE_ONCE_IN: usize = 250;

/// One reduction in so many is large enough for copy engines, in the communicator that has them.
const CARRIED_ONCE_IN: usize = 10;

/// Streams of a rank that acts are spread over.
pub const STREAMS: usize = 3;

/// The longest message, in bytes.
const MESSAGE_BYTES_MAX: usize = 300_000;

/// What scenes are drawn for.
#[derive(Clone, Default, Debug)]
pub struct Scope {
    /// How many ranks each communicator has. The first has all.
    pub ranks: Vec<u32>,
    /// Whether there are streams and graphs.
    pub on_gpus: bool,
    /// Elements on all ranks together that one piece may have.
    pub elements: usize,
    /// The same of a large one, if there are any.
    pub elements_large: Option<usize>,
    /// The communicator whose memory lies in windows of all ranks, if one does: outputs of all
    /// ranks lie at the same place.
    pub windowed: Option<usize>,
}

/// SoakCase `number` of those that follow from `seed`.
pub fn scene(scope: &Scope, seed: u64, number: u64) -> SoakCase {
    // Streams of numbers overlap where their seeds are related.
    let seed = Random::new(seed).next() ^ Random::new(!number).next();
    Generator { scope, random: Random::new(seed), has_large: false }.scene(number)
}

struct Generator<'a> {
    scope: &'a Scope,
    random: Random,
    has_large: bool,
}

impl Generator<'_> {
    fn scene(&mut self, number: u64) -> SoakCase {
        let communicators = self.scope.ranks.len();
        // No more than two may be under way at once: each takes half of what runs on a GPU.
        let first = self.random.below(communicators);
        let playing = [first, (first + 1 + self.random.below(communicators - 1)) % communicators];
        let apart = self.scope.on_gpus && self.random.once_in(4);
        let mut pieces: Vec<Vec<Piece>> = (0..communicators).map(|_| Vec::new()).collect();
        let acts = (0..1 + self.random.below(8)).map(|_| self.act(playing, apart, &mut pieces));
        let acts: Vec<_> = acts.collect();
        let rounds = match (self.has_large, acts.iter().any(|act| act.graph.is_some())) {
            (true, _) => 1,
            (false, true) => 2 + self.random.below(3),
            (false, false) => 1 + self.random.below(2),
        };
        let rounds = (0..rounds).map(|_| self.round(&acts, playing, apart)).collect();
        let in_new_memory = self.random.once_in(30);
        SoakCase { number, pieces, acts, rounds, apart, in_new_memory }
    }

    /// An act, whose pieces are added to `pieces`.
    fn act(&mut self, playing: [usize; 2], apart: bool, pieces: &mut [Vec<Piece>]) -> SoakStep {
        let side = self.random.below(2);
        let one = &playing[side..=side];
        let (on, collectives, exchanges) = match self.random.below(20) {
            0..=10 => (one, 1, 0),
            11..=13 => (one, 2 + self.random.below(3), 0),
            14..=16 => (one, 0, 1),
            17 => (one, 1 + self.random.below(2), 1),
            _ if apart => (one, 1, 0),
            18 => (&playing[..], 1 + self.random.below(2), 0),
            _ => (&playing[..], self.random.below(2), 1),
        };
        let mut batches = Vec::new();
        for &communicator in on {
            let ranks = self.scope.ranks[communicator];
            let of_communicator = &mut pieces[communicator];
            let start = of_communicator.len();
            let windowed = self.scope.windowed == Some(communicator);
            of_communicator.extend((0..collectives).map(|_| self.collective(ranks, windowed)));
            of_communicator.extend((0..exchanges).map(|_| self.messages(ranks)));
            batches.push((communicator, start..of_communicator.len()));
        }
        let mut all = batches.iter().flat_map(|(on, range)| &pieces[*on][range.clone()]);
        let may_repeat = all.all(Piece::keeps_its_input);
        let alone = (collectives, exchanges, on.len()) == (1, 0, 1);
        let graph = (self.scope.on_gpus && self.random.once_in(3)).then(|| self.capture());
        // A stream that captures and one that does not have nothing to do with one another.
        let spread = !alone && !apart && graph.is_none() && self.random.once_in(3);
        SoakStep {
            batches,
            stream: if apart { side } else { self.random.below(STREAMS) },
            other_stream: spread.then(|| self.random.below(STREAMS)),
            graph,
            pin: (alone && self.random.once_in(3)).then(|| self.random.next()),
            times: if may_repeat { [1, 1, 1, 2, 5][self.random.below(5)] } else { 1 },
        }
    }

    fn capture(&mut self) -> Capture {
        match self.random.once_in(2) {
            true => Capture::Before,
            false => Capture::Within { ahead: self.random.below(4) },
        }
    }

    fn collective(&mut self, ranks: u32, windowed: bool) -> Piece {
        let root = Rank::from(self.random.below(ranks as usize));
        let kind = CollectiveKind::all(root)[self.random.below(8)];
        let (places, random) = (placements(kind), &mut self.random);
        let in_place = places[random.below(places.len())];
        // A root in place would have its output where others have theirs not.
        let in_place = in_place && !(windowed && kind.root().is_some());
        let shift = if random.once_in(2) { [0, 0] } else { [random.below(9), random.below(9)] };
        let data_type = DataType::ALL[random.below(DataType::ALL.len())];
        let mut case = Case { in_place, shift, data_type, ..Case::of(kind) };
        if combines(kind) {
            case.reduction = Reduction::ALL[random.below(Reduction::ALL.len())];
            if random.once_in(10) {
                case.reduction = Reduction::Sum;
                case.scale = Some([Residence::Call, Residence::Memory][random.below(2)]);
            }
        }
        case.count = match windowed && combines(kind) && self.random.once_in(CARRIED_ONCE_IN) {
            true => self.carried_count(&case, ranks as usize),
            false => self.count(kind, ranks as usize),
        };
        Piece::Collective(case)
    }

    /// Elements of a block of a reduction that copy engines carry, if there is time for that.
    fn carried_count(&mut self, case: &Case, ranks: usize) -> usize {
        if self.scope.elements_large.is_none() {
            return self.count(case.kind, ranks);
        }
        self.has_large = true;
        let blocks = if case.kind == CollectiveKind::ReduceScatter { ranks } else { 1 };
        let least = REDUCED_BYTES.div_ceil(blocks * case.data_type.size_bytes());
        least + self.random.below(5000)
    }

    /// Elements of a block: few more often than many, and often beside a power of two.
    fn count(&mut self, kind: CollectiveKind, ranks: usize) -> usize {
        // On all ranks together, of the larger buffer.
        let blocks = match kind {
            CollectiveKind::AllReduce
            | CollectiveKind::Broadcast(_)
            | CollectiveKind::Reduce(_) => ranks,
            CollectiveKind::Gather(_) | CollectiveKind::Scatter(_) => 2 * ranks,
            CollectiveKind::AllGather
            | CollectiveKind::ReduceScatter
            | CollectiveKind::AllToAll => ranks * ranks,
        };
        let (scope, random) = (self.scope, &mut self.random);
        if let Some(large) = scope.elements_large.filter(|_| random.once_in(LARGE_ONCE_IN)) {
            self.has_large = true;
            return (large / blocks).saturating_sub(random.below(20));
        }
        let most = (scope.elements / blocks).max(1);
        let count = match random.below(20) {
            0 => 0,
            1..=4 => 1 + random.below(40),
            5..=9 => 1 + random.below(4096),
            10..=13 => (1 << random.below(18)) + random.below(3) - 1,
            _ => 1 + random.below(most),
        };
        count.min(most)
    }

    /// A pattern of messages: round a ring, everyone to everyone, or any.
    fn messages(&mut self, ranks: u32) -> Piece {
        let random = &mut self.random;
        let longest = MESSAGE_BYTES_MAX.min(self.scope.elements / (ranks * ranks) as usize);
        let bytes = |random: &mut Random| {
            match random.below(8) {
                0 => 0,
                1..=3 => 1 + random.below(64),
                4 | 5 => 1 + random.below(5000),
                _ => 1 + random.below(longest),
            }
            .min(longest)
        };
        let pairs: Vec<(u32, u32)> = match random.below(4) {
            0 => (0..ranks).map(|from| (from, (from + 1) % ranks)).collect(),
            1 => (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to))).collect(),
            _ => {
                let mut rank = || random.below(ranks as usize) as u32;
                let count = 1 + rank() + rank() + rank();
                (0..count).map(|_| (rank(), rank())).collect()
            }
        };
        let message = |(from, to)| Message { from, to, bytes: bytes(random) };
        Piece::Messages(pairs.into_iter().map(message).collect())
    }

    fn round(&mut self, acts: &[SoakStep], playing: [usize; 2], apart: bool) -> Round {
        let random = &mut self.random;
        let ranks = self.scope.ranks[0] as usize;
        let mut order: Vec<usize> = (0..acts.len()).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, random.below(last + 1));
        }
        let is_of_first = |act: &usize| acts[*act].batches[0].0 == playing[0];
        let of_rank =
            |_| if apart { interleaved(&order, is_of_first, random) } else { order.clone() };
        let orders = (0..ranks).map(of_rank).collect();
        let late = random.once_in(2).then(|| Late {
            rank: random.below(ranks),
            place: random.below(acts.len()),
            wait_us: 1 << random.below(12),
        });
        Round { seed: random.next(), orders, late, checks_early: random.once_in(2) }
    }
}

/// `order` with the acts of one kind and those of the other each in their order, mixed anew.
fn interleaved(
    order: &[usize],
    is_first: impl Fn(&usize) -> bool,
    random: &mut Random,
) -> Vec<usize> {
    let (first, second): (Vec<_>, Vec<_>) = order.iter().copied().partition(is_first);
    let (mut first, mut second) = (first.into_iter().peekable(), second.into_iter().peekable());
    let mut mixed = Vec::new();
    while first.peek().is_some() && second.peek().is_some() {
        mixed.extend(if random.once_in(2) { first.next() } else { second.next() });
    }
    mixed.into_iter().chain(first).chain(second).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope() -> Scope {
        let ranks = vec![4, 4, 3];
        let (elements, elements_large) = (100_000, Some(1_000_000));
        Scope { ranks, on_gpus: true, elements, elements_large, windowed: Some(1) }
    }

    #[test]
    fn a_scene_follows_from_its_seed_and_number() {
        let describe = |seed, number| scene(&scope(), seed, number).to_string();
        assert_eq!(describe(7, 3), describe(7, 3));
        assert_ne!(describe(7, 3), describe(8, 3));
        assert_ne!(describe(7, 3), describe(7, 4));
    }

    #[test]
    fn scenes_have_everything_and_only_what_is_allowed() {
        let (mut graphs, mut pinned, mut together, mut larges) = (0, 0, 0, 0);
        for number in 0..600 {
            let scene = scene(&scope(), 1, number);
            let playing = scene.pieces.iter().filter(|pieces| !pieces.is_empty()).count();
            assert!((1..=2).contains(&playing), "{scene}");
            for act in &scene.acts {
                graphs += usize::from(act.graph.is_some());
                assert!(act.graph.is_none() || act.other_stream.is_none(), "{scene}");
                pinned += usize::from(act.pin.is_some());
                together += usize::from(act.batches.len() == 2);
                assert!(act.pin.is_none() || scene.only_collective(act).is_some(), "{scene}");
                let keeps = scene.pieces_of(act).all(|(_, piece)| piece.keeps_its_input());
                assert!(act.times == 1 || keeps, "{scene}");
            }
            let counts = scene.pieces.iter().flatten().map(|piece| match piece {
                Piece::Collective(case) => case.count,
                Piece::Messages(_) => 0,
            });
            let large = counts.max() > Some(40_000);
            larges += usize::from(large);
            assert!(!large || scene.rounds.len() == 1, "{scene}");
        }
        assert!([graphs, pinned, together].iter().all(|found| *found > 50), "{graphs} {pinned}");
        assert!((1..150).contains(&larges), "{larges}");
    }

    #[test]
    fn ranks_agree_on_the_order_of_each_communicator() {
        let mut differ = 0;
        for number in 0..300 {
            let scene = scene(&scope(), 1, number);
            for round in &scene.rounds {
                assert_eq!(round.orders.len(), 4);
                differ += usize::from(round.orders.iter().any(|order| *order != round.orders[0]));
                for communicator in 0..3 {
                    let on = |act: &&usize| {
                        scene.acts[**act].batches.iter().any(|(of, _)| *of == communicator)
                    };
                    let of = |order: &Vec<usize>| order.iter().filter(on).copied().collect();
                    let orders: Vec<Vec<usize>> = round.orders.iter().map(of).collect();
                    assert!(orders.iter().all(|order| *order == orders[0]), "{scene}");
                }
            }
        }
        assert!(differ > 10, "{differ}");
    }
}
