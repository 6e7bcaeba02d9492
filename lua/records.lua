-- Reads records: one for a status, many for recovery. README.md.
-- KEYS 1 meta  2… n reservations
-- 0: then a line per record, "field value field value …", empty where there is none, "!" where it cannot be read
local call = redis.call
local time = call('TIME')
local meta = call('HMGET', KEYS[1], 'epoch', 'seq')
local lines = { '0 ' .. (meta[1] or 0) .. ' ' .. (meta[2] or 0) .. ' ' .. time[1] .. ' ' .. time[2] .. ' ' }
for i = 2, #KEYS do
  local record = redis.pcall('HGETALL', KEYS[i])
  local line = record.err and '!' or table.concat(record, ' ')
  lines[i] = line:find('\n', 1, true) and '!' or line -- one bad record must not shift the others
end
return table.concat(lines, '\n')
