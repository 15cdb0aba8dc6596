---@meta optrush
-- Made from the binding table (core/script/api.h); OPTRUSH_UPDATE_GOLDENS=1 makes test_script write it.
error("editor stubs cannot be required")

---A model to train.
---@class Model
local Model = {}

---Training data.
---@class Data
local Data = {}

---A text that is available on every machine, for rush.text and rush.documents.
---@class Corpus
local Corpus = {}

---A named change: plugins, settings, or both.
---@class Rung
local Rung = {}

---A base and the rungs measured against it.
---@class Experiment
local Experiment = {}

---The report of an experiment.
---@class Report
---@field dir string The folder of the report.
local Report = {}

---a number, a string, true or false
---@alias Scalar integer|number|string|boolean

---a plugin: its name, or { name, options }
---@alias PluginUse string|table

---Options of rush.experiment.
---@class ExperimentOptions
---@field name string name of the experiment, and of its folder below reports/
---@field question? string question that the experiment answers; title of the report
---@field model? Model model to train; required without program
---@field program? Program a program of yours that trains instead of a model
---@field data? Data training data; default: seeded random tokens
---@field train? TrainSettings settings of the training step
---@field device? "auto"|"cpu"|"cuda" device of the run; auto: a GPU if available (default "auto")
---@field threads? integer CPU threads per operator; 0: OMP_NUM_THREADS, or a rank's share of the cores (at least 0, at most 65536, default 0)
---@field env? table<string, string> environment variables of the run, in addition to the inherited ones
---@field timeout? number time limit of the run in seconds (at least 0.001, default 3600.0)
---@field plugins? PluginUse[] plugins to stack, each a name or { name, options }
---@field rounds? integer number of rounds; each rung runs once per round (at least 1, default 5)
---@field seeds? integer|integer[] a seed for each round, which all rungs of the round train with: a list, or a number of seeds from train.seed on; sets the number of rounds (at least 0)
---@field validate? ValidateOptions loss on held-out data
---@field save? SaveOptions saved state, to continue from
---@field sample? SampleOptions prompts that the trained model continues
---@field start? string|StartOptions folder of a run with a saved state; every rung continues from its parameters, optimizer state and step number
---@field target_loss? number the report gives the training seconds of each rung until its validation loss reaches this; without validate, the mean training loss of 10 steps (at least 1e-06)
---@field stop_behind? number with target_loss: a run ends at that loss, or when it has trained this many times as long as the first run of its round that reached it; default: every run makes all steps (at least 1)
---@field price_per_hour? number price of the machine per hour; the report then has the price per million tokens (at least 0)
---@field currency? string currency of the price (default "USD")

---Changes of a rung; other settings stay as in the rung below.
---@class RungSettings
---@field model? Model|LlamaFields|OperatorFields|CollectiveFields model to train
---@field data? Data training data
---@field train? TrainSettings settings of the training step
---@field device? "auto"|"cpu"|"cuda" device of the run; auto: a GPU if available
---@field threads? integer CPU threads per operator; 0: OMP_NUM_THREADS, or a rank's share of the cores (at least 0, at most 65536)
---@field env? table<string, string> environment variables of the run, in addition to the inherited ones
---@field timeout? number time limit of the run in seconds (at least 0.001)
---@field plugins? PluginUse[] plugins to stack, each a name or { name, options }
---@field replace? string|string[] stacked plugins that the plugins of this rung replace
---@field without? string|string[] stacked plugins, or rungs with a change of a program, that this rung removes
---@field args? string|string[] of a program: arguments that the rung adds after the arguments of the rungs below
---@field command? string[] of a program: the command without args, instead of the one below
---@field files? string[] of a program: further files that the results depend on
---@field effect? "rounding"|"precision"|"model" of a program: effect of the change on arithmetic, by which the gate compares it with the rung below; default: rounding
---@field over? string earlier rung of this ladder that this rung is added to and compared with; default: the rung before it
---@field expect? Published published figures for this change, for the report of a ladder

---Published figures of a rung's change, relative to the rung below it.
---@class Published
---@field speedup? number ratio of tokens/s: 1.75 is 75 % more (at least 0)
---@field memory? number ratio of peak memory: 0.7 is 30 % less (at least 0)
---@field source string publication
---@field on string device and problem, separated by a comma: "A100-80GB, sequence 2048". The report marks a different device

