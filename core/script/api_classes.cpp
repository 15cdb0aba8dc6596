#include <algorithm>

#include "base/text.h"
#include "report/analysis/quantities.h"
#include "script/functions.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
using Kind = Class::Kind;

/// The fields of a section of the spec, with their docs, ranges and defaults.
std::vector<Parameter> fields_of_spec(const std::string& section) {
  std::vector<Parameter> fields = spec_fields(section);
  // Set by rush.checkpoint, rush.operator and rush.collective.
  std::erase_if(fields,
                [](const Parameter& field) { return field.name == "checkpoint" || field.name == "op"; });
  for (auto& field : fields)
    if (field.type == "object") field.type = "RopeScaling?", field.fallback = nullptr;
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
  return {{.name = "model", .type = "Model", .doc = "model to train"},
          {.name = "data", .type = "Data?", .doc = "training data; default: seeded random tokens"},
          {.name = "train", .type = "TrainSettings?", .doc = "settings of the training step"},
          run_field("device", "device"),
          run_field("threads", "threads"),
          {.name = "env",
           .type = "table<string, string>?",
           .doc = "environment variables of the run, in addition to the inherited ones"},
          run_field("timeout_s", "timeout"),
          {.name = "plugins",
           .type = "PluginUse[]?",
           .doc = "plugins to stack, each a name or { name, options }"}};
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
std::vector<Parameter> joined(std::vector<Parameter> first, const std::vector<Parameter>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}
}  // namespace

