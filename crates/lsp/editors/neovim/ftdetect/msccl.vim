autocmd BufRead,BufNewFile *.msccl set filetype=msccl