---Options of rush.external: a program, and further changes of the rung.
---@class ExternalOptions
---@field name string name of the rung in the report
---@field over? string earlier rung of the ladder that it is compared with; default: the last one of the ladder
---@field command string[] program and its arguments, started in the script's folder; {python}, {spec}, {start}, {out}, {metrics}, {trace}, {worker}, {world_size}, {seed} are replaced
---@field files? string[] further files that the results depend on: a change reruns the rung. Arguments that are files are included
---@field preload? string[] libraries that the dynamic loader loads first (LD_PRELOAD)
---@field requirements? string pip requirements file with the Python packages that the program imports
---@field packages? string file with the names of the Debian packages of the libraries and programs, one per line, for the message when one is missing
---@field effect? "rounding"|"precision"|"model" effect on arithmetic, relative to the rung below (default "rounding")
---@field interleave? boolean whether it implements the protocol of interleaved runs (docs/guides/running.md) (default false)
---@field headline? boolean whether a headline may name it as the fastest program; false for a row that is no fair peer (default true)
---@field model? Model|LlamaFields|OperatorFields|CollectiveFields model to train
---@field data? Data training data
---@field train? TrainSettings settings of the training step
---@field device? "auto"|"cpu"|"cuda" device of the run; auto: a GPU if available
---@field threads? integer CPU threads per operator; 0: OMP_NUM_THREADS, or a rank's share of the cores (at least 0, at most 65536)
---@field env? table<string, string> environment variables of the run, in addition to the inherited ones
---@field timeout? number time limit of the run in seconds (at least 0.001)

---A program that the base runs instead of training a model (docs/guides/your_script.md).
---@class Program
---@field command string[] program and its arguments, started in the script's folder; {python}, {spec}, {start}, {out}, {metrics}, {trace}, {worker}, {world_size}, {seed} are replaced
---@field files? string[] further files that the results depend on: a change reruns the rung. Arguments that are files are included
---@field preload? string[] libraries that the dynamic loader loads first (LD_PRELOAD)
---@field requirements? string pip requirements file with the Python packages that the program imports
---@field packages? string file with the names of the Debian packages of the libraries and programs, one per line, for the message when one is missing
---@field effect? "rounding"|"precision"|"model" effect on arithmetic, relative to the rung below (default "rounding")
---@field interleave? boolean whether it implements the protocol of interleaved runs (docs/guides/running.md) (default true)
---@field headline? boolean whether a headline may name it as the fastest program; false for a row that is no fair peer (default true)
---@field env? table<string, string> environment variables of its runs

---Layout of a grid in the report: a table, and curves over a setting.
---@class GridView
---@field axes? string[] names of the axes, if they are given as a list
---@field columns? ("tokens_per_second"|"step_time"|"peak_memory"|"activations"|"flops_per_second"|"mfu"|"hfu"|"data_time"|"forward_time"|"backward_time"|"optimizer_time"|"exposed_time"|"loss"|"validation_loss"|"time_to_loss"|"steps_to_loss"|"compile_time"|"forward_bandwidth"|"backward_bandwidth"|"forward_bandwidth_share"|"backward_bandwidth_share"|"forward_flops"|"backward_flops"|"intensity"|"algorithm_bandwidth"|"bus_bandwidth"|"collective_time")[] columns of the table, in addition to one for each axis
---@field against? string rung of one axis as the reference; brackets show the change from it
---@field x? string numeric setting of the axes for the x axis, for example train.seq_len
---@field curves? ("tokens_per_second"|"step_time"|"peak_memory"|"activations"|"flops_per_second"|"mfu"|"hfu"|"data_time"|"forward_time"|"backward_time"|"optimizer_time"|"exposed_time"|"loss"|"validation_loss"|"time_to_loss"|"steps_to_loss"|"compile_time"|"forward_bandwidth"|"backward_bandwidth"|"forward_bandwidth_share"|"backward_bandwidth_share"|"forward_flops"|"backward_flops"|"intensity"|"algorithm_bandwidth"|"bus_bandwidth"|"collective_time")[] quantities to draw over x, with one line for each choice of the other axes

