-- Makes buyers and pending agree with one record, which decides: a unit that is held has its entry, one that is released has
-- none (rule 5), and what is unsettled waits (rule 28). The stock is not touched. Rules 7, 40; README.md.
-- KEYS 1 meta  2 buyers  3 pending  4 reservation   ARGV 1 item  2 reservation_id
-- 0 mended   1 nothing to mend: it agrees, is gone, another's, of another epoch, or being rebuilt
local call = redis.call
local time = call('TIME')
local meta = call('HMGET', KEYS[1], 'epoch', 'seq', 'expires_ms', 'rebuild')
local r = call('HMGET', KEYS[4], 'reservation_id', 'epoch', 'status', 'order_id', 'created_at_ms')
local member = KEYS[4]:sub(#KEYS[1] + 9)
local user, request = member:match('^(%d+):(%S+)$')
local entry = call('HGET', KEYS[2], user)
local waits = call('ZSCORE', KEYS[3], member)
local epoch, seq = meta[1] or '0', meta[2] or '0'
local moved, waiting = false, false
if r[1] == ARGV[2] and r[2] == meta[1] and r[4] and r[5] and meta[3] and not meta[4] then
  local unsettled = r[3] == 'RESERVED' or r[3] == 'MQ_SENT' or r[3] == 'MQ_PENDING'
  if r[3] == 'RELEASED' and entry and entry:sub(1, #r[1]) == r[1] then
    call('HDEL', KEYS[2], user)
    moved = true
  elseif not entry and (unsettled or r[3] == 'ORDERED') then
    call('HSET', KEYS[2], user, r[1] .. ' ' .. r[4] .. ' ' .. request)
    call('PEXPIREAT', KEYS[2], meta[3])
    moved = true
  end
  if unsettled and not waits then
    call('ZADD', KEYS[3], r[5], member)
    call('PEXPIREAT', KEYS[3], meta[3])
    waiting = true
  end
end
if moved then
  seq = (seq + 1) .. ''
  call('HSET', KEYS[1], 'seq', seq)
  call('PUBLISH', 'sec:news', ARGV[1] .. ' ' .. epoch .. ' ' .. seq)
end
return ((moved or waiting) and '0 ' or '1 ') .. epoch .. ' ' .. seq .. ' ' .. time[1] .. ' ' .. time[2] .. ' '
