-- The limits of a script: unreachable functions, and values that it cannot change.
-- expect: _G _VERSION assert coroutine error getmetatable ipairs load math next os pairs pcall print rawequal rawget rawlen rawset require select setmetatable string table tonumber tostring type utf8 xpcall
-- expect: clock date time
-- expect: nil	attempt to load a binary chunk (mode is 't')
-- expect: nil	attempt to load a binary chunk (mode is 't')
-- expect: nil	attempt to load a binary chunk (mode is 't')
-- expect: nil	attempt to load a binary chunk (mode is 't')
-- expect: nil	chunk:1: unexpected symbol near '+'
-- expect: false	bad argument #1 to 'setmetatable' (table expected, got string)
-- expect: bad argument #1 to 'setmetatable' (table expected, got optrush)
-- expect: sandbox.lua:75: the objects of optrush cannot be changed
-- expect:   hint: store your values in a separate table
-- expect: bad argument #1 to 'setmetatable' (table expected, got Rung)
-- expect: sandbox.lua:75: the objects of optrush cannot be changed
-- expect:   hint: store your values in a separate table
-- expect: bad argument #1 to 'setmetatable' (table expected, got Model)
-- expect: sandbox.lua:75: the objects of optrush cannot be changed
-- expect:   hint: store your values in a separate table
-- expect: bad argument #1 to 'setmetatable' (table expected, got Data)
-- expect: sandbox.lua:75: the objects of optrush cannot be changed
-- expect:   hint: store your values in a separate table
-- expect: bad argument #1 to 'setmetatable' (table expected, got Corpus)
-- expect: sandbox.lua:75: the objects of optrush cannot be changed
-- expect:   hint: store your values in a separate table
-- expect: false	resulting string too large
-- expect: false	not enough memory
-- expect: false	sandbox.lua:90: rush.rung: argument 3 holds a table nested deeper than 32 levels
-- expect:   hint: check for a table that contains itself
-- expect: sandbox.lua:93: rush.llama: argument 1 holds a table nested deeper than 32 levels
-- expect:   hint: check for a table that contains itself
-- expect: sandbox.lua:96: rush.llama: argument 1 holds a table of more than 100000 values
-- expect:   hint: use fewer values
-- expect: nil	C stack overflow
-- expect: true	
-- expect: sandbox.lua:101: no plugin 'lorra'
-- expect:   hint: did you mean 'lora'? Your own plugins need --plugin-path FOLDER
-- expect: true
-- expect: sandbox.lua: rush.rung: name must be a string, but is 1
-- expect: run still-works/local, rounds 5
-- expect: base 0 'base': /model/dim=64 /model/n_layers=2 /model/n_heads=4 /model/n_kv_heads=2 /model/ffn_dim=172
-- expect: ladder 1 'x' over 0: (sandbox.lua:71)
local rush = require "optrush"

for _, name in ipairs { "io", "package", "debug", "dofile", "loadfile", "loadstring", "collectgarbage", "warn", "rush" } do
  assert(_G[name] == nil, name)
end
local names = {}
for name in pairs(_G) do names[#names + 1] = name end
table.sort(names)
print(table.concat(names, " "))
names = {}
for name in pairs(os) do names[#names + 1] = name end
table.sort(names)
print(table.concat(names, " "))
assert(string.dump == nil and ("").dump == nil)
assert(type(os.time()) == "number" and type(os.clock()) == "number" and #os.date() > 0)

-- Binary code, in all ways to load it.
local bytecode = "\27Lua\x54\0\x19\x93\r\n\x1a\n"
print(load(bytecode))
print(load(bytecode, "x", "b"))
print(load(bytecode, "x", "bt", {}))
print(load(function() local piece = bytecode; bytecode = nil; return piece end))
assert(load "return 1 + 1"() == 2)
assert(load("return x", "chunk", "t", { x = 5 })() == 5)
print(load("return +", "=chunk"))

-- Metatables of strings and of the host's objects.
assert(getmetatable("") == false)
print(pcall(setmetatable, "", {}))
local rung = rush.rung "x"
for _, object in ipairs { rush, rung, rush.llama(), rush.random(), rush.corpus "libtorch" } do
  assert(getmetatable(object) == false)
  print(select(2, pcall(setmetatable, object, {})))
  print(select(2, pcall(function() object.name = 1 end)))
end
string.format = nil
table.concat = nil
local exp = rush.experiment { name = "still-works", model = rush.llama "nano" }
exp:ladder { rung }

-- A script survives the limits of memory and depth.
print(pcall(string.rep, "x", 1 << 40))
print(pcall(string.rep, "x", 1 << 28))
local function again() return 1 + again() end
local ok, message = pcall(again)
assert(not ok and message:find "stack overflow")
local deep = {}
for _ = 1, 100 do deep = { deep } end
print(pcall(rush.rung, "deep", "lora", { target_modules = deep }))
local circle = {}
circle.circle = circle
print(select(2, pcall(rush.llama, circle)))
local wide = {}
for i = 1, 100001 do wide[i] = true end
print(select(2, pcall(rush.llama, wide)))
print(select(2, pcall(load, ("("):rep(300))))
print(pcall(string.rep, "x", -1))

-- Coroutines.
local co = coroutine.wrap(function() rush.rung("in a coroutine", "lorra") end)
print(select(2, pcall(co)))
print(coroutine.resume(coroutine.create(function() return rush.rung "fine" end)) == true)
print(select(2, pcall(coroutine.wrap(rush.rung), 1)))
exp:run()