---Settings of the training step. The defaults apply to a base; a rung changes only the settings that it names.
---@class TrainSettings
---@field world_size? integer processes that train one model together, each with a GPU or a share of the cores (at least 1, at most 65536, default 1)
---@field micro_batch? integer sequences per forward on one data-parallel rank (at least 1, at most 1000000, default 4)
---@field accumulation? integer micro-batches per step on one data-parallel rank (at least 1, at most 1000000, default 1)
---@field global_batch? integer sequences per step on all ranks; 0: derived (at least 0, default 0)
---@field seq_len? integer tokens per sequence (at least 1, at most 2147483648, default 512)
---@field steps? integer number of timed steps; with epochs and without steps, the epochs end the run (at least 1, at most 1000000000, default 10)
---@field epochs? integer maximum number of passes over the training data; 0: train.steps alone ends the run (at least 0, at most 1000000000, default 0)
---@field overfit? number train on the first batch in every step; a rung whose last training loss is not below this is broken; 0: off (at least 0, default 0.0)
---@field warmup? integer number of warm-up steps before the timed ones (at least 0, at most 1000000000, default 3)
---@field seed? integer seed of initial weights, data and dropout (at least 0, default 1)
---@field lr? number peak learning rate of the optimizer (at least 0, default 0.0003)
---@field lr_warmup? integer number of steps, timed or not, in which the learning rate rises to lr (at least 0, at most 1000000000, default 0)
---@field lr_decay? "none"|"linear"|"cosine" decay of the learning rate from lr_warmup to lr_steps (default "none")
---@field lr_steps? integer number of steps of the whole training for lr_decay; a run may be a part of it (at least 0, at most 1000000000, default 0)
---@field lr_min? number learning rate after lr_steps, as a fraction of lr (at least 0, at most 1, default 0.0)
---@field beta1? number decay of AdamW's first moment, below 1 (at least 0, at most 1, default 0.9)
---@field beta2? number decay of AdamW's second moment, below 1 (at least 0, at most 1, default 0.95)
---@field eps? number epsilon added to the root of AdamW's second moment (at least 0, default 1e-08)
---@field weight_decay? number decoupled weight decay of matrices (at least 0, default 0.1)
---@field dtype? "fp32"|"fp64"|"bf16" type of the parameters (default "fp32")

---Loss on held-out data: the same sequences for every rung, not part of the step time, also after the last step.
---@class ValidateOptions
---@field every integer steps between validations (at least 1, at most 1000000000)
---@field sequences? integer number of sequences of train.seq_len, over all ranks (at least 1, at most 1000000, default 32)
---@field data? Data validation data; default: the end of the experiment's own text or token file, excluded from training, or different random sequences
---@field patience? integer end the run after this many validations in a row without a lower loss; 0: never (at least 0, at most 1000000000, default 0)
---@field keep_best? boolean keep the state of the lowest loss in the folder best of the run (default false)

---Saved states of each rung's first round, from which another experiment can continue (start). Saving is not part of the step time and happens also after the last step. Only the last state is kept.
---@class SaveOptions
---@field every integer steps between saved states (at least 1)

---A saved state to begin from.
---@class StartOptions
---@field state string folder of a run with a saved state
---@field weights_only? boolean take the weights alone; optimizer, steps, data and the schedule of the learning rate begin anew (default false)

---Prompts that each rung's trained model continues greedily after its first round, for the report.
---@class SampleOptions
---@field prompts string[] prompts that the trained model continues greedily after the last step
---@field tokens? integer number of tokens to generate for each prompt (at least 1, at most 4096, default 48)

