//! Requests and answers as JSON.

use msccl_cli::{CallOutput, Request, call};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestJson {
    arguments: Vec<String>,
    text: Option<String>,
}

#[derive(Serialize)]
struct AnswerJson {
    exit: u8,
    stdout: String,
    stderr: String,
}

/// The answer to `request`, both as JSON.
///
/// ```
/// let answer = msccl_python::answer(br#"{"arguments": ["verify", "allreduce/ring"]}"#);
/// assert!(answer.starts_with(r#"{"exit":0,"stdout":"proved   allreduce/ring"#));
/// ```
pub fn answer(request: &[u8]) -> String {
    let CallOutput { exit, stdout, stderr } = match serde_json::from_slice(request) {
        Ok(RequestJson { arguments, text }) => call(&Request { arguments, text }),
        Err(error) => {
            let stderr = format!("error: expected a request as JSON: {error}\n");
            CallOutput { exit: 2, stdout: String::new(), stderr }
        }
    };
    let answer = AnswerJson { exit, stdout, stderr };
    serde_json::to_string(&answer).unwrap_or_else(|_| UNWRITABLE.to_owned())
}

/// What stands for an answer that cannot be written.
const UNWRITABLE: &str = r#"{"exit":101,"stdout":"","stderr":"error: no answer"}"#;

#[cfg(test)]
mod tests {
    use super::answer;

    #[test]
    fn whatever_is_no_request_is_refused() {
        for wrong in [&b""[..], b"[]", b"\xff", b"{}", br#"{"arguments": [], "more": 1}"#] {
            let answer = answer(wrong);
            let expected = r#"{"exit":2,"stdout":"","stderr":"error: expected a request as JSON"#;
            assert!(answer.starts_with(expected), "{answer}");
        }
    }

    #[test]
    fn texts_are_passed() {
        let request = br#"{"arguments": ["verify", "-", "--format", "json"], "text": "nonsense"}"#;
        let answer = answer(request);
        assert!(answer.starts_with(r#"{"exit":2,"#) && answer.contains("<program>"), "{answer}");
    }
}
