-- Recovery takes an unsettled reservation before it publishes it again. Rules 1, 28, 29; README.md.
-- KEYS 1 meta  2 reservation   ARGV 1 reservation_id
-- 0 claimed: the record, with MQ_PENDING   1 settled, gone, or of another epoch: leave it
local call = redis.call
local time = call('TIME')
local meta = call('HMGET', KEYS[1], 'epoch', 'seq')
local head = ' ' .. (meta[1] or 0) .. ' ' .. (meta[2] or 0) .. ' ' .. time[1] .. ' ' .. time[2] .. ' '
local r = call('HMGET', KEYS[2], 'reservation_id', 'status', 'epoch')
if r[1] ~= ARGV[1] or r[3] ~= meta[1] or r[2] == 'ORDERED' or r[2] == 'RELEASED' then return 1 .. head end
call('HSET', KEYS[2], 'status', 'MQ_PENDING')
return 0 .. head .. table.concat(call('HGETALL', KEYS[2]), ' ')
