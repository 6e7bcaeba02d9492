-- Reads records: one for a status, many for recovery. README.md.
-- KEYS 1 meta  2… n reservations
-- 0: then a line per record, "field value field value …", empty where there is none
local call = redis.call
local time = call('TIME')
local meta = call('HMGET', KEYS[1], 'epoch', 'seq')
local lines = { '0 ' .. (meta[1] or 0) .. ' ' .. (meta[2] or 0) .. ' ' .. time[1] .. ' ' .. time[2] .. ' ' }
for i = 2, #KEYS do lines[i] = table.concat(call('HGETALL', KEYS[i]), ' ') end
return table.concat(lines, '\n')
