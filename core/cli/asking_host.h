#pragma once
#include "launch/conductor.h"
#include "script/host.h"

namespace optrush {
/// Answers what a script asks about the machine, through workers.
class AskingHost : public ScriptHost {
 public:
  explicit AskingHost(const RunRequest& request) : worker_(request.worker), gpu_bytes_(request.gpu_bytes) {}

  Json gpu() override;
  int64_t ranks(bool on_gpus) override;
  std::optional<int64_t> predicted_peak(const RunSpec&) override;

 private:
  Json gpus() const;

  std::filesystem::path worker_;
  std::optional<int64_t> gpu_bytes_;  ///< of a GPU that is planned for and not there
};
}  // namespace optrush
