#include "selection.h"

#include <algorithm>
#include <set>

#include "linear_groups/names.h"
#include "optrush/error.h"

namespace optrush::float8 {
Selection::Selection(const Options& options)
    : skip_first_(options.integer("skip_first")),
      skip_last_(options.integer("skip_last")),
      names_(options.list("linears")) {}

bool Selection::has(const Module& module) const {
  return module.layer >= skip_first_ && module.layer < blocks_ - skip_last_ &&
         (names_.empty() ||
          std::ranges::any_of(names_, [&](const auto& name) { return is_target(module.path, name); }));
}

void Selection::check(const Run& run) {
  std::vector<Module*> linears = run.modules("linear");
  std::erase_if(linears, [](const Module* linear) { return linear->layer < 0; });
  for (const Module* linear : linears) blocks_ = std::max(blocks_, linear->layer + 1);
  if (linears.empty())
    throw Error("float8 does not apply: the blocks of this model have no linear layers", "remove the rung");
  check_names(linears);
  if (std::ranges::none_of(linears, [this](const Module* linear) { return has(*linear); }))
    throw Error(ErrorCode::invalid_value,
                "float8: skip_first = " + std::to_string(skip_first_) +
                    ", skip_last = " + std::to_string(skip_last_) +
                    " and linears select no linear layer of " + std::to_string(blocks_) + " blocks",
                "skip fewer blocks, or name other linears");
}

void Selection::check_names(const std::vector<Module*>& linears) const {
  for (const auto& name : names_) {
    if (std::ranges::any_of(linears, [&](const Module* linear) { return is_target(linear->path, name); }))
      continue;
    std::set<std::string> known;
    for (const Module* linear : linears) known.insert(last_name(linear->path));
    throw Error(
        ErrorCode::unknown_name,
        "float8: linears names '" + name + "', but the blocks of this model have no such linear layer",
        one_of(known));
  }
}
}  // namespace optrush::float8
