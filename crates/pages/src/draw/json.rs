//! Layers for programs.

use serde_json::json;

use super::layers::{Arrow, Layers, Node};

/// Rows, boxes and arrows as they are; arrows name boxes by position.
pub fn layers(layers: &Layers) -> String {
    let Layers { title, rows, boxes, arrows, captions: _ } = layers;
    let boxes: Vec<_> = boxes
        .iter()
        .map(|Node { column, row, label, detail, tone: _ }| {
            json!({ "column": column, "row": row, "label": label, "detail": detail })
        })
        .collect();
    let arrows: Vec<_> = arrows
        .iter()
        .map(|Arrow { from, to, carries_data }| {
            json!({ "from": from, "to": to, "kind": if *carries_data { "data" } else { "order" } })
        })
        .collect();
    let all = json!({ "title": title, "rows": rows, "boxes": boxes, "arrows": arrows });
    format!("{all:#}\n")
}
