#include <algorithm>
#include <utility>

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

using Called = decltype(Function::call);

/// A function of the module: rush.NAME.
Function rush(const char* name, Called call, const char* returns, const char* doc,
              std::vector<Parameter> parameters = {}) {
  return {.name = name, .doc = doc, .parameters = std::move(parameters), .returns = returns, .call = call};
}

Function method(const char* owner, const char* name, Called call, const char* returns, const char* doc,
                std::vector<Parameter> parameters = {}) {
  Function made = rush(name, call, returns, doc, std::move(parameters));
  made.owner = owner;
  return made;
}

Function property(const char* owner, const char* name, Called call, const char* returns, const char* doc) {
  Function made = method(owner, name, call, returns, doc);
  made.property = true;
  return made;
}
}  // namespace

std::vector<Function> api_functions() {
  const std::vector<Parameter> of_files = {
      {"source", "string|Corpus", "file, folder or corpus; relative paths start at the script's folder"},
      {"options", "TextOptions?", "selection of files in a folder"}};
  const Parameter rungs = {"rungs", "Rung[]", "rungs, in order"};
  return {
      rush("experiment", functions::experiment, "Experiment",
           "Describes an experiment: its base, which is rung 0.",
           {{"base", "ExperimentOptions", "spec of the base and options of the experiment"}}),
      rush("rung", functions::rung, "Rung",
           "A named change. Without a plugin, settings may come second: rush.rung(\"micro-batch 8\", { "
           "train = { micro_batch = 8 } }). Plugins and options are checked here, at this line.",
           {{"name", "string", "name of the rung in the report"},
            {"plugin", "string|RungSettings?", "plugin to stack"},
            {"options", "table?", "options of the plugin; `optrush plugins NAME` lists them"},
            {"settings", "RungSettings?", "further changes"}}),
      rush("external", functions::external, "Rung",
           "A rung that another program trains. The program receives the run's spec and writes or prints "
           "a RunResult.",
           {{"rung", "ExternalOptions", "the program"}}),
      rush("llama", functions::llama, "Model",
           "A decoder from a preset, with optional changes, or from its fields: Llama and the models that "
           "differ from it by a choice.",
           {{.name = "preset",
             .type = "string|LlamaFields?",
             .doc = "preset; nil: the default fields",
             .choices = llama_preset_names()},
            {"fields", "LlamaFields?", "fields that differ from the preset"}}),
      rush("operator", functions::one_alone, "Model",
           "A single operator of the block on seeded random activations, without data. Its loss is the "
           "mean square of the output; each of the micro_batch x seq_len positions counts as a token. The "
           "report includes the bytes and FLOPs that it needs.",
           {{.name = "op", .type = "string", .doc = "operator", .choices = op_names("operator")},
            {"fields", "OperatorFields?", "sizes"}}),
      rush("collective", functions::one_alone, "Model",
           "A single collective among all ranks of a run (train.world_size), without data. Its result is "
           "checked before the first step. The report has its bandwidth and latency.",
           {{.name = "op", .type = "string", .doc = "collective", .choices = op_names("collective")},
            {"fields", "CollectiveFields?", "sizes"}}),
      rush("checkpoint", functions::checkpoint, "Model",
           "A model with the weights of a Hugging Face folder: config.json and safetensors files.",
           {{"folder", "string", "folder; relative paths start at the script's folder"}}),
      rush("sizes", functions::sizes, "ModelSizes",
           "The sizes of a decoder (of a checkpoint, from its config.json).",
           {{"model", "Model", "model from rush.llama or rush.checkpoint"}}),
      rush("random", functions::random, "Data", "Seeded random tokens of the model's vocabulary.",
           {{"options", "RandomOptions?", "no options"}}),
      rush("text", functions::files, "Data",
           "UTF-8 text from a file, a folder or a corpus: one token per byte, or the tokens of a "
           "checkpoint's tokenizer.",
           of_files),
      rush("documents", functions::files, "Data",
           "Documents for fine-tuning: a file with one JSON object per line, or each file of a folder or "
           "a corpus.",
           of_files),
      rush("preferences", functions::files, "Data",
           "Preference pairs: a file with one JSON object per line, or the files of a folder or a corpus. "
           "In a folder, the second half of each text is the chosen answer to its first half.",
           of_files),
      rush("tokens", functions::tokens, "Data", "A token file.",
           {{"file", "string", "token file; relative paths start at the script's folder"}}),
      rush("corpus", functions::corpus, "Corpus", "Text that is available on every machine after set-up.",
           {{.name = "name",
             .type = "string",
             .doc = "libtorch: C++ headers of this build's LibTorch",
             .choices = {"libtorch"}}}),
      rush("device", functions::device, "string",
           "The device of the run: --device if given, otherwise \"cuda\" with an NVIDIA GPU and \"cpu\" "
           "without. For scripts that choose sizes by the device."),
      rush("gpu", functions::gpu, "Gpu?", "The GPU of the runs; nil without a GPU, and with --device cpu."),
      rush("cpu", functions::cpu, "Cpu", "The CPU of this machine."),
      rush("ranks", functions::ranks, "integer",
           "The number of processes that can train one model together (train.world_size): the launcher's "
           "processes, otherwise the GPUs of this machine, otherwise its cores."),
      rush("max_batch", functions::max_batch, "integer?",
           "The largest micro-batch, a power of two, whose step is predicted to fit into memory (nothing "
           "is trained); with trial, also checked by runs of two steps. 0: not even one sequence fits. "
           "nil: the peak cannot be predicted (docs/guides/memory.md).",
           {{"problem", "Problem", "training settings and stacked rungs"}}),
      rush("preset", functions::preset, "string",
           "The preset of the experiment chosen by --preset; default: the first name.",
           {{"names", "list", "names of the presets, the default first"}}),
      rush("arg", functions::arg, "Scalar",
           "An argument of the script from --arg NAME=VALUE, with the type of its default. Read it before "
           "the first exp:run. The report records its value.",
           {{"name", "string", "name of lower-case letters, digits and '_'"},
            {"default", "Scalar", "value without --arg"},
            {"choices", "list?", "allowed values of a string"}}),
      rush("plugins", functions::plugins, "PluginInfo[]", "The plugins that this build can use."),
      method("Experiment", "ladder", functions::ladder, "Experiment",
             "Measures rungs, each stacked on the previous one.",
             {rungs, {"options", "LadderOptions?", "batch sizes"}}),
      method("Experiment", "ablation", functions::ablation, "Experiment",
             "Measures all rungs stacked, all but one (for each), and each one alone.", {rungs}),
      method("Experiment", "grid", functions::grid, "Experiment",
             "Measures every combination of one rung from each axis.",
             {{"axes", "Rung[][]|table<string, Rung[]>", "lists of rungs; named axes are ordered by name"},
              {"view", "GridView?", "layout in the report"}}),
      method("Experiment", "run", functions::run, "Report",
             "Runs every rung in every round and writes the report.",
             {{"options", "RunOptions?", "rounds, or within and at_most; label"}}),
      method("Experiment", "search", functions::search, "Report",
             "Searches for the fastest stack of these parts, and measures it as a ladder, the most "
             "effective part first.",
             {{"parts", "SearchPart[]", "parts to choose from; at most one rung of each list"},
              {"options", "SearchOptions?", "limits and label"}}),
      method("Report", "report", functions::report, "Report", "Prints the table of the report and its path."),
      property("Report", "dir", functions::dir, "string", "The folder of the report."),
  };
}
}  // namespace optrush