---Fields of a decoder. The defaults apply without a preset; a rung changes only the fields that it names.
---@class LlamaFields
---@field vocab_size? integer number of tokens in the vocabulary (at least 2, at most 2147483648, default 256)
---@field dim? integer width of the residual stream (at least 1, at most 2147483648, default 256)
---@field n_layers? integer blocks (at least 1, at most 10000, default 4)
---@field n_heads? integer number of query heads (at least 1, at most 2147483648, default 8)
---@field n_kv_heads? integer number of key/value heads; must divide n_heads (at least 1, at most 2147483648, default 4)
---@field head_dim? integer width of a head, even; 0: dim / n_heads (at least 0, at most 2147483648, default 0)
---@field ffn_dim? integer inner width of the MLP (at least 1, at most 2147483648, default 688)
---@field double_wide_mlp? boolean MLPs of kv_shared_layers are twice as wide, as Gemma 4 E2B (default false)
---@field activation? "silu"|"gelu"|"gelu_tanh"|"clamped_silu"|"relu2" activation of the gate of the MLP: silu makes it a SwiGLU, gelu a GEGLU; gelu_tanh approximates GELU, as Gemma does; clamped_silu is the unit of gpt-oss; relu2: the square of ReLU in an MLP without a gate, as Nemotron-H has (default "silu")
---@field norm? "rmsnorm"|"layernorm"|"layernorm_without_parameters" kind of the norms of attention, MLP and head (default "rmsnorm")
---@field norm_placement? "before"|"after"|"both" before: x + f(norm(x)), as Llama; after: x + norm(f(x)), as OLMo 2; both: x + norm(f(norm(x))), as Gemma 3 (default "before")
---@field norm_eps? number epsilon added to the variance in a norm (at least 0, default 1e-05)
---@field qk_norm? "none"|"per_head"|"whole" RMSNorm of queries and keys: per_head, as Qwen 3, or over the whole width, as OLMo 2 (default "none")
---@field value_norm? boolean RMSNorm without a weight of each head of values, as Gemma 4 (default false)
---@field layer_scale? boolean multiply the output of a block by a number of the checkpoint, as Gemma 4 (default false)
---@field attention_bias? "none"|"qkv"|"all" biases of queries, keys and values (qkv), as Qwen 2; all: and of the output (default "none")
---@field attention_scale? number factor of the scores before the softmax; 0: 1 / sqrt(head_dim) (at least 0, default 0.0)
---@field embedding_scale? number factor of the embeddings, as Gemma and Granite have (default 1.0)
---@field residual_scale? number factor of what attention and MLP add to the residual stream, as Granite has (default 1.0)
---@field logits_divisor? number divisor of the logits, as Granite has (default 1.0)
---@field attention_soft_cap? number soft cap of the attention scores, cap tanh(score / cap), as Gemma 2 has; 0: none (at least 0, default 0.0)
---@field logits_soft_cap? number soft cap of the logits, as Gemma 2 and Gemma 3 have; 0: none (at least 0, default 0.0)
---@field attention_sinks? boolean a trained score of each head in the softmax, as gpt-oss (default false)
---@field attention_gate? boolean multiply the output of attention by the sigmoid of a gate, as Qwen3-Next (default false)
---@field delta_net? DeltaNet Gated DeltaNet in place of attention, except in full_attention_layers, as Qwen3-Next
---@field mamba? Mamba2 Mamba 2 in place of attention, except in full_attention_layers, as Granite 4 has
---@field latent? LatentAttention multi-head latent attention, as DeepSeek V3
---@field position? "rope"|"alibi"|"none" rope: rotary embedding; alibi: biases of the scores that are linear in the distance; none: no positions (default "rope")
---@field rope_theta? number base of the rotary frequencies (at least 1, default 10000.0)
---@field rotary_fraction? number part of a head that is rotated, from its first dimension on (at least 0, at most 1, default 1.0)
---@field rope_scaling? RopeScaling rescaling of the rotary frequencies
---@field layers_without_rope? integer[] layers without rotary embedding, from 0, as SmolLM3 has (default [])
---@field window? integer number of positions that attention sees, the query's own among them (sliding window); 0: all (at least 0, at most 2147483648, default 0)
---@field full_attention_layers? integer[] layers that have full attention although window, delta_net or mamba is set, from 0 (default [])
---@field full_attention? FullAttention heads of full_attention_layers where the other layers have a window, as Gemma 4
---@field kv_shared_layers? integer number of last layers that use keys and values of earlier ones, as Gemma 4 E2B (at least 0, at most 10000, default 0)
---@field per_layer_input_dim? integer width of the input that each layer gets for each token, as Gemma 4 E2B; 0: none (at least 0, at most 2147483648, default 0)
---@field per_layer_vocab_size? integer tokens in the table of these inputs; 0: vocab_size (at least 0, at most 2147483648, default 0)
---@field window_rope_theta? number base of the rotary frequencies in layers with a window, where rope_scaling then does not apply, as Gemma 3 has; 0: as in all layers (at least 0, default 0.0)
---@field n_experts? integer number of experts in place of each MLP; 0: a dense model (at least 0, at most 65536, default 0)
---@field experts_per_token? integer number of experts that a token passes (at least 1, at most 65536, default 2)
---@field expert_ffn_dim? integer inner width of the MLP of an expert; 0: ffn_dim (at least 0, at most 2147483648, default 0)
---@field shared_expert_ffn_dim? integer inner width of the MLP of an expert that each token passes, with a gate, as Qwen 2 MoE; 0: none (at least 0, at most 2147483648, default 0)
---@field shared_expert_gate? boolean weigh the shared expert by a gate; false: by 1, as DeepSeek V3 (default true)
---@field expert_bias? boolean biases in the MLP of an expert, as gpt-oss has (default false)
---@field experts_beside_mlp? boolean have an MLP of width ffn_dim beside the experts, each with norms, as Gemma 4 26B (default false)
---@field normalize_router? boolean divide the router weights of the experts of a token by their sum (default true)
---@field router? Router scores, bias and groups of the router
---@field dense_layers? integer[] layers that have an MLP although n_experts is set, from 0 (default [])
---@field layers_without_mlp? integer[] layers of attention or mamba alone, without an MLP or experts, from 0, as Nemotron-H has (default [])
---@field tie_embeddings? boolean use the embedding as the weight of the head (default true)
---@field init_std? number standard deviation of the initial weights (at least 0, default 0.02)

