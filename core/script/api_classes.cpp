#include <algorithm>
#include <utility>

#include "analysis/quantities.h"
#include "base/text.h"
#include "script/functions.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
using Kind = Class::Kind;

using Fields = std::vector<Parameter>;

Class object(const char* name, const char* doc) { return {Kind::object, name, doc, {}}; }
Class table(const char* name, const char* doc, Fields fields = {}) {
  return {Kind::table, name, doc, std::move(fields)};
}
Class result(const char* name, const char* doc, Fields fields) {
  return {Kind::result, name, doc, std::move(fields)};
}
Class alias(const char* name, const char* doc, const char* type) {
  return {Kind::alias, name, doc, {}, type};
}

/// Fields of a decoder that are tables, and their classes in Lua.
constexpr std::pair<const char*, const char*> kTables[] = {
    {"rope_scaling", "RopeScaling"}, {"router", "Router"}, {"latent", "LatentAttention"},
    {"delta_net", "DeltaNet"},       {"mamba", "Mamba2"},  {"full_attention", "FullAttention"}};

/// The fields of a section of the spec, with their docs, ranges and defaults.
std::vector<Parameter> fields_of_spec(const std::string& section) {
  std::vector<Parameter> fields = spec_fields(section);
  // Set by rush.checkpoint, rush.operator and rush.collective.
  std::erase_if(fields,
                [](const Parameter& field) { return field.name == "checkpoint" || field.name == "op"; });
  for (auto& field : fields)
    for (const auto& [name, type] : kTables)
      if (field.name == name) field.type = std::string(type) + "?", field.fallback = nullptr;
  return fields;
}

/// The fields of validation in a script. `every` is required.
std::vector<Parameter> validate_fields_of_script() {
  auto fields = spec_fields("validate");
  for (auto& field : fields) {
    if (field.name == "every")
      field.fallback = nullptr, field.min = 1, field.doc = "steps between validations";
    if (field.name == "data")
      field.type = "Data?", field.fallback = nullptr,
      field.doc =
          "validation data; default: the end of the experiment's own text or token file, excluded from "
          "training, or different random sequences";
  }
  return fields;
}

/// The fields of samples in a script. `prompts` is required.
std::vector<Parameter> sample_fields_of_script() {
  auto fields = spec_fields("sample");
  for (auto& field : fields)
    if (field.name == "prompts") field.fallback = nullptr;
  return fields;
}

Parameter run_field(const std::string& name, const std::string& name_in_lua) {
  auto fields = spec_fields("run");
  auto field = *std::ranges::find(fields, name, &Parameter::name);
  field.name = name_in_lua;
  return field;
}

std::vector<Parameter> base_settings() {
  return {{"model", "Model", "model to train"},
          {"data", "Data?", "training data; default: seeded random tokens"},
          {"train", "TrainSettings?", "settings of the training step"},
          run_field("device", "device"),
          run_field("threads", "threads"),
          {"env", "table<string, string>?",
           "environment variables of the run, in addition to the inherited ones"},
          run_field("timeout_s", "timeout"),
          {"plugins", "PluginUse[]?", "plugins to stack, each a name or { name, options }"}};
}

/// The fields for a rung, which have no defaults: a missing field stays unchanged.
std::vector<Parameter> rung_settings() {
  auto fields = base_settings();
  for (auto& field : fields) {
    if (field.name == "model") field.type = "Model|LlamaFields|OperatorFields|CollectiveFields";
    if (field.name == "data") field.doc = "training data";
    if (!field.type.ends_with('?')) field.type += '?';
    field.fallback = nullptr;
  }
  return fields;
}

/// The fields for an external rung, which stacks no plugins.
std::vector<Parameter> external_settings() {
  auto fields = rung_settings();
  std::erase_if(fields, [](const Parameter& field) { return field.name == "plugins"; });
  return fields;
}

Parameter choice(const char* name, const char* type, const char* doc, std::vector<std::string> choices,
                 Json fallback = {}) {
  return {name, type, doc, std::move(fallback), nullptr, nullptr, std::move(choices)};
}

Parameter effect_field(const Json& fallback, const char* type, const char* doc) {
  return choice("effect", type, doc, {"rounding", "precision", "model"}, fallback);
}

