-- What Redis has of n requests, in one moment: the user's buyers entry, the record, whether it waits. Rule 40; README.md.
-- KEYS 1 meta  2 buyers  3 pending  4… n reservations
-- 0: then a line per request: 1 or 0 (among the pending), the entry's three words or "- - -", and the record as in records
local call = redis.call
local time = call('TIME')
local meta = call('HMGET', KEYS[1], 'epoch', 'seq')
local lines = { '0 ' .. (meta[1] or 0) .. ' ' .. (meta[2] or 0) .. ' ' .. time[1] .. ' ' .. time[2] .. ' ' }
local member_at = #KEYS[1] + 9 -- "…:meta" against "…:reservation:<member>"
for i = 4, #KEYS do
  local member = KEYS[i]:sub(member_at)
  local entry = call('HGET', KEYS[2], member:match('^%d+')) or '- - -'
  if not entry:find('^%S+ %S+ %S+$') then entry = '! ! !' end
  local record = redis.pcall('HGETALL', KEYS[i])
  local line = record.err and '!' or table.concat(record, ' ')
  if line:find('\n', 1, true) then line = '!' end
  lines[i - 2] = (call('ZSCORE', KEYS[3], member) and '1 ' or '0 ') .. entry .. ' ' .. line
end
return table.concat(lines, '\n')
