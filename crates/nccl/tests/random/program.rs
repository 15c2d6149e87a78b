//! Random programs: what all threads of a process do with communicators, known to all from the
//! start.

use msccl_testkit::Numbers;

/// Rounds for ranks that threads share out.
#[derive(Debug)]
pub struct Program {
    /// The ranks of each thread.
    pub threads: Vec<Vec<usize>>,
    pub blocking: bool,
    pub rounds: Vec<Round>,
    /// The members of each communicator, in their order there; the first one has all.
    pub members: Vec<Vec<usize>>,
}

/// What all threads do next. Communicators are numbers; members are named by their ranks there.
#[derive(Debug)]
pub enum Round {
    /// By color and key of each member.
    Split {
        parent: usize,
        colors: Vec<(Option<i32>, i32)>,
        children: Vec<usize>,
    },
    Shrink {
        parent: usize,
        excluded: Vec<usize>,
        child: usize,
    },
    /// All threads meet; then all members take the communicator back.
    Revoke {
        comm: usize,
    },
    /// In one group per thread.
    Calls {
        calls: Vec<Call>,
        fate: Fate,
    },
    End {
        comm: usize,
        how: Ending,
    },
}

/// What becomes of a group.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Fate {
    Executed,
    /// Every thread makes a call beside that is refused.
    Refused,
    Simulated,
}

/// How a communicator ends.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Ending {
    Destroyed,
    FinalizedAndDestroyed,
    /// When all threads have met.
    Aborted,
}

#[derive(Debug)]
pub enum Call {
    Collective { comm: usize, collective: Collective },
    Message { comm: usize, from: usize, to: usize, collective: Collective },
}

