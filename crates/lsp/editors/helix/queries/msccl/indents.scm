[(block) (list) (parameters)] @indent
["}" "]" ")"] @outdent
