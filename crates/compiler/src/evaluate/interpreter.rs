//! The evaluator's state: variables, budgets, and where in the program it is.

use msccl_collective::Rank;
use msccl_syntax::{Diagnostic, Span};
use msccl_topology::cluster::ranks::RankTopology;

use super::budget::{MAX_CALLS, MAX_DEPTH, MAX_LIST_ELEMENTS, MAX_ROUNDS, MAX_ROUNDS_AFTER_ERROR};
use super::conditions::Conditions;
use super::hints::HintTable;
use super::origins::{CallOrigins, Path};
use super::report::{Refused, Report};
use super::resolved::{Expr, Frame, Local, Program};
use super::value::Value;
use crate::chunk::{BufferId, Hints, Memory, Region};

/// What is being evaluated decides what a region is.
pub(super) enum World {
    /// The head of an algorithm: there is no memory yet.
    Head,
    /// A custom collective, whose conditions say how large its buffers are.
    Conditions(Conditions),
    /// A program over memory.
    Memory(Memory),
}

/// How the ranks are spread over nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ranks {
    pub all: u32,
    pub per_node: u32,
}

pub(super) struct Interpreter<'a> {
    pub(super) program: &'a Program,
    pub(super) report: Report,
    pub(super) world: World,
    /// Known once the head is evaluated.
    pub(super) ranks: Option<Ranks>,
    /// How they are joined; known as soon.
    pub(super) topology: Option<RankTopology>,
    /// The hints in force.
    pub(super) hints: Hints,
    pub(super) hint_table: HintTable,
    /// The calls of blocks under way.
    pub(super) path: Path,
    pub(super) origins: CallOrigins<'a>,
    /// Names of the scratch buffers made so far.
    pub(super) scratch_names: Vec<std::rc::Rc<str>>,
    /// A statement was refused: chunks it would have written may be missed later.
    pub(super) tainted: bool,
    /// Nothing more is to be evaluated.
    pub(super) stopped: bool,
    /// Buffers that [`Self::assign`](super::statement) uses again and again.
    pub(super) terms: Terms,
    stack: Vec<Value>,
    base: usize,
    callers: Vec<Span>,
    depth: usize,
    rounds_left: u64,
    elements_left: u64,
}

/// The terms of a sum of regions, and where each stands in the text.
#[derive(Default)]
pub(super) struct Terms {
    pub regions: Vec<Region>,
    pub spans: Vec<Span>,
}

impl<'a> Interpreter<'a> {
    pub fn new(program: &'a Program) -> Self {
        Self {
            program,
            report: Report::default(),
            world: World::Head,
            ranks: None,
            topology: None,
            hints: Hints::default(),
            hint_table: HintTable::default(),
            path: Path::default(),
            origins: CallOrigins::new(&program.sites, program.algorithm.name_span),
            scratch_names: Vec::new(),
            tainted: false,
            stopped: false,
            terms: Terms::default(),
            stack: Vec::new(),
            base: 0,
            callers: Vec::new(),
            depth: 0,
            rounds_left: MAX_ROUNDS,
            elements_left: MAX_LIST_ELEMENTS,
        }
    }

    // --- Errors and warnings ---------------------------------------------------------------------

    /// Notes an error, with the calls through which it was reached.
    #[cold]
    pub(super) fn error(&mut self, diagnostic: Diagnostic) -> Refused {
        let diagnostic = self.with_callers(diagnostic);
        self.rounds_left = self.rounds_left.min(MAX_ROUNDS_AFTER_ERROR);
        self.stopped |= self.report.is_full();
        self.report.error(diagnostic)
    }

    /// Notes what is no error, with the calls through which it was reached.
    #[cold]
    pub(super) fn warn(&mut self, diagnostic: Diagnostic) {
        let diagnostic = self.with_callers(diagnostic);
        self.report.warning(diagnostic);
    }

