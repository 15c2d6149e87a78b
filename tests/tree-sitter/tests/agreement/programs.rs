//! Programs at random, token by token.

/// Numbers that look random, the same in every run.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }

    fn of(&mut self, all: &[&str]) -> String {
        all[self.roll(all.len())].to_owned()
    }
}

/// A program of some definitions.
pub fn program(dice: &mut Dice) -> String {
    let mut parts: Vec<_> = (0..dice.roll(3)).map(|_| import(dice)).collect();
    parts.extend((0..1 + dice.roll(3)).map(|_| item(dice)).collect::<Vec<_>>());
    parts.join("\n")
}

/// The same text with a token left out, doubled, or replaced.
pub fn broken(text: &str, dice: &mut Dice) -> String {
    let tokens: Vec<_> = text.split_inclusive(' ').collect();
    let at = dice.roll(tokens.len());
    let new = match dice.roll(3) {
        0 => String::new(),
        1 => tokens[at].repeat(2),
        _ => dice.of(&["for ", "= ", ") ", "] ", "{ ", "x ", "1 ", ".. ", ", ", "on ", "@ "]),
    };
    let mut tokens: Vec<_> = tokens.into_iter().map(str::to_owned).collect();
    tokens[at] = new;
    tokens.concat()
}

fn name(dice: &mut Dice) -> String {
    dice.of(&["a", "N", "chunks", "tb", "root", "send", "order", "ranks", "bytes", "_x1"])
}

fn import(dice: &mut Dice) -> String {
    dice.of(&["import ring", "import \"a.msccl\""])
}

fn item(dice: &mut Dice) -> String {
    match dice.roll(4) {
        1 => format!("fn {} ( {} ) = {}", name(dice), params(dice), expr(dice, 3)),
        2 => format!("fn {} ( {} ) {}", name(dice), params(dice), block(dice, 2)),
        _ => {
            let clauses = clauses(dice);
            let (name, label, value) = (name(dice), name(dice), expr(dice, 1));
            let head = format!("algorithm {name} ( ranks N = 4 , C = 1 ) implements allreduce");
            format!("{head} ( {label} {value} ) {clauses} {}", block(dice, 3))
        }
    }
}

fn params(dice: &mut Dice) -> String {
    let count = dice.roll(4);
    let one = |dice: &mut Dice| match dice.roll(3) {
        0 => format!("{} = {}", name(dice), expr(dice, 1)),
        _ => name(dice),
    };
    (0..count).map(|_| one(dice)).collect::<Vec<_>>().join(" , ")
}

fn clauses(dice: &mut Dice) -> String {
    let all = ["in place ", "protocol LL ", "instances 2 * N ", "interleaved 2 "];
    let more = ["bytes 0 .. 64KiB ", "threads 512 ", "order flat ", "bytes 1 + 2 .. "];
    let all: Vec<_> = all.into_iter().chain(more).collect();
    (0..dice.roll(3)).map(|_| dice.of(&all)).collect()
}

fn block(dice: &mut Dice, depth: usize) -> String {
    let count = dice.roll(4);
    let statements: Vec<_> = (0..count).map(|_| statement(dice, depth)).collect();
    format!("{{ {} }}", statements.join("\n"))
}

fn statement(dice: &mut Dice, depth: usize) -> String {
    let kind = if depth == 0 { 4 + dice.roll(6) } else { dice.roll(10) };
    let deeper = depth.saturating_sub(1);
    match kind {
        0 => format!("for {} {}", binders(dice), block(dice, deeper)),
        1 => format!("for {} {} {}", binders(dice), hints(dice), block(dice, deeper)),
        2 => {
            let rest = match dice.roll(3) {
                0 => String::new(),
                1 => format!(" else {}", block(dice, deeper)),
                _ => format!(" else if {} {}", expr(dice, 1), block(dice, deeper)),
            };
            format!("if {} {}{rest}", expr(dice, 2), block(dice, deeper))
        }
        3 => format!("{} {}", hints(dice), block(dice, deeper)),
        4 => format!("let {} = {}", name(dice), expr(dice, 2)),
        5 => format!("scratch {} [ {} ]", name(dice), expr(dice, 1)),
        6 => format!("require {} , \"a // b\"", expr(dice, 2)),
        7 => format!("{} ( {} )", name(dice), list(dice, 2)),
        _ => {
            let sign = dice.of(&["=", "+="]);
            let hints = if dice.roll(3) == 0 { hints(dice) } else { String::new() };
            format!("{} {sign} {} {hints}", place(dice), expr(dice, 2))
        }
    }
}

