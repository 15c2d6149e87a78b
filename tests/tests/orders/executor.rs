//! An executor of the JSON form over orders of additions: a second implementation, which shares no
//! code with the verifier.
//!
//! A value is the text of a sum and the ranks in it. Thread blocks run step by step, whoever can go
//! on first; links hold whole chunks without a limit.

use std::collections::{BTreeSet, HashMap, VecDeque};

use serde_json::Value;

/// A value of a slot.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Sum {
    ranks: Vec<u64>,
    /// The texts of what is added, one for a contribution.
    summands: Vec<String>,
}

impl Sum {
    fn contribution(rank: u64) -> Self {
        Self { ranks: vec![rank], summands: vec![rank.to_string()] }
    }

    fn of(mut parts: Vec<Sum>) -> Self {
        if parts.len() == 1 {
            return parts.remove(0);
        }
        if parts[1].ranks < parts[0].ranks {
            parts.swap(0, 1);
        }
        let summands = parts.iter().map(|part| match part.summands.len() {
            1 => part.text(),
            _ => format!("({})", part.text()),
        });
        let summands = summands.collect();
        Self { ranks: parts.into_iter().flat_map(|part| part.ranks).collect(), summands }
    }

    /// Runs of four consecutive ranks or more are shortened.
    fn text(&self) -> String {
        let rank = |at: usize| self.summands.get(at).and_then(|text| text.parse::<u64>().ok());
        let (mut shown, mut at) = (Vec::new(), 0);
        while at < self.summands.len() {
            let mut end = at + 1;
            while rank(end).is_some() && rank(end) == rank(end - 1).map(|before| before + 1) {
                end += 1;
            }
            match &self.summands[at..end] {
                [first, second, _, .., last] if end - at >= 4 => {
                    shown.extend([first.clone(), second.clone(), "…".to_owned(), last.clone()]);
                }
                all => shown.extend(all.iter().cloned()),
            }
            at = end;
        }
        shown.join("+")
    }
}

/// A buffer and a chunk of it.
type Slot = (String, u64);

struct Block<'a> {
    rank: usize,
    channel: u64,
    steps: &'a [Value],
    done: usize,
}

struct Run<'a> {
    blocks: Vec<Block<'a>>,
    /// The first block of each rank.
    first: Vec<usize>,
    memory: Vec<HashMap<Slot, Sum>>,
    /// By sender, channel and receiver.
    links: HashMap<(usize, u64, usize), VecDeque<Sum>>,
}

/// The texts of all sums of two contributions or more that promised outputs hold at the end, in the
/// placements that are served.
pub fn orders(algorithm: &Value) -> BTreeSet<String> {
    let adds = ["allreduce", "reducescatter", "reduce", "custom"];
    if !adds.contains(&Placed::new(algorithm, false).kind.as_str()) {
        return BTreeSet::new();
    }
    let in_place: &[bool] = match algorithm["placement"].as_str().unwrap() {
        "in_place" => &[true],
        "out_of_place" => &[false],
        "both" => &[false, true],
        other => panic!("placement {other}"),
    };
    in_place.iter().flat_map(|in_place| Placed::new(algorithm, *in_place).orders()).collect()
}

/// The ranks whose contributions an output slot holds the sum of.
struct Promise {
    rank: usize,
    chunk: u64,
    from: Vec<u64>,
}

impl Promise {
    fn listed(promise: &Value) -> Self {
        let rank = |slot: &Value| slot["rank"].as_u64().unwrap();
        let mut from: Vec<_> = promise["sum"].as_array().unwrap().iter().map(rank).collect();
        from.sort_unstable();
        let chunk = promise["index"].as_u64().unwrap();
        Self { rank: rank(promise) as usize, chunk, from }
    }
}

/// A call of an algorithm.
struct Placed<'a> {
    algorithm: &'a Value,
    kind: String,
    ranks: usize,
    chunks: u64,
    in_place: bool,
}

impl<'a> Placed<'a> {
    fn new(algorithm: &'a Value, in_place: bool) -> Self {
        let kind = &algorithm["collective"]["kind"];
        let named = || kind.as_object().and_then(|kind| kind.keys().next()).map(String::as_str);
        Self {
            algorithm,
            kind: kind.as_str().or_else(named).unwrap().to_owned(),
            ranks: algorithm["collective"]["ranks"].as_u64().unwrap() as usize,
            chunks: algorithm["collective"]["chunks"].as_u64().unwrap(),
            in_place,
        }
    }

    fn orders(&self) -> BTreeSet<String> {
        let mut run = self.start();
        while run.advance(self) {}
        assert!(run.blocks.iter().all(|block| block.done == block.steps.len()), "it hangs");
        let mut found = BTreeSet::new();
        for Promise { rank, chunk, from } in self.promises() {
            let sum = &run.memory[rank][&self.cell(rank, ("output".to_owned(), chunk))];
            let mut ranks = sum.ranks.clone();
            ranks.sort_unstable();
            assert_eq!(ranks, from, "a wrong result");
            found.insert(sum.text());
        }
        found
    }

