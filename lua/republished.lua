-- A repeated publish was accepted: it counts, and where it stands in the queue is noted, so that rule 28 looks at the
-- newest. README.md.
-- KEYS 1 meta  2 reservation   ARGV 1 reservation_id  2 queue_id
-- 0 noted; MQ_PENDING became MQ_SENT   1 settled or gone: left alone
local call = redis.call
local time = call('TIME')
local meta = call('HMGET', KEYS[1], 'epoch', 'seq')
local head = ' ' .. (meta[1] or 0) .. ' ' .. (meta[2] or 0) .. ' ' .. time[1] .. ' ' .. time[2] .. ' '
local r = call('HMGET', KEYS[2], 'reservation_id', 'status', 'republished')
if r[1] ~= ARGV[1] or r[2] == 'ORDERED' or r[2] == 'RELEASED' then return 1 .. head end
local status, times = r[2] == 'MQ_PENDING' and 'MQ_SENT' or r[2], ((r[3] or 0) + 1) .. ''
if ARGV[2] == '' then
  call('HSET', KEYS[2], 'status', status, 'republished', times)
else
  call('HSET', KEYS[2], 'status', status, 'republished', times, 'queue_id', ARGV[2])
end
return 0 .. head
