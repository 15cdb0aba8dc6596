#include "experiment/search_request.h"
#include "optrush/error.h"
#include "script/byte_size.h"
#include "script/functions.h"

namespace optrush::functions {
namespace {
std::vector<Rung> axis_of(const LuaValue& item, size_t number) {
  std::vector<Rung> rungs;
  if (item.is_table())
    for (const auto& rung : item.table().items) rungs.push_back(rung.object<Rung>());
  else
    rungs.push_back(item.object<Rung>());
  if (rungs.empty())
    throw Error(ErrorCode::missing_value, "exp:search: part " + std::to_string(number) + " has no rung",
                "put rush.rung(...) into the part");
  for (const Rung& rung : rungs) {
    if (rung.external)
      throw Error(
          ErrorCode::unsupported,
          "exp:search: '" + rung.name + "' is an external program, on which plugins cannot be stacked",
          "measure it in a ladder with the stack that the search found", rung.where);
    if (!rung.over.empty())
      throw Error(ErrorCode::conflict, "exp:search: '" + rung.name + "' is placed over '" + rung.over + "'",
                  "leave out `over`: a search determines the order", rung.where);
  }
  return rungs;
}
}  // namespace

Object search(ScriptContext& context, const Call& call) {
  Draft& draft = *std::get<Draft*>(*call.self);
  Experiment experiment = draft.experiment;
  if (!experiment.parts.empty())
    throw Error(ErrorCode::conflict, "exp:search: the experiment has a ladder, an ablation or a grid already",
                "use a separate experiment for the search");
  SearchRequest request;
  for (const auto& item : call.arguments.at("parts").table().items)
    request.axes.push_back(axis_of(item, request.axes.size() + 1));
  if (request.axes.empty())
    throw Error(ErrorCode::missing_value, "exp:search has no parts", "put rush.rung(...) between the braces");
  Until& until = experiment.until.emplace(kSearchUntil);
  if (const auto* options = call.arguments.find("options")) {
    const LuaTable& given = options->table();
    if (const auto* memory = given.find("memory"))
      request.memory_bytes = bytes_from(memory->json(), "exp:search: memory");
    if (const auto* within = given.find("within")) until.within = within->json().get<double>();
    if (const auto* at_most = given.find("at_most"))
      until.at_most_s = seconds_from(at_most->json(), call.where + ": exp:search: at_most");
    if (const auto* interleave = given.find("interleave"))
      experiment.interleave = interleave->json().get<bool>() ? Interleave::on : Interleave::off;
    if (const auto* label = given.find("label"))
      experiment.label = folder_name(label->text(), "the label of a report");
  }
  expand(each_alone(experiment, request));  // an Error here has this line
  experiment.arguments = context.arguments();
  draft.ran = true;
  return Report{context.search(experiment, request, draft.where)};
}
}  // namespace optrush::functions
