#include "base/suggest.h"
#include "base/text.h"
#include "report/numbers/format.h"
#include "report/sections/document.h"

namespace optrush {
std::string context_text(const Json& context, const char* name) {
  const auto found = context.find(name);
  return found != context.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string machine_text(const Json& context) {
  if (const auto gpus = context.find("gpus"); gpus != context.end() && gpus->is_array() && !gpus->empty()) {
    const std::string name = context_text(gpus->front(), "name");
    return gpus->size() == 1 ? name : std::to_string(gpus->size()) + " x " + name;
  }
  const auto cpu = context.find("cpu");
  if (cpu == context.end() || !cpu->is_object()) return "";
  const auto cores = cpu->find("cores");
  return context_text(*cpu, "name") + (cores != cpu->end() && cores->is_number_integer()
                                           ? ", " + counted(cores->get<int64_t>(), "core")
                                           : "");
}

namespace {
/// For example "13.2 M parameters".
std::string model_of(const Analysis& a) {
  if (a.plans.empty() || !a.plans.front() || !a.plans.front()->parameters) return "";
  const auto number = static_cast<double>(a.plans.front()->parameters->count);
  return number < 1e6
             ? grouped(number) + " parameters"
             : grouped(number / (number < 1e9 ? 1e6 : 1e9)) + (number < 1e9 ? " M" : " B") + " parameters";
}
}  // namespace

std::string byline_of(const Analysis& a) {
  std::vector<std::string> parts = {machine_text(a.context), model_of(a),
                                    context_text(a.context, "date").substr(0, 10)};
  if (const std::string commit = context_text(a.context, "commit"); !commit.empty())
    parts.push_back("commit " + commit);
  std::erase(parts, "");
  return join(parts, " · ");
}
}  // namespace optrush
