#include <algorithm>

#include "script/functions.h"
#include "spec/presets.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
/// The allowed names of operators or collectives.
std::vector<std::string> op_names(const std::string& kind) {
  const auto fields = spec_fields(kind);
  return std::ranges::find(fields, "op", &Parameter::name)->choices;
}
std::vector<Function> functions_of_module() {
  const std::vector<Parameter> of_files = {
      {"source", "string|Corpus", "file, folder or corpus; relative paths start at the script's folder"},
      {"options", "TextOptions?", "selection of files in a folder"}};
  return {
      {.name = "experiment",
       .doc = "Describes an experiment: its base, which is rung 0.",
       .parameters = {{"base", "ExperimentOptions", "spec of the base and options of the experiment"}},
       .returns = "Experiment",
       .call = functions::experiment},
      {.name = "rung",
       .doc = "A named change. Without a plugin, settings may come second: rush.rung(\"micro-batch 8\", { "
              "train = { micro_batch = 8 } }). Plugins and options are checked here, at this line.",
       .parameters = {{"name", "string", "name of the rung in the report"},
                      {"plugin", "string|RungSettings?", "plugin to stack"},
                      {"options", "table?", "options of the plugin; `optrush plugins NAME` lists them"},
                      {"settings", "RungSettings?", "further changes"}},
       .returns = "Rung",
       .call = functions::rung},
      {.name = "external",
       .doc = "A rung that another program trains. The program receives the run's spec and writes or prints "
              "a RunResult.",
       .parameters = {{"rung", "ExternalOptions", "the program"}},
       .returns = "Rung",
       .call = functions::external},
      {.name = "llama",
       .doc = "A decoder from a preset, with optional changes, or from its fields: Llama and the models that "
              "differ from it by a choice.",
       .parameters = {{.name = "preset",
                       .type = "string|LlamaFields?",
                       .doc = "preset; nil: the default fields",
                       .choices = llama_preset_names()},
                      {"fields", "LlamaFields?", "fields that differ from the preset"}},
       .returns = "Model",
       .call = functions::llama},
      {.name = "operator",
       .doc = "A single operator of the block on seeded random activations, without data. Its loss is the "
              "mean square of the output; each of the micro_batch x seq_len positions counts as a token. The "
              "report includes the bytes and FLOPs that it needs.",
       .parameters = {{.name = "op", .type = "string", .doc = "operator", .choices = op_names("operator")},
                      {"fields", "OperatorFields?", "sizes"}},
       .returns = "Model",
       .call = functions::operator_alone},
      {.name = "collective",
       .doc = "A single collective among all ranks of a run (train.world_size), without data. Its result is "
              "checked before the first step. The report has its bandwidth and latency.",
       .parameters =
           {{.name = "op", .type = "string", .doc = "collective", .choices = op_names("collective")},
            {"fields", "CollectiveFields?", "sizes"}},
       .returns = "Model",
       .call = functions::collective_alone},
      {.name = "checkpoint",
       .doc = "A model with the weights of a Hugging Face folder: config.json and safetensors files.",
       .parameters = {{"folder", "string", "folder; relative paths start at the script's folder"}},
       .returns = "Model",
       .call = functions::checkpoint},
      {.name = "sizes",
       .doc = "The sizes of a decoder (of a checkpoint, from its config.json).",
       .parameters = {{"model", "Model", "model from rush.llama or rush.checkpoint"}},
       .returns = "ModelSizes",
       .call = functions::sizes},
      {.name = "random",
       .doc = "Seeded random tokens of the model's vocabulary.",
       .parameters = {{"options", "RandomOptions?", "no options"}},
       .returns = "Data",
       .call = functions::random},
      {.name = "text",
       .doc = "UTF-8 text from a file, a folder or a corpus: one token per byte, or the tokens of a "
              "checkpoint's tokenizer.",
       .parameters = of_files,
       .returns = "Data",
       .call = functions::text},
      {.name = "documents",
       .doc = "Documents for fine-tuning: a file with one JSON object per line, or each file of a folder or "
              "a corpus.",
       .parameters = of_files,
       .returns = "Data",
       .call = functions::documents},
      {.name = "preferences",
       .doc = "Preference pairs: a file with one JSON object per line, or the files of a folder or a corpus. "
              "In a folder, the second half of each text is the chosen answer to its first half.",
       .parameters = of_files,
       .returns = "Data",
       .call = functions::preferences},
      {.name = "tokens",
       .doc = "A token file.",
       .parameters = {{"file", "string", "token file; relative paths start at the script's folder"}},
       .returns = "Data",
       .call = functions::tokens},
      {.name = "corpus",
       .doc = "Text that is available on every machine after set-up.",
       .parameters = {{.name = "name",
                       .type = "string",
                       .doc = "libtorch: C++ headers of this build's LibTorch",
                       .choices = {"libtorch"}}},
       .returns = "Corpus",
       .call = functions::corpus},
      {.name = "device",
       .doc = "The device of the run: --device if given, otherwise \"cuda\" with an NVIDIA GPU and \"cpu\" "
              "without. For scripts that choose sizes by the device.",
       .returns = "string",
       .call = functions::device},
      {.name = "gpu",
       .doc = "The GPU of the runs; nil without a GPU, and with --device cpu.",
       .returns = "Gpu?",
       .call = functions::gpu},
      {.name = "cpu", .doc = "The CPU of this machine.", .returns = "Cpu", .call = functions::cpu},
      {.name = "ranks",
       .doc = "The number of processes that can train one model together (train.world_size): the launcher's "
              "processes, otherwise the GPUs of this machine, otherwise its cores.",
       .returns = "integer",
       .call = functions::ranks},
      {.name = "max_batch",
       .doc = "The largest micro-batch, a power of two, whose step is predicted to fit into memory (nothing "
              "is trained); with trial, also checked by runs of two steps. 0: not even one sequence fits. "
              "nil: the peak cannot be predicted (docs/guides/memory.md).",
       .parameters = {{"problem", "Problem", "training settings and stacked rungs"}},
       .returns = "integer?",
       .call = functions::max_batch},
      {.name = "preset",
       .doc = "The preset of the experiment chosen by --preset; default: the first name.",
       .parameters = {{"names", "list", "names of the presets, the default first"}},
       .returns = "string",
       .call = functions::preset},
      {.name = "arg",
       .doc = "An argument of the script from --arg NAME=VALUE, with the type of its default. Read it before "
              "the first exp:run. The report records its value.",
       .parameters = {{"name", "string", "name of lower-case letters, digits and '_'"},
                      {"default", "Scalar", "value without --arg"},
                      {"choices", "list?", "allowed values of a string"}},
       .returns = "Scalar",
       .call = functions::arg},
      {.name = "plugins",
       .doc = "The plugins that this build can use.",
       .returns = "PluginInfo[]",
       .call = functions::plugins},
  };
}

