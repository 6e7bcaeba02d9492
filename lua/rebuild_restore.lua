-- Gives those who hold a unit their records, entries in buyers and places in pending. Each step is done once, in order, at
-- its epoch only: what was held back in the network does nothing. Rules 35, 36; README.md.
-- KEYS 1 meta  2 buyers  3 pending  4… n reservations
-- ARGV 1 epoch  2 step (1…; the first empties buyers and pending), then n rows: "O" (an order) or "L" (unsettled)
--      " reservation_id order_id message_id created_at_ms"
-- 0 done, now or before   1 refused
local call = redis.call
local time = call('TIME')
local meta = call('HMGET', KEYS[1], 'epoch', 'seq', 'rebuild', 'step', 'expires_ms')
local head = ' ' .. (meta[1] or 0) .. ' ' .. (meta[2] or 0) .. ' ' .. time[1] .. ' ' .. time[2] .. ' '
local step, expires = tonumber(ARGV[2]), meta[5]
if meta[1] ~= ARGV[1] or meta[3] ~= ARGV[1] or step > meta[4] + 1 then return 1 .. head end
if step <= tonumber(meta[4]) then return 0 .. head end
local rows, ids = {}, {}
for i = 3, #ARGV do
  local row = { ARGV[i]:match('^([OL]) (%S+) (%d+) (%S+) (%d+)$') }
  if not row[1] then return redis.error_reply('ERR no such row') end
  rows[i - 2] = row
  local id = redis.pcall('HGET', KEYS[i + 1], 'reservation_id')
  ids[i - 2] = type(id) == 'table' and 'of another type' or id
end
if step > 1 then -- of their types
  call('HLEN', KEYS[2])
  call('ZCARD', KEYS[3])
else
  call('DEL', KEYS[2], KEYS[3])
end
local member_at = #KEYS[1] + 9 -- "…:meta" against "…:reservation:<member>"
local held, waits = {}, {}
for i, row in ipairs(rows) do
  local key = KEYS[i + 3]
  local member = key:sub(member_at)
  local user, request = member:match('^(%d+):(.+)$')
  if ids[i] and ids[i] ~= row[2] then call('DEL', key) end
  if ids[i] ~= row[2] then
    call('HSET', key, 'reservation_id', row[2], 'order_id', row[3], 'message_id', row[4], 'status', 'MQ_PENDING', 'epoch',
      ARGV[1], 'seq', '0', 'created_at_ms', row[5])
  end
  local entry = row[2] .. ' ' .. row[3] .. ' ' .. request
  if row[1] == 'O' then
    call('HSET', key, 'epoch', ARGV[1], 'seq', '0', 'status', 'ORDERED', 'state', 'SUCCEEDED', 'rank', '3')
    if ids[i] == row[2] then call('HDEL', key, 'reason') end
    held[#held + 1] = user
    held[#held + 1] = entry
  else
    -- Its old seq means nothing in this epoch. RESERVED could be taken away again (rule 8), and PostgreSQL would not know.
    call('HSET', key, 'epoch', ARGV[1], 'seq', '0', 'status', 'MQ_PENDING')
    call('HSETNX', KEYS[2], user, entry) -- an order of the same buyer stands before it
    waits[#waits + 1] = row[5]
    waits[#waits + 1] = member
  end
  call('PEXPIREAT', key, expires)
end
if held[1] then call('HSET', KEYS[2], unpack(held)) end
if waits[1] then call('ZADD', KEYS[3], unpack(waits)) end
call('PEXPIREAT', KEYS[2], expires)
call('PEXPIREAT', KEYS[3], expires)
call('HSET', KEYS[1], 'step', ARGV[2])
return 0 .. head
