; Scopes and definitions, as docs/LANGUAGE.md, section 1, has them.

[(function) (collective) (algorithm) (block) (for) (sum) (comprehension)] @local.scope

(parameter name: (identifier) @local.definition)
(let name: (identifier) @local.definition)
(scratch name: (identifier) @local.definition)
(binder pattern: (identifier) @local.definition)
(list_pattern (identifier) @local.definition)
(function name: (identifier) @local.definition)

(identifier) @local.reference