/// A collective; a message is a broadcast to one.
#[derive(Clone, Copy, Debug)]
pub struct Collective {
    pub kind: Kind,
    pub element: Type,
    pub count: usize,
    pub in_place: bool,
    pub ranks: usize,
    /// Decides the contributions.
    pub salt: u64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    AllReduce(Reduction),
    ReduceScatter(Reduction),
    AllGather,
    AllToAll,
    Reduce(Reduction, usize),
    Broadcast(usize),
    Gather(usize),
    Scatter(usize),
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Reduction {
    Sum,
    Product,
    Max,
    Min,
    Mean,
    /// A sum of contributions, each of which its rank has scaled.
    Scaled,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Type {
    I8,
    U8,
    I32,
    U32,
    I64,
    U64,
    F16,
    F32,
    F64,
    Bf16,
}

const TYPES: [Type; 10] = {
    use Type::{Bf16, F16, F32, F64, I8, I32, I64, U8, U32, U64};
    [I8, U8, I32, U32, I64, U64, F16, F32, F64, Bf16]
};

impl Type {
    pub fn bytes(self) -> usize {
        match self {
            Type::I8 | Type::U8 => 1,
            Type::F16 | Type::Bf16 => 2,
            Type::I32 | Type::U32 | Type::F32 => 4,
            Type::I64 | Type::U64 | Type::F64 => 8,
        }
    }

    fn is_integer(self) -> bool {
        !matches!(self, Type::F16 | Type::F32 | Type::F64 | Type::Bf16)
    }
}

impl Collective {
    /// Blocks that rank `rank` contributes and receives.
    pub fn blocks(&self, rank: usize) -> (usize, usize) {
        let (n, at) =
            (self.ranks, |root: usize, blocks: usize| if root == rank { blocks } else { 0 });
        match self.kind {
            Kind::AllReduce(_) => (1, 1),
            Kind::ReduceScatter(_) => (n, 1),
            Kind::AllGather => (1, n),
            Kind::AllToAll => (n, n),
            Kind::Reduce(_, root) => (1, at(root, 1)),
            Kind::Broadcast(root) => (at(root, 1), 1),
            Kind::Gather(root) => (1, at(root, n)),
            Kind::Scatter(root) => (at(root, n), 1),
        }
    }

    /// In place, where in the longer of both buffers of rank `rank` the other one lies, in blocks.
    pub fn own_block(&self, rank: usize) -> usize {
        let (input, output) = self.blocks(rank);
        if input == output { 0 } else { rank }
    }
}

/// Communicators while a program is made.
struct Live {
    /// Of which calls and further communicators can be made.
    usable: Vec<usize>,
    /// That were revoked, and have only descendants and their end.
    revoked: Vec<usize>,
}

impl Program {
    /// The program of `seed`.
    pub fn new(seed: u64) -> Self {
        let mut numbers = Numbers(seed);
        let ranks = 2 + numbers.index(5);
        let mut threads = vec![Vec::new(); 1 + numbers.index(ranks)];
        let last = threads.len();
        (0..ranks).for_each(|rank| threads[numbers.index(last)].push(rank));
        threads.retain(|ranks| !ranks.is_empty());
        let blocking = !numbers.one_in(3);
        let members = vec![(0..ranks).collect()];
        let mut program = Self { threads, blocking, rounds: Vec::new(), members };
        let mut live = Live { usable: vec![0], revoked: Vec::new() };
        for _ in 0..4 + numbers.index(12) {
            if live.usable.is_empty() {
                break;
            }
            let round = program.round(&mut numbers, &mut live);
            program.rounds.push(round);
        }
        for comm in live.revoked {
            let how = if numbers.one_in(2) { Ending::Destroyed } else { Ending::Aborted };
            program.rounds.push(Round::End { comm, how });
        }
        for comm in live.usable {
            let how = program.ending(&mut numbers);
            program.rounds.push(Round::End { comm, how });
        }
        program
    }

    fn round(&mut self, numbers: &mut Numbers, live: &mut Live) -> Round {
        let comm = *numbers.pick(&live.usable);
        match numbers.index(12) {
            0 | 1 => {
                let parents = [&live.usable[..], &live.revoked[..]].concat();
                let parent = *numbers.pick(&parents);
                self.split(numbers, live, parent)
            }
            2 if self.members[comm].len() > 1 => self.shrink(numbers, live, comm),
            3 if live.usable.len() > 1 => {
                live.usable.retain(|of| *of != comm);
                Round::End { comm, how: self.ending(numbers) }
            }
            4 if live.usable.len() > 1 => {
                live.usable.retain(|of| *of != comm);
                live.revoked.push(comm);
                Round::Revoke { comm }
            }
            _ => {
                let calls = 1 + if numbers.one_in(2) { 0 } else { numbers.index(6) };
                let mut call = || {
                    let comm = *numbers.pick(&live.usable);
                    self.call(numbers, comm)
                };
                let calls = (0..calls).map(|_| call()).collect();
                let fate = match numbers.index(10) {
                    0 => Fate::Refused,
                    1 => Fate::Simulated,
                    _ => Fate::Executed,
                };
                Round::Calls { calls, fate }
            }
        }
    }

    fn ending(&self, numbers: &mut Numbers) -> Ending {
        match numbers.index(4) {
            0 if self.blocking => Ending::FinalizedAndDestroyed,
            1 => Ending::Aborted,
            _ => Ending::Destroyed,
        }
    }

    fn split(&mut self, numbers: &mut Numbers, live: &mut Live, parent: usize) -> Round {
        let ranks = self.members[parent].len();
        let color = |numbers: &mut Numbers| {
            let color = if numbers.one_in(5) { None } else { Some(numbers.index(3) as i32) };
            (color, numbers.index(4) as i32 - 2)
        };
        let colors: Vec<_> = (0..ranks).map(|_| color(numbers)).collect();
        let mut children = Vec::new();
        for color in 0..3 {
            let mut ranks: Vec<_> =
                (0..ranks).filter(|rank| colors[*rank].0 == Some(color)).collect();
            ranks.sort_by_key(|rank| (colors[*rank].1, *rank));
            if !ranks.is_empty() {
                children.push(self.enrol(live, parent, &ranks));
            }
        }
        Round::Split { parent, colors, children }
    }

    fn shrink(&mut self, numbers: &mut Numbers, live: &mut Live, parent: usize) -> Round {
        let ranks = self.members[parent].len();
        let stays = numbers.index(ranks);
        let mut excluded: Vec<_> =
            (0..ranks).filter(|rank| *rank != stays && numbers.one_in(3)).collect();
        if excluded.is_empty() {
            excluded.push((stays + 1) % ranks);
        }
        let left: Vec<_> = (0..ranks).filter(|rank| !excluded.contains(rank)).collect();
        Round::Shrink { parent, child: self.enrol(live, parent, &left), excluded }
    }

    /// A new communicator of `ranks` of `parent`.
    fn enrol(&mut self, live: &mut Live, parent: usize, ranks: &[usize]) -> usize {
        let members = ranks.iter().map(|rank| self.members[parent][*rank]).collect();
        self.members.push(members);
        live.usable.push(self.members.len() - 1);
        self.members.len() - 1
    }

    fn call(&self, numbers: &mut Numbers, comm: usize) -> Call {
        let ranks = self.members[comm].len();
        let element = *numbers.pick(&TYPES);
        let count = match numbers.index(16) {
            0 => 0,
            1 => 1 + numbers.index(60_000),
            2..6 => 1 + numbers.index(3_000),
            _ => 1 + numbers.index(40),
        };
        let (in_place, salt) = (numbers.one_in(2), numbers.next());
        let collective = |kind| Collective { kind, element, count, in_place, ranks, salt };
        if numbers.one_in(3) {
            let (from, to) = (numbers.index(ranks), numbers.index(ranks));
            return Call::Message { comm, from, to, collective: collective(Kind::Broadcast(from)) };
        }
        Call::Collective { comm, collective: collective(kind(numbers, element, ranks)) }
    }
}

fn kind(numbers: &mut Numbers, element: Type, ranks: usize) -> Kind {
    use Reduction::{Max, Mean, Min, Product, Scaled, Sum};
    let by = *numbers.pick(&[Sum, Product, Max, Min, Mean, Scaled]);
    // A float that is scaled by a third is not exact.
    let by = if by == Mean && !element.is_integer() && !ranks.is_power_of_two() { Sum } else { by };
    let root = numbers.index(ranks);
    match numbers.index(8) {
        0 => Kind::AllReduce(by),
        1 => Kind::ReduceScatter(by),
        2 => Kind::AllGather,
        3 => Kind::AllToAll,
        4 => Kind::Reduce(by, root),
        5 => Kind::Broadcast(root),
        6 => Kind::Gather(root),
        _ => Kind::Scatter(root),
    }
}