---Rescaling of the rotary frequencies.
---@class RopeScaling
---@field type? "llama3"|"linear"|"yarn"|"longrope"|"proportional" llama3: Llama 3.1; linear: all frequencies; yarn: arXiv:2309.00071; longrope: arXiv:2402.13753; proportional: only a fraction of the pairs, as Gemma 4 (default "llama3")
---@field factor? number divisor of the low frequencies; 1: none; longrope: growth of the context (at least 1, default 1.0)
---@field low_freq_factor? number llama3: wavelengths above original_max_position / low_freq_factor are scaled (at least 0, default 1.0)
---@field high_freq_factor? number llama3: wavelengths below original_max_position / high_freq_factor are kept (at least 0, default 4.0)
---@field original_max_position? integer context length of the original training (at least 1, at most 2147483648, default 8192)
---@field beta_fast? number yarn: dimensions with more rotations in the original context are kept (at least 0, default 32.0)
---@field beta_slow? number yarn: dimensions with fewer rotations in the original context are scaled (at least 0, default 1.0)
---@field attention_factor? number yarn, longrope: factor of cosine and sine; 0: computed, for yarn 0.1 ln(factor) + 1 (at least 0, default 0.0)
---@field truncate? boolean yarn: round the ends of the ramp to whole dimensions (default true)
---@field score_mscale? number yarn: multiply attention scores by (0.1 score_mscale ln(factor) + 1)^2, as DeepSeek V3 (at least 0, default 0.0)
---@field query_beta? number yarn: multiply queries by 1 + query_beta ln(1 + floor(position / original_max_position)) (at least 0, default 0.0)
---@field short_factor? number[] longrope: divisors of frequencies up to original_max_position (default [])
---@field long_factor? number[] longrope: divisors of frequencies in longer sequences (default [])
---@field fraction? number proportional: part of the pairs of dimensions that is rotated (at least 0, at most 1, default 1.0)

---How a router chooses and weighs the experts of a token.
---@class Router
---@field scores? "softmax"|"sigmoid" scores of the experts, from the logits (default "softmax")
---@field bias? "none"|"logits"|"choice" logits: a trained bias of the logits; choice: a fixed bias of the scores that choose experts (default "none")
---@field groups? integer groups of experts (at least 1, at most 65536, default 1)
---@field kept_groups? integer groups that a token may pass (at least 1, at most 65536, default 1)
---@field scale? number factor of the weights of a token's experts (at least 0, default 1.0)

---Multi-head latent attention.
---@class LatentAttention
---@field kv_rank? integer width of the latent vector of keys and values; 0: none (at least 0, at most 2147483648, default 0)
---@field q_rank? integer width of the latent vector of queries; 0: the model's width (at least 0, at most 2147483648, default 0)
---@field rope_dim? integer rotated dimensions at the end of a head of queries and keys (at least 2, at most 2147483648, default 64)
---@field value_dim? integer width of a head of values (at least 1, at most 2147483648, default 128)
---@field interleaved? boolean rotate pairs of neighbours; false: halves, as Llama (default true)

---Gated DeltaNet, a linear attention.
---@class DeltaNet
---@field key_heads? integer heads of queries and keys; 0: no Gated DeltaNet (at least 0, at most 2147483648, default 0)
---@field value_heads? integer heads of values; a multiple of key_heads (at least 0, at most 2147483648, default 0)
---@field key_dim? integer width of a head of queries and keys (at least 1, at most 2147483648, default 128)
---@field value_dim? integer width of a head of values (at least 1, at most 2147483648, default 128)
---@field kernel? integer positions of the short convolution (at least 1, at most 65536, default 4)
---@field joined? boolean two matrices of the input, as Qwen3-Next; false: four, as Qwen 3.5 (default false)

