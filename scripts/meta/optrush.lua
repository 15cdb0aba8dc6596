---@meta optrush
-- Made from the binding table (core/script/api.h); OPTRUSH_UPDATE_GOLDENS=1 makes test_script write it.
error("editor stubs cannot be required")

---A model to train.
---@class Model
local Model = {}

---What a model is trained on.
---@class Data
local Data = {}

---A text that every machine has, for rush.text and rush.documents.
---@class Corpus
local Corpus = {}

---A named change: plugins, settings, or both.
---@class Rung
local Rung = {}

---A base, and what is measured against it.
---@class Experiment
local Experiment = {}

---What an experiment found.
---@class Report
---@field dir string The folder of the report.
local Report = {}

---a number, a string, true or false
---@alias Scalar integer|number|string|boolean

---a plugin: its name, or { name, options }
---@alias PluginUse string|table

---What rush.experiment takes.
---@class ExperimentOptions
---@field name string of the experiment and of its folder below reports/
---@field question? string what it is to answer; heads the report
---@field model Model what is trained
---@field data? Data what it is trained on; seeded random tokens where left out
---@field train? TrainSettings the training step
---@field device? "auto"|"cpu"|"cuda" where the run trains; auto: a GPU where there is one (default "auto")
---@field threads? integer CPU threads in one operator; 0: every core (at least 0, at most 65536, default 0)
---@field env? table<string, string> environment variables of the run, over those that it inherits
---@field timeout? number seconds until the run is ended (at least 0.001, default 3600.0)
---@field plugins? PluginUse[] plugins to stack: their names, or { name, options } each
---@field rounds? integer runs of each rung, interleaved (at least 1, default 5)
---@field validate? ValidateOptions the loss on data that training never reads
---@field save? SaveOptions the state that another run can go on from
---@field sample? SampleOptions prompts that the trained model continues
---@field start? string folder of a run with a saved state that every rung goes on from: with its parameters, the optimizer's state and the number of the step
---@field target_loss? number the report says how many seconds each rung trains until its validation loss is there; without validate, the mean training loss of 10 steps (at least 1e-06)
---@field price_per_hour? number of the machine; gives the price of a million tokens (at least 0)
---@field currency? string of that price (default "USD")

---What a rung changes; what it leaves out stays as it is on the rung below.
---@class RungSettings
---@field model? Model|LlamaFields|OperatorFields|CollectiveFields what is trained
---@field data? Data what it is trained on
---@field train? TrainSettings the training step
---@field device? "auto"|"cpu"|"cuda" where the run trains; auto: a GPU where there is one
---@field threads? integer CPU threads in one operator; 0: every core (at least 0, at most 65536)
---@field env? table<string, string> environment variables of the run, over those that it inherits
---@field timeout? number seconds until the run is ended (at least 0.001)
---@field plugins? PluginUse[] plugins to stack: their names, or { name, options } each
---@field replace? string|string[] stacked plugins that this rung's own take the place of
---@field without? string|string[] stacked plugins that this rung takes off
---@field over? string the rung of this ladder that it stands on and is compared with; the one before it where left out
---@field expect? Published what others published of this change, for the report of a ladder

---Published figures of a rung's change, over the rung below it.
---@class Published
---@field speedup? number in tokens/s: 1.75 is 75 % more (at least 0)
---@field memory? number peak memory: 0.7 is 30 % less (at least 0)
---@field source string who published it
---@field on string the device, a comma, the problem: "A100-80GB, sequence 2048". Of another device the report says so

---What rush.external takes: a program, and what the rung changes beside that.
---@class ExternalOptions
---@field name string heads a row of the report
---@field command string[] the program and its arguments, started in the script's folder; {python}, {spec}, {start}, {out}, {metrics}, {worker}, {world_size} are filled in
---@field files? string[] what else decides its results: a changed file is run again. Arguments that are files count anyway
---@field preload? string[] libraries that the dynamic loader takes first
---@field requirements? string file in the form of pip's requirements: the Python packages that the program imports
---@field packages? string file with the names of the system's packages (Debian) that have the libraries and programs, one a line: for the message where one is missing
---@field effect? "rounding"|"precision"|"model" on arithmetic, against the rung below (default "rounding")
---@field interleave? boolean it follows the protocol of interleaved runs: docs/guides/running.md (default false)
---@field model? Model|LlamaFields|OperatorFields|CollectiveFields what is trained
---@field data? Data what it is trained on
---@field train? TrainSettings the training step
---@field device? "auto"|"cpu"|"cuda" where the run trains; auto: a GPU where there is one
---@field threads? integer CPU threads in one operator; 0: every core (at least 0, at most 65536)
---@field env? table<string, string> environment variables of the run, over those that it inherits
---@field timeout? number seconds until the run is ended (at least 0.001)

