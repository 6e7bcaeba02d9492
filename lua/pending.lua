-- Who waits: unsettled reservations created before a time, oldest first. README.md.
-- KEYS 1 meta  2 pending   ARGV 1 before_ms  2 offset  3 max
-- 0: size of the whole set, then of each "<user_id>:<request_id> created_at_ms"; "!" for a member that is no such thing
local call = redis.call
local time = call('TIME')
local meta = call('HMGET', KEYS[1], 'epoch', 'seq')
local found = call('ZRANGEBYSCORE', KEYS[2], '-inf', '(' .. ARGV[1], 'WITHSCORES', 'LIMIT', ARGV[2], ARGV[3])
for i = 1, #found, 2 do
  if not found[i]:find('^%d+:[%x-]+$') then found[i] = '!' end
end
return '0 ' .. (meta[1] or 0) .. ' ' .. (meta[2] or 0) .. ' ' .. time[1] .. ' ' .. time[2] .. ' ' ..
  call('ZCARD', KEYS[2]) .. ' ' .. table.concat(found, ' ')
