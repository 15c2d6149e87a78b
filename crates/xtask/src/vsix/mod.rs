//! The extension for VS Code as a file that `code --install-extension` takes.
//!
//! Such a file is a ZIP archive with the extension, a manifest, and a list of content types. It is
//! written without network and without Node.

mod zip;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use zip::Entry;

/// Writes the extension to `file`.
///
/// # Errors
///
/// A file of the extension cannot be read, or the archive cannot be written.
pub fn write(file: &Path) -> Result<(), String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lsp/editors/vscode");
    let archive = zip::archive(&entries(&folder)?)?;
    fs::write(file, archive).map_err(|error| format!("cannot write {}: {error}", file.display()))
}

fn entries(folder: &Path) -> Result<Vec<Entry>, String> {
    let mut files = Vec::new();
    collect(folder, &mut files)?;
    files.sort();
    let package = text(&folder.join("package.json"))?;
    let package: Value = serde_json::from_str(&package)
        .map_err(|error| format!("{}/package.json: {error}", folder.display()))?;
    let mut entries = vec![
        Entry { path: "extension.vsixmanifest".to_owned(), bytes: manifest(&package).into() },
        Entry { path: "[Content_Types].xml".to_owned(), bytes: content_types(&files).into() },
    ];
    for file in files {
        let relative = file.strip_prefix(folder).map_err(|error| error.to_string())?;
        let path = format!("extension/{}", relative.display()).replace('\\', "/");
        entries.push(Entry { path, bytes: bytes(&file)? });
    }
    Ok(entries)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let cannot = |error| format!("cannot read {}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

fn bytes(file: &Path) -> Result<Vec<u8>, String> {
    fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
}

fn text(file: &Path) -> Result<String, String> {
    String::from_utf8(bytes(file)?).map_err(|error| format!("{}: {error}", file.display()))
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
fn content_types(files: &[PathBuf]) -> String {
    let extensions = files.iter().filter_map(|file| file.extension()?.to_str());
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
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lsp/editors/vscode");
        let entries = entries(&folder).unwrap();
        let package: Value =
            serde_json::from_str(&text(&folder.join("package.json")).unwrap()).unwrap();
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
