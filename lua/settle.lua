-- Brings n reservations of one item to their verdicts, each once. Rules 2, 3, 4, 5, 7; README.md.
-- KEYS 1 meta  2 stock  3 buyers  4 pending  5… n reservations, then the records of other orders
-- ARGV 1 item  2 n, then 10 a row: user_id  request_id  reservation_id  state  reason ('' none)  rank  give_back (1/0)
--      other_reservation_id ('' none)  other_order_id  other_request_id; last, per row: index in KEYS of the other's
--      record (0: its record is this one)
-- 0: a digit per row: 0 settled  1 ignored  2 later
local call = redis.call
local time = call('TIME')
local meta = call('HMGET', KEYS[1], 'epoch', 'seq')
local n = tonumber(ARGV[2])
local WIDTH, others = 10, 2 + 10 * n

-- Read everything first: types are checked by it, and one row may depend on what an earlier row of this call changed.
local stock = call('GET', KEYS[2])
if stock and stock:find('[^%d-]') then return redis.error_reply('ERR stock is not a whole number') end
call('ZCARD', KEYS[4])
local records = {}
local function record(key)
  local r = records[key]
  if not r then
    local f = call('HMGET', key, 'reservation_id', 'epoch', 'status', 'state', 'rank')
    r = { id = f[1], epoch = f[2], status = f[3], state = f[4], rank = tonumber(f[5] or 1) }
    records[key] = r
  end
  return r
end
local users, buyers = {}, {}
for i = 1, n do
  local at = 2 + WIDTH * (i - 1)
  record(KEYS[4 + i])
  local other = tonumber(ARGV[others + i])
  if other > 0 then record(KEYS[other]) end
  users[i] = ARGV[at + 1]
end
local held = call('HMGET', KEYS[3], unpack(users))
for i = 1, n do buyers[users[i]] = held[i] end

-- Decide each row on the state that the rows before it left.
local result, changes, done, touched = {}, {}, {}, {}
local returned, moved = 0, false
local function settle(i)
  local at = 2 + WIDTH * (i - 1)
  local user, request, id, state, reason = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4], ARGV[at + 5]
  local rank, gives, other_id = tonumber(ARGV[at + 6]), ARGV[at + 7] == '1', ARGV[at + 8]
  local r = record(KEYS[4 + i])
  if r.id ~= id or rank < 3 then return 1 end
  if r.epoch ~= meta[1] or not stock then return 2 end -- rule 2: a rebuild is under way
  local lost = r.state == 'SUCCEEDED' and reason == 'LOST_ORDER'
  if rank < r.rank or rank == r.rank and not lost then return 1 end -- rule 3

  local was_held = r.status ~= 'RELEASED'
  local ordered = was_held and state == 'SUCCEEDED'
  if gives and was_held then returned = returned + 1 end
  -- Rule 5: the buyers entry is ours to change only while it names this reservation.
  local entry = buyers[user]
  if entry and entry:sub(1, #id) == id and (not ordered or other_id ~= '') then
    local keep = other_id ~= '' and (ordered or reason == 'ONE_USER_ONE_ORDER')
    local place = tonumber(ARGV[others + i])
    if keep and place > 0 then
      local o = record(KEYS[place])
      keep = not (o.id == other_id and o.status == 'RELEASED')
    end
    buyers[user] = keep and other_id .. ' ' .. ARGV[at + 9] .. ' ' .. ARGV[at + 10]
    touched[user], moved = true, true
  end
  r.status, r.state, r.rank = ordered and 'ORDERED' or 'RELEASED', state, rank
  local change = { 'status', r.status, 'state', state, 'rank', ARGV[at + 6] }
  if reason ~= '' then
    change[7], change[8] = 'reason', reason
  end
  if other_id ~= '' then
    r.id = other_id
    local m = #change
    change[m + 1], change[m + 2], change[m + 3], change[m + 4] = 'reservation_id', other_id, 'order_id', ARGV[at + 9]
  end
  changes[#changes + 1] = { KEYS[4 + i], change }
  done[#done + 1] = user .. ':' .. request
  return 0
end
for i = 1, n do result[i] = settle(i) end

-- Write.
for _, c in ipairs(changes) do call('HSET', c[1], unpack(c[2])) end
if done[1] then call('ZREM', KEYS[4], unpack(done)) end
local set, gone = {}, {}
for user in pairs(touched) do
  if buyers[user] then
    set[#set + 1] = user
    set[#set + 1] = buyers[user]
  else
    gone[#gone + 1] = user
  end
end
if set[1] then call('HSET', KEYS[3], unpack(set)) end -- before HDEL: an emptied hash would lose its expiry
if gone[1] then call('HDEL', KEYS[3], unpack(gone)) end
if returned > 0 then call('INCRBY', KEYS[2], returned) end
local epoch, seq = meta[1] or '0', meta[2] or '0'
if moved or returned > 0 then -- rule 7
  seq = (seq + 1) .. ''
  call('HSET', KEYS[1], 'seq', seq)
  call('PUBLISH', 'sec:news', ARGV[1] .. ' ' .. epoch .. ' ' .. seq)
end
return '0 ' .. epoch .. ' ' .. seq .. ' ' .. time[1] .. ' ' .. time[2] .. ' ' .. table.concat(result)
