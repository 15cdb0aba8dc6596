-- Modules are found beside the script and in the library, run once, and may fail without an effect on the script.
-- expect: loaded once
-- expect: modules/broken.lua:2: no plugin 'fused_adam'
-- expect:   hint: did you mean 'fused_adamw'? Your own plugins need --plugin-path FOLDER
-- expect: modules/raises.lua:1: attempt to index a nil value (local 'nothing')
-- expect: modules/raises.lua:1: attempt to index a nil value (local 'nothing')
-- expect: modules/syntax.lua:1: <name> expected near '='
-- expect: modules/circle_b.lua:1: modules require each other: modules/circle_a.lua -> modules/circle_b.lua -> modules/circle_a.lua
-- expect:   hint: move their common code into a separate module
-- expect: require.lua:49: no module 'nowhere'
-- expect:   hint: looked for nowhere.lua in <scripts> and <library> and <experiments>
-- expect: require.lua:49: '../scripts/ladder' is not the name of a module
-- expect:   hint: write words joined by dots: require "folder.file" names a file in the script's folder or the library
-- expect: require.lua:49: '/etc/passwd' is not the name of a module
-- expect:   hint: write words joined by dots: require "folder.file" names a file in the script's folder or the library
-- expect: require.lua:49: '..' is not the name of a module
-- expect:   hint: write words joined by dots: require "folder.file" names a file in the script's folder or the library
-- expect: require.lua:49: '.hidden' is not the name of a module
-- expect:   hint: write words joined by dots: require "folder.file" names a file in the script's folder or the library
-- expect: require.lua:49: 'modules.' is not the name of a module
-- expect:   hint: write words joined by dots: require "folder.file" names a file in the script's folder or the library
-- expect: require.lua:49: '' is not the name of a module
-- expect:   hint: write words joined by dots: require "folder.file" names a file in the script's folder or the library
-- expect: require.lua:49: 'modules..shared' is not the name of a module
-- expect:   hint: write words joined by dots: require "folder.file" names a file in the script's folder or the library
-- expect: require.lua:49: 'modules/shared' is not the name of a module
-- expect:   hint: write words joined by dots: require "folder.file" names a file in the script's folder or the library
-- expect: require.lua:49: no module 'io'
-- expect:   hint: looked for io.lua in <scripts> and <library> and <experiments>
-- expect: require.lua:51: require needs the name of a module
-- expect:   hint: for example require "optrush"
-- expect: require.lua:52: require needs the name of a module
-- expect:   hint: for example require "optrush"
-- expect: run modules/local, rounds 5
-- expect: base 0 'base': /model/dim=64 /model/n_layers=2 /model/n_heads=4 /model/n_kv_heads=2 /model/ffn_dim=172
-- expect: ladder 1 'from a module' over 0: +fused_adamw (modules/shared.lua:3)
local rush = require "optrush"
assert(rush == require "optrush")

local shared = require "modules.shared"
assert(shared == require "modules.shared")
assert(require "modules.quiet" == true and require "modules.quiet" == true and loaded_quietly == 1)
assert(type(require "bases".sane) == "table")

for _, name in ipairs {
  "modules.broken", "modules.raises", "modules.raises", "modules.syntax", "modules.circle_a", "nowhere", "../scripts/ladder",
  "/etc/passwd", "..", ".hidden", "modules.", "", "modules..shared", "modules/shared", "io",
} do
  print(select(2, pcall(require, name)))
end
print(select(2, pcall(require, 3)))
print(select(2, pcall(require)))

rush.experiment { name = "modules", model = rush.llama "nano" }:ladder(shared.rungs):run()
