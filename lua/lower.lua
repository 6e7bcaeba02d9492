-- Takes away free units that nobody can have: what is free and what is held is never more than the total. Rule 40; README.md.
-- KEYS 1 meta  2 stock  3 buyers   ARGV 1 item
-- 0: how many were taken (0: none was too many)   1 there is no such item
local call = redis.call
local time = call('TIME')
local meta = call('HMGET', KEYS[1], 'epoch', 'seq', 'total')
local stock = call('GET', KEYS[2])
local held = call('HLEN', KEYS[3])
local epoch, seq = meta[1] or '0', meta[2] or '0'
local tail = ' ' .. time[1] .. ' ' .. time[2] .. ' '
if not (meta[1] and stock) then return '1 ' .. epoch .. ' ' .. seq .. tail end
local surplus = math.min(stock + held - meta[3], tonumber(stock))
if surplus <= 0 then return '0 ' .. epoch .. ' ' .. seq .. tail .. '0' end
call('DECRBY', KEYS[2], ('%d'):format(surplus))
seq = (seq + 1) .. ''
call('HSET', KEYS[1], 'seq', seq)
call('PUBLISH', 'sec:news', ARGV[1] .. ' ' .. epoch .. ' ' .. seq)
return '0 ' .. epoch .. ' ' .. seq .. tail .. ('%d'):format(surplus)
