-- For Neovim 0.11 and later: `vim.lsp.enable('msccl')`.
return {
  cmd = { 'msccl', 'lsp' },
  filetypes = { 'msccl' },
  root_markers = { '.git' },
}
