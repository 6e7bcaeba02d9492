-- `strict`: takes a reservation away as if it had been refused, so that the same key may compete again; only while
-- nothing was published. Rule 8; README.md.
-- KEYS 1 meta  2 stock  3 buyers  4 reservation  5 pending   ARGV 1 item  2 user_id  3 request_id  4 reservation_id
-- 0 released  1 not RESERVED any more, gone, or of another epoch
local call = redis.call
local time = call('TIME')
local meta = call('HMGET', KEYS[1], 'epoch', 'seq')
local head = ' ' .. (meta[1] or 0) .. ' ' .. (meta[2] or 0) .. ' ' .. time[1] .. ' ' .. time[2] .. ' '
local r = call('HMGET', KEYS[4], 'reservation_id', 'status', 'epoch')
local held = call('HGET', KEYS[3], ARGV[2])
local stock = call('GET', KEYS[2])
call('ZCARD', KEYS[5])
if r[1] ~= ARGV[4] or r[2] ~= 'RESERVED' or r[3] ~= meta[1] or not stock then return 1 .. head end
if stock:find('[^%d-]') then return redis.error_reply('ERR stock is not a whole number') end
local epoch, seq = meta[1], (meta[2] + 1) .. ''
call('INCR', KEYS[2])
call('DEL', KEYS[4])
if held and held:sub(1, #ARGV[4]) == ARGV[4] then call('HDEL', KEYS[3], ARGV[2]) end
call('ZREM', KEYS[5], ARGV[2] .. ':' .. ARGV[3])
call('HSET', KEYS[1], 'seq', seq)
call('PUBLISH', 'sec:news', ARGV[1] .. ' ' .. epoch .. ' ' .. seq)
return '0 ' .. epoch .. ' ' .. seq .. ' ' .. time[1] .. ' ' .. time[2] .. ' '