/// The fields of a program, for a base and for an external rung.
std::vector<Parameter> program_fields(bool interleave) {
  const External defaults;
  return {
      {"command", "list",
       "program and its arguments, started in the script's folder; " + join(placeholders()) +
           " are replaced"},
      {"files", "list?",
       "further files that the results depend on: a change reruns the rung. Arguments that are files are "
       "included"},
      {"preload", "list?", "libraries that the dynamic loader loads first (LD_PRELOAD)"},
      {"requirements", "string?", "pip requirements file with the Python packages that the program imports"},
      {"packages", "string?",
       "file with the names of the Debian packages of the libraries and programs, one per line, for the "
       "message when one is missing"},
      effect_field(to_string(defaults.effect), "string", "effect on arithmetic, relative to the rung below"),
      {"interleave", "boolean",
       "whether it implements the protocol of interleaved runs (docs/guides/running.md)", interleave},
      {"headline", "boolean",
       "whether a headline may name it as the fastest program; false for a row that is no fair peer",
       defaults.headline}};
}

std::vector<Parameter> joined(std::vector<Parameter> first, const std::vector<Parameter>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

std::vector<Parameter> experiment_fields(const Experiment& defaults) {
  std::vector<Parameter> fields = base_settings();
  fields.front() = {"model", "Model?", "model to train; required without program"};
  fields.insert(fields.begin(),
                {{"name", "string", "name of the experiment, and of its folder below reports/"},
                 {"question", "string?", "question that the experiment answers; title of the report"}});
  fields.insert(fields.begin() + 3,
                {"program", "Program?", "a program of yours that trains instead of a model"});
  return joined(
      std::move(fields),
      {{"rounds", "integer", "number of rounds; each rung runs once per round", defaults.rounds, 1},
       {"seeds", "integer|integer[]?",
        "a seed for each round, which all rungs of the round train with: a list, or a number of seeds "
        "from train.seed on; sets the number of rounds",
        nullptr, 0},
       {"validate", "ValidateOptions?", "loss on held-out data"},
       {"save", "SaveOptions?", "saved state, to continue from"},
       {"sample", "SampleOptions?", "prompts that the trained model continues"},
       {"start", "string|StartOptions?",
        "folder of a run with a saved state; every rung continues from its parameters, optimizer "
        "state and step number"},
       {"target_loss", "number?",
        "the report gives the training seconds of each rung until its validation loss reaches this; "
        "without validate, the mean training loss of 10 steps",
        nullptr, 0.000001},
       {"stop_behind", "number?",
        "with target_loss: a run ends at that loss, or when it has trained this many times as long as "
        "the first run of its round that reached it; default: every run makes all steps",
        nullptr, 1},
       {"price_per_hour", "number?",
        "price of the machine per hour; the report then has the price per million tokens", nullptr, 0},
       {"currency", "string", "currency of the price", defaults.currency}});
}
}  // namespace

