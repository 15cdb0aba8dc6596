#include "script/context.h"

namespace optrush {
namespace fs = std::filesystem;

ScriptContext::ScriptContext(const fs::path& script, ScriptHost& host, ScriptOptions options)
    : script_(fs::absolute(script).lexically_normal()), host_(host), options_(std::move(options)) {}

fs::path ScriptContext::resolve(const std::string& path) const {
  return (script_.parent_path() / path).lexically_normal();
}

const Catalogue& ScriptContext::catalogue() {
  if (!catalogue_) catalogue_ = Catalogue::find(options_.plugin_path);
  return *catalogue_;
}

Draft& ScriptContext::add(Draft draft) {
  drafts_.push_back(std::make_unique<Draft>(std::move(draft)));
  return *drafts_.back();
}

template <class Body>
auto ScriptContext::through_host(const Body& body) {
  if (host_failure) std::rethrow_exception(host_failure);
  try {
    return body();
  } catch (...) {
    host_failure = std::current_exception();
    throw;
  }
}

fs::path ScriptContext::run(const Experiment& experiment) {
  return through_host([&] { return host_.run(experiment); });
}

void ScriptContext::report(const fs::path& folder) {
  through_host([&] { host_.report(folder); });
}
}  // namespace optrush