fn place(dice: &mut Dice) -> String {
    let buffer = dice.of(&["input", "output", "box", "f ( a )"]);
    match dice.roll(4) {
        0 => buffer,
        1 => format!("{buffer} @ {}", rank(dice)),
        2 => format!("{buffer} @ {} [ {} ]", rank(dice), expr(dice, 1)),
        _ => format!("{buffer} [ {} ] [ {} ]", expr(dice, 1), expr(dice, 0)),
    }
}

fn rank(dice: &mut Dice) -> String {
    match dice.roll(3) {
        0 => "3".to_owned(),
        1 => name(dice),
        _ => format!("( {} )", expr(dice, 1)),
    }
}

fn binders(dice: &mut Dice) -> String {
    let pattern = |dice: &mut Dice| match dice.roll(4) {
        0 => "[ a , b ]".to_owned(),
        _ => name(dice),
    };
    let count = 1 + dice.roll(2);
    let all: Vec<_> =
        (0..count).map(|_| format!("{} in {}", pattern(dice), operation(dice, 1))).collect();
    let filter = if dice.roll(3) == 0 { format!(" if {}", expr(dice, 1)) } else { String::new() };
    format!("{}{filter}", all.join(" , "))
}

fn hints(dice: &mut Dice) -> String {
    let one = |dice: &mut Dice| {
        let kind = dice.of(&["channel", "tb", "send tb", "receive tb"]);
        format!("{kind} {}", operation(dice, 1))
    };
    let count = 1 + dice.roll(2);
    let all: Vec<_> = (0..count).map(|_| one(dice)).collect();
    format!("on {}", all.join(" , "))
}

fn list(dice: &mut Dice, depth: usize) -> String {
    let count = dice.roll(3);
    (0..count).map(|_| expr(dice, depth.saturating_sub(1))).collect::<Vec<_>>().join(" , ")
}

fn expr(dice: &mut Dice, depth: usize) -> String {
    if depth > 0 && dice.roll(8) == 0 {
        let part = |dice: &mut Dice| operation(dice, depth - 1);
        let (c, a, b) = (part(dice), part(dice), expr(dice, depth - 1));
        return format!("if {c} then {a} else {b}");
    }
    operation(dice, depth)
}

fn operation(dice: &mut Dice, depth: usize) -> String {
    let mut text = operand(dice, depth);
    if depth == 0 {
        return text;
    }
    // One comparison and one range at most: they do not chain.
    match dice.roll(6) {
        0 => text = format!("not {text} == {}", operand(dice, depth - 1)),
        1 => text = format!("{text} .. {}", operand(dice, depth - 1)),
        2 => text = format!("{text} .. {} by 2", operand(dice, depth - 1)),
        _ => {
            for _ in 0..dice.roll(3) {
                let sign = dice.of(&["+", "-", "*", "/", "%", "**", "|", "^", "&", "<<", ">>"]);
                text = format!("{text} {sign} {}", operand(dice, depth - 1));
            }
        }
    }
    match dice.roll(8) {
        0 => format!("{text} and not {}", operand(dice, depth - 1)),
        1 => format!("{text} or {}", operand(dice, depth - 1)),
        _ => text,
    }
}

fn operand(dice: &mut Dice, depth: usize) -> String {
    let leaf = dice.of(&["0", "1_000", "64KiB", "true", "\"x\"", "input", "output @ 3", "a [ 0 ]"]);
    let kind = if depth == 0 { dice.roll(3) } else { dice.roll(8) };
    match kind {
        0 => leaf,
        1 => name(dice),
        2 => format!("- {}", name(dice)),
        3 => format!("( {} )", expr(dice, depth - 1)),
        4 => format!("[ {} ]", list(dice, depth)),
        5 => format!("{} ( {} )", name(dice), list(dice, depth)),
        6 => format!("sum ( {} : {} )", binders(dice), expr(dice, depth - 1)),
        _ => format!("[ {} : {} ]", binders(dice), expr(dice, depth - 1)),
    }
}
