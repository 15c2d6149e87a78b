;;; msccl-mode.el --- Major mode for the language .msccl -*- lexical-binding: t; -*-

;; Version: 0.1.0
;; Package-Requires: ((emacs "27.1"))
;; Keywords: languages

;;; Commentary:

;; Colours and comments, and `msccl lsp' by eglot (part of Emacs 29, a package before):
;;
;;   (require 'msccl-mode)
;;   (add-hook 'msccl-mode-hook #'eglot-ensure)

;;; Code:

(defgroup msccl nil
  "Programs of collective communication."
  :group 'languages)

(defcustom msccl-command '("msccl" "lsp")
  "The command that serves the language."
  :type '(repeat string)
  :group 'msccl)

(defconst msccl-keywords
  '("import" "fn" "collective" "algorithm" "implements" "in" "place" "let" "if" "then" "else"
    "for" "on" "by" "scratch" "require" "given" "promise" "and" "or" "not" "protocol" "instances"
    "interleaved" "bytes" "threads" "order" "ranks" "per_node" "channel" "tb" "send" "receive"))

(defconst msccl-font-lock-keywords
  `((,(regexp-opt msccl-keywords 'symbols) . font-lock-keyword-face)
    (,(regexp-opt '("input" "output") 'symbols) . font-lock-variable-name-face)
    (,(regexp-opt '("true" "false") 'symbols) . font-lock-constant-face)
    ("\\_<\\(?:fn\\|algorithm\\|collective\\)\\_>[ \t]+\\([A-Za-z_][A-Za-z0-9_]*\\)"
     1 font-lock-function-name-face)
    ("\\_<\\([A-Za-z_][A-Za-z0-9_]*\\)(" 1 font-lock-function-name-face)
    ("\\_<[0-9][0-9_]*\\(?:KiB\\|MiB\\|GiB\\)?\\_>" . font-lock-constant-face)))

(defvar msccl-mode-syntax-table
  (let ((table (make-syntax-table)))
    (modify-syntax-entry ?/ ". 12" table)
    (modify-syntax-entry ?\n ">" table)
    (modify-syntax-entry ?_ "_" table)
    (modify-syntax-entry ?\" "\"" table)
    (modify-syntax-entry ?\\ "\\" table)
    table))

(defun msccl-indent-line ()
  "Indent the line by the brackets that are open before it, four blanks each."
  (interactive)
  (let ((depth (save-excursion
                 (beginning-of-line)
                 (let ((depth (car (syntax-ppss))))
                   (skip-chars-forward " \t")
                   (if (looking-at "[])}]") (1- depth) depth))))
        (offset (- (current-column) (current-indentation))))
    (indent-line-to (* 4 (max 0 depth)))
    (when (> offset 0)
      (forward-char offset))))

;;;###autoload
(define-derived-mode msccl-mode prog-mode "msccl"
  "Major mode for the language .msccl."
  (setq-local comment-start "// ")
  (setq-local comment-end "")
  (setq-local comment-start-skip "//+[ \t]*")
  (setq-local indent-line-function #'msccl-indent-line)
  (setq-local indent-tabs-mode nil)
  (setq-local fill-column 100)
  (setq-local font-lock-defaults '(msccl-font-lock-keywords)))

;;;###autoload
(add-to-list 'auto-mode-alist '("\\.msccl\\'" . msccl-mode))

(defvar eglot-server-programs)
(with-eval-after-load 'eglot
  (add-to-list 'eglot-server-programs
               (cons 'msccl-mode (lambda (&rest _) msccl-command))))

(provide 'msccl-mode)
;;; msccl-mode.el ends here
