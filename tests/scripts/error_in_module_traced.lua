-- The traceback begins inside the module.
-- expect-error: modules/raises.lua:1: attempt to index a nil value (local 'nothing')
-- expect-error:   modules/raises.lua:1: in local 'deeper'
-- expect-error:   modules/raises.lua:2: in main chunk
-- expect-error:   error_in_module_traced.lua:7: in local 'load_it'
-- expect-error:   error_in_module_traced.lua:8: in main chunk
local function load_it() return (require "modules.raises") end
load_it()
