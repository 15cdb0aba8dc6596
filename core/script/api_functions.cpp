#include <algorithm>

#include "script/api_parts.h"
#include "script/functions.h"
#include "script/presets.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
/// What an operator or a collective alone may be.
std::vector<std::string> op_names(const std::string& kind) {
  const auto fields = spec_fields(kind);
  return std::ranges::find(fields, "op", &Parameter::name)->choices;
}
std::vector<Function> functions_of_module() {
  return {
      {.name = "experiment",
       .doc = "Describes an experiment: its base, which is rung 0.",
       .parameters = {{.name = "base", .type = "ExperimentOptions", .doc = "what every rung starts from"}},
       .returns = "Experiment",
       .call = functions::experiment},
      {.name = "rung",
       .doc = "A named change. Without a plugin, settings may come second: rush.rung(\"micro-batch 8\", { "
              "train = { "
              "micro_batch = 8 } }). Plugins and options are checked here, at this line.",
       .parameters = {{.name = "name", .type = "string", .doc = "heads a row of the report"},
                      {.name = "plugin", .type = "string|RungSettings?", .doc = "the plugin that it stacks"},
                      {.name = "options",
                       .type = "table?",
                       .doc = "of the plugin; `optrush plugins NAME` lists them"},
                      {.name = "settings", .type = "RungSettings?", .doc = "what else it changes"}},
       .returns = "Rung",
       .call = functions::rung},
      {.name = "external",
       .doc = "A rung that another program trains. It gets the run's spec and writes or prints a RunResult.",
       .parameters = {{.name = "rung", .type = "ExternalOptions", .doc = "the program"}},
       .returns = "Rung",
       .call = functions::external},
      {.name = "llama",
       .doc = "A Llama by the name of a preset, changed field by field, or by its fields alone.",
       .parameters = {{.name = "preset",
                       .type = "string|LlamaFields?",
                       .doc = "a preset; nil: the fields' own defaults",
                       .choices = llama_preset_names()},
                      {.name = "fields", .type = "LlamaFields?", .doc = "that differ from the preset"}},
       .returns = "Model",
       .call = functions::llama},
      {.name = "operator",
       .doc = "One operator of the block alone, on seeded random activations: it reads no data. Its loss is "
              "the mean "
              "square of the output; each of the micro_batch x seq_len positions counts as a token. Reports "
              "know the "
              "bytes and FLOPs that it needs.",
       .parameters = {{.name = "op", .type = "string", .doc = "which", .choices = op_names("operator")},
                      {.name = "fields", .type = "OperatorFields?", .doc = "its sizes"}},
       .returns = "Model",
       .call = functions::operator_alone},
      {.name = "collective",
       .doc = "One collective alone among all ranks of a run (train.world_size), its result checked by value "
              "before "
              "the first step. It reads no data. Reports know its bandwidth and latency.",
       .parameters = {{.name = "op", .type = "string", .doc = "which", .choices = op_names("collective")},
                      {.name = "fields", .type = "CollectiveFields?", .doc = "its sizes"}},
       .returns = "Model",
       .call = functions::collective_alone},
      {.name = "checkpoint",
       .doc = "A model with the weights of a Hugging Face folder: config.json and safetensors files.",
       .parameters = {{.name = "folder",
                       .type = "string",
                       .doc = "a relative path starts at the script's folder"}},
       .returns = "Model",
       .call = functions::checkpoint},
      {.name = "sizes",
       .doc = "The sizes of a decoder, of a checkpoint by its config.json: for scripts that choose by them.",
       .parameters = {{.name = "model", .type = "Model", .doc = "from rush.llama or rush.checkpoint"}},
       .returns = "ModelSizes",
       .call = functions::sizes},
      {.name = "random",
       .doc = "Seeded random tokens of the model's vocabulary.",
       .parameters = {{.name = "options", .type = "RandomOptions?", .doc = "none"}},
       .returns = "Data",
       .call = functions::random},
      {.name = "text",
       .doc = "UTF-8 text, one token a byte: a file, a folder, or a corpus.",
       .parameters = {{.name = "source",
                       .type = "string|Corpus",
                       .doc = "a relative path starts at the script's folder"},
                      {.name = "options", .type = "TextOptions?", .doc = "which files of a folder"}},
       .returns = "Data",
       .call = functions::text},
      {.name = "documents",
       .doc = "Documents to tune a model on: a file with one JSON object a line, or each file of a folder or "
              "a corpus.",
       .parameters = {{.name = "source",
                       .type = "string|Corpus",
                       .doc = "a relative path starts at the script's folder"},
                      {.name = "options", .type = "TextOptions?", .doc = "which files of a folder"}},
       .returns = "Data",
       .call = functions::documents},
      {.name = "preferences",
       .doc =
           "Pairs of answers to learn from which one is preferred: a file with one JSON object a line, or "
           "the "
           "files of a folder or a corpus, where each text's second half is the chosen answer to its first.",
       .parameters = {{.name = "source",
                       .type = "string|Corpus",
                       .doc = "a relative path starts at the script's folder"},
                      {.name = "options", .type = "TextOptions?", .doc = "which files of a folder"}},
       .returns = "Data",
       .call = functions::preferences},
      {.name = "tokens",
       .doc = "A token file.",
       .parameters = {{.name = "file",
                       .type = "string",
                       .doc = "a relative path starts at the script's folder"}},
       .returns = "Data",
       .call = functions::tokens},
      {.name = "corpus",
       .doc = "Real text that is there after set-up on every machine.",
       .parameters = {{.name = "name",
                       .type = "string",
                       .doc = "libtorch: the C++ headers of the LibTorch of this build",
                       .choices = {"libtorch"}}},
       .returns = "Corpus",
       .call = functions::corpus},
      {.name = "device",
       .doc = "\"cuda\" where there is an NVIDIA GPU, \"cpu\" elsewhere; --device decides where it is given. "
              "For "
              "scripts that choose sizes: what is measured is the spec, as ever.",
       .returns = "string",
       .call = functions::device},
      {.name = "gpu",
       .doc = "The GPU that runs train on; nil where there is none, and with --device cpu.",
       .returns = "Gpu?",
       .call = functions::gpu},
      {.name = "cpu", .doc = "The CPU of this machine.", .returns = "Cpu", .call = functions::cpu},
      {.name = "ranks",
       .doc = "How many processes can train one model together (train.world_size): as many as the launcher "
              "started, else the GPUs of this machine, else its cores.",
       .returns = "integer",
       .call = functions::ranks},
      {.name = "max_batch",
       .doc =
           "The largest micro-batch, a power of two, whose step is predicted to fit into the memory: by the "
           "plans "
           "of workers, which train nothing; with trial, by runs of two steps as well. 0 where not even one "
           "sequence fits, nil where the peak can't be "
           "predicted (docs/guides/memory.md).",
       .parameters = {{.name = "problem", .type = "Problem", .doc = "what is trained, and what is stacked"}},
       .returns = "integer?",
       .call = functions::max_batch},
      {.name = "preset",
       .doc =
           "A form of the experiment, chosen by --preset: one of the names; the first where it is not given.",
       .parameters = {{.name = "names", .type = "list", .doc = "of the forms, the usual one first"}},
       .returns = "string",
       .call = functions::preset},
      {.name = "arg",
       .doc = "An argument of the script: what --arg NAME=VALUE gives it, of the type of its default. To be "
              "read "
              "before the first exp:run. The report says which values it ran with.",
       .parameters = {{.name = "name", .type = "string", .doc = "lower-case letters, digits and '_'"},
                      {.name = "default", .type = "Scalar", .doc = "where --arg does not give it"},
                      {.name = "choices", .type = "list?", .doc = "the values that a string may have"}},
       .returns = "Scalar",
       .call = functions::arg},
      {.name = "plugins",
       .doc = "The plugins that this build can use.",
       .returns = "PluginInfo[]",
       .call = functions::plugins},
  };
}

