-- Opens, pauses or closes an item; CLOSED is final. Rule 7; README.md.
-- KEYS 1 meta   ARGV 1 item  2 OPEN, PAUSED or CLOSED
-- 0 it is so now  1 no such item  2 not allowed
local call = redis.call
local time = call('TIME')
local meta = call('HMGET', KEYS[1], 'epoch', 'seq', 'state', 'rebuild', 'after')
local tail = ' ' .. time[1] .. ' ' .. time[2] .. ' '
local to = ARGV[2]
if to ~= 'OPEN' and to ~= 'PAUSED' and to ~= 'CLOSED' then return redis.error_reply('ERR no such state') end
if not meta[1] then return '1 0 0' .. tail end
local epoch, seq = meta[1], meta[2]
if meta[4] then -- being rebuilt: what it will be afterwards
  if meta[5] == 'CLOSED' and to ~= 'CLOSED' then return '2 ' .. epoch .. ' ' .. seq .. tail end
  call('HSET', KEYS[1], 'after', to)
  return '0 ' .. epoch .. ' ' .. seq .. tail
end
if meta[3] == to then return '0 ' .. epoch .. ' ' .. seq .. tail end
if meta[3] == 'CLOSED' then return '2 ' .. epoch .. ' ' .. seq .. tail end
seq = (seq + 1) .. ''
call('HSET', KEYS[1], 'state', to, 'seq', seq)
call('PUBLISH', 'sec:news', ARGV[1] .. ' ' .. epoch .. ' ' .. seq)
return '0 ' .. epoch .. ' ' .. seq .. tail
