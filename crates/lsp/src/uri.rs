//! Identifiers of files: from the paths of a machine to `file:` identifiers and back.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use lsp_types::Uri;

/// The path of a `file:` identifier; `None` for others.
pub fn path_of(uri: &Uri) -> Option<PathBuf> {
    let rest = uri.as_str().strip_prefix("file://")?;
    // The name of a host may stand before the path.
    let path = &rest[rest.find('/')?..];
    let decoded = decoded(path.split(['?', '#']).next().unwrap_or_default())?;
    let is_drive = |text: &str| {
        let bytes = text.as_bytes();
        bytes.len() >= 3 && bytes[0] == b'/' && bytes[1].is_ascii_alphabetic() && bytes[2] == b':'
    };
    Some(PathBuf::from(if is_drive(&decoded) { &decoded[1..] } else { &decoded }))
}

/// The `file:` identifier of an absolute path.
pub fn of_path(path: &Path) -> Option<Uri> {
    let text = path.to_str()?.replace('\\', "/");
    let slash = if text.starts_with('/') { "" } else { "/" };
    Uri::from_str(&format!("file://{slash}{}", encoded(&text))).ok()
}

/// Bytes that are not plain as `%XX`.
fn encoded(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~:".contains(&byte);
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if is_plain(byte) {
            out.push(char::from(byte));
        } else {
            out += &format!("%{byte:02X}");
        }
    }
    out
}

/// `%XX` as bytes; `None` if they are no UTF-8.
fn decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digits = [bytes.next()?, bytes.next()?];
        out.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_go_there_and_back() {
        for path in ["/tmp/ring.msccl", "/tmp/a b/ü😀#?.msccl", "/c/100%.msccl"] {
            let uri = of_path(Path::new(path)).unwrap();
            assert_eq!(path_of(&uri).unwrap(), Path::new(path), "{}", uri.as_str());
        }
    }

    #[test]
    fn editors_encode_as_they_like() {
        let path = |text: &str| path_of(&Uri::from_str(text).unwrap());
        assert_eq!(path("file:///c%3A/x.msccl"), Some(PathBuf::from("c:/x.msccl")));
        assert_eq!(path("file://host/x.msccl"), Some(PathBuf::from("/x.msccl")));
        assert_eq!(path("untitled:Untitled-1"), None);
        assert_eq!(path("file:///%FF"), None);
    }
}