---How a report shows a grid: a table, and curves over a setting.
---@class GridView
---@field axes? string[] names of axes that were given as a list
---@field columns? ("tokens_per_second"|"step_time"|"peak_memory"|"activations"|"flops_per_second"|"mfu"|"hfu"|"data_time"|"forward_time"|"backward_time"|"optimizer_time"|"exposed_time"|"loss"|"validation_loss"|"time_to_loss"|"steps_to_loss"|"compile_time"|"forward_bandwidth"|"backward_bandwidth"|"forward_bandwidth_share"|"backward_bandwidth_share"|"forward_flops"|"backward_flops"|"intensity"|"algorithm_bandwidth"|"bus_bandwidth"|"collective_time")[] of the table, beside one for each axis
---@field against? string a rung of one axis: changes against it stand in brackets
---@field x? string a numeric setting of the axes, as in train.seq_len
---@field curves? ("tokens_per_second"|"step_time"|"peak_memory"|"activations"|"flops_per_second"|"mfu"|"hfu"|"data_time"|"forward_time"|"backward_time"|"optimizer_time"|"exposed_time"|"loss"|"validation_loss"|"time_to_loss"|"steps_to_loss"|"compile_time"|"forward_bandwidth"|"backward_bandwidth"|"forward_bandwidth_share"|"backward_bandwidth_share"|"forward_flops"|"backward_flops"|"intensity"|"algorithm_bandwidth"|"bus_bandwidth"|"collective_time")[] drawn over x, one line for each choice of the other axes

---The training step. The defaults are those of a base; a rung changes only what it names.
---@class TrainSettings
---@field world_size? integer processes that train one model together: a GPU each, or a share of the cores (at least 1, at most 65536, default 1)
---@field micro_batch? integer sequences of one forward on one data rank (at least 1, at most 1000000, default 4)
---@field accumulation? integer micro-batches of one step on one data rank (at least 1, at most 1000000, default 1)
---@field global_batch? integer sequences of one step on all ranks; 0: derived, else checked (at least 0, default 0)
---@field seq_len? integer tokens of a sequence (at least 1, at most 2147483648, default 512)
---@field steps? integer timed steps (at least 1, at most 1000000000, default 10)
---@field epochs? integer passes over the training data after which the run ends, if it has not made its steps by then; 0: the steps alone say (at least 0, at most 1000000000, default 0)
---@field warmup? integer steps before the timed ones (at least 0, at most 1000000000, default 3)
---@field seed? integer of initial weights, data and dropout (at least 0, default 1)
---@field lr? number learning rate of AdamW, the highest of the run (at least 0, default 0.0003)
---@field lr_warmup? integer steps, timed or not, over which the learning rate rises to lr (at least 0, at most 1000000000, default 0)
---@field lr_decay? "none"|"linear"|"cosine" how the learning rate falls from lr_warmup to lr_steps (default "none")
---@field lr_steps? integer steps of the whole training, of which a run may be a part; lr_decay takes it (at least 0, at most 1000000000, default 0)
---@field lr_min? number what is left of lr after lr_steps, as a share of it (at least 0, at most 1, default 0.0)
---@field beta1? number decay of AdamW's first moment, below 1 (at least 0, at most 1, default 0.9)
---@field beta2? number decay of AdamW's second moment, below 1 (at least 0, at most 1, default 0.95)
---@field eps? number added to the root of AdamW's second moment (at least 0, default 1e-08)
---@field weight_decay? number decoupled weight decay of matrices (at least 0, default 0.1)
---@field dtype? "fp32"|"fp64"|"bf16" of parameters (default "fp32")

---The loss on data that training never reads: the same sequences for every rung, outside of the steps' time; also after the last step.
---@class ValidateOptions
---@field every integer steps from one to the next (at least 1, at most 1000000000)
---@field sequences? integer of train.seq_len, over all ranks (at least 1, at most 1000000, default 32)
---@field data? Data where they come from; left out: the end of the experiment's own text or token file, which training then leaves out, or other random sequences
---@field patience? integer validations in a row without a lower loss after which the run ends; 0: it makes all its steps (at least 0, at most 1000000000, default 0)
---@field keep_best? boolean keep the state of the lowest loss, in the folder best of the run (default false)

---A state of each rung's first round that another experiment can go on from (start), saved between steps and outside of their time; also after the last step. The last one is left.
---@class SaveOptions
---@field every integer steps from one to the next (at least 1)

