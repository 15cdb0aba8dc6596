#include <algorithm>

#include "base/suggest.h"
#include "report/analysis/quantities.h"
#include "script/api_parts.h"
#include "script/functions.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
using Kind = Class::Kind;

/// The fields of a section of the spec: their docs, ranges and defaults stand there.
std::vector<Parameter> fields_of_spec(const std::string& section) {
  std::vector<Parameter> fields = spec_fields(section);
  // Given by rush.checkpoint, rush.operator and rush.collective.
  std::erase_if(fields,
                [](const Parameter& field) { return field.name == "checkpoint" || field.name == "op"; });
  for (auto& field : fields)
    if (field.type == "object") field.type = "RopeScaling?", field.fallback = nullptr;
  return fields;
}

/// What a script says of validation: how often has to be said.
std::vector<Parameter> validate_fields_of_script() {
  auto fields = spec_fields("validate");
  for (auto& field : fields) {
    if (field.name == "every")
      field.fallback = nullptr, field.min = 1, field.doc = "steps from one to the next";
    if (field.name == "data")
      field.type = "Data?", field.fallback = nullptr,
      field.doc =
          "where they come from; left out: the end of the experiment's own text or token file, which "
          "training then leaves out, or other random sequences";
  }
  return fields;
}

/// Without a prompt there is nothing to say.
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
  return {
      {.name = "model", .type = "Model", .doc = "what is trained"},
      {.name = "data", .type = "Data?", .doc = "what it is trained on; seeded random tokens where left out"},
      {.name = "train", .type = "TrainSettings?", .doc = "the training step"},
      run_field("device", "device"),
      run_field("threads", "threads"),
      {.name = "env",
       .type = "table<string, string>?",
       .doc = "environment variables of the run, over those that it inherits"},
      run_field("timeout_s", "timeout"),
      {.name = "plugins",
       .type = "PluginUse[]?",
       .doc = "plugins to stack: their names, or { name, options } each"}};
}

/// The same for a rung, where nothing has a default: what it leaves out stays.
std::vector<Parameter> rung_settings() {
  auto fields = base_settings();
  for (auto& field : fields) {
    if (field.name == "model") field.type = "Model|LlamaFields|OperatorFields|CollectiveFields";
    if (field.name == "data") field.doc = "what it is trained on";
    if (!field.type.ends_with('?')) field.type += '?';
    field.fallback = nullptr;
  }
  return fields;
}

