-- Each kind of bad argument: the error has the line, the problem and the cure.
-- expect: == rush
-- expect: bad_arguments.lua:241: optrush has no "rugn"
-- expect:   hint: did you mean 'rung'?
-- expect: bad_arguments.lua:242: optrush has no 1
-- expect:   hint: one of: arg, checkpoint, collective, corpus, cpu, device, documents, experiment, external, gpu, llama, max_batch, operator, plugins, preferences, preset, random, ranks, rung, sizes, text, tokens
-- expect: bad_arguments.lua:243: the objects of optrush cannot be changed
-- expect:   hint: store your values in a separate table
-- expect: bad_arguments.lua:244: attempt to call a optrush value (upvalue 'rush')
-- expect: == rush.experiment
-- expect: bad_arguments.lua:246: rush.experiment: base is missing
-- expect:   hint: it must be a table of named fields: spec of the base and options of the experiment
-- expect: bad_arguments.lua:247: rush.experiment: base must be a table of named fields, but is "x"
-- expect: bad_arguments.lua:248: rush.experiment: name is missing
-- expect:   hint: it must be a string: name of the experiment, and of its folder below reports/
-- expect: bad_arguments.lua:249: rush.experiment: model is missing
-- expect:   hint: give a model from rush.llama, rush.operator, rush.collective or rush.checkpoint, or program = { command = { "{python}", "train.py" } }
-- expect: bad_arguments.lua:250: rush.experiment: unknown field 'modle'
-- expect:   hint: did you mean 'model'?
-- expect: bad_arguments.lua:251: rush.experiment: name must be a string, but is 7
-- expect: bad_arguments.lua:252: the name of an experiment cannot be 'a/b'
-- expect:   hint: it becomes a folder name: use letters, digits, '.', '_' and '-'
-- expect: bad_arguments.lua:253: the name of an experiment cannot be ''
-- expect:   hint: it becomes a folder name: use letters, digits, '.', '_' and '-'
-- expect: bad_arguments.lua:254: the name of an experiment cannot be '..'
-- expect:   hint: it becomes a folder name: use letters, digits, '.', '_' and '-'
-- expect: bad_arguments.lua:255: rush.experiment: model must be a Model from rush.llama, rush.operator, rush.collective or rush.checkpoint, but is "tiny"
-- expect: bad_arguments.lua:256: rush.experiment: model must be a Model from rush.llama, rush.operator, rush.collective or rush.checkpoint, but is an empty table
-- expect: bad_arguments.lua:257: rush.experiment: model must be a Model from rush.llama, rush.operator, rush.collective or rush.checkpoint, but is a Data
-- expect: bad_arguments.lua:258: rush.experiment: data must be a Data from rush.random, rush.text, rush.documents, rush.preferences or rush.tokens, but is "libtorch"
-- expect: bad_arguments.lua:259: rush.experiment: data must be a Data from rush.random, rush.text, rush.documents, rush.preferences or rush.tokens, but is a Corpus
-- expect: bad_arguments.lua:260: rush.experiment: train must be a table of named fields, but is 3
-- expect: bad_arguments.lua:261: rush.experiment: train must be a table of named fields, but is a list
-- expect: bad_arguments.lua:262: rush.experiment: unknown field 'micro_bach' of train
-- expect:   hint: did you mean 'micro_batch'?
-- expect: bad_arguments.lua:263: rush.experiment: train.micro_batch must be an integer between 1 and 1000000, but is "3"
-- expect: bad_arguments.lua:264: rush.experiment: train.micro_batch must be an integer between 1 and 1000000, but is 0
-- expect: bad_arguments.lua:265: rush.experiment: train.micro_batch must be an integer between 1 and 1000000, but is 1.5
-- expect: bad_arguments.lua:266: rush.experiment: argument 1 holds a number that is not finite
-- expect:   hint: check for a division by zero
-- expect: bad_arguments.lua:267: rush.experiment: train.lr must be a number of at least 0, but is a function
-- expect: bad_arguments.lua:268: rush.experiment: train.dtype must be one of 'fp32', 'fp64', 'bf16', but is "bf32"
-- expect:   hint: did you mean 'fp32'?
-- expect: bad_arguments.lua:269: train.global_batch (5) is not a multiple of micro_batch x accumulation (4)
-- expect:   hint: change one of them, or leave out train.global_batch to derive it
-- expect: bad_arguments.lua:270: rush.experiment: device must be one of 'auto', 'cpu', 'cuda', but is "gpu"
-- expect:   hint: did you mean 'cuda'?
-- expect: bad_arguments.lua:271: rush.experiment: threads must be an integer between 0 and 65536, but is -1
-- expect: bad_arguments.lua:272: rush.experiment: timeout must be a number of at least 0.001, but is 0
-- expect: bad_arguments.lua:273: rush.experiment: rounds must be an integer of at least 1, but is 0
-- expect: bad_arguments.lua:274: rush.experiment: price_per_hour must be a number of at least 0, but is -1
-- expect: bad_arguments.lua:275: the currency contains an invisible character, such as a line end: 'E?UR'
-- expect:   hint: remove the character: tables and charts show the text
-- expect: bad_arguments.lua:276: rush.experiment: plugins must be a list { ... }, each item a plugin: its name, or { name, options }, but is "lora"
-- expect:   hint: put it in braces: a list of one item is { item }
-- expect: bad_arguments.lua:277: no plugin 'lroa'
-- expect:   hint: did you mean 'lora'? Your own plugins need --plugin-path FOLDER
-- expect: bad_arguments.lua:278: plugins[1] must be the name of a plugin, or its name and options
-- expect:   hint: plugins = { "name", { "name", { option = value } } }
-- expect: bad_arguments.lua:279: plugins[1] must be the name of a plugin, or its name and options
-- expect:   hint: plugins = { "name", { "name", { option = value } } }
-- expect: bad_arguments.lua:280: the base stacks 'lora' twice
-- expect:   hint: list it once
-- expect: bad_arguments.lua:281: rush.experiment takes 1 argument, but was given 2
-- expect: bad_arguments.lua:282: rush.experiment: argument 1 holds a table with a metatable
-- expect:   hint: give a plain table: inherited fields would be ignored
-- expect: bad_arguments.lua:283: rush.experiment: base must be a table of named fields, but is a table with both a list and named fields
-- expect: bad_arguments.lua:284: rush.experiment: argument 1 holds a table with a key of type number
-- expect:   hint: use names as keys, or 1, 2, ... in a list
-- expect: bad_arguments.lua:285: rush.experiment: argument 1 holds text that is not valid UTF-8
-- expect:   hint: save the script as UTF-8
-- expect: == rush.rung
-- expect: bad_arguments.lua:287: rush.rung: name is missing
-- expect:   hint: it must be a string: name of the rung in the report
-- expect: bad_arguments.lua:288: the name of a rung must be one line of 1 to 80 bytes
-- expect:   hint: write at least one character
-- expect: bad_arguments.lua:289: the name of a rung contains an invisible character, such as a line end: 'a?b'
-- expect:   hint: remove the character: tables and charts show the text
-- expect: bad_arguments.lua:290: the name of a rung must be one line of 1 to 80 bytes
-- expect:   hint: shorten it: it is a table entry of the report
-- expect: bad_arguments.lua:291: rush.rung: name must be a string, but is a list
-- expect: bad_arguments.lua:292: rush.rung: plugin must be a string or a table of named fields, but is 3
-- expect: bad_arguments.lua:293: no plugin 'flash_atention'
-- expect:   hint: did you mean 'flash_attention'? Your own plugins need --plugin-path FOLDER
-- expect: bad_arguments.lua:294, plugin 'lora': unknown option 'rnk'
-- expect:   hint: did you mean 'rank'?
-- expect: bad_arguments.lua:295, plugin 'lora': option 'rank' must be an integer between 1 and 4096, but is 0
-- expect: bad_arguments.lua:296, plugin 'lora': option 'rank' must be an integer between 1 and 4096, but is "8"
-- expect: bad_arguments.lua:297, plugin 'lora': option 'target_modules' must be a list of strings, but is "q_proj"
-- expect: bad_arguments.lua:298, plugin 'lora': option 'target_modules' must be a list of strings, but is [1]
-- expect: bad_arguments.lua:299: rush.rung: argument 3 holds a list without item 2
-- expect:   hint: remove the nil inside the list
-- expect: bad_arguments.lua:300, plugin 'lora': options.target_modules is a table with both a list and named fields
-- expect:   hint: give one of the two
-- expect: bad_arguments.lua:301, plugin 'lora': options.target_modules must be plain values, but is a Data
-- expect: bad_arguments.lua:302, plugin 'lora': options must have named fields, but is [8]
-- expect: bad_arguments.lua:303, plugin 'mixed_precision': option 'dtype' must be one of 'bf16', 'fp16', but is "bf61"
-- expect:   hint: did you mean 'bf16'?
-- expect: bad_arguments.lua:304, plugin 'gradient_accumulation': option 'steps' is required
-- expect:   hint: give an integer of at least 2: micro-batches
-- expect: bad_arguments.lua:305: rush.rung: options must be a table, but is 8
-- expect: bad_arguments.lua:306: rush.rung: options without a plugin
-- expect:   hint: write rush.rung(name, plugin, options)
-- expect: bad_arguments.lua:307: rush.rung: unknown field 'stesp' of train
-- expect:   hint: did you mean 'steps'?
-- expect: bad_arguments.lua:308: rush.rung: plugins are given twice
-- expect:   hint: list all of them in plugins = { ... }
-- expect: bad_arguments.lua:309: rush.rung: too many tables
-- expect:   hint: write rush.rung(name, plugin, options, settings), or rush.rung(name, settings) without a plugin
-- expect: bad_arguments.lua:310: rush.rung: unknown field 'micro_batch'
-- expect:   hint: did you mean train = { micro_batch = ... }?
-- expect: bad_arguments.lua:311: rush.rung: unknown field 'layers' of model
-- expect:   hint: did you mean 'n_layers'?
-- expect: bad_arguments.lua:312: rush.rung: model.norm must be one of 'rmsnorm', 'layernorm', 'layernorm_without_parameters', but is "batchnorm"
-- expect: bad_arguments.lua:313: rush.rung: unknown field 'fctor' of model.rope_scaling
-- expect:   hint: did you mean 'factor'?
-- expect: bad_arguments.lua:314: rush.rung: unknown field 'checkpoint' of model
-- expect:   hint: one of: activation, attention_bias, attention_gate, attention_scale, attention_sinks, attention_soft_cap, delta_net, dense_layers, dim, double_wide_mlp, embedding_scale, expert_bias, expert_ffn_dim, experts_beside_mlp, experts_per_token, ffn_dim, full_attention, full_attention_layers, head_dim, init_std, kv_shared_layers, latent, layer_scale, layers_without_mlp, layers_without_rope, logits_divisor, logits_soft_cap, mamba, n_experts, n_heads, n_kv_heads, n_layers, norm, norm_eps, norm_placement, normalize_router, per_layer_input_dim, per_layer_vocab_size, position, qk_norm, residual_scale, rope_scaling, rope_theta, rotary_fraction, router, shared_expert_ffn_dim, shared_expert_gate, tie_embeddings, value_norm, vocab_size, window, window_rope_theta
-- expect: bad_arguments.lua:315: rush.rung: replace needs a plugin of the rung as the replacement
-- expect:   hint: to remove a plugin, use without = ...
-- expect: bad_arguments.lua:316: rush.rung: without must be a string or a list of strings, but is 3
-- expect: bad_arguments.lua:317: rush.rung: without must be a list of strings, but is [3]
-- expect: bad_arguments.lua:318: rush.rung takes 4 arguments, but was given 5
-- expect: bad_arguments.lua:319: this Rung has no "nmae"
-- expect:   hint: it has no fields; pass it to other functions
-- expect: == rush.llama
-- expect: bad_arguments.lua:321: rush.llama: preset must be one of 'nano', 'tiny', 'small', 'llama-3.2-1b', 'llama-3.2-3b', 'llama-3.1-8b', 'llama-3.1-70b', 'olmo-1b', 'olmo-2-1b', 'qwen2.5-0.5b', 'qwen2.5-1.5b', 'qwen3-0.6b', 'qwen3-1.7b', 'smollm3-3b', 'gemma-3-270m', 'gemma-3-1b', 'mistral-7b', but is "tinny"
-- expect:   hint: did you mean 'tiny'?
-- expect: bad_arguments.lua:322: rush.llama: preset must be one of 'nano', 'tiny', 'small', 'llama-3.2-1b', 'llama-3.2-3b', 'llama-3.1-8b', 'llama-3.1-70b', 'olmo-1b', 'olmo-2-1b', 'qwen2.5-0.5b', 'qwen2.5-1.5b', 'qwen3-0.6b', 'qwen3-1.7b', 'smollm3-3b', 'gemma-3-270m', 'gemma-3-1b', 'mistral-7b', but is "gpt"
-- expect: bad_arguments.lua:323: rush.llama: preset must be one of 'nano', 'tiny', 'small', 'llama-3.2-1b', 'llama-3.2-3b', 'llama-3.1-8b', 'llama-3.1-70b', 'olmo-1b', 'olmo-2-1b', 'qwen2.5-0.5b', 'qwen2.5-1.5b', 'qwen3-0.6b', 'qwen3-1.7b', 'smollm3-3b', 'gemma-3-270m', 'gemma-3-1b', 'mistral-7b' or a table of named fields, but is 3
-- expect: bad_arguments.lua:324: rush.llama: unknown field 'dims'
-- expect:   hint: did you mean 'dim'?
-- expect: bad_arguments.lua:325: model.dim (256) is not a multiple of model.n_heads (7)
-- expect:   hint: change one of them, or give model.head_dim
-- expect: bad_arguments.lua:326: model.n_heads (8) is not a multiple of model.n_kv_heads (3)
-- expect:   hint: change one of them: each key/value head must serve the same number of query heads
-- expect: bad_arguments.lua:327: rush.llama: two tables of fields
-- expect:   hint: give the name of a preset and one table, or one table
-- expect: bad_arguments.lua:328: rush.llama: rope_scaling must be a table of named fields, but is 8
-- expect: == rush.checkpoint
-- expect: bad_arguments.lua:330: rush.checkpoint: folder is missing
-- expect:   hint: it must be a string: folder; relative paths start at the script's folder
-- expect: bad_arguments.lua:331: no config.json in '<scripts>/nowhere'
-- expect:   hint: give a Hugging Face folder with config.json and safetensors files; relative paths start at the script's folder
-- expect: bad_arguments.lua:332: no config.json in '<scripts>/modules'
-- expect:   hint: give a Hugging Face folder with config.json and safetensors files; relative paths start at the script's folder
-- expect: == data
-- expect: bad_arguments.lua:334: rush.random: unknown field 'seed'
-- expect:   hint: no value is allowed here
-- expect: bad_arguments.lua:335: rush.random: options must be a table of named fields, but is 1
-- expect: bad_arguments.lua:336: rush.text: source is missing
-- expect:   hint: it must be a string or a Corpus from rush.corpus: file, folder or corpus; relative paths start at the script's folder
-- expect: bad_arguments.lua:337: no file or folder '<scripts>/nowhere.txt'
-- expect:   hint: relative paths start at the script's folder
-- expect: bad_arguments.lua:338: rush.text: source must be a string or a Corpus from rush.corpus, but is a Model
-- expect: bad_arguments.lua:339: rush.text: unknown field 'extension'
-- expect:   hint: did you mean 'extensions'?
-- expect: bad_arguments.lua:340: data.extensions has 'h'
-- expect:   hint: start an extension with a dot, for example '.h'
-- expect: bad_arguments.lua:341: no file or folder '<scripts>/nowhere.bin'
-- expect:   hint: relative paths start at the script's folder
-- expect: bad_arguments.lua:342: '<scripts>/modules' is not a file
-- expect:   hint: give a token file (docs/reference/formats.md)
-- expect: bad_arguments.lua:343: rush.corpus: name must be one of 'libtorch', but is "torch"
-- expect:   hint: did you mean 'libtorch'?
-- expect: bad_arguments.lua:344: rush.corpus: name is missing
-- expect:   hint: it must be one of 'libtorch': libtorch: C++ headers of this build's LibTorch
-- expect: bad_arguments.lua:345: rush.plugins takes no arguments, but was given 1
-- expect: == exp
-- expect: bad_arguments.lua:347: exp:ladder is called with a dot
-- expect:   hint: call it with a colon: exp:ladder { ... }
-- expect: bad_arguments.lua:348: exp:ladder is called with a dot
-- expect:   hint: call it with a colon: exp:ladder { ... }
-- expect: bad_arguments.lua:349: exp:run is called with a dot
-- expect:   hint: call it with a colon: exp:run { ... }
-- expect: bad_arguments.lua:350: this Experiment has no "lader"
-- expect:   hint: did you mean 'ladder'?
-- expect: bad_arguments.lua:351: exp:ladder: rungs are missing
-- expect:   hint: it must be a list { ... } of Rung: rungs, in order
-- expect: bad_arguments.lua:352: the ladder has no rungs
-- expect:   hint: put rush.rung(...) between the braces
-- expect: bad_arguments.lua:353: exp:ladder: rungs must be a list { ... } of Rung, but is a Rung
-- expect:   hint: put it in braces: a list of one item is { item }
-- expect: bad_arguments.lua:354: exp:ladder: rungs[1] must be a Rung from rush.rung or rush.external, but is "x"
-- expect: bad_arguments.lua:355: exp:ladder: argument 1 holds a list without item 2
-- expect:   hint: remove the nil inside the list
-- expect: bad_arguments.lua:356: two rungs are named 'x': also bad_arguments.lua:356
-- expect:   hint: give each rung a unique name: reports and --only use it
-- expect: bad_arguments.lua:357: two rungs are named 'base'
-- expect:   hint: give each rung a unique name: reports and --only use it
-- expect: bad_arguments.lua:358: rung 'x': without names 'lora', which is not stacked
-- expect:   hint: no plugins are stacked at this rung
-- expect: bad_arguments.lua:359: rung 'y': replace names 'loar', which is not stacked
-- expect:   hint: did you mean 'lora'? plugins stacked at this rung: lora
-- expect: bad_arguments.lua:360: rung 'x' stacks 'lora', which rung 'x' (bad_arguments.lua:360) already stacks
-- expect:   hint: to change its options, set replace = "lora"
-- expect: bad_arguments.lua:361: model.dim (64) is not a multiple of model.n_heads (7)
-- expect:   hint: change one of them, or give model.head_dim
-- expect: bad_arguments.lua:362: train.global_batch (7) is not a multiple of micro_batch x accumulation (4)
-- expect:   hint: change one of them, or leave out train.global_batch to derive it
-- expect: bad_arguments.lua:363: an ablation needs at least two rungs
-- expect:   hint: add a rung, or use exp:ladder
-- expect: bad_arguments.lua:364: rung 'y': without names 'lora', which is not stacked
-- expect:   hint: no plugins are stacked at this rung
-- expect: bad_arguments.lua:365: the grid has no axes
-- expect:   hint: exp:grid { batch = { rush.rung(...), ... }, ... }
-- expect: bad_arguments.lua:366: exp:grid: axes[1] must be a list { ... } of Rung, but is a Rung
-- expect:   hint: put it in braces: a list of one item is { item }
-- expect: bad_arguments.lua:367: axis 'batch' has no rungs
-- expect:   hint: put rush.rung(...) between the braces
-- expect: bad_arguments.lua:368: exp:grid: axes.batch must be a list { ... } of Rung, but is a Rung
-- expect:   hint: put it in braces: a list of one item is { item }
-- expect: bad_arguments.lua:369: exp:grid: axes must be a list of lists { { ... }, ... } of Rung or a table of named lists of Rung, but is a table with both a list and named fields
-- expect: bad_arguments.lua:372: the experiment has more than 1000 rungs
-- expect:   hint: measure fewer combinations at a time
-- expect: bad_arguments.lua:375: exp:run: rounds must be an integer of at least 1, but is 0
-- expect: bad_arguments.lua:376: exp:run: unknown field 'round'
-- expect:   hint: did you mean 'rounds'?
-- expect: bad_arguments.lua:377: the label of a report cannot be 'a b'
-- expect:   hint: it becomes a folder name: use letters, digits, '.', '_' and '-'
-- expect: bad_arguments.lua:378: the label of a report cannot be '../x'
-- expect:   hint: it becomes a folder name: use letters, digits, '.', '_' and '-'
-- expect: bad_arguments.lua:379: exp:run: options must be a table of named fields, but is "x"
-- expect: bad_arguments.lua:380: the objects of optrush cannot be changed
-- expect:   hint: store your values in a separate table
-- expect: run bad-arguments/local, rounds 5
-- expect: base 0 'base': /model/dim=64 /model/n_layers=2 /model/n_heads=4 /model/n_kv_heads=2 /model/ffn_dim=172
-- expect: bad_arguments.lua:381: this Report has no "folder"
-- expect:   hint: one of: dir, report
local rush = require "optrush"
local nano = rush.llama "nano"
local exp = rush.experiment { name = "bad-arguments", model = nano }

