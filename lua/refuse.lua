-- Notes for the buyer that a cancel was refused, because the order is paid: the request stays as it is. Rule 27; README.md.
-- KEYS 1 meta  2 reservation   ARGV 1 reservation_id
-- 0 noted  1 left alone: gone, another's, or over
local call = redis.call
local time = call('TIME')
local meta = call('HMGET', KEYS[1], 'epoch', 'seq')
local head = ' ' .. (meta[1] or 0) .. ' ' .. (meta[2] or 0) .. ' ' .. time[1] .. ' ' .. time[2] .. ' '
local r = call('HMGET', KEYS[2], 'reservation_id', 'status')
if r[1] ~= ARGV[1] or r[2] == 'RELEASED' then return 1 .. head end
call('HSET', KEYS[2], 'cancel', 'REFUSED')
return 0 .. head