    fn with_callers(&self, mut diagnostic: Diagnostic) -> Diagnostic {
        let mut shown: Vec<Span> = Vec::new();
        for &caller in self.callers.iter().rev() {
            if shown.len() < 3 && !shown.contains(&caller) {
                shown.push(caller);
                diagnostic = diagnostic.label(caller, "called from here");
            }
        }
        diagnostic
    }

    /// The error "expected this, found that".
    #[cold]
    pub(super) fn mismatch(&mut self, span: Span, expected: &str, found: &Value) -> Refused {
        if matches!(found, Value::Poison) {
            return Refused;
        }
        let message = format!("expected {expected}, found {}", found.kind());
        self.error(Diagnostic::error(span, message))
    }

    /// Notes an error after which nothing more is evaluated.
    #[cold]
    pub(super) fn stop(&mut self, diagnostic: Diagnostic) -> Refused {
        let refused = self.error(diagnostic);
        self.stopped = true;
        refused
    }

    // --- Budgets ---------------------------------------------------------------------------------

    /// One more round of the loop at `span`, one more call or op.
    #[inline]
    pub(super) fn round(&mut self, span: Span) -> Result<(), Refused> {
        match self.rounds_left.checked_sub(1) {
            Some(left) if !self.stopped => {
                self.rounds_left = left;
                Ok(())
            }
            Some(_) => Err(Refused),
            None => Err(self.out_of_rounds(span)),
        }
    }

    /// What is left to do of loops and the like.
    pub(super) fn rounds_left(&mut self) -> &mut u64 {
        &mut self.rounds_left
    }

    #[cold]
    fn out_of_rounds(&mut self, span: Span) -> Refused {
        if !self.report.is_empty() {
            self.stopped = true;
            return Refused;
        }
        let millions = MAX_ROUNDS >> 20;
        let message = format!("the program's loops have run {millions} million rounds by here");
        let hint = "check the bounds of this loop and of those around it";
        self.stop(Diagnostic::error(span, message).hint(hint))
    }

    /// `count` more elements of lists.
    pub(super) fn elements(&mut self, count: u64, span: Span) -> Result<(), Refused> {
        match self.elements_left.checked_sub(count) {
            Some(left) => {
                self.elements_left = left;
                Ok(())
            }
            None => {
                let millions = MAX_LIST_ELEMENTS >> 20;
                let message =
                    format!("the program's lists hold more than {millions} million elements");
                let hint = "use ranges where possible: they cost nothing";
                Err(self.stop(Diagnostic::error(span, message).hint(hint)))
            }
        }
    }

    /// Goes one level deeper for the time of `body`.
    #[inline]
    pub(super) fn deeper<T>(
        &mut self,
        span: Span,
        body: impl FnOnce(&mut Self) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        self.deeper_by(1, span, body)
    }

    /// Goes several levels deeper for the time of `body`.
    #[inline]
    pub(super) fn deeper_by<T>(
        &mut self,
        levels: usize,
        span: Span,
        body: impl FnOnce(&mut Self) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let depth = self.depth;
        if depth + levels > MAX_DEPTH {
            return Err(self.too_deep(span));
        }
        self.depth = depth + levels;
        let result = body(self);
        self.depth = depth;
        result
    }

    #[cold]
    fn too_deep(&mut self, span: Span) -> Refused {
        let message = format!("calls and expressions nest more than {MAX_DEPTH} deep here");
        let hint = "write the recursion as a loop";
        self.stop(Diagnostic::error(span, message).hint(hint))
    }

    // --- Variables -------------------------------------------------------------------------------

    #[inline]
    pub(super) fn local(&self, Local(number): Local) -> &Value {
        &self.stack[self.base + number as usize]
    }

    #[inline]
    pub(super) fn bind(&mut self, Local(number): Local, value: Value) {
        self.stack[self.base + number as usize] = value;
    }

