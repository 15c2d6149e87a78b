; Names of captures as Helix has them: the first pattern that fits counts.

(comment) @comment.line
(string) @string
(integer) @constant.numeric.integer
(boolean) @constant.builtin.boolean
(buffer) @variable.builtin

(import module: (identifier) @namespace)
(function name: (identifier) @function)
(collective name: (identifier) @type)
(algorithm name: (identifier) @function)
(implements name: (identifier) @type)
(label name: (identifier) @variable.other.member)
(parameter role: _ @keyword.storage.modifier)
(parameter name: (identifier) @variable.parameter)
(call function: (identifier) @function)
(hint kind: _ @keyword.storage.modifier)

["import"] @keyword.control.import
["fn" "collective" "algorithm"] @keyword.function
["implements" "let" "scratch" "require" "given" "promise" "in" "on" "by"] @keyword
["protocol" "instances" "interleaved" "bytes" "threads" "order"] @keyword
(in_place) @keyword
["if" "then" "else"] @keyword.control.conditional
["for"] @keyword.control.repeat
["and" "or" "not"] @keyword.operator
"sum" @function.builtin

["=" "+=" "==" "!=" "<" "<=" ">" ">=" ".." "@"] @operator
["|" "^" "&" "<<" ">>" "+" "-" "*" "/" "%" "**"] @operator
["(" ")" "[" "]" "{" "}"] @punctuation.bracket
["," ":"] @punctuation.delimiter

(identifier) @variable