---What each rung's trained model continues greedily after the last step of its first round, for the report.
---@class SampleOptions
---@field prompts string[] texts that the trained model continues greedily after the last step
---@field tokens? integer that follow a prompt (at least 1, at most 4096, default 48)

---Dimensions of a Llama. The defaults are those without a preset; a rung changes only what it names.
---@class LlamaFields
---@field vocab_size? integer tokens of the vocabulary (at least 2, at most 2147483648, default 256)
---@field dim? integer width of the residual stream (at least 1, at most 2147483648, default 256)
---@field n_layers? integer blocks (at least 1, at most 10000, default 4)
---@field n_heads? integer query heads (at least 1, at most 2147483648, default 8)
---@field n_kv_heads? integer heads of keys and values; it divides n_heads (at least 1, at most 2147483648, default 4)
---@field head_dim? integer width of a head, even; 0: dim / n_heads (at least 0, at most 2147483648, default 0)
---@field ffn_dim? integer inner width of the SwiGLU (at least 1, at most 2147483648, default 688)
---@field norm? "rmsnorm"|"layernorm"|"layernorm_without_parameters" normalization before attention, SwiGLU and head (default "rmsnorm")
---@field norm_eps? number added to the variance in a norm (at least 0, default 1e-05)
---@field rope_theta? number base of the rotary frequencies (at least 1, default 10000.0)
---@field rope_scaling? RopeScaling Llama 3 rescaling of the rotary frequencies
---@field tie_embeddings? boolean the head's weight is the embedding (default true)
---@field init_std? number standard deviation of the initial weights (at least 0, default 0.02)

---Llama 3 rescaling of the rotary frequencies.
---@class RopeScaling
---@field factor? number stretch of the low frequencies; 1: none (at least 1, default 1.0)
---@field low_freq_factor? number wavelengths above original_max_position / this are stretched (at least 0, default 1.0)
---@field high_freq_factor? number wavelengths below original_max_position / this are kept (at least 0, default 4.0)
---@field original_max_position? integer context length that the model was trained on first (at least 1, at most 2147483648, default 8192)

---Sizes of one operator alone; a rung changes only what it names.
---@class OperatorFields
---@field dim? integer width of each input (at least 1, at most 2147483648, default 1024)
---@field n_heads? integer of position and attention, which cut dim into them (at least 1, at most 2147483648, default 16)
---@field ffn_dim? integer inner width of mlp (at least 1, at most 2147483648, default 4096)
---@field vocab_size? integer of head_loss (at least 2, at most 2147483648, default 32000)
---@field repeat? integer how often, one after the other, so that what surrounds it weighs little (at least 1, at most 1000, default 1)

---Sizes of one collective alone; a rung changes only what it names.
---@class CollectiveFields
---@field bytes? integer of the larger of a rank's input and output, as nccl-tests counts; rounded up to fp32 numbers that the ranks share evenly (at least 4, at most 68719476736, default 1048576)
---@field repeat? integer calls in a step, one after the other, so that what surrounds them weighs little (at least 1, at most 100000, default 1)

---Random tokens need none: train.seed seeds them.
---@class RandomOptions

---What rush.text and rush.documents take from a folder.
---@class TextOptions
---@field extensions? string[] only files that end so, as in '.h'; every file where left out

---What rush.max_batch asks about.
---@class Problem
---@field model Model what is trained
---@field data? Data what it is trained on; seeded random tokens where left out
---@field train? TrainSettings the training step
---@field device? "auto"|"cpu"|"cuda" where the run trains; auto: a GPU where there is one (default "auto")
---@field threads? integer CPU threads in one operator; 0: every core (at least 0, at most 65536, default 0)
---@field env? table<string, string> environment variables of the run, over those that it inherits
---@field timeout? number seconds until the run is ended (at least 0.001, default 3600.0)
---@field plugins? PluginUse[] plugins to stack: their names, or { name, options } each
---@field rungs? Rung[] stacked on that, as in a ladder
---@field memory? number|string bytes that a step may take, or "20GB"; the GPU's, less a tenth for what no tensor holds; on a CPU seven tenths of what is free
---@field most? integer no larger micro-batch is looked at (at least 1, at most 1024, default 1024)
---@field trial? boolean run two steps of what is predicted to fit, and halve it until it does; --resume keeps the answer (default false)

