//! Boxes in columns and rows, joined by arrows: the one shape in which DAGs and schedules are
//! drawn.

/// A picture of a DAG: columns are logical time, rows are ranks or thread blocks.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    /// What the picture shows.
    pub title: String,
    /// What stands left of each row, from the top.
    pub rows: Vec<String>,
    /// The boxes.
    pub boxes: Vec<Node>,
    /// The arrows between boxes.
    pub arrows: Vec<Arrow>,
    /// What stands below, line by line: what is abbreviated above.
    pub captions: Vec<String>,
}

/// A box.
#[derive(Clone, Debug)]
pub struct Node {
    /// Logical time.
    pub column: u32,
    /// Index into [`Layers::rows`].
    pub row: u32,
    /// What stands in it; short.
    pub label: String,
    /// All there is to say, shown on hovering.
    pub detail: String,
    /// How it is painted.
    pub tone: Tone,
}

/// From one box to another, by their indices.
#[derive(Clone, Copy, Debug)]
pub struct Arrow {
    /// Where it starts.
    pub from: usize,
    /// Where it ends.
    pub to: usize,
    /// Whether data travels along it, or only order.
    pub carries_data: bool,
}

/// The nature of what a box does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tone {
    /// Copies.
    Copy,
    /// Reduces.
    Reduce,
    /// Sends.
    Send,
    /// Receives.
    Receive,
    /// Receives and sends.
    Pass,
    /// Waits.
    Wait,
}

impl Tone {
    /// Its color, light enough for black text.
    pub fn color(self) -> &'static str {
        match self {
            Tone::Copy => "#dbe7f5",
            Tone::Reduce => "#fbe3b8",
            Tone::Send => "#d3efd7",
            Tone::Receive => "#e5daf3",
            Tone::Pass => "#f7d4cf",
            Tone::Wait => "#e6e6e6",
        }
    }
}

/// More boxes than this are not readable.
pub const MOST_BOXES: usize = 20_000;

impl Layers {
    /// Columns in use.
    pub fn columns(&self) -> u32 {
        self.boxes.iter().map(|node| node.column + 1).max().unwrap_or(0)
    }

    /// How many boxes share each cell, at most, by row: how high the row must be.
    pub fn row_heights(&self) -> Vec<u32> {
        let mut heights = vec![1; self.rows.len()];
        for (node, place) in self.boxes.iter().zip(self.places()) {
            let height = &mut heights[node.row as usize];
            *height = (*height).max(place + 1);
        }
        heights
    }

    /// The position of every box among those of its own cell.
    pub fn places(&self) -> Vec<u32> {
        let mut taken = std::collections::BTreeMap::new();
        let place = |node: &Node| {
            let next = taken.entry((node.row, node.column)).or_insert(0);
            let place = *next;
            *next += 1;
            place
        };
        self.boxes.iter().map(place).collect()
    }
}
