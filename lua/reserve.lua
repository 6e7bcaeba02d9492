-- Takes one unit for one buyer, or says why not. A refusal writes nothing. Rules 1, 7, 12, 13, 15, 34; README.md.
-- KEYS 1 meta  2 stock  3 buyers  4 reservation  5 pending  [6 events]  [witness]
-- ARGV 1 user_id  2 request_id  3 reservation_id  4 order_id  5 message_id  6 deadline_ms (0: none)  7 epoch
-- and 8 seq that were heard of (0 0: none)  [9 open event body]
-- 0 created: queue_id or ''  1 replay: the record  2 duplicate: the buyers entry  3 sold out  4 no item  5 too late
-- 6 not open  7 ended  8 paused  9 behind
-- This script is the ceiling of the whole system: numbers stay text (13 digits of ms compare as text), the answer is one
-- line (a table costs 12 % of a refusal), and no command is here that does not earn its place.
local call = redis.call
local time = call('TIME')
local meta = call('HMGET', KEYS[1], 'epoch', 'seq', 'state', 'starts_ms', 'ends_ms', 'expires_ms')
local now = time[1] .. ('00000' .. time[2]):sub(-6, -4)
local head = ' ' .. (meta[1] or 0) .. ' ' .. (meta[2] or 0) .. ' ' .. time[1] .. ' ' .. time[2] .. ' '

if now >= ARGV[6] and ARGV[6] ~= '0' then return 5 .. head end
-- What was heard of is no longer so: writes were lost, nothing here can be believed (rule 34a).
if meta[1] == ARGV[7] then
  local key = KEYS[ARGV[9] and 7 or 6] -- the witness
  if meta[2] + 0 < ARGV[8] + 0 or (key and call('EXISTS', key) == 0) then return 9 .. head end
elseif ARGV[7] ~= '0' and meta[1] and meta[1] + 0 < ARGV[7] + 0 then
  return 9 .. head
end
local known = call('HGETALL', KEYS[4])
if known[1] then return 1 .. head .. table.concat(known, ' ') end
local held = call('HGET', KEYS[3], ARGV[1])
if held then return 2 .. head .. held end
local stock = call('GET', KEYS[2])
if not (meta[1] and stock) then return 4 .. head end
if now < meta[4] then return 6 .. head end
if now >= meta[5] or meta[3] == 'CLOSED' then return 7 .. head end
if meta[3] ~= 'OPEN' then return 8 .. head end
if (stock:byte() or 0) < 49 then return 3 .. head end -- its first character is below '1'
local waiting = call('ZCARD', KEYS[5])

-- Everything that is written below was read above, so its type is right. DECR must not fail either.
if stock:find('%D') then return redis.error_reply('ERR stock is not a whole number') end
local epoch, seq, queue_id = meta[1], (meta[2] + 1) .. '', nil
if ARGV[9] then
  -- The first write: a key of another type, or no stream at all (a half-lost item), ends here with nothing changed.
  queue_id = call('XADD', KEYS[6], 'NOMKSTREAM', '*', 'b', ARGV[9] .. ',"epoch":' .. epoch .. ',"seq":' .. seq .. '}')
  if not queue_id then return 4 .. head end
end
call('DECR', KEYS[2])
call('HSET', KEYS[1], 'seq', seq)
call('HSET', KEYS[3], ARGV[1], ARGV[3] .. ' ' .. ARGV[4] .. ' ' .. ARGV[2])
if queue_id then
  call('HSET', KEYS[4], 'reservation_id', ARGV[3], 'order_id', ARGV[4], 'message_id', ARGV[5], 'status', 'MQ_SENT',
    'epoch', epoch, 'seq', seq, 'created_at_ms', now, 'queue_id', queue_id)
else
  call('HSET', KEYS[4], 'reservation_id', ARGV[3], 'order_id', ARGV[4], 'message_id', ARGV[5], 'status', 'RESERVED',
    'epoch', epoch, 'seq', seq, 'created_at_ms', now)
end
call('PEXPIREAT', KEYS[4], meta[6])
call('ZADD', KEYS[5], now, ARGV[1] .. ':' .. ARGV[2])
-- An empty key vanishes, and its expiry with it. Each unsettled reservation has its buyers entry, so while something
-- waits neither key is new.
if waiting == 0 then
  call('PEXPIREAT', KEYS[5], meta[6])
  call('PEXPIREAT', KEYS[3], meta[6])
end
return '0 ' .. epoch .. ' ' .. seq .. ' ' .. time[1] .. ' ' .. time[2] .. ' ' .. (queue_id or '')