/// An external rung stacks nothing.
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
      {.name = "Data", .doc = "What a model is trained on."},
      {.name = "Corpus", .doc = "A text that every machine has, for rush.text and rush.documents."},
      {.name = "Rung", .doc = "A named change: plugins, settings, or both."},
      {.name = "Experiment", .doc = "A base, and what is measured against it."},
      {.name = "Report", .doc = "What an experiment found."},
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
       .doc = "What rush.experiment takes.",
       .fields = joined(
           {{.name = "name", .type = "string", .doc = "of the experiment and of its folder below reports/"},
            {.name = "question", .type = "string?", .doc = "what it is to answer; heads the report"}},
           base_settings())},
      {.kind = Kind::table,
       .name = "RungSettings",
       .doc = "What a rung changes; what it leaves out stays as it is on the rung below.",
       .fields = joined(
           rung_settings(),
           {{.name = "replace",
             .type = "string|list?",
             .doc = "stacked plugins that this rung's own take the place of"},
            {.name = "without", .type = "string|list?", .doc = "stacked plugins that this rung takes off"},
            {.name = "over",
             .type = "string?",
             .doc = "the rung of this ladder that it stands on and is compared with; the one before it where "
                    "left "
                    "out"},
            {.name = "expect",
             .type = "Published?",
             .doc = "what others published of this change, for the report of a ladder"}})},
      {.kind = Kind::table,
       .name = "Published",
       .doc = "Published figures of a rung's change, over the rung below it.",
       .fields = {{.name = "speedup", .type = "number?", .doc = "in tokens/s: 1.75 is 75 % more", .min = 0},
                  {.name = "memory", .type = "number?", .doc = "peak memory: 0.7 is 30 % less", .min = 0},
                  {.name = "source", .type = "string", .doc = "who published it"},
                  {.name = "on",
                   .type = "string",
                   .doc = "the device, a comma, the problem: \"A100-80GB, sequence 2048\". Of another device "
                          "the report says so"}}},
      {.kind = Kind::table,
       .name = "ExternalOptions",
       .doc = "What rush.external takes: a program, and what the rung changes beside that.",
       .fields = joined(
           {{.name = "name", .type = "string", .doc = "heads a row of the report"},
            {.name = "command",
             .type = "list",
             .doc = "the program and its arguments, started in the script's folder; " + join(placeholders()) +
                    " are filled in"},
            {.name = "files",
             .type = "list?",
             .doc =
                 "what else decides its results: a changed file is run again. Arguments that are files count "
                 "anyway"},
            {.name = "preload", .type = "list?", .doc = "libraries that the dynamic loader takes first"},
            {.name = "requirements",
             .type = "string?",
             .doc = "file in the form of pip's requirements: the Python packages that the program imports"},
            {.name = "packages",
             .type = "string?",
             .doc = "file with the names of the system's packages (Debian) that have the libraries and "
                    "programs, one a line: for the message where one is missing"},
            {.name = "effect",
             .type = "string",
             .doc = "on arithmetic, against the rung below",
             .fallback = to_string(defaults_of_external.effect),
             .choices = {"rounding", "precision", "model"}},
            {.name = "interleave",
             .type = "boolean",
             .doc = "it follows the protocol of interleaved runs: docs/guides/running.md",
             .fallback = defaults_of_external.interleave}},
           external_settings())},
      {.kind = Kind::table,
       .name = "GridView",
       .doc = "How a report shows a grid: a table, and curves over a setting.",
       .fields = {{.name = "axes", .type = "list?", .doc = "names of axes that were given as a list"},
                  {.name = "columns",
                   .type = "list?",
                   .doc = "of the table, beside one for each axis",
                   .choices = grid_column_names()},
                  {.name = "against",
                   .type = "string?",
                   .doc = "a rung of one axis: changes against it stand in brackets"},
                  {.name = "x",
                   .type = "string?",
                   .doc = "a numeric setting of the axes, as in train.seq_len"},
                  {.name = "curves",
                   .type = "list?",
                   .doc = "drawn over x, one line for each choice of the other axes",
                   .choices = grid_column_names()}}},
      {.kind = Kind::table,
       .name = "TrainSettings",
       .doc = "The training step. The defaults are those of a base; a rung changes only what it names.",
       .fields = fields_of_spec("train")},
      {.kind = Kind::table,
       .name = "ValidateOptions",
       .doc = "The loss on data that training never reads: the same sequences for every rung, outside of the "
              "steps' time; also after the last step.",
       .fields = validate_fields_of_script()},
      {.kind = Kind::table,
       .name = "SaveOptions",
       .doc =
           "A state of each rung's first round that another experiment can go on from (start), saved between "
           "steps and outside of their time; also after the last step. The last one is left.",
       .fields = {{.name = "every", .type = "integer", .doc = "steps from one to the next", .min = 1}}},
      {.kind = Kind::table,
       .name = "SampleOptions",
       .doc = "What each rung's trained model continues greedily after the last step of its first round, for "
              "the report.",
       .fields = sample_fields_of_script()},
      {.kind = Kind::table,
       .name = "LlamaFields",
       .doc = "Dimensions of a Llama. The defaults are those without a preset; a rung changes only what it "
              "names.",
       .fields = fields_of_spec("llama")},
      {.kind = Kind::table,
       .name = "RopeScaling",
       .doc = "Llama 3 rescaling of the rotary frequencies.",
       .fields = fields_of_spec("rope_scaling")},
      {.kind = Kind::table,
       .name = "OperatorFields",
       .doc = "Sizes of one operator alone; a rung changes only what it names.",
       .fields = fields_of_spec("operator")},
      {.kind = Kind::table,
       .name = "CollectiveFields",
       .doc = "Sizes of one collective alone; a rung changes only what it names.",
       .fields = fields_of_spec("collective")},
      {.kind = Kind::table,
       .name = "RandomOptions",
       .doc = "Random tokens need none: train.seed seeds them."},
      {.kind = Kind::table,
       .name = "TextOptions",
       .doc = "What rush.text and rush.documents take from a folder.",
       .fields = {{.name = "extensions",
                   .type = "list?",
                   .doc = "only files that end so, as in '.h'; every file where left out"}}},
      {.kind = Kind::table,
       .name = "Problem",
       .doc = "What rush.max_batch asks about.",
       .fields = joined(
           base_settings(),
           {{.name = "rungs", .type = "Rung[]?", .doc = "stacked on that, as in a ladder"},
            {.name = "memory",
             .type = "number|string?",
             .doc = "bytes that a step may take, or \"20GB\"; the GPU's, less a tenth for what no tensor "
                    "holds; on a CPU seven tenths of what is free"},
            {.name = "most",
             .type = "integer",
             .doc = "no larger micro-batch is looked at",
             .fallback = functions::kMostSequences,
             .min = 1,
             .max = functions::kMostSequences},
            {.name = "trial",
             .type = "boolean",
             .doc = "run two steps of what is predicted to fit, and halve it until it does; --resume keeps "
                    "the answer",
             .fallback = false}})},
      {.kind = Kind::table,
       .name = "LadderOptions",
       .doc = "How large the batches of a ladder are.",
       .fields =
           {{.name = "batch",
             .type = "string",
             .doc =
                 "same: as the rungs say; max: each rung has the largest micro-batch, a power of two, that "
                 "its stack holds, and accumulates up to the base's sequences a step",
             .fallback = "same",
             .choices = {"same", "max"}},
            {.name = "memory",
             .type = "number|string?",
             .doc =
                 R"(of batch = "max": bytes that a step may take, or "20GB"; the GPU's, less a tenth; on a CPU seven tenths of what is free)"},
            {.name = "trial",
             .type = "boolean",
             .doc =
                 "of batch = \"max\": confirm what is predicted by a run of two steps, halved until it fits",
             .fallback = false}}},
      {.kind = Kind::table,
       .name = "RunOptions",
       .doc = "What exp:run takes.",
       .fields = {{.name = "rounds", .type = "integer?", .doc = "instead of the experiment's", .min = 1},
                  {.name = "within",
                   .type = "number?",
                   .doc =
                       "instead of rounds: as many as it takes until the intervals are ± this; 0.03 is 3 %",
                   .min = 0.0001,
                   .max = 1},
                  {.name = "at_most",
                   .type = "number|string?",
                   .doc = R"(with within: how long to measure, in seconds or as "90s", "5m", "1h")"},
                  {.name = "label",
                   .type = "string",
                   .doc = "of the report's folder: reports/<experiment>/<label>/; git ignores 'local'",
                   .fallback = defaults.label},
                  {.name = "interleave",
                   .type = "boolean?",
                   .doc = "whether the rungs of a round are interleaved step by step; left out: on a CPU, "
                          "where they fit "
                          "into its memory together"},
                  {.name = "trace",
                   .type = "boolean",
                   .doc = "the first round of every rung leaves a Chrome trace of one more step",
                   .fallback = defaults.trace}}},
      {.kind = Kind::alias,
       .name = "SearchPart",
       .doc = "a rung, or a list of rungs of which one is chosen",
       .alias = "Rung|Rung[]"},
      {.kind = Kind::table,
       .name = "SearchOptions",
       .doc = "What exp:search takes beside its parts.",
       .fields =
           {{.name = "memory",
             .type = "number|string?",
             .doc =
                 "bytes, or \"20GB\": no stack whose step is predicted to need more; left out: what is free"},
            {.name = "within",
             .type = "number",
             .doc = "every stage runs as many rounds as it takes until its intervals are ± this",
             .fallback = kSearchUntil.within,
             .min = 0.0001,
             .max = 1},
            {.name = "at_most",
             .type = "number|string",
             .doc = R"(how long all of it may take, in seconds or as "90s", "20m", "1h")",
             .fallback = kSearchUntil.at_most_s},
            {.name = "label",
             .type = "string",
             .doc = "of the report's folder: reports/<experiment>/<label>/; git ignores 'local'",
             .fallback = defaults.label},
            {.name = "interleave",
             .type = "boolean?",
             .doc = "whether the stacks of a round are interleaved step by step; left out: as in exp:run"}}},
      {.kind = Kind::result,
       .name = "Gpu",
       .doc = "A GPU.",
       .fields = {{.name = "name", .type = "string", .doc = "as the driver calls it"},
                  {.name = "memory_bytes", .type = "integer", .doc = "that it has"},
                  {.name = "sm", .type = "string", .doc = "its compute capability: sm_90"}}},
      {.kind = Kind::result,
       .name = "ModelSizes",
       .doc = "Sizes of a decoder.",
       .fields = {{.name = "dim", .type = "integer", .doc = "width of the residual stream"},
                  {.name = "n_layers", .type = "integer", .doc = "blocks"},
                  {.name = "n_heads", .type = "integer", .doc = "query heads"},
                  {.name = "n_kv_heads", .type = "integer", .doc = "heads of keys and values"},
                  {.name = "head_dim", .type = "integer", .doc = "width of a head"},
                  {.name = "ffn_dim", .type = "integer", .doc = "inner width of the SwiGLU"},
                  {.name = "vocab_size", .type = "integer", .doc = "tokens of the vocabulary"},
                  {.name = "tie_embeddings", .type = "boolean", .doc = "the head's weight is the embedding"},
                  {.name = "max_positions",
                   .type = "integer",
                   .doc = "the longest sequence that a checkpoint was trained on; 0: not said"},
                  {.name = "parameters", .type = "integer", .doc = "of all its tensors"}}},
      {.kind = Kind::result,
       .name = "Cpu",
       .doc = "A CPU.",
       .fields = {{.name = "name", .type = "string", .doc = "as it calls itself"},
                  {.name = "free_bytes", .type = "integer", .doc = "memory that processes can still have"},
                  {.name = "bf16_speedup",
                   .type = "number",
                   .doc =
                       "FLOP/s of a matmul in bf16 over those of one in fp32, measured for about a second; "
                       "0 where there are no instructions for bf16"}}},
      {.kind = Kind::result,
       .name = "PluginInfo",
       .doc = "A plugin that this build can use.",
       .fields = {{.name = "name", .type = "string", .doc = "what rush.rung calls it"},
                  {.name = "version", .type = "string", .doc = "of the plugin"},
                  {.name = "summary", .type = "string", .doc = "one line"},
                  {.name = "kind",
                   .type = "string",
                   .doc = "of technique",
                   .choices = {"optimization", "parallelism"}},
                  {.name = "effect", .type = "string", .doc = "on arithmetic", .choices = effect_names()},
                  {.name = "options", .type = "PluginOption[]", .doc = "that it takes"}}},
      {.kind = Kind::result,
       .name = "PluginOption",
       .doc = "An option of a plugin.",
       .fields = {{.name = "name", .type = "string", .doc = "of the option"},
                  {.name = "type", .type = "string", .doc = "integer, number, string, boolean or list"},
                  {.name = "doc", .type = "string", .doc = "one line"},
                  {.name = "default", .type = "any?", .doc = "where left out; nil: it must be given"}}},
  };
  auto experiment = std::ranges::find(all, "ExperimentOptions", &Class::name);
  experiment->fields = joined(
      std::move(experiment->fields),
      {{.name = "rounds",
        .type = "integer",
        .doc = "runs of each rung, interleaved",
        .fallback = defaults.rounds,
        .min = 1},
       {.name = "validate", .type = "ValidateOptions?", .doc = "the loss on data that training never reads"},
       {.name = "save", .type = "SaveOptions?", .doc = "the state that another run can go on from"},
       {.name = "sample", .type = "SampleOptions?", .doc = "prompts that the trained model continues"},
       {.name = "start",
        .type = "string?",
        .doc = "folder of a run with a saved state that every rung goes on from: with its parameters, the "
               "optimizer's state and the number of the step"},
       {.name = "target_loss",
        .type = "number?",
        .doc = "the report says how many seconds each rung trains until its validation loss is there; "
               "without validate, the mean training loss of 10 steps",
        .min = 0.000001},
       {.name = "price_per_hour",
        .type = "number?",
        .doc = "of the machine; gives the price of a million tokens",
        .min = 0},
       {.name = "currency", .type = "string", .doc = "of that price", .fallback = defaults.currency}});
  return all;
}
}  // namespace optrush