---Mamba 2, a state space model.
---@class Mamba2
---@field heads? integer heads, each with a state; 0: no Mamba 2 (at least 0, at most 2147483648, default 0)
---@field groups? integer groups of heads that share B and C; must divide heads (at least 1, at most 2147483648, default 1)
---@field head_dim? integer width of a head (at least 1, at most 2147483648, default 64)
---@field state? integer size of the state for each dimension of a head (at least 1, at most 2147483648, default 128)
---@field kernel? integer positions of the short convolution (at least 1, at most 65536, default 4)
---@field convolution_bias? boolean a bias of the short convolution (default true)
---@field projection_bias? boolean biases of the first and the last matrix (default false)
---@field norm_by_group? boolean RMSNorm of the values of each group; false: of all values, as Granite 4 has (default false)
---@field min_step? number least time step, as Nemotron-H has (at least 0, default 0.0)

---Heads of layers with full attention beside layers with a window.
---@class FullAttention
---@field head_dim? integer width of a head; 0: as in layers with a window (at least 0, at most 2147483648, default 0)
---@field kv_heads? integer number of key/value heads; 0: as in layers with a window (at least 0, at most 2147483648, default 0)
---@field keys_as_values? boolean use the product of the matrix of keys as values (default false)

---Sizes of a single operator; a rung changes only the fields that it names.
---@class OperatorFields
---@field dim? integer width of each input (at least 1, at most 2147483648, default 1024)
---@field n_heads? integer number of heads of position and attention; must divide dim (at least 1, at most 2147483648, default 16)
---@field ffn_dim? integer inner width of the operator mlp (at least 1, at most 2147483648, default 4096)
---@field vocab_size? integer vocabulary of the operator head_loss (at least 2, at most 2147483648, default 32000)
---@field repeat? integer calls per step, to reduce the share of other work (at least 1, at most 1000, default 1)

---Sizes of a single collective; a rung changes only the fields that it names.
---@class CollectiveFields
---@field bytes? integer bytes of the larger of a rank's input and output, as in nccl-tests; rounded up to an equal number of fp32 elements per rank (at least 4, at most 68719476736, default 1048576)
---@field repeat? integer calls per step, to reduce the share of other work (at least 1, at most 100000, default 1)

---Random tokens have no options: train.seed seeds them.
---@class RandomOptions

---Options of rush.text and rush.documents for a folder.
---@class TextOptions
---@field extensions? string[] extensions of the files to read, for example '.h'; default: every file

---Problem of rush.max_batch.
---@class Problem
---@field model Model model to train
---@field data? Data training data; default: seeded random tokens
---@field train? TrainSettings settings of the training step
---@field device? "auto"|"cpu"|"cuda" device of the run; auto: a GPU if available (default "auto")
---@field threads? integer CPU threads per operator; 0: OMP_NUM_THREADS, or a rank's share of the cores (at least 0, at most 65536, default 0)
---@field env? table<string, string> environment variables of the run, in addition to the inherited ones
---@field timeout? number time limit of the run in seconds (at least 0.001, default 3600.0)
---@field plugins? PluginUse[] plugins to stack, each a name or { name, options }
---@field rungs? Rung[] rungs to stack, as in a ladder
---@field memory? number|string memory limit of a step in bytes, or "20GB"; default: 90 % of the GPU's memory, or a rank's share of 70 % of the free CPU memory
---@field most? integer largest micro-batch to try (at least 1, at most 1024, default 1024)
---@field trial? boolean check the prediction with a run of two steps, and halve the batch until it fits; --resume keeps the result (default false)

---Options of exp:ladder for batch sizes.
---@class LadderOptions
---@field batch? "same"|"max" same: as set by the rungs; max: each rung has the largest micro-batch, a power of two, that fits, and accumulates to the base's sequences per step (default "same")
---@field memory? number|string for batch = "max": memory limit of a step in bytes, or "20GB"; default: 90 % of the GPU's memory, or a rank's share of 70 % of the free CPU memory
---@field trial? boolean for batch = "max": check the prediction with a run of two steps, and halve the batch until it fits (default false)

---Options of exp:run.
---@class RunOptions
---@field rounds? integer number of rounds; default: the experiment's number (at least 1)
---@field within? number with at_most: run rounds until the intervals are this narrow; default: 0.03, which is ± 3 % (at least 0.0001, at most 1)
---@field at_most? number|string time limit in seconds, or "90s", "5m", "1h"; excludes rounds
---@field label? string label of the report, in the folder reports/<experiment>/<label>/; git ignores 'local' (default "local")
---@field interleave? boolean interleave the rungs of a round step by step; default: true on a CPU if they fit into memory together
---@field trace? boolean write a Chrome trace of one additional step in the first round of every rung (default false)
---@field max_restarts? integer how often a run that saves its state (save) starts again from it after a fault (at least 0, default 0)