std::vector<Class> api_classes() {
  const Experiment defaults;
  const std::string memory =
      "memory limit of a step in bytes, or \"20GB\"; default: 90 % of the GPU's memory, or a rank's share of "
      "70 % of the free CPU memory";
  const Parameter label = {
      "label", "string",
      "label of the report, in the folder reports/<experiment>/<label>/; git ignores 'local'",
      defaults.label};
  return {
      object("Model", "A model to train."),
      object("Data", "Training data."),
      object("Corpus", "A text that is available on every machine, for rush.text and rush.documents."),
      object("Rung", "A named change: plugins, settings, or both."),
      object("Experiment", "A base and the rungs measured against it."),
      object("Report", "The report of an experiment."),
      alias("Scalar", "a number, a string, true or false", "integer|number|string|boolean"),
      alias("PluginUse", "a plugin: its name, or { name, options }", "string|table"),
      table("ExperimentOptions", "Options of rush.experiment.", experiment_fields(defaults)),
      table(
          "RungSettings", "Changes of a rung; other settings stay as in the rung below.",
          joined(
              rung_settings(),
              {{"replace", "string|list?", "stacked plugins that the plugins of this rung replace"},
               {"without", "string|list?",
                "stacked plugins, or rungs with a change of a program, that this rung removes"},
               {"args", "string|list?",
                "of a program: arguments that the rung adds after the arguments of the rungs below"},
               {"command", "list?", "of a program: the command without args, instead of the one below"},
               {"files", "list?", "of a program: further files that the results depend on"},
               effect_field(nullptr, "string?",
                            "of a program: effect of the change on arithmetic, by which the gate compares it "
                            "with the rung below; default: rounding"),
               {"over", "string?",
                "earlier rung of this ladder that this rung is added to and compared with; default: the rung "
                "before it"},
               {"expect", "Published?", "published figures for this change, for the report of a ladder"}})),
      table("Published", "Published figures of a rung's change, relative to the rung below it.",
            {{"speedup", "number?", "ratio of tokens/s: 1.75 is 75 % more", nullptr, 0},
             {"memory", "number?", "ratio of peak memory: 0.7 is 30 % less", nullptr, 0},
             {"source", "string", "publication"},
             {"on", "string",
              "device and problem, separated by a comma: \"A100-80GB, sequence 2048\". The report marks "
              "a different device"}}),
      table(
          "ExternalOptions", "Options of rush.external: a program, and further changes of the rung.",
          joined(
              {{"name", "string", "name of the rung in the report"},
               {"over", "string?",
                "earlier rung of the ladder that it is compared with; default: the last one of the ladder"}},
              joined(program_fields(External().interleave), external_settings()))),
      table("Program",
            "A program that the base runs instead of training a model (docs/guides/your_script.md).",
            joined(program_fields(/*interleave=*/true),
                   {{"env", "table<string, string>?", "environment variables of its runs"}})),
      table("GridView", "Layout of a grid in the report: a table, and curves over a setting.",
            {{"axes", "list?", "names of the axes, if they are given as a list"},
             choice("columns", "list?", "columns of the table, in addition to one for each axis",
                    grid_column_names()),
             {"against", "string?", "rung of one axis as the reference; brackets show the change from it"},
             {"x", "string?", "numeric setting of the axes for the x axis, for example train.seq_len"},
             choice("curves", "list?",
                    "quantities to draw over x, with one line for each choice of the other axes",
                    grid_column_names())}),
      table("TrainSettings",
            "Settings of the training step. The defaults apply to a base; a rung changes only the settings "
            "that it names.",
            fields_of_spec("train")),
      table("ValidateOptions",
            "Loss on held-out data: the same sequences for every rung, not part of the step time, also after "
            "the last step.",
            validate_fields_of_script()),
      table(
          "SaveOptions",
          "Saved states of each rung's first round, from which another experiment can continue (start). "
          "Saving is not part of the step time and happens also after the last step. Only the last state is "
          "kept.",
          {{"every", "integer", "steps between saved states", nullptr, 1}}),
      table(
          "StartOptions", "A saved state to begin from.",
          {{"state", "string", "folder of a run with a saved state"},
           {"weights_only", "boolean",
            "take the weights alone; optimizer, steps, data and the schedule of the learning rate begin anew",
            RunSpec().weights_only}}),
      table(
          "SampleOptions",
          "Prompts that each rung's trained model continues greedily after its first round, for the report.",
          sample_fields_of_script()),
      table(
          "LlamaFields",
          "Fields of a decoder. The defaults apply without a preset; a rung changes only the fields that it "
          "names.",
          fields_of_spec("llama")),
      table("RopeScaling", "Rescaling of the rotary frequencies.", fields_of_spec("rope_scaling")),
      table("Router", "How a router chooses and weighs the experts of a token.", fields_of_spec("router")),
      table("LatentAttention", "Multi-head latent attention.", fields_of_spec("latent")),
      table("DeltaNet", "Gated DeltaNet, a linear attention.", fields_of_spec("delta_net")),
      table("Mamba2", "Mamba 2, a state space model.", fields_of_spec("mamba")),
      table("FullAttention", "Heads of layers with full attention beside layers with a window.",
            fields_of_spec("full_attention")),
      table("OperatorFields", "Sizes of a single operator; a rung changes only the fields that it names.",
            fields_of_spec("operator")),
      table("CollectiveFields", "Sizes of a single collective; a rung changes only the fields that it names.",
            fields_of_spec("collective")),
      table("RandomOptions", "Random tokens have no options: train.seed seeds them."),
      table("TextOptions", "Options of rush.text and rush.documents for a folder.",
            {{"extensions", "list?",
              "extensions of the files to read, for example '.h'; default: every file"}}),
      table("Problem", "Problem of rush.max_batch.",
            joined(base_settings(),
                   {{"rungs", "Rung[]?", "rungs to stack, as in a ladder"},
                    {"memory", "number|string?", memory},
                    {"most", "integer", "largest micro-batch to try", functions::kMostSequences, 1,
                     functions::kMostSequences},
                    {"trial", "boolean",
                     "check the prediction with a run of two steps, and halve the batch until it "
                     "fits; --resume keeps the result",
                     false}})),
      table("LadderOptions", "Options of exp:ladder for batch sizes.",
            {choice("batch", "string",
                    "same: as set by the rungs; max: each rung has the largest micro-batch, a power of two, "
                    "that fits, and accumulates to the base's sequences per step",
                    {"same", "max"}, "same"),
             {"memory", "number|string?", "for batch = \"max\": " + memory},
             {"trial", "boolean",
              "for batch = \"max\": check the prediction with a run of two steps, and halve the batch until "
              "it fits",
              false}}),
      table("RunOptions", "Options of exp:run.",
            {{"rounds", "integer?", "number of rounds; default: the experiment's number", nullptr, 1},
             {"within", "number?",
              "with at_most: run rounds until the intervals are this narrow; default: 0.03, which is ± 3 %",
              nullptr, 0.0001, 1},
             {"at_most", "number|string?", R"(time limit in seconds, or "90s", "5m", "1h"; excludes rounds)"},
             label,
             {"interleave", "boolean?",
              "interleave the rungs of a round step by step; default: true on a CPU if they fit into memory "
              "together"},
             {"trace", "boolean",
              "write a Chrome trace of one additional step in the first round of every rung", defaults.trace},
             {"max_restarts", "integer",
              "how often a run that saves its state (save) starts again from it after a fault",
              defaults.max_restarts, 0}}),
      alias("SearchPart", "a rung, or a list of alternative rungs", "Rung|Rung[]"),
      table("SearchOptions", "Options of exp:search.",
            {{"memory", "number|string?",
              "memory limit in bytes, or \"20GB\": excludes stacks predicted to need more; default: the "
              "free memory"},
             {"within", "number", "every stage runs rounds until its intervals are this narrow",
              kSearchUntil.within, 0.0001, 1},
             {"at_most", "number|string",
              R"(time limit of the whole search in seconds, or "90s", "20m", "1h")", kSearchUntil.at_most_s},
             label,
             {"interleave", "boolean?",
              "interleave the stacks of a round step by step; default: as in exp:run"}}),
      result("Gpu", "A GPU.",
             {{"name", "string", "name from the driver"},
              {"memory_bytes", "integer", "memory in bytes"},
              {"sm", "string", "compute capability, for example sm_90"}}),
      result("ModelSizes", "Sizes of a decoder.",
             {{"dim", "integer", "width of the residual stream"},
              {"n_layers", "integer", "blocks"},
              {"n_heads", "integer", "number of query heads"},
              {"n_kv_heads", "integer", "number of key/value heads"},
              {"head_dim", "integer", "width of a head"},
              {"ffn_dim", "integer", "inner width of the MLP"},
              {"vocab_size", "integer", "number of tokens in the vocabulary"},
              {"tie_embeddings", "boolean", "whether the embedding is the weight of the head"},
              {"max_positions", "integer", "longest sequence in the training of a checkpoint; 0: unknown"},
              {"parameters", "integer", "number of parameters"}}),
      result("Cpu", "A CPU.",
             {{"name", "string", "model name of the CPU"},
              {"free_bytes", "integer", "available memory in bytes"},
              {"bf16_speedup", "number",
               "measured speed of a bf16 matmul relative to fp32 (takes about a second); 0 without bf16 "
               "instructions"}}),
      result("PluginInfo", "A plugin that this build can use.",
             {{"name", "string", "name for rush.rung"},
              {"version", "string", "version of the plugin"},
              {"summary", "string", "one line"},
              choice("kind", "string", "kind of technique", {"optimization", "parallelism"}),
              choice("effect", "string", "on arithmetic", effect_names()),
              {"options", "PluginOption[]", "options of the plugin"}}),
      result("PluginOption", "An option of a plugin.",
             {{"name", "string", "name of the option"},
              {"type", "string", "integer, number, string, boolean or list"},
              {"doc", "string", "one line"},
              {"default", "any?", "default value; nil: required"}}),
  };
}
}  // namespace optrush
