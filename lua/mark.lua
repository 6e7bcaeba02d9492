-- What became of the publish: RESERVED, MQ_SENT, MQ_PENDING among each other, never ORDERED or RELEASED. Rule 1; README.md.
-- KEYS 1 meta  2 reservation   ARGV 1 reservation_id  2 MQ_SENT or MQ_PENDING
-- 0 marked  1 left alone
local call = redis.call
local time = call('TIME')
local meta = call('HMGET', KEYS[1], 'epoch', 'seq')
local head = ' ' .. (meta[1] or 0) .. ' ' .. (meta[2] or 0) .. ' ' .. time[1] .. ' ' .. time[2] .. ' '
local r = call('HMGET', KEYS[2], 'reservation_id', 'status')
local from, to = r[2], ARGV[2]
if to ~= 'MQ_SENT' and to ~= 'MQ_PENDING' then return redis.error_reply('ERR no such mark') end
if r[1] ~= ARGV[1] or not (from == 'RESERVED' or from == 'MQ_SENT' or from == 'MQ_PENDING') then return 1 .. head end
if from ~= to then call('HSET', KEYS[2], 'status', to) end
return 0 .. head
