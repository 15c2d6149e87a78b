//! Bills of materials, as CycloneDX 1.6 in JSON: for each thing that is given to users, the packages that are linked into
//! it on Linux on x86-64, with their licences and the hashes of their archives.
//!
//! The same sources give the same text: there are no times and no random numbers in it. What only builds or tests it is not
//! in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;
use serde_json::{Value, json};

use super::lock::{self, Package};
use super::root;

/// What is given to users: the file, the package it is made from, the folder with its manifest, and what it is.
const PRODUCTS: [Product; 4] = [
    Product { file: "libnccl.so.2", package: "msccl-nccl", folder: ".", kind: "library" },
    Product { file: "msccl", package: "msccl-cli", folder: ".", kind: "application" },
    Product { file: "libmsccl_python.so", package: "msccl-python", folder: ".", kind: "library" },
    Product {
        file: "libmsccl-rdma.so",
        package: "msccl-rdma",
        folder: "crates/rdma",
        kind: "library",
    },
];

struct Product {
    file: &'static str,
    package: &'static str,
    folder: &'static str,
    kind: &'static str,
}

/// What cargo tells of packages and of who needs whom.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Described>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Described {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Needed>,
}

#[derive(Deserialize)]
struct Needed {
    pkg: String,
    dep_kinds: Vec<NeededFor>,
}

#[derive(Deserialize)]
struct NeededFor {
    /// Nothing for what is linked; otherwise `dev` or `build`.
    kind: Option<String>,
}

/// Writes a bill for each product into `folder`.
///
/// # Errors
///
/// Cargo fails, a package says no licence or has no hash, or a file cannot be written.
pub fn write(folder: &Path, say: &dyn Fn(&str)) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for product in &PRODUCTS {
        let bill = bill(product)?;
        let path = folder.join(format!("{}.cdx.json", product.file));
        let text = serde_json::to_string_pretty(&bill).map_err(|error| error.to_string())?;
        fs::write(&path, text + "\n").map_err(|error| format!("{}: {error}", path.display()))?;
        let count = bill["components"].as_array().map_or(0, Vec::len);
        say(&format!("{}: {count} packages", path.display()));
    }
    Ok(())
}

fn metadata(folder: &Path) -> Result<Metadata, String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version", "1", "--locked"]);
    cargo.args(["--filter-platform", "x86_64-unknown-linux-gnu"]);
    cargo.arg("--manifest-path").arg(folder.join("Cargo.toml"));
    let output = cargo.output().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
}

fn bill(product: &Product) -> Result<Value, String> {
    let folder = root().join(product.folder);
    let Metadata { packages, resolve } = metadata(&folder)?;
    let locked = lock::packages(&folder.join("Cargo.lock"))?;
    let described: BTreeMap<&str, &Described> =
        packages.iter().map(|package| (package.id.as_str(), package)).collect();
    let made_from = packages.iter().find(|of| of.name == product.package && of.source.is_none());
    let made_from = made_from.ok_or_else(|| format!("there is no package {}", product.package))?;
    let needs = linked(&resolve);
    let mut components = BTreeMap::new();
    let mut dependencies = BTreeMap::new();
    for id in reached(&made_from.id, &needs) {
        let package = described.get(id).ok_or_else(|| format!("cargo tells nothing of {id}"))?;
        let mut names: Vec<_> = needs[id].iter().map(|id| reference(described[id])).collect();
        names.sort_unstable();
        let own = reference(package);
        dependencies.insert(own.clone(), json!({ "ref": own, "dependsOn": names }));
        if id != made_from.id {
            components.insert(own, component(package, &locked)?);
        }
    }
    let license = expression(made_from)?;
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": product.kind,
                "bom-ref": reference(made_from),
                "name": product.file,
                "version": made_from.version,
                "licenses": [{ "expression": license }],
            },
        },
        "components": components.into_values().collect::<Vec<_>>(),
        "dependencies": dependencies.into_values().collect::<Vec<_>>(),
    }))
}

/// What is linked into each package directly.
fn linked(resolve: &Resolve) -> BTreeMap<&str, Vec<&str>> {
    let mut linked = BTreeMap::new();
    for Node { id, deps } in &resolve.nodes {
        let is_linked = |needed: &&Needed| needed.dep_kinds.iter().any(|of| of.kind.is_none());
        let ids = deps.iter().filter(is_linked).map(|needed| needed.pkg.as_str()).collect();
        linked.insert(id.as_str(), ids);
    }
    linked
}

