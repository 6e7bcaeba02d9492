-- Keeps a command that the queue accepted, until PostgreSQL knows it. Rule 27; README.md.
-- KEYS 1 meta  2 commands   ARGV 1 message_id  2 most  3 body
-- 0 remembered, now or before (the first body stays)   1 no such item   2 there are that many
local call = redis.call
local time = call('TIME')
local meta = call('HMGET', KEYS[1], 'epoch', 'seq', 'expires_ms')
local head = ' ' .. (meta[1] or 0) .. ' ' .. (meta[2] or 0) .. ' ' .. time[1] .. ' ' .. time[2] .. ' '
local n = call('HLEN', KEYS[2])
if not meta[3] then return 1 .. head end
if call('HEXISTS', KEYS[2], ARGV[1]) == 1 then return 0 .. head end
if n >= tonumber(ARGV[2]) then return 2 .. head end
call('HSET', KEYS[2], ARGV[1], time[1] .. ('00000' .. time[2]):sub(-6, -4) .. ' ' .. ARGV[3])
if n == 0 then call('PEXPIREAT', KEYS[2], meta[3]) end
return 0 .. head
