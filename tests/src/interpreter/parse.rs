//! What the interpreters' parsers make of a file, for one rank.

use std::collections::BTreeMap;

use msccl_collective::{Buffer, Protocol};

use super::{COUNT_END, Interpreter, REDUCE_FUSION};

/// Elements that the parser has room for; the tag after the last one is looked for there, too.
const NODES: usize = 1 << 12;

/// Children that an element has room for.
const CHILDREN: usize = 1024;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Send,
    Recv,
    RecvCopySend,
    RecvReduceSend,
    RecvReduceCopy,
    RecvReduceCopySend,
    Copy,
    Reduce,
}

impl Kind {
    pub fn sends(self) -> bool {
        match self {
            Kind::Send | Kind::RecvCopySend | Kind::RecvReduceSend | Kind::RecvReduceCopySend => {
                true
            }
            Kind::Recv | Kind::RecvReduceCopy | Kind::Copy | Kind::Reduce => false,
        }
    }

    pub fn receives(self) -> bool {
        match self {
            Kind::Send | Kind::Copy | Kind::Reduce => false,
            Kind::Recv
            | Kind::RecvCopySend
            | Kind::RecvReduceSend
            | Kind::RecvReduceCopy
            | Kind::RecvReduceCopySend => true,
        }
    }

    pub fn reads(self) -> bool {
        match self {
            Kind::Recv | Kind::RecvCopySend => false,
            Kind::Send
            | Kind::RecvReduceSend
            | Kind::RecvReduceCopy
            | Kind::RecvReduceCopySend
            | Kind::Copy
            | Kind::Reduce => true,
        }
    }

    pub fn writes(self) -> bool {
        match self {
            Kind::Send | Kind::RecvReduceSend => false,
            Kind::Recv
            | Kind::RecvCopySend
            | Kind::RecvReduceCopy
            | Kind::RecvReduceCopySend
            | Kind::Copy
            | Kind::Reduce => true,
        }
    }
}

/// What a step, or a chain of them, has become.
#[derive(Clone, Debug)]
pub struct Transfer {
    pub kind: Kind,
    pub src: (Buffer, i64),
    pub dst: (Buffer, i64),
    pub count: i64,
    /// First and number of what it waits for.
    pub dependences: (usize, usize),
    pub signals: bool,
    /// First and number of its reductions.
    pub reductions: (usize, usize),
}

#[derive(Clone, Debug, Default)]
pub struct Block {
    pub send: i64,
    pub receive: i64,
    pub channel: i64,
    pub transfers: Vec<Transfer>,
    /// Thread block, as 8 bits with a sign, and step.
    pub dependences: Vec<(i8, i64)>,
    pub reduction_sources: Vec<i64>,
}

/// The program of one rank.
#[derive(Clone, Debug)]
pub struct Program {
    pub name: String,
    pub collective: String,
    pub protocol: Protocol,
    pub loop_chunks: u64,
    pub threads: u64,
    pub blocks: Vec<Block>,
}

type Attributes<'a> = BTreeMap<&'a str, &'a str>;

fn element(line: &str) -> Option<(&str, Attributes<'_>)> {
    let line = line.trim().strip_prefix('<')?;
    let (name, mut rest) = line.split_once([' ', '>', '/'])?;
    let mut attributes = Attributes::new();
    while let Some((key, after)) = rest.split_once("=\"") {
        let (value, after) = after.split_once('"')?;
        attributes.insert(key.trim(), value);
        rest = after;
    }
    (!name.is_empty()).then_some((name, attributes))
}

fn number(attributes: &Attributes<'_>, name: &str) -> Result<i64, String> {
    let value = attributes.get(name).ok_or_else(|| format!("no {name}"))?;
    value.parse().map_err(|_| format!("{name} is {value}"))
}

fn buffer(attributes: &Attributes<'_>, name: &str) -> Result<Buffer, String> {
    match attributes.get(name).copied() {
        Some("i") => Ok(Buffer::Input),
        Some("o") => Ok(Buffer::Output),
        Some("s") => Ok(Buffer::Scratch),
        other => Err(format!("{name} is {other:?}")),
    }
}

