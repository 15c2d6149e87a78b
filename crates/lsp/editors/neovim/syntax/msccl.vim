" Colours without a language server and without tree-sitter.
if exists('b:current_syntax')
  finish
endif

syntax keyword mscclKeyword import fn collective algorithm implements in place let on by scratch
syntax keyword mscclKeyword require given promise protocol instances interleaved bytes threads order
syntax keyword mscclKeyword ranks per_node channel tb send receive
syntax keyword mscclConditional if then else
syntax keyword mscclRepeat for
syntax keyword mscclOperator and or not
syntax keyword mscclBoolean true false
syntax keyword mscclBuffer input output
syntax keyword mscclBuiltin sum
syntax match mscclNumber /\<\d[0-9_]*\(KiB\|MiB\|GiB\)\?\>/
syntax match mscclCall /\<\h\w*\ze\s*(/
      \ contains=mscclKeyword,mscclConditional,mscclOperator,mscclBuiltin
syntax region mscclString start=/"/ skip=/\\./ end=/"/ oneline
syntax match mscclComment /\/\/.*$/ contains=@Spell

highlight default link mscclKeyword Keyword
highlight default link mscclConditional Conditional
highlight default link mscclRepeat Repeat
highlight default link mscclOperator Operator
highlight default link mscclBoolean Boolean
highlight default link mscclBuffer Identifier
highlight default link mscclBuiltin Function
highlight default link mscclCall Function
highlight default link mscclNumber Number
highlight default link mscclString String
highlight default link mscclComment Comment

let b:current_syntax = 'msccl'