    /// The promised sums of two contributions or more.
    fn promises(&self) -> Vec<Promise> {
        let root = self.algorithm["collective"]["kind"]["reduce"]["root"].as_u64();
        let everyone: Vec<u64> = (0..self.ranks as u64).collect();
        let mut promises: Vec<Promise> = match self.kind.as_str() {
            "custom" => {
                let contract = &self.algorithm["collective"]["kind"]["custom"]["contract"];
                contract["promised"].as_array().unwrap().iter().map(Promise::listed).collect()
            }
            "allreduce" | "reducescatter" | "reduce" => {
                let holders =
                    (0..self.ranks).filter(|&rank| root.is_none_or(|of| of == rank as u64));
                let chunks = |rank| (0..self.chunks).map(move |chunk| (rank, chunk));
                let all = holders.flat_map(chunks);
                all.map(|(rank, chunk)| Promise { rank, chunk, from: everyone.clone() }).collect()
            }
            _ => Vec::new(),
        };
        promises.retain(|promise| promise.from.len() > 1);
        promises
    }

    fn start(&self) -> Run<'a> {
        let (mut blocks, mut first, mut memory) = (Vec::new(), Vec::new(), Vec::new());
        for (rank, program) in self.algorithm["ranks"].as_array().unwrap().iter().enumerate() {
            first.push(blocks.len());
            blocks.extend(program["thread_blocks"].as_array().unwrap().iter().map(|block| Block {
                rank,
                channel: block["channel"].as_u64().unwrap(),
                steps: block["steps"].as_array().unwrap(),
                done: 0,
            }));
            let inputs = match self.kind.as_str() {
                "reducescatter" | "alltoall" | "scatter" => self.chunks * self.ranks as u64,
                "custom" => {
                    let custom = &self.algorithm["collective"]["kind"]["custom"];
                    custom["input_chunks"].as_u64().unwrap()
                }
                _ => self.chunks,
            };
            let given = (0..inputs).map(|chunk| {
                let cell = self.cell(rank, ("input".to_owned(), chunk));
                (cell, Sum::contribution(rank as u64))
            });
            memory.push(given.collect());
        }
        Run { blocks, first, memory, links: HashMap::new() }
    }

    /// Where a slot lies: in place, the output is all or a block of the input.
    fn cell(&self, rank: usize, (buffer, chunk): Slot) -> Slot {
        match (self.in_place, buffer.as_str(), self.kind.as_str()) {
            (true, "output", "reducescatter") => {
                ("input".to_owned(), rank as u64 * self.chunks + chunk)
            }
            (true, "output", _) => ("input".to_owned(), chunk),
            _ => (buffer, chunk),
        }
    }
}

impl Run<'_> {
    /// Runs every step that can run; whether any could.
    fn advance(&mut self, call: &Placed<'_>) -> bool {
        let mut advanced = false;
        for block in 0..self.blocks.len() {
            while self.can_run(block) {
                self.run(block, call);
                advanced = true;
            }
        }
        advanced
    }

    fn can_run(&self, block: usize) -> bool {
        let Block { rank, channel, steps, done } = &self.blocks[block];
        let Some(step) = steps.get(*done) else { return false };
        let waits = step["waits"].as_array().map_or(&[][..], Vec::as_slice);
        let waited = waits.iter().all(|wait| {
            let other = self.first[*rank] + wait["tb"].as_u64().unwrap() as usize;
            self.blocks[other].done as u64 > wait["step"].as_u64().unwrap()
        });
        let count = step["count"].as_u64().unwrap() as usize;
        let arrived = step["sources"].as_array().unwrap().iter().all(|source| {
            source["link"].as_u64().is_none_or(|peer| {
                let link = self.links.get(&(peer as usize, *channel, *rank));
                link.is_some_and(|link| link.len() >= count)
            })
        });
        waited && arrived
    }

    fn run(&mut self, block: usize, call: &Placed<'_>) {
        let Block { rank, channel, steps, done } = self.blocks[block];
        let step = &steps[done];
        for offset in 0..step["count"].as_u64().unwrap() {
            let places = |name: &str| step[name].as_array().unwrap().iter();
            let parts = places("sources").map(|place| match place["link"].as_u64() {
                Some(peer) => {
                    let link = (peer as usize, channel, rank);
                    self.links.get_mut(&link).unwrap().pop_front().unwrap()
                }
                None => self.memory[rank][&call.cell(rank, slot(place, offset))].clone(),
            });
            let sum = Sum::of(parts.collect());
            for place in places("destinations") {
                match place["link"].as_u64() {
                    Some(peer) => {
                        let link = (rank, channel, peer as usize);
                        self.links.entry(link).or_default().push_back(sum.clone());
                    }
                    None => {
                        let cell = call.cell(rank, slot(place, offset));
                        self.memory[rank].insert(cell, sum.clone());
                    }
                }
            }
        }
        self.blocks[block].done += 1;
    }
}

/// `{"output": 3}`, so many chunks on.
fn slot(place: &Value, offset: u64) -> Slot {
    let (buffer, chunk) = place.as_object().unwrap().iter().next().unwrap();
    (buffer.clone(), chunk.as_u64().unwrap() + offset)
}
