-- Closes an item for its rebuild: from here on nobody reserves, and settle answers "later". Rules 2, 35, 36; README.md.
-- KEYS 1 meta  2 stock  3 buyers  4 pending
-- ARGV 1 item  2 epoch  3 total  4 starts_ms  5 ends_ms  6 expires_ms (13 digits each)  7 state to be in afterwards
-- 0: 1 or 0, whether anything of the item was there   1 refused: another epoch has come, or this one is over
local call = redis.call
local time = call('TIME')
local was_there = call('EXISTS', unpack(KEYS)) > 0 and 1 or 0
local meta = call('HMGET', KEYS[1], 'epoch', 'seq', 'rebuild') -- also its type
local tail = ' ' .. time[1] .. ' ' .. time[2] .. ' '
local had, epoch, after = tonumber(meta[1] or 0), tonumber(ARGV[2]), ARGV[7]
for i = 4, 6 do
  if not ARGV[i]:find('^%d%d%d%d%d%d%d%d%d%d%d%d%d$') then return redis.error_reply('ERR times have 13 digits') end
end
if not ARGV[2]:find('^[1-9]%d*$') or not ARGV[3]:find('^%d+$') then
  return redis.error_reply('ERR epoch and total are whole numbers')
end
if after ~= 'OPEN' and after ~= 'PAUSED' and after ~= 'CLOSED' then return redis.error_reply('ERR no such state') end
if had > epoch or had == epoch and meta[3] ~= ARGV[2] then
  return '1 ' .. meta[1] .. ' ' .. (meta[2] or 0) .. tail
end
if had == epoch then return '0 ' .. ARGV[2] .. ' ' .. meta[2] .. tail .. '1' end -- this call once more
call('HSET', KEYS[1], 'epoch', ARGV[2], 'seq', '0', 'state', after == 'CLOSED' and after or 'PAUSED', 'starts_ms', ARGV[4],
  'ends_ms', ARGV[5], 'total', ARGV[3], 'expires_ms', ARGV[6], 'rebuild', ARGV[2], 'step', '0', 'after', after)
call('SET', KEYS[2], '0')
call('PEXPIREAT', KEYS[1], ARGV[6])
call('PEXPIREAT', KEYS[2], ARGV[6])
call('PUBLISH', 'sec:news', ARGV[1] .. ' ' .. ARGV[2] .. ' 0')
return '0 ' .. ARGV[2] .. ' 0' .. tail .. was_there