std::vector<Class> api_classes() {
  const Experiment defaults;
  const External defaults_of_external;
  std::vector<Class> all = {
      {.name = "Model", .doc = "A model to train."},
      {.name = "Data", .doc = "Training data."},
      {.name = "Corpus",
       .doc = "A text that is available on every machine, for rush.text and rush.documents."},
      {.name = "Rung", .doc = "A named change: plugins, settings, or both."},
      {.name = "Experiment", .doc = "A base and the rungs measured against it."},
      {.name = "Report", .doc = "The report of an experiment."},
      {.kind = Kind::alias,
       .name = "Scalar",
       .doc = "a number, a string, true or false",
       .alias = "integer|number|string|boolean"},
      {.kind = Kind::alias,
       .name = "PluginUse",
       .doc = "a plugin: its name, or { name, options }",
       .alias = "string|table"},
      {.kind = Kind::table,
       .name = "ExperimentOptions",
       .doc = "Options of rush.experiment.",
       .fields = joined({{.name = "name",
                          .type = "string",
                          .doc = "name of the experiment, and of its folder below reports/"},
                         {.name = "question",
                          .type = "string?",
                          .doc = "question that the experiment answers; title of the report"}},
                        base_settings())},
      {.kind = Kind::table,
       .name = "RungSettings",
       .doc = "Changes of a rung; other settings stay as in the rung below.",
       .fields = joined(
           rung_settings(),
           {{.name = "replace",
             .type = "string|list?",
             .doc = "stacked plugins that the plugins of this rung replace"},
            {.name = "without", .type = "string|list?", .doc = "stacked plugins that this rung removes"},
            {.name = "over",
             .type = "string?",
             .doc = "earlier rung of this ladder that this rung is added to and compared with; default: the "
                    "rung before it"},
            {.name = "expect",
             .type = "Published?",
             .doc = "published figures for this change, for the report of a ladder"}})},
      {.kind = Kind::table,
       .name = "Published",
       .doc = "Published figures of a rung's change, relative to the rung below it.",
       .fields =
           {{.name = "speedup", .type = "number?", .doc = "ratio of tokens/s: 1.75 is 75 % more", .min = 0},
            {.name = "memory", .type = "number?", .doc = "ratio of peak memory: 0.7 is 30 % less", .min = 0},
            {.name = "source", .type = "string", .doc = "publication"},
            {.name = "on",
             .type = "string",
             .doc = "device and problem, separated by a comma: \"A100-80GB, sequence 2048\". The report "
                    "marks a different device"}}},
      {.kind = Kind::table,
       .name = "ExternalOptions",
       .doc = "Options of rush.external: a program, and further changes of the rung.",
       .fields = joined(
           {{.name = "name", .type = "string", .doc = "name of the rung in the report"},
            {.name = "command",
             .type = "list",
             .doc = "program and its arguments, started in the script's folder; " + join(placeholders()) +
                    " are replaced"},
            {.name = "files",
             .type = "list?",
             .doc = "further files that the results depend on: a change reruns the rung. Arguments "
                    "that are files are included"},
            {.name = "preload",
             .type = "list?",
             .doc = "libraries that the dynamic loader loads first (LD_PRELOAD)"},
            {.name = "requirements",
             .type = "string?",
             .doc = "pip requirements file with the Python packages that the program imports"},
            {.name = "packages",
             .type = "string?",
             .doc = "file with the names of the Debian packages of the libraries and programs, one "
                    "per line, for the message when one is missing"},
            {.name = "effect",
             .type = "string",
             .doc = "effect on arithmetic, relative to the rung below",
             .fallback = to_string(defaults_of_external.effect),
             .choices = {"rounding", "precision", "model"}},
            {.name = "interleave",
             .type = "boolean",
             .doc = "whether it implements the protocol of interleaved runs (docs/guides/running.md)",
             .fallback = defaults_of_external.interleave},
            {.name = "headline",
             .type = "boolean",
             .doc = "whether a headline may name it as the fastest program; false for a row that is no "
                    "fair peer",
             .fallback = defaults_of_external.headline}},
           external_settings())},
      {.kind = Kind::table,
       .name = "GridView",
       .doc = "Layout of a grid in the report: a table, and curves over a setting.",
       .fields = {{.name = "axes", .type = "list?", .doc = "names of the axes, if they are given as a list"},
                  {.name = "columns",
                   .type = "list?",
                   .doc = "columns of the table, in addition to one for each axis",
                   .choices = grid_column_names()},
                  {.name = "against",
                   .type = "string?",
                   .doc = "rung of one axis as the reference; brackets show the change from it"},
                  {.name = "x",
                   .type = "string?",
                   .doc = "numeric setting of the axes for the x axis, for example train.seq_len"},
                  {.name = "curves",
                   .type = "list?",
                   .doc = "quantities to draw over x, with one line for each choice of the other axes",
                   .choices = grid_column_names()}}},
      {.kind = Kind::table,
       .name = "TrainSettings",
       .doc = "Settings of the training step. The defaults are those of a base; a rung changes only the "
              "settings that it names.",
       .fields = fields_of_spec("train")},
      {.kind = Kind::table,
       .name = "ValidateOptions",
       .doc = "Loss on held-out data: the same sequences for every rung, not part of the step time, also "
              "after the last step.",
       .fields = validate_fields_of_script()},
      {.kind = Kind::table,
       .name = "SaveOptions",
       .doc = "Saved states of each rung's first round, from which another experiment can continue (start). "
              "Saving is not part of the step time and happens also after the last step. Only the last state "
              "is kept.",
       .fields = {{.name = "every", .type = "integer", .doc = "steps between saved states", .min = 1}}},
      {.kind = Kind::table,
       .name = "StartOptions",
       .doc = "A saved state to begin from.",
       .fields = {{.name = "state", .type = "string", .doc = "folder of a run with a saved state"},
                  {.name = "weights_only",
                   .type = "boolean",
                   .doc = "take the weights alone; optimizer, steps, data and the schedule of the learning "
                          "rate begin anew",
                   .fallback = RunSpec().weights_only}}},
      {.kind = Kind::table,
       .name = "SampleOptions",
       .doc =
           "Prompts that each rung's trained model continues greedily after its first round, for the report.",
       .fields = sample_fields_of_script()},
      {.kind = Kind::table,
       .name = "LlamaFields",
       .doc = "Fields of a decoder. The defaults apply without a preset; a rung changes only the fields "
              "that it names.",
       .fields = fields_of_spec("llama")},
      {.kind = Kind::table,
       .name = "RopeScaling",
       .doc = "Rescaling of the rotary frequencies.",
       .fields = fields_of_spec("rope_scaling")},
      {.kind = Kind::table,
       .name = "OperatorFields",
       .doc = "Sizes of a single operator; a rung changes only the fields that it names.",
       .fields = fields_of_spec("operator")},
      {.kind = Kind::table,
       .name = "CollectiveFields",
       .doc = "Sizes of a single collective; a rung changes only the fields that it names.",
       .fields = fields_of_spec("collective")},
      {.kind = Kind::table,
       .name = "RandomOptions",
       .doc = "Random tokens have no options: train.seed seeds them."},
      {.kind = Kind::table,
       .name = "TextOptions",
       .doc = "Options of rush.text and rush.documents for a folder.",
       .fields = {{.name = "extensions",
                   .type = "list?",
                   .doc = "extensions of the files to read, for example '.h'; default: every file"}}},
      {.kind = Kind::table,
       .name = "Problem",
       .doc = "Problem of rush.max_batch.",
       .fields = joined(base_settings(),
                        {{.name = "rungs", .type = "Rung[]?", .doc = "rungs to stack, as in a ladder"},
                         {.name = "memory",
                          .type = "number|string?",
                          .doc = "memory limit of a step in bytes, or \"20GB\"; default: 90 % of the GPU's "
                                 "memory, or a rank's share of 70 % of the free CPU memory"},
                         {.name = "most",
                          .type = "integer",
                          .doc = "largest micro-batch to try",
                          .fallback = functions::kMostSequences,
                          .min = 1,
                          .max = functions::kMostSequences},
                         {.name = "trial",
                          .type = "boolean",
                          .doc = "check the prediction with a run of two steps, and halve the batch until it "
                                 "fits; --resume keeps the result",
                          .fallback = false}})},
      {.kind = Kind::table,
       .name = "LadderOptions",
       .doc = "Options of exp:ladder for batch sizes.",
       .fields =
           {{.name = "batch",
             .type = "string",
             .doc = "same: as set by the rungs; max: each rung has the largest micro-batch, a power of two, "
                    "that fits, and accumulates to the base's sequences per step",
             .fallback = "same",
             .choices = {"same", "max"}},
            {.name = "memory",
             .type = "number|string?",
             .doc =
                 R"(for batch = "max": memory limit of a step in bytes, or "20GB"; default: 90 % of the GPU's memory, or a rank's share of 70 % of the free CPU memory)"},
            {.name = "trial",
             .type = "boolean",
             .doc = "for batch = \"max\": check the prediction with a run of two steps, and halve the batch "
                    "until it fits",
             .fallback = false}}},
      {.kind = Kind::table,
       .name = "RunOptions",
       .doc = "Options of exp:run.",
       .fields =
           {{.name = "rounds",
             .type = "integer?",
             .doc = "number of rounds; default: that of the experiment",
             .min = 1},
            {.name = "within",
             .type = "number?",
             .doc = "with at_most: run rounds until the intervals are this narrow; default: 0.03, which is ± "
                    "3 %",
             .min = 0.0001,
             .max = 1},
            {.name = "at_most",
             .type = "number|string?",
             .doc = R"(time limit in seconds, or "90s", "5m", "1h"; excludes rounds)"},
            {.name = "label",
             .type = "string",
             .doc = "label of the report, in the folder reports/<experiment>/<label>/; git ignores 'local'",
             .fallback = defaults.label},
            {.name = "interleave",
             .type = "boolean?",
             .doc = "interleave the rungs of a round step by step; default: true on a CPU if they fit into "
                    "memory together"},
            {.name = "trace",
             .type = "boolean",
             .doc = "write a Chrome trace of one additional step in the first round of every rung",
             .fallback = defaults.trace},
            {.name = "max_restarts",
             .type = "integer",
             .doc = "how often a run that saves its state (save) starts again from it after a fault",
             .fallback = defaults.max_restarts,
             .min = 0}}},
      {.kind = Kind::alias,
       .name = "SearchPart",
       .doc = "a rung, or a list of alternative rungs",
       .alias = "Rung|Rung[]"},
      {.kind = Kind::table,
       .name = "SearchOptions",
       .doc = "Options of exp:search.",
       .fields =
           {{.name = "memory",
             .type = "number|string?",
             .doc = "memory limit in bytes, or \"20GB\": excludes stacks predicted to need more; default: "
                    "the free memory"},
            {.name = "within",
             .type = "number",
             .doc = "every stage runs rounds until its intervals are this narrow",
             .fallback = kSearchUntil.within,
             .min = 0.0001,
             .max = 1},
            {.name = "at_most",
             .type = "number|string",
             .doc = R"(time limit of the whole search in seconds, or "90s", "20m", "1h")",
             .fallback = kSearchUntil.at_most_s},
            {.name = "label",
             .type = "string",
             .doc = "label of the report, in the folder reports/<experiment>/<label>/; git ignores 'local'",
             .fallback = defaults.label},
            {.name = "interleave",
             .type = "boolean?",
             .doc = "interleave the stacks of a round step by step; default: as in exp:run"}}},
      {.kind = Kind::result,
       .name = "Gpu",
       .doc = "A GPU.",
       .fields = {{.name = "name", .type = "string", .doc = "name from the driver"},
                  {.name = "memory_bytes", .type = "integer", .doc = "memory in bytes"},
                  {.name = "sm", .type = "string", .doc = "compute capability, for example sm_90"}}},
      {.kind = Kind::result,
       .name = "ModelSizes",
       .doc = "Sizes of a decoder.",
       .fields = {{.name = "dim", .type = "integer", .doc = "width of the residual stream"},
                  {.name = "n_layers", .type = "integer", .doc = "blocks"},
                  {.name = "n_heads", .type = "integer", .doc = "number of query heads"},
                  {.name = "n_kv_heads", .type = "integer", .doc = "number of key/value heads"},
                  {.name = "head_dim", .type = "integer", .doc = "width of a head"},
                  {.name = "ffn_dim", .type = "integer", .doc = "inner width of the MLP"},
                  {.name = "vocab_size", .type = "integer", .doc = "number of tokens in the vocabulary"},
                  {.name = "tie_embeddings",
                   .type = "boolean",
                   .doc = "whether the embedding is the weight of the head"},
                  {.name = "max_positions",
                   .type = "integer",
                   .doc = "longest sequence in the training of a checkpoint; 0: unknown"},
                  {.name = "parameters", .type = "integer", .doc = "number of parameters"}}},
      {.kind = Kind::result,
       .name = "Cpu",
       .doc = "A CPU.",
       .fields = {{.name = "name", .type = "string", .doc = "model name of the CPU"},
                  {.name = "free_bytes", .type = "integer", .doc = "available memory in bytes"},
                  {.name = "bf16_speedup",
                   .type = "number",
                   .doc = "measured speed of a bf16 matmul relative to fp32 (takes about a second); 0 "
                          "without bf16 instructions"}}},
      {.kind = Kind::result,
       .name = "PluginInfo",
       .doc = "A plugin that this build can use.",
       .fields = {{.name = "name", .type = "string", .doc = "name for rush.rung"},
                  {.name = "version", .type = "string", .doc = "version of the plugin"},
                  {.name = "summary", .type = "string", .doc = "one line"},
                  {.name = "kind",
                   .type = "string",
                   .doc = "kind of technique",
                   .choices = {"optimization", "parallelism"}},
                  {.name = "effect", .type = "string", .doc = "on arithmetic", .choices = effect_names()},
                  {.name = "options", .type = "PluginOption[]", .doc = "options of the plugin"}}},
      {.kind = Kind::result,
       .name = "PluginOption",
       .doc = "An option of a plugin.",
       .fields = {{.name = "name", .type = "string", .doc = "name of the option"},
                  {.name = "type", .type = "string", .doc = "integer, number, string, boolean or list"},
                  {.name = "doc", .type = "string", .doc = "one line"},
                  {.name = "default", .type = "any?", .doc = "default value; nil: required"}}},
  };
  auto experiment = std::ranges::find(all, "ExperimentOptions", &Class::name);
  experiment->fields =
      joined(std::move(experiment->fields),
             {{.name = "rounds",
               .type = "integer",
               .doc = "number of rounds; each rung runs once per round",
               .fallback = defaults.rounds,
               .min = 1},
              {.name = "validate", .type = "ValidateOptions?", .doc = "loss on held-out data"},
              {.name = "save", .type = "SaveOptions?", .doc = "saved state, to continue from"},
              {.name = "sample", .type = "SampleOptions?", .doc = "prompts that the trained model continues"},
              {.name = "start",
               .type = "string|StartOptions?",
               .doc = "folder of a run with a saved state; every rung continues from its parameters, "
                      "optimizer state and step number"},
              {.name = "target_loss",
               .type = "number?",
               .doc = "the report gives the training seconds of each rung until its validation loss reaches "
                      "this; without validate, the mean training loss of 10 steps",
               .min = 0.000001},
              {.name = "price_per_hour",
               .type = "number?",
               .doc = "price of the machine per hour; the report then has the price per million tokens",
               .min = 0},
              {.name = "currency",
               .type = "string",
               .doc = "currency of the price",
               .fallback = defaults.currency}});
  return all;
}
}  // namespace optrush
