-- The item's total, mid-sale: what it grows by is free at once, what it shrinks by must be. Rules 7, 40; README.md.
-- KEYS 1 meta  2 stock   ARGV 1 item  2 the total as the caller saw it  3 the new one
-- 0 it is so: total free   1 no such item, or it is being rebuilt   2 fewer are free than it shrinks by: total free   3 another total than was seen: total free
local call = redis.call
local time = call('TIME')
local meta = call('HMGET', KEYS[1], 'epoch', 'seq', 'total', 'rebuild')
local stock = call('GET', KEYS[2])
local epoch, seq, total = meta[1] or '0', meta[2] or '0', meta[3]
local function answer(code, rest)
  return code .. ' ' .. epoch .. ' ' .. seq .. ' ' .. time[1] .. ' ' .. time[2] .. ' ' .. rest
end
if not (meta[1] and stock) or meta[4] then return answer(1, '') end
if not ARGV[3]:find('^%d+$') then return redis.error_reply('ERR total is a whole number') end
if total == ARGV[3] then return answer(0, total .. ' ' .. stock) end
if total ~= ARGV[2] then return answer(3, total .. ' ' .. stock) end
local by = ARGV[3] - total
if by < 0 and stock + by < 0 then return answer(2, total .. ' ' .. stock) end
stock = call('INCRBY', KEYS[2], ('%d'):format(by))
seq = (seq + 1) .. ''
call('HSET', KEYS[1], 'total', ARGV[3], 'seq', seq)
call('PUBLISH', 'sec:news', ARGV[1] .. ' ' .. epoch .. ' ' .. seq)
return answer(0, ARGV[3] .. ' ' .. ('%d'):format(stock))
