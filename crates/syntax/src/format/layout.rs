//! From a row of pieces to lines of at most 100 columns.
//!
//! A *group* stays on one line if it fits; otherwise its own breaks become line breaks, and the
//! groups inside are tried one by one. Line breaks and spaces are written only when something
//! follows them, so no line ends in a blank, and a comment can still join the line before.

/// The widest line that breaks can achieve.
const WIDTH: usize = 100;

const INDENT: usize = 4;

/// What a layout is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Piece<'t> {
    /// A token.
    Text(&'t str),
    /// A space.
    Space,
    /// Starts a group.
    Open,
    /// Ends a group.
    Close,
    /// Lines that start from here on are indented one step more.
    Indent,
    /// One step less.
    Dedent,
    /// A line break if the group is broken, else nothing.
    Soft,
    /// A line break if the group is broken, else a space.
    SoftSpace,
    /// A line break if the group is broken and what follows, up to the next break, does not fit
    /// into this line; else a space.
    Fill,
    /// A line break.
    Line,
    /// An empty line.
    Blank,
    /// A comment at the end of the line of what it follows; breaks the groups around it.
    Trailing(&'t str),
    /// A comment on a line of its own; breaks the groups around it.
    OwnLine(&'t str),
}

/// Lays out the pieces; ends with a newline unless there are none.
pub(super) fn lay_out(pieces: &[Piece<'_>]) -> String {
    let mut layout = Layout { pieces, out: String::new(), column: 0, indent: 0, gap: Gap::None };
    let mut broken = Vec::new();
    for (index, piece) in pieces.iter().enumerate() {
        layout.piece(index, *piece, &mut broken);
    }
    if !layout.out.is_empty() {
        layout.out.push('\n');
    }
    layout.out
}

struct Layout<'t> {
    pieces: &'t [Piece<'t>],
    out: String,
    column: usize,
    indent: usize,
    gap: Gap,
}

/// What to write before the next text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Gap {
    None,
    Space,
    Line,
    Blank,
}

impl<'t> Layout<'t> {
    /// Writes one piece; `broken` says of each open group whether it is broken.
    fn piece(&mut self, index: usize, piece: Piece<'t>, broken: &mut Vec<bool>) {
        let is_broken = broken.last().copied().unwrap_or(true);
        match piece {
            Piece::Text(text) => self.text(text),
            Piece::Space => self.widen(Gap::Space),
            Piece::Open => broken.push(is_broken && !self.fits(index + 1)),
            Piece::Close => {
                broken.pop();
            }
            Piece::Indent => self.indent += 1,
            Piece::Dedent => self.indent = self.indent.saturating_sub(1),
            Piece::Soft if is_broken => self.widen(Gap::Line),
            Piece::Soft => {}
            Piece::SoftSpace if is_broken => self.widen(Gap::Line),
            Piece::Fill if is_broken && !self.fits(index + 1) => self.widen(Gap::Line),
            Piece::SoftSpace | Piece::Fill => self.widen(Gap::Space),
            Piece::Line => self.widen(Gap::Line),
            Piece::Blank => self.widen(Gap::Blank),
            Piece::Trailing(comment) => {
                // What gap there is comes after the comment.
                let gap = std::mem::replace(&mut self.gap, Gap::Space);
                self.text(comment);
                self.gap = gap.max(Gap::Line);
            }
            Piece::OwnLine(comment) => {
                self.widen(Gap::Line);
                self.text(comment);
                self.gap = Gap::Line;
            }
        }
    }

    fn widen(&mut self, gap: Gap) {
        self.gap = self.gap.max(gap);
    }

    fn text(&mut self, text: &str) {
        let gap = std::mem::replace(&mut self.gap, Gap::None);
        match gap {
            _ if self.out.is_empty() => {}
            Gap::None => {}
            Gap::Space => {
                self.out.push(' ');
                self.column += 1;
            }
            Gap::Line => self.new_line("\n"),
            Gap::Blank => self.new_line("\n\n"),
        }
        self.out.push_str(text);
        self.column += text.chars().count();
    }

    fn new_line(&mut self, newlines: &str) {
        self.out.push_str(newlines);
        self.column = self.indent * INDENT;
        self.out.extend(std::iter::repeat_n(' ', self.column));
    }

    /// Whether everything up to the end of the group and then to the next break, or up to the next
    /// break of this group if it is being filled, fits into the line. Looks at a line's width at
    /// most.
    fn fits(&self, from: usize) -> bool {
        let is_filling = from > 0 && self.pieces.get(from - 1) == Some(&Piece::Fill);
        let mut column = match self.gap {
            Gap::None => self.column,
            Gap::Space => self.column + 1,
            Gap::Line | Gap::Blank => self.indent * INDENT,
        } + usize::from(is_filling);
        let mut depth = usize::from(!is_filling);
        let mut is_past = false;
        for piece in &self.pieces[from..] {
            match piece {
                Piece::Text(text) => column += text.chars().count(),
                Piece::Open => depth += 1,
                Piece::Close => {
                    depth = depth.saturating_sub(1);
                    is_past |= depth == 0;
                }
                Piece::Soft | Piece::SoftSpace | Piece::Fill if is_past || depth == 0 => {
                    return true;
                }
                Piece::Space | Piece::SoftSpace | Piece::Fill => column += 1,
                Piece::Soft | Piece::Indent | Piece::Dedent => {}
                Piece::Line | Piece::Blank | Piece::Trailing(_) | Piece::OwnLine(_) => {
                    return depth == 0;
                }
            }
            if column > WIDTH {
                return false;
            }
        }
        true
    }
}