/// `first`, and what it needs by however many steps.
fn reached<'a>(first: &'a str, needs: &BTreeMap<&'a str, Vec<&'a str>>) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![first];
    while let Some(id) = open.pop() {
        if reached.insert(id) {
            open.extend(needs.get(id).into_iter().flatten());
        }
    }
    reached
}

/// What a bill calls a package.
fn reference(package: &Described) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version)
}

fn component(package: &Described, locked: &[Package]) -> Result<Value, String> {
    let mut component = json!({
        "type": "library",
        "bom-ref": reference(package),
        "name": package.name,
        "version": package.version,
        "licenses": [{ "expression": expression(package)? }],
    });
    // Ours lie beside what is made of them, and nowhere else.
    if package.source.is_some() {
        let is_it =
            |of: &&Package| of.name == package.name && of.version.to_string() == package.version;
        let checksum = locked.iter().find(is_it).and_then(|of| of.checksum.as_deref());
        let checksum = checksum
            .ok_or_else(|| format!("{} has no hash in the lock file", reference(package)))?;
        component["purl"] = json!(reference(package));
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    Ok(component)
}

/// The licences, as SPDX writes them: older packages separate them by slashes.
fn expression(package: &Described) -> Result<String, String> {
    let license = package.license.as_deref();
    let license = license.ok_or_else(|| format!("{} says no licence", reference(package)))?;
    let parts = license.split('/').map(str::trim).collect::<Vec<_>>();
    Ok(parts.join(" OR "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(bill: &Value) -> BTreeSet<String> {
        let components = bill["components"].as_array().unwrap();
        components.iter().map(|of| of["name"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_bill_has_what_is_linked_and_nothing_else() {
        for product in PRODUCTS.iter().filter(|product| product.folder == ".") {
            let bill = bill(product).unwrap();
            let names = names(&bill);
            for name in ["msccl-verify", "msccl-runtime", "rustix", "libc", "quick-xml"] {
                assert!(names.contains(name), "{} lacks {name}", product.file);
            }
            // Of tests, and of what runs while it is built.
            for name in ["proptest", "insta", "msccl-hosts", "xtask", product.package] {
                assert!(!names.contains(name), "{} has {name}", product.file);
            }
        }
    }

    #[test]
    fn a_bill_is_complete_and_always_the_same() {
        let bill = bill(&PRODUCTS[0]).unwrap();
        assert_eq!(bill, super::bill(&PRODUCTS[0]).unwrap());
        let components = bill["components"].as_array().unwrap();
        let mut known: BTreeSet<&str> =
            components.iter().map(|of| of["bom-ref"].as_str().unwrap()).collect();
        assert_eq!(known.len(), components.len());
        for component in components {
            let (name, hash) = (&component["name"], &component["hashes"][0]["content"]);
            let is_ours = name.as_str().unwrap().starts_with("msccl-");
            assert_eq!(hash.as_str().map(str::len), (!is_ours).then_some(64), "{name}");
            assert!(component["licenses"][0]["expression"].is_string(), "{name}");
        }
        known.insert(bill["metadata"]["component"]["bom-ref"].as_str().unwrap());
        let dependencies = bill["dependencies"].as_array().unwrap();
        assert_eq!(dependencies.len(), known.len());
        for dependency in dependencies {
            let needed = dependency["dependsOn"].as_array().unwrap().iter();
            let all = needed.chain([&dependency["ref"]]).map(|of| of.as_str().unwrap());
            all.for_each(|of| assert!(known.contains(of), "{of} is no component"));
        }
    }

    #[test]
    fn licences_are_written_as_spdx_has_them() {
        let of = |license: Option<&str>| {
            let text = |text: &str| text.to_owned();
            let package = Described {
                id: text("p"),
                name: text("p"),
                version: text("1.0.0"),
                license: license.map(text),
                source: None,
            };
            expression(&package)
        };
        assert_eq!(of(Some("MIT/Apache-2.0")), Ok("MIT OR Apache-2.0".to_owned()));
        assert_eq!(of(Some("MIT OR Apache-2.0")), Ok("MIT OR Apache-2.0".to_owned()));
        assert_eq!(of(None), Err("pkg:cargo/p@1.0.0 says no licence".to_owned()));
    }
}
