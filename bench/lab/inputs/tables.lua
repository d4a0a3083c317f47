-- lua's share of the demo: small tables, closures, strings and the collector.
-- The argument is the number of entries. Every object is one call of realloc
-- (lua has no allocator of its own). Prints only counts and sums; nothing is
-- walked with pairs(), whose order depends on addresses.
local size = tonumber(arg[1])

local function tree(depth)
  if depth == 0 then
    return { value = 1 }
  end
  return { left = tree(depth - 1), right = tree(depth - 1), value = depth }
end

local function sum(node)
  if not node.left then
    return node.value
  end
  return node.value + sum(node.left) + sum(node.right)
end

local kept = tree(14)
local total = 0
for _ = 1, size // 4000 do
  total = total + sum(tree(10))
end
print("trees", total, sum(kept))

local words, counts = {}, {}
for i = 1, size do
  local word = string.format("w%x", (i * 7919) % 20011) .. string.rep("z", i % 9)
  words[#words + 1] = word
  counts[word] = (counts[word] or 0) + 1
end
local most, how_often = "", 0
for _, word in ipairs(words) do
  local n = counts[word]
  if n > how_often or (n == how_often and word < most) then
    most, how_often = word, n
  end
end
print("words", #words, most, how_often)

local makers = {}
for i = 1, size // 2 do
  local state = { i, i * 2 }
  makers[i] = function(x)
    return state[1] + state[2] + x
  end
end
local checksum = 0
for i = 1, #makers do
  checksum = (checksum * 31 + makers[i](i)) % 1000000007
end
print("closures", checksum)

local parts = {}
for i = 1, size do
  parts[#parts + 1] = words[i]:upper():gsub("Z+", tostring(i % 100))
end
local text = table.concat(parts, " ")
local lengths = 0
for word in text:gmatch("%S+") do
  lengths = lengths + #word * (word:byte(2) % 7)
end
print("text", #text, lengths)

table.sort(parts)
print("sorted", parts[1], parts[#parts])