local function refused(call)
  local ok, message = pcall(call)
  assert(not ok, "accepted")
  print(message)
end

print "== rush"
refused(function() rush.rugn("x") end)
refused(function() return rush[1] end)
refused(function() rush.llama = nil end)
refused(function() rush() end)
print "== rush.experiment"
refused(function() rush.experiment() end)
refused(function() rush.experiment "x" end)
refused(function() rush.experiment {} end)
refused(function() rush.experiment { name = "x" } end)
refused(function() rush.experiment { name = "x", modle = nano } end)
refused(function() rush.experiment { name = 7, model = nano } end)
refused(function() rush.experiment { name = "a/b", model = nano } end)
refused(function() rush.experiment { name = "", model = nano } end)
refused(function() rush.experiment { name = "..", model = nano } end)
refused(function() rush.experiment { name = "x", model = "tiny" } end)
refused(function() rush.experiment { name = "x", model = {} } end)
refused(function() rush.experiment { name = "x", model = rush.random() } end)
refused(function() rush.experiment { name = "x", model = nano, data = "libtorch" } end)
refused(function() rush.experiment { name = "x", model = nano, data = rush.corpus "libtorch" } end)
refused(function() rush.experiment { name = "x", model = nano, train = 3 } end)
refused(function() rush.experiment { name = "x", model = nano, train = { 3 } } end)
refused(function() rush.experiment { name = "x", model = nano, train = { micro_bach = 3 } } end)
refused(function() rush.experiment { name = "x", model = nano, train = { micro_batch = "3" } } end)
refused(function() rush.experiment { name = "x", model = nano, train = { micro_batch = 0 } } end)
refused(function() rush.experiment { name = "x", model = nano, train = { micro_batch = 1.5 } } end)
refused(function() rush.experiment { name = "x", model = nano, train = { lr = 0 / 0 } } end)
refused(function() rush.experiment { name = "x", model = nano, train = { lr = print } } end)
refused(function() rush.experiment { name = "x", model = nano, train = { dtype = "bf32" } } end)
refused(function() rush.experiment { name = "x", model = nano, train = { global_batch = 5 } } end)
refused(function() rush.experiment { name = "x", model = nano, device = "gpu" } end)
refused(function() rush.experiment { name = "x", model = nano, threads = -1 } end)
refused(function() rush.experiment { name = "x", model = nano, timeout = 0 } end)
refused(function() rush.experiment { name = "x", model = nano, rounds = 0 } end)
refused(function() rush.experiment { name = "x", model = nano, price_per_hour = -1 } end)
refused(function() rush.experiment { name = "x", model = nano, currency = "E\nUR" } end)
refused(function() rush.experiment { name = "x", model = nano, plugins = "lora" } end)
refused(function() rush.experiment { name = "x", model = nano, plugins = { "lroa" } } end)
refused(function() rush.experiment { name = "x", model = nano, plugins = { { "lora", rank = 3 } } } end)
refused(function() rush.experiment { name = "x", model = nano, plugins = { {} } } end)
refused(function() rush.experiment { name = "x", model = nano, plugins = { "lora", "lora" } }:ladder { rush.rung "r" } end)
refused(function() rush.experiment({ name = "x", model = nano }, 2) end)
refused(function() rush.experiment(setmetatable({ name = "x", model = nano }, {})) end)
refused(function() rush.experiment { name = "x", model = nano, "extra" } end)
refused(function() rush.experiment { name = "x", model = nano, [1.5] = 1 } end)
refused(function() rush.experiment { name = "\xff", model = nano } end)
print "== rush.rung"
refused(function() rush.rung() end)
refused(function() rush.rung("") end)
refused(function() rush.rung("a\nb") end)
refused(function() rush.rung(("x"):rep(81)) end)
refused(function() rush.rung { "x" } end)
refused(function() rush.rung("x", 3) end)
refused(function() rush.rung("x", "flash_atention") end)
refused(function() rush.rung("x", "lora", { rnk = 8 }) end)
refused(function() rush.rung("x", "lora", { rank = 0 }) end)
refused(function() rush.rung("x", "lora", { rank = "8" }) end)
refused(function() rush.rung("x", "lora", { target_modules = "q_proj" }) end)
refused(function() rush.rung("x", "lora", { target_modules = { 1 } }) end)
refused(function() rush.rung("x", "lora", { target_modules = { "a", nil, "b" } }) end)
refused(function() rush.rung("x", "lora", { target_modules = { "a", b = 1 } }) end)
refused(function() rush.rung("x", "lora", { target_modules = rush.random() }) end)
refused(function() rush.rung("x", "lora", { 8 }) end)
refused(function() rush.rung("x", "mixed_precision", { dtype = "bf61" }) end)
refused(function() rush.rung("x", "gradient_accumulation") end)
refused(function() rush.rung("x", "lora", 8) end)
refused(function() rush.rung("x", nil, { rank = 8 }) end)
refused(function() rush.rung("x", "lora", {}, { train = { stesp = 8 } }) end)
refused(function() rush.rung("x", "lora", {}, { plugins = { "fused_adamw" } }) end)
refused(function() rush.rung("x", { train = {} }, {}) end)
refused(function() rush.rung("x", { micro_batch = 8 }) end)
refused(function() rush.rung("x", { model = { layers = 8 } }) end)
refused(function() rush.rung("x", { model = { norm = "batchnorm" } }) end)
refused(function() rush.rung("x", { model = { rope_scaling = { fctor = 8 } } }) end)
refused(function() rush.rung("x", { model = { checkpoint = "x" } }) end)
refused(function() rush.rung("x", { replace = "lora" }) end)
refused(function() rush.rung("x", { without = 3 }) end)
refused(function() rush.rung("x", { without = { 3 } }) end)
refused(function() rush.rung("x", "lora", {}, {}, 5) end)
refused(function() return rush.rung("x").nmae end)
print "== rush.llama"
refused(function() rush.llama "tinny" end)
refused(function() rush.llama "gpt" end)
refused(function() rush.llama(3) end)
refused(function() rush.llama("tiny", { dims = 3 }) end)
refused(function() rush.llama("tiny", { n_heads = 7 }) end)
refused(function() rush.llama("tiny", { n_kv_heads = 3 }) end)
refused(function() rush.llama({ dim = 64 }, { dim = 32 }) end)
refused(function() rush.llama("tiny", { rope_scaling = 8 }) end)
print "== rush.checkpoint"
refused(function() rush.checkpoint() end)
refused(function() rush.checkpoint "nowhere" end)
refused(function() rush.checkpoint "modules" end)
print "== data"
refused(function() rush.random { seed = 1 } end)
refused(function() rush.random(1) end)
refused(function() rush.text() end)
refused(function() rush.text "nowhere.txt" end)
refused(function() rush.text(nano) end)
refused(function() rush.text("modules", { extension = ".h" }) end)
refused(function() rush.text("modules", { extensions = { "h" } }) end)
refused(function() rush.tokens "nowhere.bin" end)
refused(function() rush.tokens "modules" end)
refused(function() rush.corpus "torch" end)
refused(function() rush.corpus() end)
refused(function() rush.plugins(1) end)
print "== exp"
refused(function() exp.ladder { rush.rung "x" } end)
refused(function() exp.ladder() end)
refused(function() exp.run(nano) end)
refused(function() exp:lader {} end)
refused(function() exp:ladder() end)
refused(function() exp:ladder {} end)
refused(function() exp:ladder(rush.rung "x") end)
refused(function() exp:ladder { "x" } end)
refused(function() exp:ladder { rush.rung "x", nil, rush.rung "y" } end)
refused(function() exp:ladder { rush.rung "x", rush.rung "x" } end)
refused(function() exp:ladder { rush.rung "base" } end)
refused(function() exp:ladder { rush.rung("x", { without = "lora" }) } end)
refused(function() exp:ladder { rush.rung("x", "lora"), rush.rung("y", "fused_adamw", {}, { replace = "loar" }) } end)
refused(function() exp:ladder { rush.rung("x", { plugins = { "lora", "lora" } }) } end)
refused(function() exp:ladder { rush.rung("x", { model = { n_heads = 7 } }) } end)
refused(function() exp:ladder { rush.rung("x", { train = { global_batch = 7 } }) } end)
refused(function() exp:ablation { rush.rung "x" } end)
refused(function() exp:ablation { rush.rung "x", rush.rung("y", { without = "lora" }) } end)
refused(function() exp:grid {} end)
refused(function() exp:grid { rush.rung "x" } end)
refused(function() exp:grid { batch = {} } end)
refused(function() exp:grid { batch = rush.rung "x" } end)
refused(function() exp:grid { { rush.rung "x" }, batch = { rush.rung "y" } } end)
refused(function()
  local axis = {}
  for i = 1, 40 do axis[i] = rush.rung("r" .. i) end
  exp:grid { axis, axis }
end)
refused(function() exp:run { rounds = 0 } end)
refused(function() exp:run { round = 3 } end)
refused(function() exp:run { label = "a b" } end)
refused(function() exp:run { label = "../x" } end)
refused(function() exp:run "x" end)
refused(function() exp.name = "x" end)
refused(function() return exp:run().folder end)