    /// Makes a frame of fresh variables for the time of `body`.
    pub(super) fn in_frame<T>(&mut self, frame: &Frame, body: impl FnOnce(&mut Self) -> T) -> T {
        let (base, length) = (self.base, self.stack.len());
        self.base = length;
        self.stack.resize(length + frame.locals as usize, Value::Poison);
        let result = body(self);
        self.stack.truncate(length);
        self.base = base;
        result
    }

    /// Evaluates arguments here, then runs `body` in the callee's frame, its parameters bound.
    pub(super) fn call<T>(
        &mut self,
        frame: &'a Frame,
        args: &'a [Expr],
        span: Span,
        body: impl FnOnce(&mut Self) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        self.round(span)?;
        if self.callers.len() >= MAX_CALLS {
            let message = format!("functions call one another more than {MAX_CALLS} deep here");
            let hint = "does the recursion end?";
            return Err(self.stop(Diagnostic::error(span, message).hint(hint)));
        }
        let (base, length) = (self.base, self.stack.len());
        let result = self.push_args(args).and_then(|()| {
            self.base = length;
            self.stack.resize(length + frame.locals as usize, Value::Poison);
            self.callers.push(span);
            let result = self.bind_defaults(frame, args.len()).and_then(|()| body(self));
            self.callers.pop();
            result
        });
        self.stack.truncate(length);
        self.base = base;
        result
    }

    fn push_args(&mut self, args: &'a [Expr]) -> Result<(), Refused> {
        for arg in args {
            let value = self.value(arg)?;
            self.stack.push(value);
        }
        Ok(())
    }

    fn bind_defaults(&mut self, frame: &'a Frame, given: usize) -> Result<(), Refused> {
        for (position, param) in frame.params.iter().enumerate().skip(given) {
            if let Some(default) = &param.default {
                let value = self.value(default)?;
                self.bind(Local(position as u32), value);
            }
        }
        Ok(())
    }

    // --- Buffers and ranks -----------------------------------------------------------------------

    /// The rank an expression denotes.
    pub(super) fn rank(&mut self, expr: &'a Expr) -> Result<Rank, Refused> {
        let value = self.int(expr)?;
        let ranks = self.ranks(expr.span)?;
        match u32::try_from(value) {
            Ok(rank) if rank < ranks.all => Ok(Rank(rank)),
            _ => Err(self.rank_outside(value, ranks.all, expr.span)),
        }
    }

    #[cold]
    fn rank_outside(&mut self, value: i64, all: u32, span: Span) -> Refused {
        let message = format!("there is no rank {value}");
        let diagnostic = Diagnostic::error(span, message)
            .saying(format!("{all} ranks take part, 0 to {}", all - 1));
        self.error(match value {
            value if value == i64::from(all) || value < 0 => {
                diagnostic.hint("to go round in a ring, take the remainder: `(r + 1) % N`")
            }
            _ => diagnostic,
        })
    }

    /// How many ranks there are.
    pub(super) fn ranks(&mut self, span: Span) -> Result<Ranks, Refused> {
        match self.ranks {
            Some(ranks) => Ok(ranks),
            None => {
                let message = "the number of ranks is not known yet here";
                let hint = "put the `ranks` and `per_node` parameters first";
                Err(self.error(Diagnostic::error(span, message).hint(hint)))
            }
        }
    }

    /// The name a buffer has in the program.
    pub(super) fn buffer_name(&self, buffer: BufferId) -> &str {
        match buffer {
            BufferId::INPUT => "input",
            BufferId::OUTPUT => "output",
            BufferId(number) => {
                self.scratch_names.get(number as usize - 2).map_or("scratch", |name| name)
            }
        }
    }

    /// A region as the program would write it: `input@3[4..8]`.
    pub(super) fn region_name(&self, region: Region) -> String {
        let Region { buffer, rank, start, count } = region;
        let name = self.buffer_name(buffer);
        match count {
            1 => format!("{name}@{}[{start}]", rank.0),
            _ => format!("{name}@{}[{start}..{}]", rank.0, u64::from(start) + u64::from(count)),
        }
    }
}