std::vector<Function> functions_of_classes() {
  const Parameter rungs = {.name = "rungs", .type = "Rung[]", .doc = "in this order"};
  return {
      {.owner = "Experiment",
       .name = "ladder",
       .doc = "Measures rungs, each on top of the one before.",
       .parameters = {rungs,
                      {.name = "options", .type = "LadderOptions?", .doc = "how large the batches are"}},
       .returns = "Experiment",
       .returns_doc = "itself",
       .call = functions::ladder},
      {.owner = "Experiment",
       .name = "ablation",
       .doc = "Measures all rungs stacked, all but one for each, and each one alone.",
       .parameters = {rungs},
       .returns = "Experiment",
       .returns_doc = "itself",
       .call = functions::ablation},
      {.owner = "Experiment",
       .name = "grid",
       .doc = "Measures every combination of one rung from each axis.",
       .parameters = {{.name = "axes",
                       .type = "Rung[][]|table<string, Rung[]>",
                       .doc = "lists of rungs; named axes are taken in the order of their names"},
                      {.name = "view", .type = "GridView?", .doc = "how the report shows it"}},
       .returns = "Experiment",
       .returns_doc = "itself",
       .call = functions::grid},
      {.owner = "Experiment",
       .name = "run",
       .doc = "Runs every rung in every round and writes the report.",
       .parameters = {{.name = "options",
                       .type = "RunOptions?",
                       .doc = "rounds, or within and at_most; label"}},
       .returns = "Report",
       .call = functions::run},
      {.owner = "Experiment",
       .name = "search",
       .doc =
           "Looks for the fastest stack of these parts, and measures it as a ladder: what pays most first.",
       .parameters = {{.name = "parts",
                       .type = "SearchPart[]",
                       .doc = "of which any number is stacked; of a list of rungs one at most"},
                      {.name = "options", .type = "SearchOptions?", .doc = "limits and label"}},
       .returns = "Report",
       .call = functions::search},
      {.owner = "Report",
       .name = "report",
       .doc = "Prints the table of the report, and where it is.",
       .returns = "Report",
       .returns_doc = "itself",
       .call = functions::report},
      {.owner = "Report",
       .name = "dir",
       .doc = "The folder of the report.",
       .returns = "string",
       .call = functions::dir,
       .property = true},
  };
}
}  // namespace

std::vector<Function> api_functions() {
  auto all = functions_of_module();
  for (auto& function : functions_of_classes()) all.push_back(std::move(function));
  return all;
}
}  // namespace optrush