---How large the batches of a ladder are.
---@class LadderOptions
---@field batch? "same"|"max" same: as the rungs say; max: each rung has the largest micro-batch, a power of two, that its stack holds, and accumulates up to the base's sequences a step (default "same")
---@field memory? number|string of batch = "max": bytes that a step may take, or "20GB"; the GPU's, less a tenth; on a CPU seven tenths of what is free
---@field trial? boolean of batch = "max": confirm what is predicted by a run of two steps, halved until it fits (default false)

---What exp:run takes.
---@class RunOptions
---@field rounds? integer instead of the experiment's (at least 1)
---@field within? number instead of rounds: as many as it takes until the intervals are ± this; 0.03 is 3 % (at least 0.0001, at most 1)
---@field at_most? number|string with within: how long to measure, in seconds or as "90s", "5m", "1h"
---@field label? string of the report's folder: reports/<experiment>/<label>/; git ignores 'local' (default "local")
---@field interleave? boolean whether the rungs of a round are interleaved step by step; left out: on a CPU, where they fit into its memory together
---@field trace? boolean the first round of every rung leaves a Chrome trace of one more step (default false)

---a rung, or a list of rungs of which one is chosen
---@alias SearchPart Rung|Rung[]

---What exp:search takes beside its parts.
---@class SearchOptions
---@field memory? number|string bytes, or "20GB": no stack whose step is predicted to need more; left out: what is free
---@field within? number every stage runs as many rounds as it takes until its intervals are ± this (at least 0.0001, at most 1, default 0.02)
---@field at_most? number|string how long all of it may take, in seconds or as "90s", "20m", "1h" (default 1200.0)
---@field label? string of the report's folder: reports/<experiment>/<label>/; git ignores 'local' (default "local")
---@field interleave? boolean whether the stacks of a round are interleaved step by step; left out: as in exp:run

---A GPU.
---@class Gpu
---@field name string as the driver calls it
---@field memory_bytes integer that it has
---@field sm string its compute capability: sm_90

---Sizes of a decoder.
---@class ModelSizes
---@field dim integer width of the residual stream
---@field n_layers integer blocks
---@field n_heads integer query heads
---@field n_kv_heads integer heads of keys and values
---@field head_dim integer width of a head
---@field ffn_dim integer inner width of the SwiGLU
---@field vocab_size integer tokens of the vocabulary
---@field tie_embeddings boolean the head's weight is the embedding
---@field max_positions integer the longest sequence that a checkpoint was trained on; 0: not said
---@field parameters integer of all its tensors

---A CPU.
---@class Cpu
---@field name string as it calls itself
---@field free_bytes integer memory that processes can still have
---@field bf16_speedup number FLOP/s of a matmul in bf16 over those of one in fp32, measured for about a second; 0 where there are no instructions for bf16

---A plugin that this build can use.
---@class PluginInfo
---@field name string what rush.rung calls it
---@field version string of the plugin
---@field summary string one line
---@field kind "optimization"|"parallelism" of technique
---@field effect "exact"|"rounding"|"precision"|"batch"|"model" on arithmetic
---@field options PluginOption[] that it takes

---An option of a plugin.
---@class PluginOption
---@field name string of the option
---@field type string integer, number, string, boolean or list
---@field doc string one line
---@field default? any where left out; nil: it must be given

---Measures what each training optimization really buys: docs/reference/lua.md.
local rush = {}

---Describes an experiment: its base, which is rung 0.
---@param base ExperimentOptions what every rung starts from
---@return Experiment
function rush.experiment(base) end

---A named change. Without a plugin, settings may come second: rush.rung("micro-batch 8", { train = { micro_batch = 8 } }). Plugins and options are checked here, at this line.
---@param name string heads a row of the report
---@param plugin? string|RungSettings the plugin that it stacks
---@param options? table of the plugin; `optrush plugins NAME` lists them
---@param settings? RungSettings what else it changes
---@return Rung
function rush.rung(name, plugin, options, settings) end

---A rung that another program trains. It gets the run's spec and writes or prints a RunResult.
---@param rung ExternalOptions the program
---@return Rung
function rush.external(rung) end

---A Llama by the name of a preset, changed field by field, or by its fields alone.
---@param preset? "nano"|"tiny"|"small"|"llama-3.2-1b"|"llama-3.2-3b"|"llama-3.1-8b"|"llama-3.1-70b"|"olmo-1b"|LlamaFields a preset; nil: the fields' own defaults
---@param fields? LlamaFields that differ from the preset
---@return Model
function rush.llama(preset, fields) end

---One operator of the block alone, on seeded random activations: it reads no data. Its loss is the mean square of the output; each of the micro_batch x seq_len positions counts as a token. Reports know the bytes and FLOPs that it needs.
---@param op "norm"|"add_norm"|"position"|"attention"|"swiglu"|"linear"|"mlp"|"head_loss" which
---@param fields? OperatorFields its sizes
---@return Model
function rush.operator(op, fields) end