---a rung, or a list of alternative rungs
---@alias SearchPart Rung|Rung[]

---Options of exp:search.
---@class SearchOptions
---@field memory? number|string memory limit in bytes, or "20GB": excludes stacks predicted to need more; default: the free memory
---@field within? number every stage runs rounds until its intervals are this narrow (at least 0.0001, at most 1, default 0.02)
---@field at_most? number|string time limit of the whole search in seconds, or "90s", "20m", "1h" (default 1200.0)
---@field label? string label of the report, in the folder reports/<experiment>/<label>/; git ignores 'local' (default "local")
---@field interleave? boolean interleave the stacks of a round step by step; default: as in exp:run

---A GPU.
---@class Gpu
---@field name string name from the driver
---@field memory_bytes integer memory in bytes
---@field sm string compute capability, for example sm_90

---Sizes of a decoder.
---@class ModelSizes
---@field dim integer width of the residual stream
---@field n_layers integer blocks
---@field n_heads integer number of query heads
---@field n_kv_heads integer number of key/value heads
---@field head_dim integer width of a head
---@field ffn_dim integer inner width of the MLP
---@field vocab_size integer number of tokens in the vocabulary
---@field tie_embeddings boolean whether the embedding is the weight of the head
---@field max_positions integer longest sequence in the training of a checkpoint; 0: unknown
---@field parameters integer number of parameters

---A CPU.
---@class Cpu
---@field name string model name of the CPU
---@field free_bytes integer available memory in bytes
---@field bf16_speedup number measured speed of a bf16 matmul relative to fp32 (takes about a second); 0 without bf16 instructions

---A plugin that this build can use.
---@class PluginInfo
---@field name string name for rush.rung
---@field version string version of the plugin
---@field summary string one line
---@field kind "optimization"|"parallelism" kind of technique
---@field effect "exact"|"rounding"|"precision"|"batch"|"model" on arithmetic
---@field options PluginOption[] options of the plugin

---An option of a plugin.
---@class PluginOption
---@field name string name of the option
---@field type string integer, number, string, boolean or list
---@field doc string one line
---@field default? any default value; nil: required

---Measures the speed and memory effect of each training optimization: docs/reference/lua.md.
local rush = {}

---Describes an experiment: its base, which is rung 0.
---@param base ExperimentOptions spec of the base and options of the experiment
---@return Experiment
function rush.experiment(base) end

---A named change. Without a plugin, settings may come second: rush.rung("micro-batch 8", { train = { micro_batch = 8 } }). Plugins and options are checked here, at this line.
---@param name string name of the rung in the report
---@param plugin? string|RungSettings plugin to stack
---@param options? table options of the plugin; `optrush plugins NAME` lists them
---@param settings? RungSettings further changes
---@return Rung
function rush.rung(name, plugin, options, settings) end

---A rung that another program trains. The program receives the run's spec and writes or prints a RunResult.
---@param rung ExternalOptions the program
---@return Rung
function rush.external(rung) end

---A decoder from a preset, with optional changes, or from its fields: Llama and the models that differ from it by a choice.
---@param preset? "nano"|"tiny"|"small"|"llama-3.2-1b"|"llama-3.2-3b"|"llama-3.1-8b"|"llama-3.1-70b"|"olmo-1b"|"olmo-2-1b"|"qwen2.5-0.5b"|"qwen2.5-1.5b"|"qwen3-0.6b"|"qwen3-1.7b"|"smollm3-3b"|"gemma-3-270m"|"gemma-3-1b"|"mistral-7b"|LlamaFields preset; nil: the default fields
---@param fields? LlamaFields fields that differ from the preset
---@return Model
function rush.llama(preset, fields) end

---A single operator of the block on seeded random activations, without data. Its loss is the mean square of the output; each of the micro_batch x seq_len positions counts as a token. The report includes the bytes and FLOPs that it needs.
---@param op "norm"|"add_norm"|"position"|"attention"|"swiglu"|"linear"|"mlp"|"head_loss" operator
---@param fields? OperatorFields sizes
---@return Model
function rush.operator(op, fields) end

