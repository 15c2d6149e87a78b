-- Starts `msccl lsp` for buffers of the language. Works with Neovim 0.7 and later.
--
--   require('msccl').setup({ cmd = { 'msccl', 'lsp' }, settings = { ranks = 8 } })

local M = {}

local defaults = { cmd = { 'msccl', 'lsp' }, settings = {}, on_attach = nil, capabilities = nil }

-- The client of each folder.
local clients = {}

local function root_of(buffer)
  local name = vim.api.nvim_buf_get_name(buffer)
  local found = vim.fn.finddir('.git', vim.fn.fnamemodify(name, ':p:h') .. ';')
  if found ~= '' then
    return vim.fn.fnamemodify(found, ':p:h:h')
  end
  return vim.fn.fnamemodify(name, ':p:h')
end

function M.attach(buffer, options)
  local root = root_of(buffer)
  local id = clients[root]
  if not id or not vim.lsp.get_client_by_id(id) then
    id = vim.lsp.start_client({
      name = 'msccl',
      cmd = options.cmd,
      root_dir = root,
      workspace_folders = { { uri = vim.uri_from_fname(root), name = root } },
      init_options = options.settings,
      settings = { msccl = options.settings },
      capabilities = options.capabilities or vim.lsp.protocol.make_client_capabilities(),
      on_attach = options.on_attach,
      on_exit = function()
        clients[root] = nil
      end,
    })
    clients[root] = id
  end
  if id then
    vim.lsp.buf_attach_client(buffer, id)
  end
  return id
end

function M.setup(options)
  options = vim.tbl_extend('force', defaults, options or {})
  local group = vim.api.nvim_create_augroup('msccl', { clear = true })
  vim.api.nvim_create_autocmd('FileType', {
    group = group,
    pattern = 'msccl',
    callback = function(event)
      M.attach(event.buf, options)
    end,
  })
end

return M
