-- Commands that have been remembered since before a time, a step of the scan at a time. Rule 27; README.md.
-- KEYS 1 meta  2 commands   ARGV 1 cursor  2 count  3 before_ms  4 max
-- 0: the next cursor (this one again, if there were more than max), 1 if there is more or 0, how many are no commands; then a
--    line each: "message_id body"
local call = redis.call
local time = call('TIME')
local meta = call('HMGET', KEYS[1], 'epoch', 'seq')
local page = call('HSCAN', KEYS[2], ARGV[1], 'COUNT', ARGV[2])
local found, max, lines, bad = page[2], tonumber(ARGV[4]), {}, 0
local more = page[1] == '0' and '0' or '1'
for i = 1, #found, 2 do
  local at, body = found[i + 1]:match('^(%d+) ([^\n]+)$')
  if not at or #at ~= 13 or #found[i] ~= 36 or not found[i]:find('^%x+%-%x+%-%x+%-%x+%-%x+$') then
    bad = bad + 1
  elseif at < ARGV[3] then
    if #lines == max then
      page[1], more = ARGV[1], '1'
      break
    end
    lines[#lines + 1] = found[i] .. ' ' .. body
  end
end
return '0 ' .. (meta[1] or 0) .. ' ' .. (meta[2] or 0) .. ' ' .. time[1] .. ' ' .. time[2] .. ' ' .. page[1] ..
  ' ' .. more .. ' ' .. bad .. (lines[1] and '\n' .. table.concat(lines, '\n') or '')
