//! Layers for Graphviz.

use std::fmt::Write;

use super::layers::{Arrow, Layers, Node};

/// The layers as a directed graph, one cluster for each row.
pub fn layers(layers: &Layers) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(text, "digraph {} {{", quoted(&layers.title));
    text.push_str("  rankdir=LR; node [shape=box, style=filled, fontname=monospace];\n");
    for (row, name) in layers.rows.iter().enumerate() {
        let _ = writeln!(text, "  subgraph cluster_{row} {{ label={};", quoted(name));
        let here = layers.boxes.iter().enumerate().filter(|(_, node)| node.row as usize == row);
        for (id, Node { column: _, row: _, label, detail, tone }) in here {
            let (label, detail, color) = (quoted(label), quoted(detail), tone.color());
            let _ = writeln!(
                text,
                "    n{id} [label={label}, tooltip={detail}, fillcolor=\"{color}\"];"
            );
        }
        text.push_str("  }\n");
    }
    for Arrow { from, to, carries_data } in &layers.arrows {
        let style = if *carries_data { "" } else { " [style=dashed]" };
        let _ = writeln!(text, "  n{from} -> n{to}{style};");
    }
    text.push_str("}\n");
    text
}

/// A string as Graphviz reads it.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
