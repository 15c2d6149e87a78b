//! The JSON Schema of the format.

use schemars::generate::SchemaSettings;

use super::wire;

type Whole = wire::Algorithm<Vec<wire::Rank<Vec<wire::ThreadBlock<Vec<wire::Step>>>>>>;

/// The JSON Schema (draft 2020-12) of the format, as committed in
/// `ir-schemas/msccl-ir.schema.json`.
pub fn schema() -> String {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<Whole>();
    schema.insert("title".to_owned(), "MSCCL algorithm".into());
    format!("{:#}\n", schema.as_value())
}