---A single collective among all ranks of a run (train.world_size), without data. Its result is checked before the first step. The report has its bandwidth and latency.
---@param op "all_reduce"|"all_gather"|"reduce_scatter"|"all_to_all"|"send_recv" collective
---@param fields? CollectiveFields sizes
---@return Model
function rush.collective(op, fields) end

---A model with the weights of a Hugging Face folder: config.json and safetensors files.
---@param folder string folder; relative paths start at the script's folder
---@return Model
function rush.checkpoint(folder) end

---The sizes of a decoder (of a checkpoint, from its config.json).
---@param model Model model from rush.llama or rush.checkpoint
---@return ModelSizes
function rush.sizes(model) end

---Seeded random tokens of the model's vocabulary.
---@param options? RandomOptions no options
---@return Data
function rush.random(options) end

---UTF-8 text from a file, a folder or a corpus: one token per byte, or the tokens of a checkpoint's tokenizer.
---@param source string|Corpus file, folder or corpus; relative paths start at the script's folder
---@param options? TextOptions selection of files in a folder
---@return Data
function rush.text(source, options) end

---Documents for fine-tuning: a file with one JSON object per line, or each file of a folder or a corpus.
---@param source string|Corpus file, folder or corpus; relative paths start at the script's folder
---@param options? TextOptions selection of files in a folder
---@return Data
function rush.documents(source, options) end

---Preference pairs: a file with one JSON object per line, or the files of a folder or a corpus. In a folder, the second half of each text is the chosen answer to its first half.
---@param source string|Corpus file, folder or corpus; relative paths start at the script's folder
---@param options? TextOptions selection of files in a folder
---@return Data
function rush.preferences(source, options) end

---A token file.
---@param file string token file; relative paths start at the script's folder
---@return Data
function rush.tokens(file) end

---Text that is available on every machine after set-up.
---@param name "libtorch" libtorch: C++ headers of this build's LibTorch
---@return Corpus
function rush.corpus(name) end

---The device of the run: --device if given, otherwise "cuda" with an NVIDIA GPU and "cpu" without. For scripts that choose sizes by the device.
---@return string
function rush.device() end

---The GPU of the runs; nil without a GPU, and with --device cpu.
---@return Gpu?
function rush.gpu() end

---The CPU of this machine.
---@return Cpu
function rush.cpu() end

---The number of processes that can train one model together (train.world_size): the launcher's processes, otherwise the GPUs of this machine, otherwise its cores.
---@return integer
function rush.ranks() end

---The largest micro-batch, a power of two, whose step is predicted to fit into memory (nothing is trained); with trial, also checked by runs of two steps. 0: not even one sequence fits. nil: the peak cannot be predicted (docs/guides/memory.md).
---@param problem Problem training settings and stacked rungs
---@return integer?
function rush.max_batch(problem) end

---The preset of the experiment chosen by --preset; default: the first name.
---@param names string[] names of the presets, the default first
---@return string
function rush.preset(names) end

---An argument of the script from --arg NAME=VALUE, with the type of its default. Read it before the first exp:run. The report records its value.
---@param name string name of lower-case letters, digits and '_'
---@param default Scalar value without --arg
---@param choices? string[] allowed values of a string
---@return Scalar
function rush.arg(name, default, choices) end

---The plugins that this build can use.
---@return PluginInfo[]
function rush.plugins() end

---Measures rungs, each stacked on the previous one.
---@param rungs Rung[] rungs, in order
---@param options? LadderOptions batch sizes
---@return Experiment # itself
function Experiment:ladder(rungs, options) end

---Measures all rungs stacked, all but one (for each), and each one alone.
---@param rungs Rung[] rungs, in order
---@return Experiment # itself
function Experiment:ablation(rungs) end

---Measures every combination of one rung from each axis.
---@param axes Rung[][]|table<string, Rung[]> lists of rungs; named axes are ordered by name
---@param view? GridView layout in the report
---@return Experiment # itself
function Experiment:grid(axes, view) end

---Runs every rung in every round and writes the report.
---@param options? RunOptions rounds, or within and at_most; label
---@return Report
function Experiment:run(options) end

---Searches for the fastest stack of these parts, and measures it as a ladder, the most effective part first.
---@param parts SearchPart[] parts to choose from; at most one rung of each list
---@param options? SearchOptions limits and label
---@return Report
function Experiment:search(parts, options) end

---Prints the table of the report and its path.
---@return Report # itself
function Report:report() end

return rush
