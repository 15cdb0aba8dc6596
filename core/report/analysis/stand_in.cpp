#include "report/analysis/stand_in.h"

#include <algorithm>

#include "machine/stand_in.h"
#include "optrush/error.h"

namespace optrush {
bool ran_on_stand_in(const Json& context) {
  const auto gpus = context.find("gpus");
  return gpus != context.end() && gpus->is_array() &&
         std::ranges::any_of(*gpus, [](const Json& gpu) { return is_stand_in(gpu.value("name", "")); });
}

void refuse_stand_in(const Json& context, const std::string& folder) {
  if (ran_on_stand_in(context))
    throw Error(ErrorCode::unsupported, kNothingComputed, "run the experiment on a GPU", folder);
}
}  // namespace optrush
