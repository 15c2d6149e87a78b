//! The XML Schema of each dialect, from the tables that reader and writer use.
//!
//! The schema is as strict as the interpreters: it asks for every attribute that they demand, and
//! knows none that they ignore, apart from those which we write for our own reader. It says
//! nothing about limits, and nothing that needs a look at two elements.

use std::fmt::Write;

use super::Dialect;
use super::vocabulary::{
    Attribute, CONTRACT, Domain, NAME_BYTES, Need, algo, collectives, given, gpu, promise, step, tb,
};

/// The XML Schema of `dialect`, as committed in `ir-schemas`.
pub fn schema(dialect: Dialect) -> String {
    let mut out = Schema { text: String::new(), dialect };
    out.line(0, "<xs:schema xmlns:xs=\"http://www.w3.org/2001/XMLSchema\">");
    out.line(1, "<xs:annotation>");
    let note = format!("MSCCL XML in the dialect `{dialect}`; see docs/XML.md.");
    out.line(2, &format!("<xs:documentation>{note}</xs:documentation>"));
    out.line(1, "</xs:annotation>");
    out.line(1, "<xs:element name=\"algo\" type=\"algo\"/>");
    let contract: &[Child] =
        if dialect == Dialect::Msccl { &[("contract", "0", "1")] } else { &[] };
    let children = [&[("gpu", "1", "unbounded")], contract].concat();
    out.complex_type(algo::NAME, &children, &algo::TABLE);
    out.complex_type(gpu::NAME, &[("tb", "0", "unbounded")], &gpu::TABLE);
    out.complex_type(tb::NAME, &[("step", "0", "unbounded")], &tb::TABLE);
    out.complex_type(step::NAME, &[], &step::TABLE);
    if dialect == Dialect::Msccl {
        let clauses = [("given", "0", "unbounded"), ("promise", "0", "unbounded")];
        out.complex_type(CONTRACT, &clauses, &[]);
        out.complex_type(given::NAME, &[], &given::TABLE);
        out.complex_type(promise::NAME, &[], &promise::TABLE);
    }
    out.line(0, "</xs:schema>");
    out.text
}

/// An element's name, and how often it may occur at least and at most.
type Child = (&'static str, &'static str, &'static str);

struct Schema {
    text: String,
    dialect: Dialect,
}

impl Schema {
    fn line(&mut self, depth: usize, line: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{:1$}{line}", "", 2 * depth);
    }

    fn complex_type(&mut self, name: &str, children: &[Child], attributes: &[Attribute]) {
        self.line(1, &format!("<xs:complexType name=\"{name}\">"));
        if !children.is_empty() {
            self.line(2, "<xs:sequence>");
            for (child, least, most) in children {
                self.line(
                    3,
                    &format!(
                        "<xs:element name=\"{child}\" type=\"{child}\" minOccurs=\"{least}\" \
                         maxOccurs=\"{most}\"/>"
                    ),
                );
            }
            self.line(2, "</xs:sequence>");
        }
        for attribute in attributes {
            match attribute.need(self.dialect) {
                Need::Required => self.attribute(attribute, "required"),
                Need::Optional => self.attribute(attribute, "optional"),
                Need::Absent => {}
            }
        }
        self.line(1, "</xs:complexType>");
    }

    fn attribute(&mut self, attribute: &Attribute, usage: &str) {
        let name = attribute.name;
        self.line(2, &format!("<xs:attribute name=\"{name}\" use=\"{usage}\">"));
        self.line(3, "<xs:simpleType>");
        match attribute.domain {
            Domain::Integer(least, most) => self.restriction(
                "xs:long",
                &[("minInclusive", least.to_string()), ("maxInclusive", most.to_string())],
            ),
            Domain::Name => self.restriction(
                "xs:string",
                &[
                    ("maxLength", NAME_BYTES.to_string()),
                    ("pattern", "[^&quot;'&lt;&gt;&amp;]*".to_owned()),
                ],
            ),
            Domain::OneOf(words) => self.words(words),
            Domain::Collective => self.words(collectives(self.dialect)),
        }
        self.line(3, "</xs:simpleType>");
        self.line(2, "</xs:attribute>");
    }

    fn words(&mut self, words: &[&str]) {
        let facets: Vec<_> = words.iter().map(|&word| ("enumeration", word.to_owned())).collect();
        self.restriction("xs:string", &facets);
    }

    fn restriction(&mut self, base: &str, facets: &[(&str, String)]) {
        self.line(4, &format!("<xs:restriction base=\"{base}\">"));
        for (facet, value) in facets {
            self.line(5, &format!("<xs:{facet} value=\"{value}\"/>"));
        }
        self.line(4, "</xs:restriction>");
    }
}
