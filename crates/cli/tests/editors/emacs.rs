//! The mode for Emacs: it compiles without a warning, and indents and colours.

use std::fs;
use std::process::Command;

use crate::{editors, folder, is_there, run};

#[test]
fn the_mode_for_emacs_works() {
    if !is_there("emacs") {
        return;
    }
    let folder = folder("emacs");
    fs::copy(editors().join("emacs/msccl-mode.el"), folder.join("msccl-mode.el")).unwrap();
    let compile = "(progn (setq byte-compile-error-on-warn t) \
                   (unless (byte-compile-file \"msccl-mode.el\") (kill-emacs 1)))";
    run(Command::new("emacs").args(["-Q", "--batch", "--eval", compile]), &folder);
    let drive = r#"(progn
      (find-file "x.msccl")
      (insert "algorithm a(ranks N = 2) implements allreduce() {\nlet x = 1 // note\n}\n")
      (indent-region (point-min) (point-max))
      (font-lock-ensure)
      (goto-char (point-min))
      (search-forward "let")
      (princ (format "%S %S %S" major-mode (current-indentation)
                     (get-text-property (1- (point)) 'face)))
      (search-forward "note")
      (princ (format " %S" (get-text-property (1- (point)) 'face))))"#;
    let mut emacs = Command::new("emacs");
    emacs.args(["-Q", "--batch", "-l", "./msccl-mode.el", "--eval", drive]);
    let text = run(&mut emacs, &folder);
    let expected = "msccl-mode 4 font-lock-keyword-face font-lock-comment-face";
    assert!(text.contains(expected), "{text}");
}
