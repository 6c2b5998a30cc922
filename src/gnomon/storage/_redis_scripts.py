"""What runs inside Redis. A script is atomic, and sees and changes keys of one hash slot only.

The first write of a script is the one that needs memory: when there is none, Redis
refuses that one, and lets the rest of a script that has begun to write go through.
"""

from __future__ import annotations

from hashlib import sha1

__all__ = ["APPEND", "CUT", "DELETE", "FIND", "GET", "MIGRATE", "READ", "WRITE", "Script"]


class Script:
    """A script and the name under which Redis remembers it."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.digest = sha1(source.encode(), usedforsecurity=False).hexdigest()


# --- rows: a hash each, with its places packed beside it, so that they can be found again and removed.
# An index is a sorted set of equal scores, whose members `sort NUL id` Redis orders by their bytes.

WRITE = Script(r"""
local stored = redis.call('HMGET', KEYS[1], 'revision', 'places')
if ARGV[1] ~= '' and (stored[1] or '0') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'revision', ARGV[2], 'body', ARGV[3], 'places', ARGV[4])
if stored[2] == ARGV[4] then return 1 end
local before = stored[2] and cmsgpack.unpack(stored[2]) or {}
local now = cmsgpack.unpack(ARGV[4])
for place, sort in pairs(before) do
  if now[place] ~= sort then redis.call('ZREM', ARGV[5] .. place, sort .. '\0' .. ARGV[6]) end
end
for place, sort in pairs(now) do
  if before[place] ~= sort then redis.call('ZADD', ARGV[5] .. place, 0, sort .. '\0' .. ARGV[6]) end
end
return 1
""")

DELETE = Script(r"""
local stored = redis.call('HMGET', KEYS[1], 'revision', 'places')
if not stored[1] or (ARGV[1] ~= '' and stored[1] ~= ARGV[1]) then return 0 end
redis.call('UNLINK', KEYS[1])
for place, sort in pairs(stored[2] and cmsgpack.unpack(stored[2]) or {}) do
  redis.call('ZREM', ARGV[2] .. place, sort .. '\0' .. ARGV[3])
end
return 1
""")

# A body that takes a while comes as its size, so that the reader can ask again with more patience.
GET = Script(r"""
local size = redis.call('HSTRLEN', KEYS[1], 'body')
if size > tonumber(ARGV[1]) then return {redis.call('HGET', KEYS[1], 'revision'), size} end
return redis.call('HMGET', KEYS[1], 'revision', 'body')
""")

# First the member where to go on, or nothing when the stretch has ended; then member, revision and body
# of each row. It stops after so many bytes: Redis does nothing else while it collects them.
FIND = Script(r"""
local members
if ARGV[3] == '1' then
  members = redis.call('ZRANGE', KEYS[1], ARGV[2], ARGV[1], 'BYLEX', 'REV', 'LIMIT', 0, ARGV[4])
else
  members = redis.call('ZRANGE', KEYS[1], ARGV[1], ARGV[2], 'BYLEX', 'LIMIT', 0, ARGV[4])
end
local reply, size = {''}, 0
for _, member in ipairs(members) do
  local row = ARGV[5] .. string.sub(member, string.find(member, '\0', 1, true) + 1)
  local revision, body = redis.call('HGET', row, 'revision'), ''
  if ARGV[6] == '1' then body = redis.call('HGET', row, 'body') or '' end
  if revision then
    reply[#reply + 1] = member
    reply[#reply + 1] = revision
    reply[#reply + 1] = body
  end
  reply[1] = member
  size = size + #body
  if size >= tonumber(ARGV[7]) then return reply end
end
if #members < tonumber(ARGV[4]) then reply[1] = '' end
return reply
""")

# --- logs: a stream each; the id of an entry is the last number of its group.
# A stream that was cut to nothing still knows its last id.

APPEND = Script(r"""
local tail = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
local last = tail and tail[1] or '0-0'
if not tail and redis.call('EXISTS', KEYS[1]) == 1 then
  local told = redis.call('XINFO', 'STREAM', KEYS[1])
  for at = 1, #told, 2 do
    if told[at] == 'last-generated-id' then last = told[at + 1] end
  end
end
if last ~= ARGV[1] then return 0 end
redis.call('XADD', KEYS[1], ARGV[2], 'first', ARGV[3], 'body', ARGV[4])
redis.pcall('PUBLISH', KEYS[1], ARGV[5])
return 1
""")

# A few entries at a time, since Redis copies all that it is asked for before their size is known.
READ = Script(r"""
local reply, size, start, left = {}, 0, ARGV[1], tonumber(ARGV[2])
while left > 0 do
  local count = math.min(left, 8)
  local entries = redis.call('XRANGE', KEYS[1], start, '+', 'COUNT', count)
  for _, entry in ipairs(entries) do
    reply[#reply + 1] = entry[1]
    reply[#reply + 1] = entry[2][2]
    reply[#reply + 1] = entry[2][4]
    size = size + #entry[2][4]
    if size >= tonumber(ARGV[3]) then return reply end
  end
  if #entries < count then return reply end
  left = left - count
  start = '(' .. entries[#entries][1]
end
return reply
""")

CUT = Script(r"""
local head = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
local tail = redis.call('XREVRANGE', KEYS[1], ARGV[1], '-', 'COUNT', 1)[1]
if ARGV[1] == '+' then
  redis.call('UNLINK', KEYS[1])
elseif tail then
  redis.call('XTRIM', KEYS[1], 'MINID', '=', ARGV[2])
end
if not tail then return 0 end
return tonumber(string.match(tail[1], '^%d+')) - tonumber(head[2][2]) + 1
""")

# --- the schema: one step, taken by whoever comes first

MIGRATE = r"""
if tonumber(redis.call('GET', KEYS[1]) or '0') ~= tonumber(ARGV[1]) - 1 then return 0 end
%s
redis.call('SET', KEYS[1], ARGV[1])
return 1
"""