---One collective alone among all ranks of a run (train.world_size), its result checked by value before the first step. It reads no data. Reports know its bandwidth and latency.
---@param op "all_reduce"|"all_gather"|"reduce_scatter"|"all_to_all"|"send_recv" which
---@param fields? CollectiveFields its sizes
---@return Model
function rush.collective(op, fields) end

---A model with the weights of a Hugging Face folder: config.json and safetensors files.
---@param folder string a relative path starts at the script's folder
---@return Model
function rush.checkpoint(folder) end

---The sizes of a decoder, of a checkpoint by its config.json: for scripts that choose by them.
---@param model Model from rush.llama or rush.checkpoint
---@return ModelSizes
function rush.sizes(model) end

---Seeded random tokens of the model's vocabulary.
---@param options? RandomOptions none
---@return Data
function rush.random(options) end

---UTF-8 text, one token a byte: a file, a folder, or a corpus.
---@param source string|Corpus a relative path starts at the script's folder
---@param options? TextOptions which files of a folder
---@return Data
function rush.text(source, options) end

---Documents to tune a model on: a file with one JSON object a line, or each file of a folder or a corpus.
---@param source string|Corpus a relative path starts at the script's folder
---@param options? TextOptions which files of a folder
---@return Data
function rush.documents(source, options) end

---Pairs of answers to learn from which one is preferred: a file with one JSON object a line, or the files of a folder or a corpus, where each text's second half is the chosen answer to its first.
---@param source string|Corpus a relative path starts at the script's folder
---@param options? TextOptions which files of a folder
---@return Data
function rush.preferences(source, options) end

---A token file.
---@param file string a relative path starts at the script's folder
---@return Data
function rush.tokens(file) end

---Real text that is there after set-up on every machine.
---@param name "libtorch" libtorch: the C++ headers of the LibTorch of this build
---@return Corpus
function rush.corpus(name) end

---"cuda" where there is an NVIDIA GPU, "cpu" elsewhere; --device decides where it is given. For scripts that choose sizes: what is measured is the spec, as ever.
---@return string
function rush.device() end

---The GPU that runs train on; nil where there is none, and with --device cpu.
---@return Gpu?
function rush.gpu() end

---The CPU of this machine.
---@return Cpu
function rush.cpu() end

---How many processes can train one model together (train.world_size): as many as the launcher started, else the GPUs of this machine, else its cores.
---@return integer
function rush.ranks() end

---The largest micro-batch, a power of two, whose step is predicted to fit into the memory: by the plans of workers, which train nothing; with trial, by runs of two steps as well. 0 where not even one sequence fits, nil where the peak can't be predicted (docs/guides/memory.md).
---@param problem Problem what is trained, and what is stacked
---@return integer?
function rush.max_batch(problem) end

---A form of the experiment, chosen by --preset: one of the names; the first where it is not given.
---@param names string[] of the forms, the usual one first
---@return string
function rush.preset(names) end

---An argument of the script: what --arg NAME=VALUE gives it, of the type of its default. To be read before the first exp:run. The report says which values it ran with.
---@param name string lower-case letters, digits and '_'
---@param default Scalar where --arg does not give it
---@param choices? string[] the values that a string may have
---@return Scalar
function rush.arg(name, default, choices) end

---The plugins that this build can use.
---@return PluginInfo[]
function rush.plugins() end

---Measures rungs, each on top of the one before.
---@param rungs Rung[] in this order
---@param options? LadderOptions how large the batches are
---@return Experiment # itself
function Experiment:ladder(rungs, options) end

---Measures all rungs stacked, all but one for each, and each one alone.
---@param rungs Rung[] in this order
---@return Experiment # itself
function Experiment:ablation(rungs) end

---Measures every combination of one rung from each axis.
---@param axes Rung[][]|table<string, Rung[]> lists of rungs; named axes are taken in the order of their names
---@param view? GridView how the report shows it
---@return Experiment # itself
function Experiment:grid(axes, view) end

---Runs every rung in every round and writes the report.
---@param options? RunOptions rounds, or within and at_most; label
---@return Report
function Experiment:run(options) end

---Looks for the fastest stack of these parts, and measures it as a ladder: what pays most first.
---@param parts SearchPart[] of which any number is stacked; of a list of rungs one at most
---@param options? SearchOptions limits and label
---@return Report
function Experiment:search(parts, options) end

---Prints the table of the report, and where it is.
---@return Report # itself
function Report:report() end

return rush