std::vector<Function> functions_of_classes() {
  const Parameter rungs = {"rungs", "Rung[]", "rungs, in order"};
  return {
      {.owner = "Experiment",
       .name = "ladder",
       .doc = "Measures rungs, each stacked on the previous one.",
       .parameters = {rungs, {"options", "LadderOptions?", "batch sizes"}},
       .returns = "Experiment",
       .returns_doc = "itself",
       .call = functions::ladder},
      {.owner = "Experiment",
       .name = "ablation",
       .doc = "Measures all rungs stacked, all but one (for each), and each one alone.",
       .parameters = {rungs},
       .returns = "Experiment",
       .returns_doc = "itself",
       .call = functions::ablation},
      {.owner = "Experiment",
       .name = "grid",
       .doc = "Measures every combination of one rung from each axis.",
       .parameters = {{"axes", "Rung[][]|table<string, Rung[]>",
                       "lists of rungs; named axes are ordered by name"},
                      {"view", "GridView?", "layout in the report"}},
       .returns = "Experiment",
       .returns_doc = "itself",
       .call = functions::grid},
      {.owner = "Experiment",
       .name = "run",
       .doc = "Runs every rung in every round and writes the report.",
       .parameters = {{"options", "RunOptions?", "rounds, or within and at_most; label"}},
       .returns = "Report",
       .call = functions::run},
      {.owner = "Experiment",
       .name = "search",
       .doc = "Searches for the fastest stack of these parts, and measures it as a ladder, the most "
              "effective part first.",
       .parameters = {{"parts", "SearchPart[]", "parts to choose from; at most one rung of each list"},
                      {"options", "SearchOptions?", "limits and label"}},
       .returns = "Report",
       .call = functions::search},
      {.owner = "Report",
       .name = "report",
       .doc = "Prints the table of the report and its path.",
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
