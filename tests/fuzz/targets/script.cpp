// A script in its sandbox, from its text to its experiments. Nothing runs.
#include "script/host.h"

#include "plugins_folder.h"

namespace {
class ReadingHost final : public optrush::ScriptHost {
 public:
  std::filesystem::path run(const optrush::Experiment& experiment) override {
    using namespace optrush;
    const Json json = to_json(experiment);
    try {
      fuzz::hold(to_json(experiment_from_json(json, "experiment.json")) == json,
                 "an experiment is read as it is written");
    } catch (const Error& e) {
      fuzz::fail(std::string("an experiment of a script is refused when it is read: ") + e.what());
    }
    expand(experiment);
    return "reports/x";
  }
  void report(const std::filesystem::path&) override {}
};
}  // namespace

FUZZ_TARGET(script) {
  using namespace optrush;
  static const fuzz::Files files;
  files.write("script.lua", fuzz::text_of(data, size));
  fuzz::feed([&] {
    ReadingHost host;
    run_script(files / "script.lua", host,
               {.plugin_path = {fuzz::plugins_folder()}, .most_instructions = 20'000});
  });
  return 0;
}
