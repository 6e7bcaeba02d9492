-- Appends results to the item's result stream, for other systems (docs/results.md). It is bounded whether anybody reads or
-- not: the oldest go. It ends with the item's keys, and not before keep_ms from now, so that an item whose keys are over or
-- lost leaves nothing behind for ever. Rule 9; README.md.
-- KEYS 1 results  2 meta   ARGV 1 most  2 keep_ms, then the entries' arrays
-- 0: how many
local call = redis.call
local kind = call('TYPE', KEYS[1]).ok
if kind ~= 'none' and kind ~= 'stream' then return redis.error_reply('WRONGTYPE results is no stream') end
kind = call('TYPE', KEYS[2]).ok
if kind ~= 'none' and kind ~= 'hash' then return redis.error_reply('WRONGTYPE meta is no hash') end
local time = call('TIME')
local meta = call('HMGET', KEYS[2], 'epoch', 'seq', 'expires_ms')
for i = 3, #ARGV do call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'b', ARGV[i]) end
local ends = time[1] * 1000 + ARGV[2]
local expires = tonumber(meta[3] or 0)
if expires > ends then ends = expires end
call('PEXPIREAT', KEYS[1], string.format('%.0f', ends))
return '0 ' .. (meta[1] or 0) .. ' ' .. (meta[2] or 0) .. ' ' .. time[1] .. ' ' .. time[2] .. ' ' .. #ARGV - 2
