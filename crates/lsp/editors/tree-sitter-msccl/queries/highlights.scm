; Names of captures as Neovim and tree-sitter's own command have them.

(comment) @comment
(string) @string
(integer) @number
(boolean) @boolean
(buffer) @variable.builtin
(identifier) @variable

[
  "import"
  "fn"
  "collective"
  "algorithm"
  "implements"
  "let"
  "scratch"
  "require"
  "given"
  "promise"
  "in"
  "on"
  "by"
] @keyword

(in_place) @keyword

["if" "then" "else"] @conditional
["for"] @repeat
["and" "or" "not"] @keyword.operator

["protocol" "instances" "interleaved" "bytes" "threads" "order"] @keyword
(parameter role: _ @keyword)
(hint kind: _ @keyword)

(import module: (identifier) @module)
(function name: (identifier) @function)
(collective name: (identifier) @type)
(algorithm name: (identifier) @function)
(implements name: (identifier) @type)
(label name: (identifier) @property)
(parameter name: (identifier) @variable.parameter)
(call function: (identifier) @function.call)
"sum" @function.builtin

["=" "+=" "==" "!=" "<" "<=" ">" ">=" ".." "@"] @operator
["|" "^" "&" "<<" ">>" "+" "-" "*" "/" "%" "**"] @operator
["(" ")" "[" "]" "{" "}"] @punctuation.bracket
["," ":"] @punctuation.delimiter
