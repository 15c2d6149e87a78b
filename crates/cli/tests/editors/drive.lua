-- Drives `msccl lsp` as a user of Neovim would; ends with a failure at the first thing that is
-- wrong.

local function fail(what)
  io.stderr:write('FAILED ' .. what .. '\n')
  vim.cmd('cquit 1')
end

local function ok(what)
  io.stdout:write('ok ' .. what .. '\n')
end

local function wait(what, condition)
  if not vim.wait(60000, condition, 20) then
    fail('nothing happened: ' .. what)
  end
end

local function text()
  return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\n')
end

local function place(pattern, offset)
  vim.fn.cursor(1, 1)
  if vim.fn.search(pattern, 'cW') == 0 then
    fail('no ' .. pattern .. ' in\n' .. text())
  end
  vim.cmd('normal! ' .. string.rep('l', offset))
end

local function ask(method, params)
  local answers = vim.lsp.buf_request_sync(0, method, params, 60000)
  for _, answer in pairs(answers or {}) do
    if answer.error then
      fail(method .. ': ' .. answer.error.message)
    end
    return answer.result
  end
  fail('no answer to ' .. method)
end

local function drive()
  require('msccl').setup({ cmd = { vim.env.MSCCL, 'lsp' } })
  vim.cmd('edit main.msccl')
  if vim.bo.filetype ~= 'msccl' then
    fail('the file type is ' .. vim.bo.filetype)
  end
  wait('the server starts', function()
    local clients = vim.lsp.buf_get_clients(0)
    return next(clients) ~= nil and select(2, next(clients)).initialized
  end)

  -- A mistake is marked, and its repair unmarks it. The columns before it are wide characters.
  local comment = '    // 😀'
  vim.api.nvim_buf_set_lines(0, 6, 6, false, { comment, '    output@0 = inptu@1' })
  wait('a diagnostic', function()
    local found = vim.diagnostic.get(0)
    return #found == 1 and found[1].lnum == 7 and found[1].col == 15
      and found[1].message:find('nothing here is called `inptu`', 1, true)
  end)
  vim.api.nvim_buf_set_lines(0, 6, 8, false, {})
  wait('no diagnostic', function()
    return #vim.diagnostic.get(0) == 0
  end)
  ok('diagnostics')

  place('twice(1)', 1)
  vim.lsp.buf.hover()
  local shown = ''
  wait('a window with the function', function()
    for _, window in ipairs(vim.api.nvim_list_wins()) do
      if vim.api.nvim_win_get_config(window).relative ~= '' then
        local buffer = vim.api.nvim_win_get_buf(window)
        shown = table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), '\n')
        return true
      end
    end
    return false
  end)
  if not (shown:find('fn twice(a)', 1, true) and shown:find('Doubles. 😀', 1, true)) then
    fail('hover shows ' .. shown)
  end
  ok('hover')

  place('input@0 +=', 3)
  local items = ask('textDocument/completion', vim.lsp.util.make_position_params())
  local words = vim.lsp.util.text_document_completion_list_to_complete_items(items, 'inp')
  if not (words[1] and words[1].word == 'input') then
    fail('completion offers ' .. vim.inspect(words))
  end
  ok('completion')

  place('twice(1)', 1)
  local found = ask('textDocument/definition', vim.lsp.util.make_position_params())
  if not (found[1].uri:find('other.msccl', 1, true) and found[1].range.start.line == 1) then
    fail('definition is ' .. vim.inspect(found))
  end
  ok('definition')

  vim.lsp.buf.rename('double')
  wait('the new name', function()
    return text():find('let n = double(1)', 1, true) ~= nil
  end)
  vim.cmd('wall')
  ok('rename')

  if vim.lsp.buf.format then
    vim.lsp.buf.format({ timeout_ms = 60000 })
  else
    vim.lsp.buf.formatting_sync(nil, 60000)
  end
  if not text():find('for r in 1..N { input@0 += input@r }', 1, true) then
    fail('formatting gives\n' .. text())
  end
  ok('formatting')
end

local done, reason = pcall(drive)
if not done then
  fail(tostring(reason))
end
vim.cmd('qall!')
