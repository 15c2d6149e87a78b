//! The extension for VS Code as a file that `code --install-extension` takes.
//!
//! Such a file is a zip with the extension, a manifest, and a list of content types. It is
//! written without network and without Node.

use std::fs;
use std::path::Path;

use flate2::Compression;
use serde_json::Value;

use super::contents::{folder_where, sorted};
use super::entry::{Entry, zipped};

/// The extension in the repository.
const SOURCES: &str = "crates/lsp/editors/vscode";

/// Writes the extension to `file`.
///
/// # Errors
///
/// A file of the extension cannot be read, or the archive cannot be written.
pub fn write(file: &Path) -> Result<(), String> {
    let archive = zipped(&entries()?, Compression::best())?;
    fs::write(file, archive).map_err(|error| format!("cannot write {}: {error}", file.display()))
}

fn entries() -> Result<Vec<Entry>, String> {
    let files = sorted(folder_where(SOURCES, |_| true)?)?;
    let package = package(&files)?;
    let mut entries = vec![
        Entry::file("extension.vsixmanifest", manifest(&package).into()),
        Entry::file("[Content_Types].xml", content_types(&files).into()),
    ];
    entries.extend(files.into_iter().map(|file| file.below("extension")));
    Ok(entries)
}

/// What the extension says of itself.
fn package(files: &[Entry]) -> Result<Value, String> {
    let file = files.iter().find(|file| file.path == "package.json");
    let file = file.ok_or_else(|| format!("expected package.json in {SOURCES}, found none"))?;
    serde_json::from_slice(&file.bytes).map_err(|error| format!("{SOURCES}/package.json: {error}"))
}

/// Text of an attribute or an element of XML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

/// What the editor reads before it unpacks anything.
fn manifest(package: &Value) -> String {
    let field = |name: &str| escaped(package[name].as_str().unwrap_or_default());
    let engine = escaped(package["engines"]["vscode"].as_str().unwrap_or_default());
    format!(
        r#"<?xml version="1.0" encoding="utf-8"?>
<PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011">
  <Metadata>
    <Identity Language="en-US" Id="{name}" Version="{version}" Publisher="{publisher}"/>
    <DisplayName>{display}</DisplayName>
    <Description xml:space="preserve">{description}</Description>
    <Categories>Programming Languages,Formatters</Categories>
    <Properties>
      <Property Id="Microsoft.VisualStudio.Code.Engine" Value="{engine}"/>
    </Properties>
  </Metadata>
  <Installation>
    <InstallationTarget Id="Microsoft.VisualStudio.Code"/>
  </Installation>
  <Dependencies/>
  <Assets>
    <Asset Type="Microsoft.VisualStudio.Code.Manifest" Path="extension/package.json"
           Addressable="true"/>
    <Asset Type="Microsoft.VisualStudio.Services.Content.Details" Path="extension/README.md"
           Addressable="true"/>
  </Assets>
</PackageManifest>
"#,
        name = field("name"),
        version = field("version"),
        publisher = field("publisher"),
        display = field("displayName"),
        description = field("description"),
    )
}

/// The content type of every extension of a file name.
fn content_types(files: &[Entry]) -> String {
    let paths = files.iter().map(|file| Path::new(&file.path));
    let extensions = paths.filter_map(|path| path.extension()?.to_str());
    let mut extensions: Vec<_> = extensions.chain(["vsixmanifest"]).collect();
    extensions.sort_unstable();
    extensions.dedup();
    let types = extensions.into_iter().map(|extension| {
        let kind = match extension {
            "json" => "application/json",
            "js" => "application/javascript",
            "md" => "text/markdown",
            "vsixmanifest" => "text/xml",
            _ => "application/octet-stream",
        };
        format!("  <Default Extension=\".{extension}\" ContentType=\"{kind}\"/>\n")
    });
    let types: String = types.collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<Types \
         xmlns=\"http://schemas.openxmlformats.org/package/2006/content-types\">\n{types}</Types>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_is_whole() {
        let entries = entries().unwrap();
        let package = package(&folder_where(SOURCES, |_| true).unwrap()).unwrap();
        let is_there = |path: &str| {
            let path = format!("extension/{}", path.trim_start_matches("./"));
            assert!(entries.iter().any(|entry| entry.path == path), "{path}");
        };
        is_there("package.json");
        is_there(package["main"].as_str().unwrap());
        is_there(package["contributes"]["grammars"][0]["path"].as_str().unwrap());
        is_there(package["contributes"]["languages"][0]["configuration"].as_str().unwrap());
        assert_eq!(package["version"], env!("CARGO_PKG_VERSION"));
        for entry in entries.iter().filter(|entry| entry.path.ends_with(".json")) {
            serde_json::from_slice::<Value>(&entry.bytes)
                .unwrap_or_else(|error| panic!("{}: {error}", entry.path));
        }
        assert!(manifest(&package).contains("Id=\"msccl\" Version=\"0.1.0\""));
    }
}
