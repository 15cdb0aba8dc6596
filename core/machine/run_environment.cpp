#include "machine/run_environment.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "optrush/error.h"
#include "optrush/json.h"
#include "spec/value.h"

namespace optrush {
namespace {
/// Variables that something else decides.
struct Owned {
  std::vector<std::string> names;
  std::string why, cure;
};

const std::vector<Owned>& owned() {
  static const std::vector<Owned> all = {
      {{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"},
       "says where a rank is, which the start of a run decides",
       "say train = { world_size = ... }"},
      {{"OMP_NUM_THREADS", "MKL_NUM_THREADS"}, "follows from the threads of the run", "say threads = ..."},
      {{"CUDA_VISIBLE_DEVICES"},
       "decides what machine all rungs are measured on",
       "set it for optrush itself"},
      {{"LD_PRELOAD"},
       "would be passed over in silence where a library is missing",
       "set it for optrush itself; rush.external takes preload = { ... }"},
      {{"LD_LIBRARY_PATH"}, "decides which torch is loaded", "set it for optrush itself"},
  };
  return all;
}

bool is_variable(const std::string& name) {
  const auto plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::ranges::all_of(name, plain);
}
}  // namespace

void check_run_variable(const std::string& name, const std::string& where) {
  if (!is_variable(name))
    throw Error("env: " + shown(Json(name)) + " is no name of an environment variable",
                "letters, digits and '_', no digit first", where);
  const auto refuse = [&](const std::string& why, const std::string& cure) {
    throw Error("env: a run can't set " + name + ": it " + why, cure, where);
  };
  if (name.starts_with("OPTRUSH_")) refuse("is one of the program's own", "set it for optrush itself");
  for (const auto& some : owned())
    if (std::ranges::find(some.names, name) != some.names.end()) refuse(some.why, some.cure);
}
}  // namespace optrush
