-- Takes away what nobody can have: a total above PostgreSQL's, and free units so that free and held are never more than the
-- total. What is held stays held; PostgreSQL refuses the surplus of it (rule 4). Rules 7, 40; README.md.
-- KEYS 1 meta  2 stock  3 buyers   ARGV 1 item  2 the total as the caller saw it  3 what it is lowered to, if it is still that
-- 0: how many free units were taken, and the total   1 there is no such item, or it is being rebuilt
local call = redis.call
local time = call('TIME')
local meta = call('HMGET', KEYS[1], 'epoch', 'seq', 'total', 'rebuild')
local stock = call('GET', KEYS[2])
local held = call('HLEN', KEYS[3])
local epoch, seq, total = meta[1] or '0', meta[2] or '0', meta[3]
local tail = ' ' .. time[1] .. ' ' .. time[2] .. ' '
if not (meta[1] and stock) or meta[4] then return '1 ' .. epoch .. ' ' .. seq .. tail end
if not ARGV[3]:find('^%d+$') then return redis.error_reply('ERR total is a whole number') end
if total == ARGV[2] and ARGV[3] - total < 0 then total = ARGV[3] end
local surplus = math.max(math.min(stock + held - total, tonumber(stock)), 0)
if surplus > 0 or total ~= meta[3] then
  if surplus > 0 then call('DECRBY', KEYS[2], ('%d'):format(surplus)) end
  seq = (seq + 1) .. ''
  call('HSET', KEYS[1], 'total', total, 'seq', seq)
  call('PUBLISH', 'sec:news', ARGV[1] .. ' ' .. epoch .. ' ' .. seq)
end
return '0 ' .. epoch .. ' ' .. seq .. tail .. ('%d'):format(surplus) .. ' ' .. total