/// Reads the program of `rank`; the reason why the file is not loaded otherwise.
pub fn parse(interpreter: Interpreter, text: &str, rank: i64) -> Result<Program, String> {
    let mut lines = text.lines();
    let head = lines.find_map(element).filter(|(name, _)| *name == "algo");
    let (_, head) = head.ok_or("no algo")?;
    let mut program = Program {
        name: head.get("name").copied().unwrap_or_default().to_owned(),
        collective: head.get("coll").copied().unwrap_or_default().to_owned(),
        protocol: match head.get("proto").copied() {
            Some("Simple") => Protocol::Simple,
            Some("LL") => Protocol::Ll,
            Some("LL128") => Protocol::Ll128,
            other => return Err(format!("proto is {other:?}")),
        },
        loop_chunks: number(&head, "nchunksperloop")? as u64,
        threads: match head.contains_key("nthreads") {
            true => number(&head, "nthreads")? as u64,
            false => 0,
        },
        blocks: Vec::new(),
    };
    if !program.threads.is_multiple_of(32) {
        return Err("threads are no warps".to_owned());
    }
    let (mut nodes, mut gpus, mut is_own) = (1, 0, false);
    let mut block: Option<Parsing> = None;
    for (name, attributes) in lines.filter_map(element) {
        match name {
            "gpu" => {
                (nodes, gpus) = (nodes + 1, gpus + 1);
                is_own = number(&attributes, "id")? == rank;
            }
            "tb" if is_own => {
                nodes += 1;
                program.blocks.extend(block.take().map(|parsing| parsing.block));
                block = Some(Parsing::new(interpreter, &attributes, program.blocks.len())?);
            }
            "step" if is_own => {
                nodes += 1;
                block.as_mut().ok_or("no tb")?.step(interpreter, &attributes)?;
            }
            _ => {}
        }
    }
    program.blocks.extend(block.map(|parsing| parsing.block));
    if nodes >= NODES || gpus > CHILDREN {
        return Err(format!("{nodes} elements, {gpus} gpus"));
    }
    Ok(program)
}

/// A thread block under way.
struct Parsing {
    block: Block,
    steps: usize,
    first_dependence: usize,
    /// Destination and source buffer of the `re` that the next one may continue; the number of all.
    chain: Option<((Buffer, i64), Buffer)>,
}

impl Parsing {
    fn new(
        interpreter: Interpreter,
        attributes: &Attributes<'_>,
        position: usize,
    ) -> Result<Self, String> {
        let id = number(attributes, "id")?;
        if id != position as i64 || id >= interpreter.blocks() {
            return Err(format!("tb {id}"));
        }
        let block = Block {
            send: number(attributes, "send")?,
            receive: number(attributes, "recv")?,
            channel: number(attributes, "chan")?,
            ..Block::default()
        };
        Ok(Self { block, steps: 0, first_dependence: 0, chain: None })
    }

    fn step(
        &mut self,
        interpreter: Interpreter,
        attributes: &Attributes<'_>,
    ) -> Result<(), String> {
        if number(attributes, "s")? >= interpreter.steps() || self.steps >= CHILDREN {
            return Err("too many steps".to_owned());
        }
        self.steps += 1;
        let kind = match attributes.get("type").copied() {
            Some("s") => Some(Kind::Send),
            Some("r") => Some(Kind::Recv),
            Some("rcs") => Some(Kind::RecvCopySend),
            Some("rrs") => Some(Kind::RecvReduceSend),
            Some("rrc") => Some(Kind::RecvReduceCopy),
            Some("rrcs") => Some(Kind::RecvReduceCopySend),
            Some("cpy") => Some(Kind::Copy),
            Some("re") => Some(Kind::Reduce),
            Some("nop") => None,
            other => return Err(format!("type is {other:?}")),
        };
        let waits_for = number(attributes, "depid")?;
        if waits_for >= 0 {
            self.block.dependences.push((waits_for as i8, number(attributes, "deps")?));
        }
        let src = (buffer(attributes, "srcbuf")?, number(attributes, "srcoff")?);
        let dst = (buffer(attributes, "dstbuf")?, number(attributes, "dstoff")?);
        let Some(kind) = kind else { return Ok(()) };
        let count = number(attributes, "cnt")?;
        if !(0..COUNT_END).contains(&count) {
            return Err(format!("cnt is {count}"));
        }
        let signals = number(attributes, "hasdep")? == 1;
        let continues = kind == Kind::Reduce && self.chain == Some((dst, src.0)) && waits_for == -1;
        if !continues {
            let dependences = self.block.dependences.len() - self.first_dependence;
            if dependences > 0 && waits_for < 0 {
                return Err("a chain of dependences".to_owned());
            }
            let dependences = (self.first_dependence, dependences);
            self.first_dependence = self.block.dependences.len();
            let reductions = (self.block.reduction_sources.len(), 0);
            self.block.transfers.push(Transfer {
                kind,
                src,
                dst,
                count,
                dependences,
                signals,
                reductions,
            });
        }
        let transfer = self.block.transfers.last_mut().ok_or("no transfer")?;
        // The last step of a chain gives all but what is waited for.
        (transfer.src, transfer.count, transfer.signals) = (src, count, signals);
        self.chain = None;
        if kind == Kind::Reduce {
            self.block.reduction_sources.push(src.1);
            transfer.reductions.1 = self.block.reduction_sources.len() - transfer.reductions.0;
            let is_full = self.block.reduction_sources.len() == REDUCE_FUSION;
            self.chain = Some((dst, src.0)).filter(|_| !signals && !is_full);
        }
        Ok(())
    }
}
